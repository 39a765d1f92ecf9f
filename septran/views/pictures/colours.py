"""The colours of every view: safe for the colour-blind, never the only sign of anything."""

from __future__ import annotations

from dataclasses import dataclass

PAPER = "#fbfbf8"
"""Background of code and drawings, in light and dark pages alike."""
DARK_PAPER = "#1e1f22"
"""Background of code in the dark variant of a page."""
INK = "#1b1b1b"
"""Text on paper and on every tint."""
LINE = "#6b6b6b"
"""Borders and arrows on paper."""


@dataclass(frozen=True)
class Colour:
    """A line colour and the pale tint of it that text is set on."""

    line: str
    tint: str


ORANGE = Colour("#b87a00", "#fbe3b3")
SKY = Colour("#2f86ba", "#d3ebf9")
GREEN = Colour("#00795a", "#bfe6da")
YELLOW = Colour("#8f8500", "#faf6b8")
BLUE = Colour("#0072b2", "#bcd9ec")
VERMILION = Colour("#c04f00", "#f6d2ba")
PURPLE = Colour("#a4527c", "#f1d9e5")
GREY = Colour("#6b6b6b", "#e8e8e4")
PALETTE = (GREY, ORANGE, SKY, GREEN, PURPLE, YELLOW, VERMILION, BLUE)
"""Okabe and Ito's hues, lines darkened to be seen on paper."""


def colour_of(name: str, names: tuple[str, ...]) -> Colour:
    """The colour of the memory or processor `name`, by its place among all `names`."""
    place = names.index(name) if name in names else len(names)
    return PALETTE[place % len(PALETTE)]


@dataclass(frozen=True)
class Token:
    """The look of one class of words in a program text."""

    name: str
    """Its CSS class, for pages that have a dark variant."""
    colour: str
    dark: str
    """Its colour on a dark page."""
    extra: str = ""

    @property
    def style(self) -> str:
        """The inline style."""
        return f"color:{self.colour};{self.extra}"


TOKENS = {
    "Keyword": Token("tk", "#8a1a6b", "#e39ad0", "font-weight:600;"),
    "Name.Builtin": Token("tb", "#00558c", "#7cc4f2"),
    "Name.Function": Token("tf", "#00558c", "#7cc4f2"),
    "Name.Class": Token("tf", "#00558c", "#7cc4f2"),
    "Name.Decorator": Token("td", "#6b5200", "#e2c46c"),
    "Name.Tag": Token("tt", "#00558c", "#7cc4f2"),
    "Name.Variable": Token("tv", "#6b5200", "#e2c46c"),
    "Name.Label": Token("tv", "#6b5200", "#e2c46c"),
    "Literal.String": Token("ts", "#8f3300", "#f0a680"),
    "Literal.Number": Token("tn", "#00664c", "#7fd6b8"),
    "Comment": Token("tc", "#5b6460", "#a3ada8", "font-style:italic;"),
}
"""By Pygments' token type, the longest match wins."""


def token(kind: str) -> Token | None:
    """The look of a Pygments token type such as ``Token.Literal.String.Double``."""
    name = kind.removeprefix("Token.")
    while name:
        if name in TOKENS:
            return TOKENS[name]
        name = name.rpartition(".")[0]
    return None

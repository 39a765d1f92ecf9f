"""The data of linked panes: texts whose lines and words carry keys of their origin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from septran.tile.nodes import Origin
from septran.views.pictures.drawing import Drawing

Keys = frozenset[str]
"""``why:3``, ``node:12``, ``task:gemm/gemm_block``, ``buffer:A_SPM``, ``channel:A_in``.

Lines and words light up together if and only if they share one.
"""
NO_KEYS: Keys = frozenset()


@dataclass(frozen=True)
class Word:
    """A part of a line with keys of its own."""

    line: int
    """1-based."""
    start: int
    """0-based, in characters."""
    length: int
    keys: Keys


@dataclass(frozen=True)
class Document:
    """One text of a pane."""

    title: str
    language: str
    """``python``, ``yaml``, ``tile``, ``c``, ``cuda``, ``asm``: how to colour it."""
    text: str
    lines: Mapping[int, Keys] = field(default_factory=dict)
    """By line, from 1; lines without keys are left out."""
    words: tuple[Word, ...] = ()
    file: str = ""
    """The file that locations name it by; empty where it is not a file."""
    left_out: int = 0
    """Lines at its end that are not shown."""
    start: int = 1
    """The line that it is opened at."""

    def keys(self, line: int) -> Keys:
        """Those of a whole line."""
        return self.lines.get(line, NO_KEYS)


@dataclass(frozen=True)
class Graph:
    """A drawing whose boxes carry keys."""

    drawing: Drawing
    boxes: Mapping[str, Keys]
    """By the box's name in the drawing."""


@dataclass(frozen=True)
class Pane:
    """One stage."""

    name: str
    title: str
    documents: tuple[Document, ...]
    note: str = ""
    """Why there is nothing to show."""
    graph: Graph | None = None
    shown: bool = True
    """Whether it is among the panes that are there at first."""
    opened: str = ""
    """The title of the document that is there at first; the first one where empty."""


@dataclass(frozen=True)
class PassStep:
    """The tile program as one pass left it, line by line beside what it was before."""

    name: str
    summary: str
    rows: tuple[tuple[str, str, Keys], ...]
    """``" "``, ``"+"`` or ``"-"``, the line, its keys."""

    @property
    def added(self) -> int:
        """Lines that this pass wrote."""
        return sum(sign == "+" for sign, _, _ in self.rows)

    @property
    def removed(self) -> int:
        """Lines that it took out."""
        return sum(sign == "-" for sign, _, _ in self.rows)


@dataclass(frozen=True)
class Linked:
    """All panes of one compilation, and the reasons that their keys name."""

    title: str
    panes: tuple[Pane, ...]
    whys: tuple[Origin, ...]
    """``why:n`` is the n-th."""
    about: Mapping[str, str]
    """One sentence on what a key of another kind stands for."""
    steps: tuple[PassStep, ...] = ()

    def pane(self, name: str) -> Pane:
        """The pane of that name; KeyError where there is none."""
        for pane in self.panes:
            if pane.name == name:
                return pane
        raise KeyError(name)

    def find(self, keys: Keys) -> Iterator[tuple[str, str, int]]:
        """Yield what lights up with `keys`: pane, document and line, in order."""
        lit = sorted(set().union(*(self._lines_by_key.get(key, ()) for key in keys)))
        documents = [(pane.name, one.title) for pane in self.panes for one in pane.documents]
        yield from ((*documents[number], line) for number, line in lit)

    @cached_property
    def _lines_by_key(self) -> Mapping[str, set[tuple[int, int]]]:
        """Document and line, by number: each search would else look through all lines."""
        found: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        for number, one in enumerate(one for pane in self.panes for one in pane.documents):
            carried = [*one.lines.items(), *((word.line, word.keys) for word in one.words)]
            for line, keys in carried:
                for key in keys:
                    found[key].add((number, line))
        return found


class KeyedLines:
    """Gathers keys of lines while a document is read."""

    def __init__(self) -> None:
        self._found: defaultdict[int, set[str]] = defaultdict(set)

    def add(self, line: int, keys: Iterable[str]) -> None:
        """Give a line further keys."""
        self._found[line].update(keys)

    def done(self) -> dict[int, Keys]:
        """All lines that have any, in order."""
        return {n: frozenset(keys) for n, keys in sorted(self._found.items()) if keys}

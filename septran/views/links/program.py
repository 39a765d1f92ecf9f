"""The pane of the tile program, and the program after each pass."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from septran.tile.nodes import Buffer, Compute, Copy, For, Node, Role, TileProgram
from septran.tile.pipeline import PassResult
from septran.tile.printer import to_text
from septran.views.links.model import NO_KEYS, Document, Keys, PassStep, Word
from septran.views.links.origins import Origins


def program_document(program: TileProgram, origins: Origins) -> Document:
    """The finished program; every node's line has its number and its reason."""
    text = to_text(program)
    lines = dict(_lines(program, text, origins, numbered=True))
    words = tuple(name_words(text, program))
    return Document("program", "tile", text, lines, words, start=_main_loop(program, text))


def _main_loop(program: TileProgram, text: str) -> int:
    """The line of the loop, most deeply nested, whose body brings tiles or computes with them."""
    body = list(_walk(program.body))
    first = len(text.splitlines()) - len(body) + 1
    depth: dict[int, int] = {}

    def visit(nodes: tuple[Node, ...], loops: int) -> None:
        for node in nodes:
            if isinstance(node, For | Role):
                inside = loops + isinstance(node, For)
                if any(isinstance(inner, Copy | Compute) for inner in node.body):
                    depth[id(node)] = inside
                visit(node.body, inside)

    visit(program.body, 0)
    most = max(depth.values(), default=0)
    lines = enumerate(body, first)
    return next((n for n, node in lines if depth.get(id(node)) == most), min(first, len(text)))


def _lines(
    program: TileProgram, text: str, origins: Origins, *, numbered: bool
) -> Iterator[tuple[int, Keys]]:
    last = len(text.splitlines())
    heads = list(_heads(program, origins))
    yield from ((n, keys) for n, keys in enumerate(heads, 2) if keys)
    body = list(_walk(program.body))
    count = 0
    for line, node in enumerate(body, last - len(body) + 1):
        if node is None:
            continue
        own = {f"node:{count}"} if numbered else set()
        count += 1
        yield line, origins.why(node.origin) | own


def _heads(program: TileProgram, origins: Origins) -> Iterator[Keys]:
    """The keys of the declarations, in the printer's order."""

    def of(buffer: Buffer) -> Keys:
        return origins.why(buffer.origin) | {f"buffer:{buffer.name}"}

    yield from (of(program.buffer(name)) for name in program.params)
    yield from (NO_KEYS for _ in program.scalars)
    yield from (of(b) for b in program.buffers if b.name not in program.params)
    yield from (origins.why(c.origin) | {f"channel:{c.name}"} for c in program.channels)


def _walk(body: tuple[Node, ...]) -> Iterator[Node | None]:
    """The nodes in the order of their lines; None where the printer writes ``pass``."""
    for node in body:
        yield node
        if isinstance(node, For | Role):
            yield from list(_walk(node.body)) or [None]


def name_words(text: str, program: TileProgram, suffix: str = "") -> Iterator[Word]:
    """Each place where a buffer or a channel is named; `suffix` is a pattern after a name."""
    kinds = {b.name: "buffer" for b in program.buffers}
    kinds |= {c.name: "channel" for c in program.channels}
    if not kinds:
        return
    names = "|".join(map(re.escape, sorted(kinds, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w.])({names}){suffix}(?!\w)")
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            keys = frozenset({f"{kinds[match[1]]}:{match[1]}"})
            yield Word(number, match.start(), len(match[0]), keys)


Row = tuple[str, Keys]


def pass_steps(steps: Sequence[PassResult], origins: Origins) -> tuple[PassStep, ...]:
    """Each pass with the lines that it wrote and took out."""
    found: list[PassStep] = []
    before: list[Row] = []
    program: TileProgram | None = None
    for step in steps:
        after = before if step.program is program else _rows(step.program, origins)
        changed = tuple(_difference(before, after))
        found.append(PassStep(step.name, step.summary, changed))
        before, program = after, step.program
    return tuple(found)


def _rows(program: TileProgram, origins: Origins) -> list[Row]:
    text = to_text(program)
    keys = dict(_lines(program, text, origins, numbered=False))
    return [(line, keys.get(n, NO_KEYS)) for n, line in enumerate(text.splitlines(), 1)]


def _difference(old: list[Row], new: list[Row]) -> Iterator[tuple[str, str, Keys]]:
    texts = [text for text, _ in old], [text for text, _ in new]
    if texts[0] == texts[1]:
        yield from ((" ", *row) for row in new)
        return
    matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            yield from ((" ", *row) for row in new[j:j_end])
            continue
        yield from (("-", *row) for row in old[i:i_end])
        yield from (("+", *row) for row in new[j:j_end])

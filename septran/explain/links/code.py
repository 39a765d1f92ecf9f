"""The panes of generated code: notes in it say which node a line came from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from septran.explain.links.model import Document, KeyedLines, Keys
from septran.explain.links.origins import Origins, note_text
from septran.explain.links.program import name_words
from septran.targets.base import Source, TensorIR

PART_LIMIT = 1_500
"""Lines of a further part, such as the assembly, that are shown."""
_SUFFIX = r"(?:_flat)?"
_NOTES = (
    re.compile(r'^(?P<indent>\s*)with T\.attr\(\{"origin": "(?P<note>.*)"\}\):$'),
    re.compile(r"^(?P<indent>\s*)# (?P<note>\S.* \[[^\]]+:\d+.*\])$"),
    re.compile(r"^(?P<indent>\s*)/\* (?P<note>.*?) \*/$"),
    re.compile(r"^(?P<indent>\s*)// (?P<note>\S.*)$"),
)
_PLACES = re.compile(r"\[([^\[\]]+:\d+[^\[\]]*)\]")


def code_document(stage: TensorIR | Source, origins: Origins) -> Document:
    """TensorIR or the source's main text with the keys that its notes give."""
    text = str(stage)
    language = "python" if isinstance(stage, TensorIR) else _language(stage)
    words = tuple(name_words(text, origins.program, _SUFFIX))
    title = "TVMScript" if isinstance(stage, TensorIR) else stage.language
    return Document(title, language, text, noted_lines(text, origins), words)


def further_documents(source: Source) -> Iterator[Document]:
    """The further parts of a source, without links: assembly, headers."""
    for title, text in source.parts.items():
        rows = text.splitlines()
        language = "asm" if "assembly" in title.lower() else "c"
        shown = "\n".join(rows[:PART_LIMIT])
        yield Document(title, language, shown, left_out=max(0, len(rows) - PART_LIMIT))


def _language(source: Source) -> str:
    # Targets whose code generator takes TensorIR show it, annotated, as their source.
    return "python" if source.text.startswith("# from tvm.") else source.language


def noted_lines(text: str, origins: Origins) -> dict[int, Keys]:
    """The keys of each line: those of the innermost note that covers it."""
    rows = text.splitlines()
    notes = {n: found for n, row in enumerate(rows, 1) if (found := _note(row)) is not None}
    keys = dict(_keys(notes, origins))
    lines = KeyedLines()
    for number in notes:
        for covered in _covered(rows, number, notes):
            lines.add(covered, keys[number])
    return lines.done()


def _note(row: str) -> str | None:
    for pattern in _NOTES:
        match = pattern.match(row)
        if match is not None:
            return note_text(match["note"])
    return None


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def _covered(rows: list[str], note: int, notes: dict[int, str]) -> Iterator[int]:
    """A note, and the lines below it that it speaks of.

    Those are what is indented deeper, else the statement after it with its block, and
    further ones that stand as deep as it until a loop, the next note or the end of the block.
    """
    depth = _indent(rows[note - 1])
    yield note
    for number in range(note + 1, len(rows) + 1):
        row = rows[number - 1]
        deep = _indent(row)
        if not row.strip() or deep < depth or number in notes:
            return
        first = number == note + 1
        if deep == depth and not first and _ends(row, rows[note - 1]):
            return
        yield number


def _ends(row: str, note: str) -> bool:
    """Whether a line that stands as deep as a note before it is no longer of it."""
    block = note.rstrip().endswith(":") or note.lstrip().startswith("# ")
    return block or re.match(r"\s*(for|while)\b", row) is not None


def _keys(notes: dict[int, str], origins: Origins) -> Iterator[tuple[int, Keys]]:
    """The keys of each note; of the one node where notes and nodes are as many."""
    total = Counter(notes.values())
    seen: Counter[str] = Counter()
    for line, text in notes.items():
        keys = set(whys_of_note(text, origins))
        numbers = origins.nodes_by_text.get(text, ())
        if len(numbers) == total[text]:
            keys.add(f"node:{numbers[seen[text]]}")
        seen[text] += 1
        yield line, frozenset(keys)


def whys_of_note(text: str, origins: Origins) -> Keys:
    """The reasons that a note repeats: the same words, else all at the same two places."""
    found: list[Any] = list(origins.by_text.get(text, ()))
    if not found:  # several in one note
        found = [o for known, own in origins.by_text.items() if known in text for o in own]
    if not found:
        places = [place.strip() for m in _PLACES.findall(text) for place in m.split(",")]
        if places:
            found = [o for o in origins.whys if _at(o, places)]
    return frozenset().union(*(origins.why(o) for o in found))


def _at(origin: Any, places: list[str]) -> bool:
    own = {str(p) for p in (origin.logic, origin.mapping) if p is not None}
    return bool(own) and own <= set(places)

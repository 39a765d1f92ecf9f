"""The panes of generated code: notes in it say which node a line came from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from septran.targets.base import Source, TensorIR
from septran.tile.nodes import Origin
from septran.views.links.loops import loop_lines
from septran.views.links.model import NO_KEYS, Document, KeyedLines, Keys
from septran.views.links.notes import Note, notes_of
from septran.views.links.origins import Origins
from septran.views.links.program import name_words

PART_LIMIT = 1_500
"""Lines of a further part, such as the assembly, that are shown."""
_SUFFIX = r"(?:_flat|_ptr)?"
_PLACES = re.compile(r"\[([^\[\]]+:\d+[^\[\]]*)\]")
_DECLARED = re.compile(
    r"^\s*(?:[\w ]+[ *])?(\w+?)(?:_flat|_ptr)?(?:\[\d+\];| = (?:T\.\w*buffer|\())"
)


def code_document(stage: TensorIR | Source, origins: Origins) -> Document:
    """TensorIR or the source's main text with the keys that its notes give."""
    text = str(stage)
    language = "python" if isinstance(stage, TensorIR) else _language(stage)
    words = tuple(name_words(text, origins.program, _SUFFIX))
    title = "TVMScript" if isinstance(stage, TensorIR) else stage.language
    if language == "python" and isinstance(stage, Source):
        title = f"TensorIR for {stage.language}"
    return Document(title, language, text, code_lines(text, origins), words)


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


def code_lines(text: str, origins: Origins) -> dict[int, Keys]:
    """The keys of each line: those of its note, its loop or the buffer that it declares."""
    lines = KeyedLines()
    for note, keys in _keyed(notes_of(text), origins):
        for line in note.covered:
            lines.add(line, keys)
    buffers = {b.name: b for b in origins.program.buffers}
    for number, row in enumerate(text.splitlines(), 1):
        match = _DECLARED.match(row)
        if match is not None and match[1] in buffers:
            buffer = buffers[match[1]]
            lines.add(number, origins.why(buffer.origin) | {f"buffer:{buffer.name}"})
    for number, keys in loop_lines(text, lines.done(), origins):
        lines.add(number, keys)
    return lines.done()


def _keyed(notes: tuple[Note, ...], origins: Origins) -> Iterator[tuple[Note, Keys]]:
    """The keys of each note; of the one node where notes and nodes are as many."""
    meant = [_known(note.text, origins) for note in notes]
    total, seen = Counter(meant), Counter[str]()
    for note, known in zip(notes, meant, strict=True):
        keys = set(whys_of_note(note.text, origins) or channels_of_note(note.text, origins))
        numbers = origins.nodes_by_text.get(known, ())
        # Printed in program order, the n-th note is of the n-th node. Where code was doubled or
        # left out, the counts differ, and it is not known which node a note is of.
        if len(numbers) == total[known]:
            keys.add(f"node:{numbers[seen[known]]}")
        seen[known] += 1
        yield note, frozenset(keys)


def _known(text: str, origins: Origins) -> str:
    """The one reason that a note repeats, without what a target says besides; else the note."""
    if text in origins.by_text:
        return text
    found = [known for known in origins.by_text if known in text]
    return found[0] if len(found) == 1 else text


def whys_of_note(text: str, origins: Origins) -> Keys:
    """The reasons that a note repeats: the same words, else all at the same two places."""
    found: tuple[Origin, ...] = origins.by_text.get(text, ())
    if not found:  # several in one note, or one among other words
        found = tuple(o for known, own in origins.by_text.items() if known in text for o in own)
    # By places last: two reasons may share both lines, so their words are tried before.
    if not found:
        places = {place.strip() for m in _PLACES.findall(text) for place in m.split(",")}
        pairs = zip(origins.whys, origins.places, strict=True)
        found = tuple(o for o, own in pairs if own and own <= places)
    return frozenset[str]().union(*(origins.why(o) for o in found))


def channels_of_note(text: str, origins: Origins) -> Keys:
    """The channels whose buffers a note without places names: ``every slot of A, B is free``."""
    words = {name.strip(",.") for name in text.split()}
    found = (c for c in origins.program.channels if c.buffers and words.issuperset(c.buffers))
    return frozenset(f"channel:{c.name}" for c in found) or NO_KEYS

"""The pane of the mapping: its file, and what each line of it decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from septran.location import Location
from septran.mapping.resolved import ResolvedMapping
from septran.views.links.logic import source_of
from septran.views.links.model import Document, KeyedLines, Keys, Word
from septran.views.links.origins import Origins


def mapping_documents(resolved: ResolvedMapping, origins: Origins) -> tuple[Document, ...]:
    """The files that decided something, then every decision written out."""
    places: defaultdict[str, dict[Location, set[str]]] = defaultdict(dict)
    for where, keys in _decisions(resolved, origins):
        places[where.file].setdefault(where, set()).update(keys)
    for number, origin in enumerate(origins.whys):
        if origin.mapping is not None:
            found = places[origin.mapping.file].setdefault(origin.mapping, set())
            found.add(f"why:{number}")
    files = sorted(places, key=lambda file: file != resolved.file)
    documents = [_document(file, places[file]) for file in files]
    return (*(d for d in documents if d.text), _explicit(resolved, origins))


def _document(file: str, places: dict[Location, set[str]]) -> Document:
    text = source_of(file)
    rows = text.splitlines()
    lines, words = KeyedLines(), []
    for where, keys in places.items():
        lines.add(where.line, keys)
        if where.column is not None and where.line <= len(rows):
            length = min(where.length, len(rows[where.line - 1]) - where.column + 1)
            words.append(Word(where.line, where.column - 1, length, frozenset(keys)))
    # A text that is in no file has a name such as <mapping 0123abcd>.
    short = file.strip("<>").split()[0] if file.startswith("<") else Location(file, 1).short_file
    shown = tuple(sorted(_apart(words), key=lambda w: (w.line, w.start)))
    start = min((where.line for where in places), default=1)
    return Document(short.rpartition("/")[2], "yaml", text, lines.done(), shown, file, start=start)


def _apart(words: list[Word]) -> Iterator[Word]:
    """Words that lie in no other: the narrowest goes before what is around it."""
    taken: set[tuple[int, int]] = set()
    for word in sorted(words, key=lambda w: w.length):
        cells = {(word.line, n) for n in range(word.start, word.start + word.length)}
        if word.length > 0 and not cells & taken:
            taken |= cells
            yield word


def _decisions(resolved: ResolvedMapping, origins: Origins) -> Iterator[tuple[Location, Keys]]:
    for instance in resolved.instances:
        task = frozenset({f"task:{instance.path}"})
        if instance.where is not None:
            yield instance.where, task
        for key, name, setting in instance.rows():
            if setting.where is None:
                continue
            held = origins.tensor(instance.path, name) if key == "mems" else frozenset()
            yield setting.where, held or (task if key == "proc" else frozenset())


def _explicit(resolved: ResolvedMapping, origins: Origins) -> Document:
    """The resolved mapping: each task's lines light up with the task."""
    text = str(resolved)
    lines = KeyedLines()
    path = ""
    paths = {instance.path for instance in resolved.instances}
    for number, line in enumerate(text.splitlines(), 1):
        first = line.split(" ", 1)[0]
        if first in paths:
            path = first
            lines.add(number, {f"task:{path}"} | origins.whys_of_task(path))
        elif path and line.startswith("  ") and ": " in line:
            lines.add(number, _named(line, path, origins))
        elif not line.startswith(" "):
            path = ""
    return Document("every decision", "resolved", text, lines.done())


def _named(line: str, path: str, origins: Origins) -> Keys:
    """The buffers of the tensor that a row of an instance is about."""
    name = line.partition(":")[0].split()[-1:]
    return origins.tensor(path, name[0]) if name else frozenset()

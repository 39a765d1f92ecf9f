"""`extends`: finding the file that a mapping changes, safely, and merging the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from septran.machine.loader import mappings_root
from septran.machine.positions import Node, is_file
from septran.mapping.mistakes import ExtendsError

MOST_FILES = 8
LONGEST_NAME = 100
"""The number of characters of a file's name that an error shows."""


def parent_of(node: Node, folder: Path | None, seen: list[Path]) -> Path | None:
    """Return the file that `node` extends; None where it extends none. Raises ExtendsError.

    It must lie in the mapping's own folder or among the shipped mappings, links followed.
    """
    name = node.items.get("extends")
    if name is None:
        return None
    if not isinstance(name.value, str) or name.tag or not name.value:
        raise ExtendsError("`extends` is the name of a mapping file", name.where)
    path = file_beside(name, folder, seen[-1] if seen else None)
    if path in seen:
        trail = " -> ".join(p.name for p in (*seen[seen.index(path) :], path))
        raise ExtendsError(f"the mappings extend each other: {trail}", name.where)
    if len(seen) >= MOST_FILES:
        raise ExtendsError(f"more than {MOST_FILES} mappings extend one another", name.where)
    return path


def file_beside(name: Node, folder: Path | None, own: Path | None) -> Path:
    """Return the file that the mapping `own` names; raises ExtendsError.

    It lies in `folder` or among the shipped mappings. In a file named as a shipped one, that name
    means the shipped one.
    """
    part = Path(name.text)
    if part.is_absolute() or ".." in part.parts or "\\" in name.text or "\0" in name.text:
        hint = "name a file in the same folder, or one of the shipped mappings"
        raise ExtendsError(
            f"{name.text!r} leads out of the mapping's folder", name.where, hint=hint
        )
    shipped = f"{name.text}.mapping.yaml"
    if is_file(mappings_root() / shipped):  # by its name, as a kernel's mapping may be
        part = Path(shipped)
    if part.suffix not in (".yaml", ".yml"):
        hint = "name a file with its ending, or a shipped mapping: cpu-x86"
        raise ExtendsError(f"{name.text!r} is not a .yaml file", name.where, hint=hint)
    for root in _roots(folder):
        candidate = root / part
        if is_file(candidate):
            resolved = candidate.resolve()
            if resolved == own and _ships(part, own):
                continue
            if not resolved.is_relative_to(root.resolve()):
                message = f"{name.text!r} is a link that leads out of its folder"
                raise ExtendsError(message, name.where)
            return resolved
    places = " or ".join(str(root) for root in _roots(folder))
    raise ExtendsError(f"no mapping {shortened(name.text)!r} in {places}", name.where)


def _ships(part: Path, own: Path | None) -> bool:
    """Return whether a mapping of that name is shipped, and is another file than `own`."""
    shipped = mappings_root() / part
    return is_file(shipped) and shipped.resolve() != own


def shortened(name: str) -> str:
    """Return the name, or its beginning."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."


def _roots(folder: Path | None) -> Iterable[Path]:
    return [mappings_root()] if folder is None else [folder, mappings_root()]


def merged(documents: list[Node]) -> Node:
    """Return the first document laid over the second, and so on.

    Tables are merged key by key; rules and constraints of the first come before those of the
    second; any other value replaces.
    """
    *rest, result = documents
    for document in reversed(rest):
        result = _over(document, result, 0)
    return result


def _over(upper: Node, lower: Node, depth: int) -> Node:
    if upper.tag or lower.tag or not all(isinstance(n.value, Mapping) for n in (upper, lower)):
        # A key without a value changes nothing.
        return upper if upper.value is not None else lower
    entries, keys = dict(upper.items), dict(upper.keys)
    for key, value in lower.items.items():
        if key == "extends":
            continue
        if key not in entries:
            entries[key], keys[key] = value, lower.keys[key]
        elif depth == 0 and key in ("rules", "constraints"):
            both = (*entries[key].elements, *value.elements)
            entries[key] = Node(both, entries[key].where)
        # These are replaced as wholes: entries of both files together would mean neither's.
        elif key not in ("binding", "when", "match", "pipeline"):
            entries[key] = _over(entries[key], value, depth + 1)
    return Node(MappingProxyType(entries), upper.where, "", MappingProxyType(keys))

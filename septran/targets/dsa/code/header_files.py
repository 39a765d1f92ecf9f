"""A vendor's header and the files beside it that it includes: read once, distinguished by content.

A compiler gets a copy of just these files (`HeaderFiles.copy_to`), so that what is compiled is
what was looked at: no file that changed since, and none that this search has missed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# As in C's translation phases (C11 5.1.1.2): lines are joined, then comments taken out, then
# directives read; `??/` and `??=` are trigraphs (5.2.1.1), `%:` is a digraph (6.4.6).
_SPLICE = re.compile(rb"(?:\\|\?\?/)[ \t]*\r?\n")
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_INCLUDE = re.compile(
    rb"^\s*(?:\#|%:|\?\?=)\s*(?:include|include_next|import|embed)\s*"
    rb"(?:\"(?P<beside>[^\"\n]+)\"|<(?P<listed>[^>\n]+)>)",
    re.MULTILINE,
)
"""C11 6.10.2; a name that a macro makes is not found, nor copied."""


@dataclass(frozen=True)
class HeaderFiles:
    """The bytes of a header and of what it includes from files of its own."""

    path: Path
    """Of the header."""
    contents: Mapping[Path, bytes]
    """By path, the header first. System headers, and those by absolute paths, are not in it."""

    @staticmethod
    def of(path: Path) -> HeaderFiles:
        """Read them; raises OSError where the header cannot be read."""
        path = Path(os.path.abspath(path))  # noqa: PTH100  # links stay: a copy lies as this does
        contents = {path: path.read_bytes()}
        waiting = [path]
        while waiting:
            one = waiting.pop()
            for found in _included(one, contents[one], path.parent):
                if found not in contents:
                    contents[found] = found.read_bytes()
                    waiting.append(found)
        return HeaderFiles(path, contents)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the contents, and of the places of the others beside the header."""
        lines = [hashlib.sha256(self.contents[self.path]).hexdigest()]
        lines += sorted(
            f"{os.path.relpath(path, self.path.parent)} {hashlib.sha256(content).hexdigest()}"
            for path, content in self.contents.items()
            if path != self.path
        )
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    def copy_to(self, folder: Path) -> Path:
        """Write them below a folder, once, and give the one that the header is in."""
        root = os.path.commonpath([path.parent for path in self.contents])
        if not folder.exists():
            part = folder.with_name(f"{folder.name}.part")
            for path, content in self.contents.items():
                to = part / os.path.relpath(path, root)
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(content)
            # Renamed when it is complete, as a folder that exists is not written again.
            part.replace(folder)
        return folder / os.path.relpath(self.path.parent, root)


def _included(path: Path, content: bytes, listed: Path) -> Iterator[Path]:
    """Files that `path` includes, beside it or in the folder that the compiler is given."""
    # A string is matched as a whole and kept, as `//` in it begins no comment.
    plain = _COMMENT.sub(
        lambda m: m[0] if m[0].startswith(b'"') else b" ", _SPLICE.sub(b"", content)
    )
    for match in _INCLUDE.finditer(plain):
        name = os.fsdecode(match["beside"] or match["listed"])
        folders = (path.parent, listed) if match["beside"] else (listed,)
        if Path(name).is_absolute() or "\0" in name:
            continue
        for folder in folders:
            if (folder / name).is_file():
                yield Path(os.path.normpath(folder / name))
                break

"""The list of a folder's files with their hashes, to find changes."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

MANIFEST = "manifest.json"
VERSION = 1

# Not through links, and not waiting for the writer of a pipe that someone put there.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


def write_manifest(
    folder: Path,
    key: str,
    listed: Iterable[str] | None = None,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Hash files of a folder, and sync them and the list to the disk.

    `listed` are their paths in it, all of them where None; `facts` are written beside the list.
    """
    files = {}
    found = folder.rglob("*") if listed is None else (folder / name for name in listed)
    for path in sorted(p for p in found if p.is_file()):
        with path.open("rb") as handle:
            files[path.relative_to(folder).as_posix()] = hashlib.file_digest(
                handle, "sha256"
            ).hexdigest()
            os.fsync(handle.fileno())
    # Last, when all files are on the disk: what a crash leaves has no list, and counts for nothing.
    text = json.dumps(
        {**facts, "version": VERSION, "key": key, "files": files},
        sort_keys=True, indent=1 if facts else None,
    )  # fmt: skip
    with (folder / MANIFEST).open("w", encoding="utf-8") as output:
        output.write(text)
        output.flush()
        os.fsync(output.fileno())


def intact(folder: Path, key: str) -> bool:
    """Return whether every file of the list exists, unchanged, and lies in this folder."""
    try:
        if folder.is_symlink():
            return False
        manifest = json.loads(_content(folder / MANIFEST))
        if (manifest["version"], manifest["key"]) != (VERSION, key):
            return False
        return bool(manifest["files"]) and all(
            _inside(name) and hashlib.sha256(_content(folder / name)).hexdigest() == digest
            for name, digest in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not name.startswith("/") and "\\" not in name


def _content(path: Path) -> bytes:
    """Return a regular file's bytes; links are not followed, as they may lead outside."""
    handle = os.open(path, os.O_RDONLY | _FLAGS)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read()

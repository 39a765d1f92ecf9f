"""A digest of the code that makes executables, by which caches tell one version from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

KINDS = (".py", ".h", ".c")


def code_digest(*folders: Path) -> str:
    """Return 16 hexadecimal digits of all code in `folders`: any change may change what is kept."""
    digest = hashlib.sha256()
    for file in sorted(p for f in folders for p in f.rglob("*") if p.suffix in KINDS):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

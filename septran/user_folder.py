"""The user's own folder: the compile cache, and which headers are trusted.

A folder that belongs to somebody else, or that others can write to, is not used, as its files
could be theirs.
"""

from __future__ import annotations

import os
from pathlib import Path


def user_folder() -> Path:
    """Return ``SEPTRAN_CACHE_DIR``, or the system's folder for a user's caches."""
    given = os.environ.get("SEPTRAN_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("septran", appauthor=False))


def unsafe(root: Path) -> str | None:
    """Why a folder's files cannot be trusted or stored, None if they can; makes the folder."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
    except OSError as error:
        return error.strerror or str(error)
    if not hasattr(os, "geteuid"):
        return None  # on Windows the profile's folder is private already
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & 0o022:
        return f"others can write to it (mode {status.st_mode & 0o777:o}; chmod 700 mends that)"
    return None

"""Temporary folders that are removed with their process, even if it is killed.

A process holds a lock on each of its folders for as long as it lives; the system releases it when
the process ends, however it ends. The first process that needs a folder removes those that are not
locked. A folder made a moment ago stays, as its owner may not have locked it yet.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # not on Windows, where folders of killed processes stay
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

PREFIX, LOCK = "septran-", ".lock"
YOUNG_SECONDS = 60.0
"""The age, in seconds, below which a folder counts as used."""


class TemporaryFolder:
    """A private folder that is removed with this object, at the latest with the process."""

    def __init__(self, what: str) -> None:
        """`what` is a word of its name: ``septran-dsa-...``."""
        _sweep_once()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{what}-"))
        held = _held(self.path / LOCK)
        self._remove = weakref.finalize(self, _remove, self.path, held, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()


def opened_apart(library: bytes, opened: Callable[[Path], T]) -> T:
    """Return `opened` of a copy of a shared library, under a path that was never used before.

    The dynamic linker does not read a file whose path it has loaded already: for a kernel saved
    where another one was loaded from, it would return the code of that one.
    """
    with TemporaryFolder("library") as folder:
        copy = folder / "library.so"
        copy.write_bytes(library)
        return opened(copy)


def sweep() -> int:
    """Remove the folders of processes that have ended; returns how many there were."""
    if fcntl is None:
        return 0
    count, young = 0, time.time() - YOUNG_SECONDS
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError):  # somebody else's, or swept by another just now
            if lock.parent.stat().st_mtime > young:
                continue
            with lock.open("rb") as file:
                # Fails while a process holds its shared lock (`_held`): the folder is in use.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
                count += 1
    return count


@functools.cache
def _sweep_once() -> None:
    sweep()


def _held(path: Path) -> Any:
    """Return a file that this process has locked; processes forked from it hold the lock, too."""
    file = path.open("wb")
    if fcntl is not None:
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return file


def _remove(folder: Path, held: Any, process: int) -> None:
    held.close()
    if os.getpid() == process:  # not the parent's, from a process that was forked
        shutil.rmtree(folder, ignore_errors=True)

"""Compiled kernels on disk: one directory for each entry, verified before it is loaded.

    <root>/entries/<key>/{files..., manifest.json}
    <root>/staging/      entries being written; renamed into place when complete
    <root>/locks/        one lock file a key, so that each kernel is compiled once

The manifest has the SHA-256 of each file and is written last. A damaged entry is a miss.
Nothing is unpickled, and a directory that others can write to is not used: a library in
it would be code of theirs. Where the disk is full or read-only, kernels are compiled
without a cache, and a warning says so once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from septran.runtime.manifest import MANIFEST, intact, write_manifest
from septran.user_folder import unsafe, user_folder

if TYPE_CHECKING:
    from septran.mapping.resolved import ResolvedMapping
    from septran.targets.base import Executable, Target, TensorIR
    from septran.tile.nodes import TileProgram

LOCK_SECONDS = 600.0
"""The number of seconds to wait for another process that compiles the same kernel."""
SHARE = 8
"""What part of the room in a cache a process may fill before it looks how much others left."""
STALE_SECONDS = 3600.0
"""The age at which an unfinished entry counts as left behind by a killed process."""
DEFAULT_LIMIT = 1 << 30


class CacheWarning(UserWarning):
    """The compile cache cannot be used; kernels are compiled each time."""


class Savable(Protocol):
    """An object that can be cached: an executable."""

    def save(self, folder: Path) -> None:
        """Write all files that loading needs into an empty folder."""


T = TypeVar("T", bound=Savable)
_room: dict[Path, int] = {}
"""Bytes that this process may still store in each cache before it looks again."""


@dataclass(frozen=True)
class CacheInfo:
    """The size and state of a cache."""

    root: str
    entries: int
    size_bytes: int
    limit_bytes: int
    problem: str | None
    """The reason why it is not used; None when it is."""

    def __str__(self) -> str:
        size, limit = self.size_bytes / 2**20, self.limit_bytes / 2**20
        text = f"{self.root}: {self.entries} kernels, {size:.1f} of {limit:.0f} MiB"
        return text if self.problem is None else f"{text}; not used: {self.problem}"


class Cache:
    """A directory of compiled kernels; see the module's text for its rules."""

    def __init__(
        self, root: Path | str | None = None, *, limit_bytes: int | None = None, use: bool = True
    ) -> None:
        """Use the user's own cache directory by default; `use=False` never touches the disk."""
        self.root = Path(root) if root is not None else user_folder()
        self.limit_bytes = _limit() if limit_bytes is None else limit_bytes
        self._use = use

    @staticmethod
    def default() -> Cache:
        """The cache that ``SEPTRAN_CACHE_DIR``, ``SEPTRAN_CACHE_MB``, ``SEPTRAN_CACHE`` choose."""
        return Cache(use=os.environ.get("SEPTRAN_CACHE", "1").lower() not in ("0", "off", "no"))

    @cached_property
    def problem(self) -> str | None:
        """The reason why it cannot be used, else None; warns once unless it is switched off."""
        if not self._use:
            return "switched off"
        found = unsafe(self.root)
        if found is not None:
            _warn_once(f"the compile cache {self.root} is not used: {found}")
        return found

    def find(self, key: str) -> Path | None:
        """The folder of an entry whose files are unchanged since they were written, or None."""
        if self.problem is not None:
            return None
        folder = self._entry(key)
        if not intact(folder, key):
            return None
        with contextlib.suppress(OSError):
            os.utime(folder / MANIFEST)  # when it was last used, for eviction
        return folder

    def load_or_build(self, key: str, load: Callable[[Path], T], build: Callable[[], T]) -> T:
        """Return the entry as `load` reads it from its folder; else build, store and return it."""
        found = self._load(key, load)
        if found is not None:
            return found
        with self._locked(key):
            # Another process may have built it while this one waited for the lock.
            found = self._load(key, load)
            if found is not None:
                return found
            built = build()
            self._store(key, built.save)
            return built

    def info(self) -> CacheInfo:
        """Return the size and state of the cache."""
        entries = self._entries()
        size = sum(size for _, size, _ in entries)
        return CacheInfo(str(self.root), len(entries), size, self.limit_bytes, self.problem)

    def clear(self) -> int:
        """Remove all entries; returns how many there were."""
        if self.problem is not None:
            return 0
        count = len(self._entries())
        for part in ("entries", "staging", "locks"):
            shutil.rmtree(self.root / part, ignore_errors=True)
        return count

    def _entry(self, key: str) -> Path:
        return self.root / "entries" / key

    def _load(self, key: str, load: Callable[[Path], T]) -> T | None:
        folder = self.find(key)
        if folder is None:
            return None
        try:
            return load(folder)
        except Exception:  # removed by another process meanwhile, or made for another system
            return None

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Hold the key's lock if possible; correctness does not depend on it."""
        from filelock import FileLock, Timeout

        with contextlib.ExitStack() as stack:
            if self.problem is None:
                with contextlib.suppress(OSError, NotImplementedError, Timeout):
                    _private_folder(self.root / "locks")
                    path = self.root / "locks" / f"{key}.lock"
                    lock = FileLock(path, timeout=LOCK_SECONDS, mode=0o600)
                    stack.enter_context(lock)
            yield

    def _store(self, key: str, save: Callable[[Path], None]) -> bool:
        """Write an entry; returns False (and warns) where that fails."""
        if self.problem is not None:
            return False
        staging = self.root / "staging" / f"{os.getpid()}-{uuid.uuid4().hex}"
        try:
            _private_folder(staging)
            save(staging)
            write_manifest(staging, key)
            self._publish(staging, key)
            self._keep_within_limit(keep=key)
        except Exception as error:  # no space, no permission, no C compiler to link with
            _warn_once(f"kernels are not kept in {self.root}: {reason_not_saved(error)}")
            return False
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return True

    def _publish(self, staging: Path, key: str) -> None:
        """Rename into place; an entry that exists already stays if it is intact."""
        target = self._entry(key)
        _private_folder(target.parent)
        # Another process may publish or remove the same entry between two steps, hence the
        # retries.
        for _ in range(3):
            try:
                # Atomic within a file system: others see all of the entry, or none of it.
                staging.rename(target)
                _sync_folder(target.parent)
                return
            except OSError:
                if not target.exists():
                    raise
            if intact(target, key):
                return
            damaged = self.root / "staging" / f"damaged-{uuid.uuid4().hex}"
            with contextlib.suppress(FileNotFoundError):
                target.rename(damaged)
            shutil.rmtree(damaged, ignore_errors=True)
        raise OSError(f"{target} is replaced by others all the time")

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Return time of last use, bytes and folder of each entry, the oldest first."""
        found = []
        with contextlib.suppress(OSError):
            for folder in (self.root / "entries").iterdir():
                with contextlib.suppress(OSError):
                    found.append(((folder / MANIFEST).stat().st_mtime, _size(folder), folder))
        return sorted(found)

    def _keep_within_limit(self, keep: str) -> None:
        """Evict, unless the new entry is within the share of the room that this process may fill.

        To look at thousands of entries takes longer than to store one. Others store as well,
        hence a share.
        """
        left = _room.get(self.root, 0) - _size(self._entry(keep))
        _room[self.root] = left if left > 0 else self._evict(keep) // SHARE

    def _evict(self, keep: str) -> int:
        """Remove the least recently used entries of a full cache, and stale unfinished ones.

        A full one then has an eighth of its room again: were it kept full, each store would look
        through all entries. Returns how many bytes of the limit are left.
        """
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        full = total > self.limit_bytes - self.limit_bytes // SHARE**2
        excess = total - self.limit_bytes + self.limit_bytes // SHARE if full else 0
        for _, size, folder in entries:
            if excess <= 0:
                break
            if folder.name != keep:
                shutil.rmtree(folder, ignore_errors=True)
                (self.root / "locks" / f"{folder.name}.lock").unlink(missing_ok=True)
                excess, total = excess - size, total - size
        old = time.time() - STALE_SECONDS
        for left in (self.root / "staging").iterdir():
            with contextlib.suppress(OSError):
                if left.stat().st_mtime < old:
                    shutil.rmtree(left, ignore_errors=True)
        return self.limit_bytes - total


def _size(folder: Path) -> int:
    """Bytes of the files of an entry; 0 where another process has removed it."""
    with contextlib.suppress(OSError):
        return sum(f.stat().st_size for f in folder.iterdir())
    return 0


def load_or_build(
    target: Target,
    ir: TensorIR,
    program: TileProgram,
    mapping: ResolvedMapping,
    on_build: Callable[[], None] = lambda: None,
) -> Executable:
    """Return the executable, loaded if an equal kernel was built before, else built and stored.

    `on_build` is called before it is built.
    """
    key = cache_key(
        tensor_ir=without_notes(ir.complete_text),
        mapping=without_places(str(mapping)),
        # Where a machine file lies, and what its keys were called, changes no code.
        machine=repr(replace(program.machine, location=None, former_keys=())),
        target=target.fingerprint(),
    )

    def load(folder: Path) -> Executable:  # built from files elsewhere, perhaps
        return target.placed(target.load(folder), ir, program)

    def build() -> Executable:
        on_build()
        return target.build(ir, program)

    return Cache.default().load_or_build(key, load, build)


def cache_key(**parts: str) -> str:
    """Return the SHA-256 of named texts and of the versions of all packages that compile them."""
    text = json.dumps({"parts": parts, "versions": _versions()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def reason_not_saved(error: Exception) -> str:
    """Return why a kernel could not be written, in one line."""
    if not any(map(shutil.which, ("c++", "g++", "cc", "gcc", "clang"))):
        return "there is no C compiler (c++, g++, cc, gcc or clang) to link them with"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else repr(error)


def without_places(text: str) -> str:
    """Return `text` without the ``[file:line:column, ...]`` places of nodes.

    So a comment in a logic or mapping file, or another folder, does not change the key.
    """
    return _PLACES.sub("", text)


def without_notes(text: str) -> str:
    """Return TensorIR without the lines that only name reasons and places of others.

    They become comments; `Target.placed` gives a kernel from the cache those of its caller.
    """
    return _NOTES.sub("", text)


_TEXT = r'"(?:\\.|[^"\\\n])*"'
_NOTES = re.compile(
    rf'^ *(?:(?:with )?T\.attr\(\{{"origin": {_TEXT}\}}\):?'
    rf'|T\.call_extern\("void", "septran_note", {_TEXT}\))\n',
    re.MULTILINE,
)
_PLACES = re.compile(r" \[(?:[^\[\]\n]+:\d+(?::\d+)?(?:, )?)+\](?=$|\"\}\):$)", re.MULTILINE)


@functools.cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("septran", "apache-tvm", "apache-tvm-ffi"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a checkout
            found[package] = ""
    return found


def _limit() -> int:
    try:
        return int(os.environ["SEPTRAN_CACHE_MB"]) << 20
    except (KeyError, ValueError):
        return DEFAULT_LIMIT


def _private_folder(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not all file systems can
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, CacheWarning, stacklevel=2)

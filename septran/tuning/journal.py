"""A file of all candidates that were tried, which later searches read first.

An entry belongs to one program, by the machine, the code generator, the code of this package and,
unless a simulator counts cycles, this host. A search finds what it has measured itself, also
before it was killed, and what another process measures beside it; entries of another version or
another host are never taken for its own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from septran.argument_checks import as_writable_path
from septran.backends import backend_of
from septran.errors import CallError
from septran.machine.model import Machine
from septran.runtime.cache import cache_key
from septran.stage import Displayable, view
from septran.targets.registry import target_for
from septran.tile.nodes import TileProgram
from septran.tuning.tuning import KINDS, Trial, values_text

FORM = 1
"""The number of this form of the table; a file of another one is refused."""
PATIENCE_SECONDS = 30.0
"""For how long a process waits while another one writes."""
RECALLED = frozenset(("measured", "wrong"))
"""The outcomes that are not tried again; what broke down or was refused is."""


class JournalError(CallError):
    """A file that is no journal of this version."""

    code = "SEP693"


@dataclass(frozen=True)
class JournalEntry:
    """One candidate that was tried, with its outcome."""

    key: str
    """The SHA-256 of all that the outcome depends on."""
    logic: str
    """The name of the logic."""
    machine: str
    values: str
    """What the mapping was given for what it leaves open, as JSON."""
    kind: str
    """The outcome, one of those of `Trial.kind`."""
    predicted: float | None
    """Seconds by the performance model."""
    seconds: float | None
    """Seconds of one call, measured or simulated."""
    cycles: int | None
    message: str
    host: str
    """The processor that measured; empty where a simulator counted."""
    versions: str
    """The digest of the code that compiled it."""
    written: float
    """When, in seconds since 1970."""

    @property
    def point(self) -> dict[str, Any]:
        """The values by name."""
        found: dict[str, Any] = json.loads(self.values)
        return found

    @property
    def point_text(self) -> str:
        """The values in words."""
        return values_text(self.point) or "the mapping as it is"


COLUMNS = tuple(field.name for field in fields(JournalEntry))
_NAMES = ", ".join(f'"{name}"' for name in COLUMNS)
_TABLE = f"create table if not exists trials ({_NAMES}, primary key (key))"
_ADD = f"insert or replace into trials values ({', '.join('?' * len(COLUMNS))})"


@dataclass(frozen=True)
class Journal(Displayable):
    """A journal in a SQLite file, which several processes may use at one time."""

    path: Path

    @staticmethod
    def at(path: str | Path) -> Journal:
        """Open a journal, or begin one; raises JournalError for a file that is none."""
        journal = Journal(as_writable_path("journal", path))
        with journal._open() as base:
            form = base.execute("pragma user_version").fetchone()[0]
            known = base.execute("select count(*) from sqlite_master").fetchone()[0]
            if known and form != FORM:
                raise JournalError(
                    f"{journal.path} is no journal of this version: its form is {form}, not {FORM}",
                    hint="give another file, which is made",
                )
            base.execute("pragma journal_mode = wal")
            base.execute(_TABLE)
            base.execute(f"pragma user_version = {FORM}")
        return journal

    def find(self, key: str) -> JournalEntry | None:
        """The entry of a candidate; None where nobody has tried it."""
        with self._open() as base:
            row = base.execute("select * from trials where key = ?", (key,)).fetchone()
        return JournalEntry(*row) if row else None

    def add(self, entry: JournalEntry) -> None:
        """Write an entry, at once and whole: a search that is killed has lost none."""
        with self._open() as base:
            base.execute(_ADD, tuple(asdict(entry).values()))

    @property
    def entries(self) -> tuple[JournalEntry, ...]:
        """All entries, in the order in which they were written."""
        with self._open() as base:
            rows = base.execute("select * from trials order by written, key").fetchall()
        return tuple(JournalEntry(*row) for row in rows)

    def to_pandas(self) -> Any:
        """All entries as a `pandas.DataFrame`, each value of a mapping in a column of its own."""
        return view(self, "table")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one change: a search holds none, so that it may be killed."""
        try:
            with closing(sqlite3.connect(self.path, timeout=PATIENCE_SECONDS)) as base, base:
                yield base
        except sqlite3.DatabaseError as error:
            hint = "give another file, which is made"
            # An operation may fail, too, in a folder that nobody may write to.
            what = "cannot be used" if isinstance(error, sqlite3.OperationalError) else "is none"
            raise JournalError(f"journal {self.path} {what}: {error}", hint=hint) from error

    def __str__(self) -> str:
        found = self.entries
        rows = [f"{self.path}: {len(found)} candidates"]
        for entry in found:
            cost = f"{entry.cycles:,} cycles" if entry.cycles else ""
            cost = cost or (f"{entry.seconds:.3g} s" if entry.seconds else entry.message)
            subject = f"{entry.logic} on {entry.machine}: {entry.point_text}"
            rows.append(f"  {subject}: {entry.kind}, {cost}")
        return "\n".join(rows)


def recalled(entry: JournalEntry, trial: Trial) -> Trial:
    """A trial with the outcome that a journal has of it."""
    assert entry.kind in KINDS
    return replace(
        trial, kind=entry.kind, seconds=entry.seconds, cycles=entry.cycles,
        message=entry.message, recalled=True,
    )  # fmt: skip


def entry_of(trial: Trial, key: str, logic: str, machine: Machine) -> JournalEntry:
    """The entry of a candidate that was just tried."""
    host = "" if backend_of(machine.backend).simulated else host_name()
    values = json.dumps(trial.point, default=list)
    return JournalEntry(
        key, logic, machine.name, values, trial.kind, trial.predicted, trial.seconds,
        trial.cycles, trial.message, host, code_digest(), time.time(),
    )  # fmt: skip


def key_of(program: TileProgram, mapping: str, scalars: Mapping[str, Any], seed: int) -> str:
    """The key of a program as it is measured here.

    `mapping` is the text of the resolved mapping, on whose keys the code depends.
    """
    simulated = backend_of(program.machine.backend).simulated
    return cache_key(
        program=str(program),
        mapping=mapping,
        machine=repr(replace(program.machine, location=None, former_keys=())),
        target=target_for(program.machine.backend).fingerprint(),
        scalars=json.dumps({name: str(value) for name, value in scalars.items()}, sort_keys=True),
        seed=str(seed),
        code=code_digest(),
        host="" if simulated else host_name(),
    )


@functools.cache
def code_digest() -> str:
    """A digest of this package: who changes the compiler measures anew."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent.parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def host_name() -> str:
    """The processor, how many of them may be used, and the GPUs beside it."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text("utf-8", "replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = next(iter(names), model)
    loops = backend_of("cpu").loops
    usable = loops().cores() if loops else os.cpu_count()
    return " ".join([f"{platform.machine()} {model} x {usable}", *_gpus()])


def _gpus() -> Iterator[str]:
    """The models of NVIDIA GPUs, as their driver on Linux says."""
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in file.read_text("utf-8", "replace").splitlines():
            if line.startswith("Model:"):
                yield line.partition(":")[2].strip()

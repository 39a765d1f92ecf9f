"""The result of a search: every candidate with its outcome, and the best as a mapping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.argument_checks import as_writable_path, write_text
from septran.errors import CallError
from septran.format_units import time_text
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile
from septran.mapping.tune import Point, value_text
from septran.stage import Displayable

KINDS = {
    "measured": "run, right, and timed",
    "ranked": "only looked at by the model",
    "same": "the same program as another candidate",
    "invalid": "refused by the machine's limits or the mapping's rules",
    "failed": "not compiled or not run",
    "wrong": "run, with a wrong result",
    "crashed": "its process broke down",
    "timed out": "took too long, and was ended",
}
"""The possible outcomes of a candidate."""
MANY = 10**7
"""The number of combinations from which on two digits of it say enough."""
SHOWN = 12
"""The number of candidates in the text of a result."""


class NothingFoundError(CallError):
    """A search ended without a candidate that is right."""

    code = "SEP691"


@dataclass(frozen=True)
class Trial:
    """One candidate with its outcome."""

    number: int
    """The number in the order of the search's space."""
    point: Point
    kind: str
    """The outcome, one of `KINDS`."""
    predicted: float | None = None
    """Seconds by the performance model; None where there is no program."""
    seconds: float | None = None
    """Seconds of one call, measured or simulated; None without a run."""
    cycles: int | None = None
    """Cycles of a simulated call; None on real machines."""
    message: str = ""
    """The reason why it has no time; empty where it has one."""
    recalled: bool = False
    """Whether its outcome is from a journal, and it was not run in this search."""

    @property
    def cost(self) -> float | None:
        """The time that is compared: measured seconds, or predicted ones of a ranked candidate."""
        return self.predicted if self.kind == "ranked" else self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return the trial as JSON-ready data."""
        values = {n: list(v) if isinstance(v, tuple) else v for n, v in self.point.items()}
        return {
            "number": self.number, "values": values, "kind": self.kind,
            "predicted": self.predicted, "seconds": self.seconds, "cycles": self.cycles,
            "message": self.message, "recalled": self.recalled,
        }  # fmt: skip


@dataclass(frozen=True)
class Tuning(Displayable):
    """The result of `septran.tune`, also of a search that was stopped."""

    name: str
    """The name of the logic."""
    machine: str
    measured: bool
    """Whether candidates were run; otherwise the model alone decided."""
    trials: tuple[Trial, ...]
    size: int
    """The number of combinations of the space, before its constraints."""
    complete: bool
    """Whether the search ran to its end."""
    before: Trial | None = None
    """The trial of the unchanged mapping, where it left nothing open."""
    folder: Path | None = field(default=None, repr=False)
    """The folder in which the file's `extends` is searched."""
    write: Callable[[Tuning], str] = field(default=lambda found: "", repr=False, compare=False)
    """A function that writes the best as a mapping file."""

    @property
    def best(self) -> Trial:
        """The fastest trial that is right; raises NothingFoundError."""
        found = self.ordered
        if not found:
            where = f"{self.name} on {self.machine}"
            raise NothingFoundError(
                f"no candidate for {where} is right: {self.outcomes or 'none'}",
                hint=next((t.message for t in self.trials if t.message), None),
            )
        return found[0]

    def require_right(self) -> None:
        """Raise NothingFoundError where no candidate is right."""
        self.best  # noqa: B018

    @property
    def ordered(self) -> tuple[Trial, ...]:
        """The trials with a time, the fastest first."""
        kind = "measured" if self.measured else "ranked"
        some = [t for t in self.trials if t.kind == kind and t.cost is not None]
        # Equal costs stay in the order of the space, so that a search repeats.
        return tuple(sorted(some, key=lambda t: (t.cost or 0.0, t.number)))

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of candidates of each kind."""
        found = Counter(t.kind for t in self.trials)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    @property
    def space(self) -> str:
        """The number of combinations, in words."""
        many = f"{self.size:,}" if self.size < MANY else f"{self.size:.1e}"
        return f"{many} combinations"

    @property
    def outcomes(self) -> str:
        """The number of candidates of each kind, in words."""
        return ", ".join(f"{n} {kind}" for kind, n in self.counts.items())

    @property
    def gain(self) -> str:
        """The best compared with the unchanged mapping, in words; empty where either is missing."""
        before = self.before.cost if self.before is not None else None
        if not before or not self.ordered:
            return ""
        ratio = before / (self.ordered[0].cost or before)
        if ratio <= 1:
            return f"the mapping as it is takes {time_text(before)}: nothing tried is faster"
        return f"the mapping as it was takes {time_text(before)}: the best is {ratio:.2f}x as fast"

    @property
    def mapping(self) -> MappingFile:
        """The best mapping, to compile with; raises NothingFoundError."""
        return load_mapping(self.to_yaml(), folder=self.folder)

    def to_yaml(self) -> str:
        """Return the best as a mapping file that a person can read; raises NothingFoundError."""
        self.require_right()
        return self.write(self)

    def save(self, path: str | Path) -> Path:
        """Write the best as a mapping file; raises FileExistsError for a file that differs."""
        return written_to(path, self.to_yaml())

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "name": self.name, "machine": self.machine, "measured": self.measured,
            "size": self.size, "complete": self.complete,
            "before": self.before.to_dict() if self.before is not None else None,
            "mapping": self.to_yaml() if self.ordered else "",
            "best": self.ordered[0].number if self.ordered else None,
            "trials": [trial.to_dict() for trial in self.trials],
        }  # fmt: skip

    def __str__(self) -> str:
        part = "" if self.complete else " (stopped)"
        known = sum(trial.recalled for trial in self.trials)
        part += f"; {known} of them from the journal" if known else ""
        head = f"{self.name} on {self.machine}: {self.space}, {self.outcomes}{part}"
        rows = [f"  {self.gain}"] if self.gain else []
        rows += [_row(trial) for trial in self.ordered[:SHOWN]]
        left = len(self.ordered) - SHOWN
        rows += [f"  and {left} slower"] if left > 0 else []
        others = [t for t in self.trials if t.message and t.kind not in ("same", "invalid")]
        rows += [f"  {t.kind}: {values_text(t.point)}: {t.message}" for t in others[:SHOWN]]
        return "\n".join([head, *rows])


def written_to(path: str | Path, text: str) -> Path:
    """Write a file, and return its path; raises FileExistsError for a file that differs."""
    target = as_writable_path("path", path)
    if target.exists() and target.read_text("utf-8") != text:
        raise FileExistsError(f"{target} exists; save under another name")
    return write_text(target, text)


def _row(trial: Trial) -> str:
    cycles = f"  {trial.cycles:,} cycles" if trial.cycles is not None else ""
    model = "" if trial.predicted is None else f"  model {time_text(trial.predicted)}"
    time = time_text(trial.cost or 0.0)
    return f"  {time:>9}{cycles}{model if trial.kind == 'measured' else ''}  " + values_text(
        trial.point
    )


def values_text(point: Point) -> str:
    """Return a point as text: ``block_M=64, block_N=32``."""
    values = ", ".join(f"{name}={value_text(value)}" for name, value in point.items())
    return values or "as it is"

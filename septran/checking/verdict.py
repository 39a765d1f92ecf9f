"""The verdict on a mapping: all cases, and of those that fail the smallest."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from septran.checking.cases import check_cases
from septran.checking.running import FAILURES, CaseResult, run_case
from septran.checking.subject import CheckCase, Subject
from septran.fuzz.choices import Trace, simpler
from septran.tuning.measuring import MeasuringWorker

COMMAND = (sys.executable, "-m", "septran.checking.worker")
Run = Callable[[CheckCase, str], CaseResult]
"""Runs a case in each way, or in the one that is named."""


@dataclass(frozen=True)
class CheckLimits:
    """How much is tried."""

    cases: int = 24
    seconds: float = 300.0
    """After which no other case is begun."""
    patience: float = 120.0
    """Seconds that one case may take."""
    tries: int = 60
    """Attempts to make a failure smaller."""


@dataclass(frozen=True)
class MappingVerdict:
    """What a check found."""

    subject: Subject
    machine: str
    results: tuple[CaseResult, ...]
    smallest: CaseResult | None = None
    """The first failure, made as small as was found."""
    left: int = 0
    """Cases that there was no time for."""

    @property
    def right(self) -> bool:
        """Whether something ran, and nothing failed."""
        kinds = {result.kind for result in self.results}
        return "right" in kinds and kinds.isdisjoint(FAILURES)

    @property
    def command(self) -> str:
        """The command that repeats the smallest failure; empty where nothing failed."""
        if self.smallest is None:
            return ""
        return self.subject.command(self.smallest.case, self.smallest.way)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        smallest = self.smallest.to_dict() if self.smallest else None
        return {
            "right": self.right, "logic": _name(self.subject), "machine": self.machine,
            "mapping": self.subject.mapping, "worst": self._worst, "not_tried": self.left,
            "cases": [result.to_dict() for result in self.results],
            "smallest": smallest, "command": self.command,
        }  # fmt: skip

    @property
    def _worst(self) -> float:
        return max((result.worst for result in self.results), default=0.0)

    def __str__(self) -> str:
        counts = Counter(result.kind for result in self.results)
        head = "right" if self.right else "WRONG" if self.smallest else "not checked"
        parts = [f"{counts[k]} {k}" for k in ("right", "refused", *FAILURES) if counts[k]]
        named = self.subject.mapping
        plan = "" if not named else " by a text" if "\n" in named else f" by {named}"
        lines = [f"{_name(self.subject)} on {self.machine}{plan}: {head}"]
        lines.append(f"  {len(self.results)} cases: {', '.join(parts)}{self._late()}")
        ran = Counter(way for result in self.results for way in result.ran)
        lines += [f"  {way}: {number} right" for way, number in ran.items()]
        lines.append(f"  greatest error: {self._worst:.2g} of what rounding allows")
        lines += self._refusals()
        if self.smallest is not None:
            lines += ["", "the smallest case that fails", f"  {self.smallest.case}"]
            lines += [f"  {self.smallest.kind} ({self.smallest.way}):"]
            lines += [f"    {line}" for line in self.smallest.message.splitlines()]
            lines.append(f"  again: {self.command}")
        return "\n".join(lines)

    def _late(self) -> str:
        return f"; no time for {self.left} more" if self.left else ""

    def _refusals(self) -> Iterator[str]:
        """Yield each reason for which cases were refused, once."""
        refused = [result for result in self.results if result.kind == "refused"]
        reasons: dict[str, CheckCase] = {}
        for result in refused:
            reasons.setdefault(result.message.splitlines()[0], result.case)
        for reason, case in reasons.items():
            yield f"  refused, {case}: {reason}"


def _name(subject: Subject) -> str:
    return subject.logic if isinstance(subject.logic, str) else subject.logic.name


def check_mapping(
    subject: Subject,
    fixed: CheckCase | None = None,
    limits: CheckLimits | None = None,
    *,
    way: str = "",
    one: bool = False,
    apart: bool = True,
    show: Callable[[CaseResult], None] = lambda _: None,
) -> MappingVerdict:
    """Run a mapping over sizes, types and schedules, compared with the reference each time.

    Args:
        subject: Logic and mapping.
        fixed: Sizes, types and flags that each case has.
        limits: How much is tried.
        way: One way of `running.WAYS` alone; all where empty.
        one: Run what `fixed` says and nothing else.
        apart: In a process of its own, which may crash or hang.
        show: Called with each result when it is there.

    Raises:
        SepTranError: for files that cannot be read, and a logic without sizes.
    """
    fixed, limits = fixed or CheckCase("as given", {}), limits or CheckLimits()
    cases = (fixed,) if one else check_cases(subject, fixed, limits.cases)
    machine = subject.request(cases[0]).mapping.machine.name
    end = time.monotonic() + limits.seconds
    results: list[CaseResult] = []
    smallest: CaseResult | None = None
    with _runner(subject, apart, limits.patience) as run:
        for case in cases:
            if results and time.monotonic() > end:
                break
            results.append(run(case, way))
            show(results[-1])
            if results[-1].kind in FAILURES:
                smallest = results[-1] if one else _reduced(run, results[-1], limits, end)
                break  # what follows would most often say the same again
    left = 0 if smallest else len(cases) - len(results)
    return MappingVerdict(subject, machine, tuple(results), smallest, left)


@contextmanager
def _runner(subject: Subject, apart: bool, patience: float) -> Iterator[Run]:
    """Yield what runs a case, here or in a process that is replaced where it breaks down."""
    if not apart or not isinstance(subject.logic, str):
        yield lambda case, way: run_case(subject, case, way)
        return
    with MeasuringWorker(COMMAND) as worker:

        def run(case: CheckCase, way: str) -> CaseResult:
            asked = {"subject": vars(subject), "case": case.to_dict(), "way": way}
            answer = worker.ask(asked, patience)
            if answer["kind"] in ("crashed", "timed out"):
                kind = "crash" if answer["kind"] == "crashed" else "hang"
                return CaseResult(case, kind, way, answer["message"])
            return CaseResult.from_dict(answer)

        yield run


def _reduced(run: Run, failure: CaseResult, limits: CheckLimits, end: float) -> CaseResult:
    """Return a smaller case that fails in the same way, by the same rules as `septran fuzz`."""
    found = {_trace(failure.case): failure}
    first = failure.case

    def fails(trace: Trace) -> bool:
        if time.monotonic() > end:
            return False
        result = run(_case(first, trace), failure.way)
        if (result.kind, result.way) != (failure.kind, failure.way):
            return False
        found[trace] = result
        return True

    return found[simpler(_trace(first), fails, limits.tries)]


def _trace(case: CheckCase) -> Trace:
    """Return a case as numbers, 0 the simplest: its flags, then what its extents are above 1."""
    flags = (int(bool(case.dtypes)), int(bool(case.dynamic)), int(case.special))
    return (*flags, *(size - 1 for size in case.sizes.values() if isinstance(size, int)))


def _case(first: CheckCase, trace: Trace) -> CheckCase:
    """Return the case of a trace; what one that was cut does not say is the simplest."""
    names = [name for name, size in first.sizes.items() if isinstance(size, int)]
    typed, told, special, *above = (*trace, *[0] * (3 + len(names) - len(trace)))
    sizes = {name: extra + 1 for name, extra in zip(names, above, strict=True)}
    dynamic = {n: max(most, sizes[n]) for n, most in first.dynamic.items()} if told else {}
    dtypes = first.dtypes if typed else None
    return replace(
        first, sizes={**first.sizes, **sizes}, dtypes=dtypes, dynamic=dynamic, special=bool(special)
    )

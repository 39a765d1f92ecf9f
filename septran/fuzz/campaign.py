"""Campaigns: random cases on every executor, in a process of their own, and small failures."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from septran.errors import Errors, SepTranError, is_fault_of_passes
from septran.fuzz.cases import RandomCase, affordable, make_case
from septran.fuzz.choices import Trace, simpler
from septran.fuzz.executors import CaseFiles, ExecutorOptions, NotRunHereError, executors
from septran.runtime.accuracy import WrongResultError
from septran.tuning.cluster.work import cluster_worker, side_by_side
from septran.tuning.measuring import MeasuringWorker

SECONDS = 180.0
"""The number of seconds after which a case counts as one that hangs."""
MODULE = "septran.fuzz.worker"
COMMAND = (sys.executable, "-m", MODULE)
FAILURES = ("wrong", "crash", "hang")


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case."""

    case: RandomCase
    kind: str
    """The kind: ``right``, ``rejected``, ``wrong``, ``crash`` or ``hang``.

    Right is by every executor that took it, rejected a located error from each; a crash is a
    signal, or an error that is not SepTran's or has no place.
    """
    executor: str = ""
    """The executor that failed."""
    message: str = ""
    worst: float = 0.0
    """The greatest error as a fraction of the error bound."""
    ran: Sequence[str] = ()
    """The executors that found it right."""
    kept: str = ""
    """The folder with the reduced case; empty where nothing was kept."""

    def __str__(self) -> str:
        text = f"{self.kind}: {self.case}"
        if self.message:
            text += f"\n  {self.executor}: {self.message}"
        if self.kind in FAILURES:
            text += f"\n  repeat with: septran fuzz --seed {self.case.seed} --programs 1"
        if self.kept:
            text += f"\n  made small in {self.kept}"
        return text


@dataclass(frozen=True)
class Campaign:
    """All outcomes of one run."""

    outcomes: tuple[CaseOutcome, ...]

    @property
    def failures(self) -> tuple[CaseOutcome, ...]:
        """The outcomes that show a mistake of SepTran's."""
        return tuple(o for o in self.outcomes if o.kind in FAILURES)

    def __str__(self) -> str:
        counts = Counter(o.kind for o in self.outcomes)
        ran = Counter(name for o in self.outcomes for name in o.ran)
        worst = max((o.worst for o in self.outcomes), default=0.0)
        head = ", ".join(f"{counts[k]} {k}" for k in ("right", "rejected", *FAILURES))
        lines = [f"{len(self.outcomes)} programs: {head}; largest error {worst:.2f} of the bound"]
        lines += [f"  {name}: {number} right" for name, number in sorted(ran.items())]
        return "\n".join([*lines, *map(str, self.failures)])


@dataclass(frozen=True)
class CampaignSettings:
    """The settings of a campaign."""

    emulate_each: int = 0
    """The interval, in programs, at which a GPU's generated code is emulated, too; 0 for never."""
    keep: Path | None = None
    """The folder where failing cases are written, reduced; None writes nothing."""
    guard: bool = False
    """Whether CPU code runs between guard pages."""
    tries: int = 150
    """The number of attempts to make a failure smaller."""
    patience: float = 900.0
    """The number of seconds after which a failure is not reduced further."""
    command: Sequence[str] = field(default=COMMAND, repr=False)
    workers: Any = None
    """What runs programs side by side, as `septran.tune` takes it; None for one process here."""


def run_campaign(
    seed: int,
    programs: int,
    progress: Callable[[CaseOutcome], None] | None = None,
    settings: CampaignSettings | None = None,
) -> Campaign:
    """Run the cases of seeds ``seed .. seed + programs - 1`` in a process that may crash."""
    settings, outcomes = settings or CampaignSettings(), dict[int, CaseOutcome]()
    command = MeasuringWorker(settings.command)
    with cluster_worker(settings.workers, command, MODULE, _is_outcome) as (worker, width):

        def run(number: int) -> CaseOutcome:
            emulate = settings.emulate_each > 0 and number % settings.emulate_each == 0
            options = ExecutorOptions(emulate, settings.guard)
            outcome = _answer(worker, number, None, options)
            if outcome.kind in FAILURES and settings.keep is not None:
                outcome = _reduced(worker, outcome, settings, options)
            return outcome

        def note(number: int, outcome: CaseOutcome) -> bool:
            outcomes[number] = outcome
            if progress is not None:
                progress(outcome)
            return True

        side_by_side(width, range(seed, seed + programs), run, note)
    return Campaign(tuple(outcomes[number] for number in sorted(outcomes)))


def run_case(case: RandomCase, options: ExecutorOptions | None = None) -> CaseOutcome:
    """Run one case on each of its executors, in this process."""
    case, options, ran = affordable(case), options or ExecutorOptions(), list[str]()
    refused, worst = "", 0.0
    with tempfile.TemporaryDirectory() as folder:
        files = CaseFiles.write(case, Path(folder))
        for name, run in executors(case, options).items():
            try:
                worst = max(worst, run(files))
                ran.append(name)
            except NotRunHereError:
                continue
            # Before its base class: a result that is wrong is no refusal.
            except WrongResultError as error:
                return CaseOutcome(case, "wrong", name, str(error), worst, tuple(ran))
            except SepTranError as error:
                if not _refuses(error):
                    return CaseOutcome(case, "crash", name, str(error), worst, tuple(ran))
                refused = refused or f"{name}: {error}"
            except Exception:
                text = traceback.format_exc(limit=-4)
                return CaseOutcome(case, "crash", name, text, worst, tuple(ran))
    kind = "right" if ran else "rejected"
    return CaseOutcome(case, kind, "", refused, worst, tuple(ran))


def _is_outcome(answer: Mapping[str, Any]) -> bool:
    """Whether what a worker says is the outcome of a case."""
    known = answer.get("kind") in ("right", "rejected", *FAILURES)
    return known and {"executor", "message", "worst", "ran"} <= set(answer)


def _refuses(error: SepTranError) -> bool:
    """Return whether an error shows the user a place to mend, and is no fault of a pass."""
    inner = error.errors if isinstance(error, Errors) else (error,)
    return all(e.where is not None for e in inner) and not is_fault_of_passes(error)


def _answer(
    worker: MeasuringWorker, seed: int, trace: Trace | None, options: ExecutorOptions
) -> CaseOutcome:
    """Return the worker's answer for a case, or what became of the worker."""
    answer = worker.ask({"seed": seed, "trace": trace, **asdict(options)}, SECONDS)
    case = affordable(make_case(seed, trace))
    if answer["kind"] in ("crashed", "timed out"):
        kind = "crash" if answer["kind"] == "crashed" else "hang"
        return CaseOutcome(case, kind, "its process", answer["message"])
    return CaseOutcome(
        case, answer["kind"], answer["executor"], answer["message"], answer["worst"],
        tuple(answer["ran"]),
    )  # fmt: skip


def _reduced(
    worker: MeasuringWorker,
    outcome: CaseOutcome,
    settings: CampaignSettings,
    options: ExecutorOptions,
) -> CaseOutcome:
    """Return the outcome with its case reduced and written where a person can read it."""
    seed, end = outcome.case.seed, time.monotonic() + settings.patience

    def fails(trace: Trace) -> bool:
        if time.monotonic() > end:
            return False
        found = _answer(worker, seed, trace, options)
        # The same failure: another one that is met on the way is not what is made small.
        return (found.kind, found.executor) == (outcome.kind, outcome.executor)

    small = affordable(make_case(seed, simpler(outcome.case.trace, fails, settings.tries)))
    assert settings.keep is not None
    folder = settings.keep / f"seed-{seed}"
    CaseFiles.write(small, folder)
    answer = _answer(worker, seed, small.trace, options)
    (folder / "outcome.txt").write_text(f"{answer}\n{small.values} values\n", encoding="utf-8")
    return replace(outcome, kept=str(folder))

"""The search: all candidates through the front end, the best by the model run and timed.

The front end is quick and finds which combinations the machine's limits or the mapping's rules
refuse. The performance model ranks the rest. The first half of the runs follows that ranking, the
other half tries neighbours of the best so far. Each candidate runs in another process, between
guard zones, and its result is compared with the exact one by the error bound. The fastest are
timed again alternately at the end, as a machine's speed changes during a search.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from septran import argument_checks
from septran.argument_checks import WrongArgumentError, as_int, as_positive, as_tuple
from septran.compiler import Compilation, compile_request, fitted
from septran.dtypes import numpy_dtype
from septran.errors import CallError, SepTranError, nearest
from septran.mapping.tune import Candidate, Point
from septran.request import CompileRequest, Logic
from septran.runtime.accuracy import Accuracy, compare, error_bounds
from septran.runtime.cache import without_places
from septran.runtime.checks import product_rules
from septran.runtime.gpu import runs_here
from septran.runtime.kernel import Kernel
from septran.runtime.stages import Stages
from septran.task import Task
from septran.tuning.candidates import CandidateValues
from septran.tuning.journal import RECALLED, Journal, entry_of, key_of, recalled
from septran.tuning.measuring import MeasuringWorker, Stopped
from septran.tuning.model import predict
from septran.tuning.tuning import Trial, Tuning
from septran.tuning.writing import WrittenMapping, written

FINALISTS = 3
ROUNDS = 5
"""The number of times that each finalist is timed again, alternately.

The fastest round counts, as other work on the machine only ever adds time.
"""
SEED = 0
"""The seed of the inputs, and of the points drawn from very large spaces."""

Progress = Callable[["Search", Trial, int], None]
"""A function called with each trial, and with the greatest number that there will be."""


class NothingToTuneError(CallError):
    """A search was requested, but neither `!tune` in the mapping nor the caller gives values."""

    code = "SEP692"


@dataclass(frozen=True)
class SearchLimits:
    """The limits of a search."""

    runs: int
    """The greatest number of candidates that are run."""
    seconds: float | None
    """The number of seconds after which no other candidate is begun; None for no limit."""
    patience: float
    """The number of seconds that one candidate may run."""

    def __post_init__(self) -> None:
        as_int("runs", self.runs, 1)
        as_positive("patience", self.patience)
        if self.seconds is not None:
            as_positive("seconds", self.seconds, allow_zero=True)


@dataclass
class Search:
    """A search in progress."""

    request: CompileRequest
    """The request: its mapping has `!tune`; its tunables are for all candidates."""
    source: WrittenMapping
    choices: CandidateValues
    limits: SearchLimits
    measured: bool
    scalars: Mapping[str, Any]
    report: Progress
    journal: Journal | None = None
    """What was tried before, where this search writes what it tries, too."""
    trials: dict[int, Trial] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    """The keys of candidates in the journal, by number."""
    before: Trial | None = None
    """The trial of the unchanged mapping, where it leaves nothing open."""
    worker: MeasuringWorker = field(default_factory=MeasuringWorker)
    read_tunables: set[str] = field(default_factory=set)
    """The tunables that the tasks of some candidate read."""
    folder: Path = field(default_factory=Path)
    """The folder of the compiled candidates, by number, while it runs."""
    exact: Mapping[str, Any] = field(default_factory=dict)
    """The exact results with their error bounds, from the first candidate run."""
    began: float = field(default_factory=time.monotonic)

    def run(self) -> Tuning:
        """Run the search; returns the results so far where someone stops it."""
        complete = False
        try:
            ranking = self._ranked()
            if self.measured:
                with tempfile.TemporaryDirectory(prefix="septran-tune-") as folder:
                    self.folder = Path(folder)
                    self._measure(ranking)
                    self._finals()
            complete = True
        except (KeyboardInterrupt, Stopped):
            pass
        finally:
            self.worker.close()
        return self.result(complete)

    # ------------------------------------------------------------ front end
    def _ranked(self) -> list[Trial]:
        """Return all candidates that fit, the best by the model first."""
        programs: dict[str, int] = {}
        found: list[tuple[tuple[float, float], Trial]] = []
        points = list(self.choices.points(SEED))
        for number, point in enumerate(points):
            if self.worker.stopped():
                raise Stopped
            trial, rank = self._screened(Trial(number, point, "ranked"), programs)
            self.trials[number] = trial
            if rank is not None:
                found.append((rank, trial))
            self.report(self, trial, len(points) + self._runs(len(points)))
        self._require_effect()
        return [trial for _, trial in sorted(found, key=lambda pair: pair[0])]

    def _screened(
        self, trial: Trial, programs: dict[str, int]
    ) -> tuple[Trial, tuple[float, float] | None]:
        try:
            stages = self.stages(trial.point)
            text = str(stages.tile_program)
            self.read_tunables |= {
                name for task in stages.task_tree.tasks() for name, _ in task.tunables
            }
        except Exception as error:  # also a mistake of SepTran itself must not end the search
            kind = "invalid" if isinstance(error, SepTranError) else "failed"
            return replace(trial, kind=kind, message=_reason(error)), None
        if self.journal is not None:
            self.keys[trial.number] = self._key(stages)
        # Values may be rounded or unused: what gives the same program is run once.
        first = programs.setdefault(text, trial.number)
        if first != trial.number:
            message = f"the same program as that of {first}"
            return replace(trial, kind="same", message=message), None
        prediction = predict(stages.tile_program)
        rank = prediction.seconds, prediction.without_overlap
        return replace(trial, predicted=prediction.seconds), rank

    def _require_effect(self) -> None:
        """Raise NothingToTuneError for a tunable to try that no candidate's tasks read."""
        for name in self.choices.extra if self.read_tunables else ():
            if name not in self.read_tunables:
                raise NothingToTuneError(
                    f"no task of {self.request.entry.name} reads tunable {name!r}",
                    hint=nearest(name, self.read_tunables),
                )

    def stages(self, point: Point) -> Stages:
        """The stages of one candidate: what is searched in a mapping is taken as it is."""
        searched = self.request.mapping.dimensions
        return (Compilation if searched else fitted)(self._at(point))

    def _at(self, point: Point) -> CompileRequest:
        """Return the request of one candidate."""
        own = {n: v for n, v in point.items() if n not in self.choices.extra}
        mapping = self.request.mapping.with_values(own) if own else self.request.mapping
        tried: dict[str, Any] = {n: point[n] for n in self.choices.extra if n in point}
        return replace(self.request, mapping=mapping).with_tunables(tried)

    # ------------------------------------------------------------ runs
    def _measure(self, ranking: Sequence[Trial]) -> None:
        runs = self._runs(len(ranking))
        seconds = self.limits.seconds
        end = self.began + (math.inf if seconds is None else seconds)
        if not self.request.mapping.dimensions:
            # The mapping as it is, under a number that no candidate has.
            self.before = self._measured(Trial(-1, {}, "ranked"))
        for trial in self._order(ranking, runs):
            if time.monotonic() > end:
                return
            done = self.trials[trial.number] = self._measured(trial)
            self.report(self, done, len(self.trials) + runs)

    def _order(self, ranking: Sequence[Trial], runs: int) -> Iterator[Trial]:
        """Yield half of the runs in the model's order, then neighbours of the best so far."""
        waiting = {trial.number: trial for trial in ranking}
        by_point = {tuple(t.point.items()): t for t in ranking}
        for done in range(runs):
            near = []
            if 2 * done >= runs and (best := self._best()) is not None:
                points = self.choices.near(best.point)
                some = (by_point.get(tuple(p.items())) for p in points)
                near = [t for t in some if t is not None and t.number in waiting]
            trial = near[0] if near else next(iter(waiting.values()))
            del waiting[trial.number]
            yield trial

    def _measured(self, trial: Trial) -> Trial:
        """Compile, run, compare and time a candidate, or recall what a journal has of it."""
        if self.journal is None:
            return self._ran(trial)
        try:
            key = self.keys.get(trial.number) or self._key(self.stages(trial.point))
        except SepTranError as error:
            return replace(trial, kind="failed", message=_reason(error))
        known = self.journal.find(key)
        if known is not None and known.kind in RECALLED:
            return recalled(known, trial)
        done = self._ran(trial)
        self.journal.add(entry_of(done, key, self.request.entry.name, self.request.mapping.machine))
        return done

    def _key(self, stages: Stages) -> str:
        """The key under which a journal has a candidate."""
        mapping = without_places(str(stages.mapping))
        return key_of(stages.tile_program, mapping, self.scalars, SEED)

    def _ran(self, trial: Trial) -> Trial:
        try:
            kernel = compile_request(self._at(trial.point))
            kernel.save(self.folder / str(trial.number))
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                answer = self._ask(trial, folder)
                wrong = self._wrong(kernel, Path(folder)) if answer["kind"] == "measured" else ""
        except Stopped:
            raise
        except Exception as error:  # also a mistake of SepTran itself must not end the search
            return replace(trial, kind="failed", message=_reason(error))
        if wrong:
            return replace(trial, kind="wrong", message=wrong)
        return replace(trial, **answer)

    def _ask(self, trial: Trial, results: str | None = None) -> dict[str, Any]:
        """Return the time of a saved candidate; its outputs are written to `results`."""
        request = {
            "kernel": str(self.folder / str(trial.number)), "results": results,
            "seed": SEED, "scalars": dict(self.scalars),
        }  # fmt: skip
        return self.worker.ask(request, self.limits.patience)

    def _wrong(self, kernel: Kernel, results: Path) -> str:
        """Return what is wrong with the written outputs; empty where all is right."""
        if not self.exact:
            tree = kernel.stages.task_tree
            rules = product_rules(kernel.stages.tile_program)
            self.exact = error_bounds(tree, kernel.sample(SEED), dict(self.scalars), rules)
        tensors = {t.name: t for t in kernel.specialisations[-1].tensors}
        found: list[Accuracy] = []
        for name, bound in self.exact.items():
            kind = numpy_dtype(tensors[name].dtype or "")
            array = np.frombuffer((results / name).read_bytes(), kind)
            found.append(compare(name, array.reshape(tensors[name].shape or ()), bound))
        return "; ".join(str(accuracy) for accuracy in found if not accuracy.right)

    def _finals(self) -> None:
        """Time the fastest again alternately; simulated cycles are deterministic."""
        finalists = list(self.result().ordered[:FINALISTS])
        if self.before is not None and self.before.kind == "measured":
            finalists.append(self.before)
        if len(finalists) < 2 or finalists[0].cycles is not None:
            return
        for trial in finalists:
            if trial.recalled:  # what was not run has not been compiled, either
                compile_request(self._at(trial.point)).save(self.folder / str(trial.number))
        times: dict[int, list[float]] = {trial.number: [] for trial in finalists}
        for _ in range(ROUNDS):
            for trial in finalists:
                answer = self._ask(trial)
                if answer["kind"] == "measured":
                    times[trial.number].append(answer["seconds"])
        for trial in finalists:
            again = replace(trial, seconds=min(times[trial.number], default=trial.seconds))
            if trial is self.before:
                self.before = again
            else:
                self.trials[trial.number] = again

    # ------------------------------------------------------------ results
    def _runs(self, candidates: int) -> int:
        return min(self.limits.runs, candidates) if self.measured else 0

    def _best(self) -> Trial | None:
        return next(iter(self.result().ordered), None)

    def result(self, complete: bool = False) -> Tuning:
        """Return the results so far."""
        return Tuning(
            self.request.entry.name, self.request.mapping.machine.name, self.measured,
            tuple(self.trials.values()), self.choices.size, complete, self.before,
            self.source.folder,
            lambda found: written(self.source, found, self),
        )  # fmt: skip


def _reason(error: Exception) -> str:
    """Return why there is no candidate, in a line."""
    return error.message if isinstance(error, SepTranError) else f"{type(error).__name__}: {error}"


def search(
    logic: Logic,
    mapping: Any,
    *,
    machine: Any = None,
    shapes: Any = None,
    dtypes: Any = None,
    tunables: Mapping[str, Any] | None = None,
    static: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    tried: Mapping[str, Sequence[Candidate]] | None = None,
    limits: SearchLimits,
    measured: bool | None = None,
    journal: str | Path | None = None,
    report: Progress = lambda search, trial, total: None,
) -> Search:
    """Return a search that is ready to run; raises SepTranError for what cannot be searched."""
    request = CompileRequest.of(
        logic,
        mapping,
        machine=machine,
        shapes=shapes,
        dtypes=dtypes,
        tunables=tunables,
        static=static,
    ).with_example()
    choices = CandidateValues.of(request.mapping.space(), _to_try(tried))
    if not choices.values:
        raise NothingToTuneError(
            "the mapping says !tune nowhere, so there is nothing to search",
            hint="write block_M: !tune {type: choice, values: [32, 64]} in it, or name tunables "
            "to try: tried={'block_M': [32, 64]}, --try block_M=32,64",
        )
    runs = runs_here(request.backend) if measured is None else measured
    values = _scalars(request.entry, scalars)
    kept = None if journal is None else Journal.at(journal)
    return Search(
        request, WrittenMapping.of(request.mapping), choices, limits, runs, values, report, kept
    )


def _to_try(tried: Any) -> dict[str, tuple[Candidate, ...]]:
    """Return values to try by tunable, at least one each; raises WrongArgumentError."""
    example = "{'block_M': [32, 64]}"
    found = argument_checks.as_mapping("tried", tried, example)
    lists = {
        name: as_tuple(f"tried[{name!r}]", values, "[32, 64]") for name, values in found.items()
    }
    for name, values in lists.items():
        if not values:
            hint = f"write tried={example}"
            raise WrongArgumentError(f"tried names no value of {name}", hint=hint)
    return lists


def _scalars(entry: Task, scalars: Any) -> dict[str, Any]:
    """Return values of the logic's scalars; raises WrongArgumentError."""
    known = [keyword.name for keyword in entry.keywords if not keyword.static]
    found = argument_checks.as_mapping("scalars", scalars, "{'eps': 1e-6}")
    for name in found:
        if name not in known:
            message = f"scalars names {name!r}, which {entry.name} does not have"
            raise WrongArgumentError(message, hint=nearest(name, known))
    return found

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
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from septran import argument_checks
from septran.argument_checks import WrongArgumentError, as_int, as_positive, as_tuple
from septran.backends import backend_of
from septran.compiler import Compilation, compile_request, fitted
from septran.dtypes import numpy_dtype
from septran.errors import SepTranError, nearest
from septran.mapping.tune import Candidate, Point
from septran.request import CompileRequest, Logic
from septran.runtime.accuracy import Accuracy, compare, error_bounds
from septran.runtime.cache import without_places
from septran.runtime.checks import product_rules
from septran.runtime.gpu import runs_here
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Specialisation
from septran.runtime.stages import Stages
from septran.task import Task
from septran.tuning.candidates import (
    CandidateValues,
    NothingToTuneError,
    PointKey,
    Rank,
    SearchSpace,
    key_of_point,
)
from septran.tuning.cluster.search import BuildLostError, SearchCluster
from septran.tuning.cluster.work import side_by_side
from septran.tuning.corrections import corrected
from septran.tuning.journal import RECALLED, Journal, entry_of, key_of, recalled
from septran.tuning.measuring import MeasuringWorker, Stopped
from septran.tuning.model import predict
from septran.tuning.open_space import OpenSpace
from septran.tuning.tuning import Trial, Tuning
from septran.tuning.writing import WrittenMapping, written

LOOKING = 0.5
"""The part of the seconds of a search after which no other candidate is looked at, only run."""
AS_IT_IS = 0
"""The number of the mapping as it is among the candidates of an open space."""
FINALISTS = 3
ROUNDS = 5
"""The number of times that each finalist is timed again, alternately.

The fastest round counts, as other work on the machine only ever adds time.
"""
SEED = 0
"""The seed of the inputs, and of the points drawn from very large spaces."""

Progress = Callable[["Search", Trial, int], None]
"""A function called with each trial, and with the greatest number that there will be."""


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
class Phase:
    """How far a part of a search is."""

    name: str
    """What is done with a candidate: looked at, or run."""
    total: int
    """The greatest number of candidates."""
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """The seconds that the rest takes at most, at the speed so far; 0 before the first."""
        spent = time.monotonic() - self.began
        return spent / max(1, self.done) * (self.total - self.done)


@dataclass
class Search:
    """A search in progress."""

    request: CompileRequest
    """The request: its mapping has `!tune`; its tunables are for all candidates."""
    source: WrittenMapping
    choices: SearchSpace
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
    cluster: SearchCluster | None = None
    """Where candidates are built and run, if not here."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by the thread of a candidate while it is not waiting for another process."""
    read_tunables: set[str] = field(default_factory=set)
    """The tunables that the tasks of some candidate read."""
    folder: Path = field(default_factory=Path)
    """The folder of the compiled candidates, by number, while it runs."""
    exact: Mapping[str, Any] = field(default_factory=dict)
    """The exact results with their error bounds, from the first candidate run."""
    began: float = field(default_factory=time.monotonic)
    phase: Phase = field(default_factory=lambda: Phase("", 0))

    def run(self) -> Tuning:
        """Run the search; returns the results so far where someone stops it."""
        complete = False
        if self.cluster is not None:
            self.cluster.stopped_by(self.worker.stopped)
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
            if self.cluster is not None:
                self.cluster.close()
        return self.result(complete)

    # ------------------------------------------------------------ front end
    def _ranked(self) -> list[Trial]:
        """Return all candidates that fit, the best by the model first."""
        programs: dict[str, int] = {}
        ranks: dict[PointKey, Rank] = {}
        found: list[tuple[Rank, Trial]] = []
        most = self.choices.most()
        self.phase = Phase("looked at", most)
        for number, point in enumerate(self.choices.points(SEED, ranks)):
            if self.worker.stopped():
                raise Stopped
            if self.measured and self.trials and time.monotonic() > self._end(LOOKING):
                break
            trial, rank = self._screened(Trial(number, point, "ranked"), programs)
            self.trials[number] = trial
            if rank is not None:
                ranks[key_of_point(point)] = rank
                found.append((rank, trial))
            self.phase.done += 1
            self.report(self, trial, most + self._runs(most))
        self._require_effect()
        return [trial for _, trial in sorted(found, key=lambda pair: pair[0])]

    def _screened(self, trial: Trial, programs: dict[str, int]) -> tuple[Trial, Rank | None]:
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
        for name in self.choices.tried if self.read_tunables else ():
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
        return self.choices.applied(self.request, point)

    # ------------------------------------------------------------ runs
    def _measure(self, ranking: Sequence[Trial]) -> None:
        runs = self._runs(len(ranking))
        end = self._end()
        if not self.request.mapping.dimensions:
            # The mapping as it is: a candidate, or under a number that no candidate has.
            self.before = self._measured(
                self.trials[AS_IT_IS] if self.open else Trial(-1, {}, "ranked")
            )
            if self.open:
                self.trials[AS_IT_IS] = self.before
                runs -= 1
        self.phase = Phase("run", runs)
        order = self._order([t for t in ranking if t.point], runs)

        def note(trial: Trial, done: Trial) -> bool:
            self.trials[trial.number] = done
            self.phase.done += 1
            self.report(self, done, len(self.trials) + runs)
            return time.monotonic() <= end

        if time.monotonic() > end:
            return
        if self.cluster is not None:
            side_by_side(self.cluster.width, order, self._measured, note)
            return
        for trial in order:
            if not note(trial, self._measured(trial)):
                return

    def _end(self, part: float = 1.0) -> float:
        """When a part of the seconds that the search has is over."""
        seconds = self.limits.seconds
        return math.inf if seconds is None else self.began + part * seconds

    def _order(self, ranking: Sequence[Trial], runs: int) -> Iterator[Trial]:
        """Yield half of the runs in the model's order, then neighbours of the best so far.

        The order is the model's, corrected by what was measured until then.
        """
        waiting = {key_of_point(trial.point): trial for trial in ranking}
        for done in range(min(runs, len(ranking))):
            order = corrected(list(waiting.values()), list(self.trials.values()))
            if 2 * done >= runs and (best := self._best()) is not None:
                near = set(map(key_of_point, self.choices.near(best.point)))
                order = [t for t in order if key_of_point(t.point) in near] or order
            yield waiting.pop(key_of_point(order[0].point))

    def _measured(self, trial: Trial) -> Trial:
        """Compile, run, compare and time a candidate, or recall what a journal has of it."""
        if self.journal is None:
            return self._ran(trial)
        try:
            with self.lock:
                key = self.keys.get(trial.number) or self._key(self.stages(trial.point))
        except SepTranError as error:
            return replace(trial, kind="failed", message=_reason(error))
        known = self.journal.find(key)
        if known is not None and known.kind in RECALLED:
            return recalled(known, trial)
        done = self._ran(trial)
        self.journal.add(entry_of(done, key, self.request.entry.name, self.request.mapping.machine))
        return done

    def once(self, number: int, point: Point) -> Trial:
        """Return a trial of one point: measured, or where nothing is run, predicted."""
        trial = Trial(number, point, "ranked")
        if self.measured:
            done = self._ran(trial)
            return done if done.kind == "measured" else replace(done, seconds=None)
        try:
            return replace(trial, predicted=predict(self.stages(point).tile_program).seconds)
        except SepTranError as error:
            return replace(trial, kind="invalid", message=_reason(error))

    def _key(self, stages: Stages) -> str:
        """The key under which a journal has a candidate."""
        mapping = without_places(str(stages.mapping))
        return key_of(stages.tile_program, mapping, self.scalars, SEED)

    def _ran(self, trial: Trial) -> Trial:
        try:
            kernel = self._saved(trial)
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                answer = self.ask(trial, folder)
                with self.lock:
                    right = answer["kind"] == "measured"
                    wrong = self._wrong(kernel, Path(folder)) if right else ""
        except BuildLostError as error:
            return replace(trial, kind="crashed", message=str(error))
        except Stopped:
            raise
        except Exception as error:  # also a mistake of SepTran itself must not end the search
            return replace(trial, kind="failed", message=_reason(error))
        if wrong:
            return replace(trial, kind="wrong", message=wrong)
        return replace(trial, **answer)

    def _saved(self, trial: Trial) -> Kernel:
        """Compile a candidate, here or on the cluster, and write it to a file.

        Raises BuildLostError.
        """
        path = self.folder / str(trial.number)
        if self.cluster is None:
            kernel = compile_request(self._at(trial.point))
            kernel.save(path)
            return kernel
        with self.lock:
            request = self._at(trial.point)
            stages = fitted(request)
            _ = stages.tile_program  # made while no other thread makes one
        self.cluster.save(request.signature, stages, path)
        made = (Specialisation.of(stages),)
        device = backend_of(request.backend).device
        return Kernel(request.signature, lambda *_: made[0], device=device, compiled=made)

    def ask(self, trial: Trial, results: str | None = None) -> dict[str, Any]:
        """Return the time of a saved candidate; its outputs are written to `results`."""
        request = {
            "kernel": str(self.folder / str(trial.number)), "results": results,
            "seed": SEED, "scalars": dict(self.scalars),
        }  # fmt: skip
        worker = self.worker if self.cluster is None else self.cluster.worker
        return worker.ask(request, self.limits.patience)

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
        before = self.before
        if before is not None and before.kind == "measured" and before not in finalists:
            finalists.append(before)
        if len(finalists) < 2 or finalists[0].cycles is not None:
            return
        for trial in [one for one in finalists if one.recalled]:
            try:
                self._saved(trial)  # what was not run has not been compiled, either
            except BuildLostError:
                finalists.remove(trial)  # it keeps the time that the journal has
        times = in_turn([partial(self.ask, trial) for trial in finalists])
        for trial, some in zip(finalists, times, strict=True):
            again = replace(trial, seconds=min(some, default=trial.seconds))
            if trial.number in self.trials:
                self.trials[trial.number] = again
            if trial is before:
                self.before = again

    # ------------------------------------------------------------ results
    def _runs(self, candidates: int) -> int:
        return min(self.limits.runs, candidates) if self.measured else 0

    def _best(self) -> Trial | None:
        return next(iter(self.result().ordered), None)

    @property
    def open(self) -> bool:
        """Whether neither mapping nor caller say what to try."""
        return isinstance(self.choices, OpenSpace)

    def result(self, complete: bool = False) -> Tuning:
        """Return the results so far."""
        before = self.before
        if before is None and self.open and not self.measured:
            before = self.trials.get(AS_IT_IS)
        return Tuning(
            self.request.entry.name, self.request.mapping.machine.name, self.measured,
            tuple(self.trials.values()), self.choices.size, complete, before,
            self.source.folder,
            lambda found: written(self.source, found, self),
        )  # fmt: skip


def in_turn(asks: Sequence[Callable[[], Mapping[str, Any]]]) -> list[list[float]]:
    """Return the seconds that a worker answers to each, asked alternately `ROUNDS` times."""
    times: list[list[float]] = [[] for _ in asks]
    for _ in range(ROUNDS):
        for ask, some in zip(asks, times, strict=True):
            answer = ask()
            if answer["kind"] == "measured":
                some.append(answer["seconds"])
    return times


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
    workers: Any = None,
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
    named = CandidateValues.of(request.mapping.space(), _to_try(tried))
    choices: SearchSpace = (
        named if named.values else OpenSpace.of(fitted(request).mapping, request.tunables)
    )
    runs = runs_here(request.backend) if measured is None else measured
    values = _scalars(request.entry, scalars)
    kept = None if journal is None else Journal.at(journal)
    machine = request.mapping.machine
    cluster = None if workers is None or not runs else SearchCluster.of(workers, machine)
    return Search(
        request, WrittenMapping.of(request.mapping), choices, limits, runs, values, report, kept,
        cluster=cluster,
    )  # fmt: skip


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

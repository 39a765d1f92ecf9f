"""Tiles that fit: tunables are made smaller until no memory has to hold more than it can.

A mapping's rules set tunables for any logic. Where a memory would have to hold more than it has,
the compiler searches smaller values itself, and reports which ones and why. It makes them smaller
step by step (to the power of two below), at each step the one that leaves the smallest excess.
Among several that fit it takes the one with the fewest cycles, where the machine file has cycles.
Values of the call or of an instance stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Generic, TypeVar

from septran.backends import backend_of
from septran.errors import CapacityRefusal, Errors, SepTranError, Shortage
from septran.ir.expressions import Reduce, walk
from septran.ir.primitives import SCAN
from septran.mapping.mapping import Fit
from septran.mapping.mistakes import MappedCapacityError
from septran.mapping.resolved import Setting
from septran.request import CompileRequest
from septran.runtime.stages import Stages
from septran.task.tree import Assign, Primitive, TaskNode, TaskTree, statements
from septran.tile.analyses.cycle_bound import cycle_bound
from septran.tile.interpret.storage import size_bytes
from septran.tile.nodes import TileProgram
from septran.tile.passes.layout.plan_memory import peak

REGISTERS = "REGISTER"
MOST_STEPS = 24
"""The greatest number of steps of one search: four tunables from 64 down to 1."""
LONG = 4096
"""The extent from which on a whole axis is what does not fit, and not the number of tiles."""

Key = tuple[str, str]
"""A tunable: the name of the task that reads it, and its own."""
S = TypeVar("S", bound=Stages)


def fit(request: CompileRequest, make: Callable[..., S]) -> S:
    """Return the stages of `request`, with smaller tunables where its own do not fit a memory.

    `make` returns the stages of a request, and takes as `refusal` the error that no tiles fit.
    Other mistakes are left for the stage that raises them.
    """
    first = _Attempt(request, make(request), {})
    if not first.shortages:
        return first.stages
    search = _Search(make, first)
    nearest = search.run()
    if nearest.error is None:
        return nearest.stages
    mapping = replace(request.mapping, few_stages=True)
    if not request.mapping.few_stages:  # a pipeline costs less than tiles of nothing
        return fit(replace(request, mapping=mapping), make)
    return search.refused(nearest)


@dataclass(frozen=True)
class _Attempt(Generic[S]):
    """A compilation with some tunables made smaller."""

    request: CompileRequest
    stages: S
    fits: Mapping[Key, Fit]

    @cached_property
    def error(self) -> SepTranError | None:
        """The error of its tile program, or of its code if that needs memory, too; else None."""
        try:
            if _exchange_may_not_fit(self.stages.tile_program):
                _ = self.stages.tensor_ir
        except SepTranError as error:
            return error
        return None

    @cached_property
    def shortages(self) -> tuple[Shortage, ...]:
        """The memories that are too small; none where anything else is wrong, too."""
        found = _each(self.error)
        short = [e.shortage for e in found if isinstance(e, CapacityRefusal) and e.shortage]
        return tuple(short) if len(short) == len(found) else ()

    @property
    def excess(self) -> tuple[bool, float]:
        """The distance from fitting: the first estimate's refusals are further than later ones."""
        early = any(isinstance(e, MappedCapacityError) for e in _each(self.error))
        return early, sum(shortage.excess for shortage in self.shortages)

    @property
    def cycles(self) -> int:
        """The lower bound on its cycles; 0 where the machine file has no cycles."""
        bound = cycle_bound(self.stages.tile_program)
        return 0 if bound is None else bound.cycles

    @cached_property
    def form(self) -> _Form:
        """The form that its tunables give the logic; raises LogicError."""
        tasks = self.stages.task_tree.tasks()
        shapes = tuple((t.path, *(p.shape for p in t.params)) for t in tasks)
        return _Form(self.stages.sizes, shapes)


@dataclass(frozen=True)
class _Form:
    """A logic cut by tunables."""

    sizes: Mapping[Key, Setting[int]]
    """The tunables that may be made smaller, with their values."""
    shapes: tuple[object, ...]
    """The shapes of every task's tensors: where they stay the same, a tunable has no effect."""


@dataclass(frozen=True)
class _Search(Generic[S]):
    """The descent from a first attempt that does not fit."""

    make: Callable[..., S]
    first: _Attempt[S]

    def run(self) -> _Attempt[S]:
        """Return the best of the first attempts that fit, else the nearest to it."""
        here = nearest = self.first
        for _ in range(MOST_STEPS):
            around = list(self._around(here, _groups(here.form.sizes)))
            if not any(a.error is None or self._nearer(a, here) for a in around):
                # Where no step alone brings it nearer, all tunables go down together.
                around = list(self._around(here, [tuple(here.form.sizes)]))
            right = [a for a in around if a.error is None]
            if right:
                return min(right, key=lambda a: a.cycles)
            # A step may lead away from what fits and the next one to it, as the room that threads
            # exchange through is known only of what fits without: so all go down to the end.
            lower = [a for a in around if self._nearer(a, here)] or [
                a for a in around if a.shortages
            ]
            if not lower:
                break
            here = min(lower, key=lambda a: a.excess)
            nearest = min(nearest, here, key=lambda a: a.excess)
        return nearest

    @staticmethod
    def _nearer(attempt: _Attempt[S], here: _Attempt[S]) -> bool:
        """Return whether the excess is smaller, and nothing else is wrong."""
        return bool(attempt.shortages) and attempt.excess < here.excess

    def _around(
        self, here: _Attempt[S], groups: Iterable[tuple[Key, ...]]
    ) -> Iterator[_Attempt[S]]:
        """Yield attempts with the tunables of each group a step smaller."""
        for keys in groups:
            attempt = self._smaller(here, keys)
            if attempt is not None:
                yield attempt

    def _smaller(self, here: _Attempt[S], keys: tuple[Key, ...]) -> _Attempt[S] | None:
        """An attempt with some tunables as far down as makes a difference, None without one."""
        why = str(max(here.shortages, key=lambda s: s.excess))
        values = {key: here.form.sizes[key].value for key in keys}
        while any(value > 1 for value in values.values()):
            values = {key: _below(value) for key, value in values.items()}
            fits = {**here.fits, **{k: self._fit(here, k, v, why) for k, v in values.items()}}
            mapping = replace(here.request.mapping, fits=tuple(fits.values()))
            request = replace(here.request, mapping=mapping)
            try:
                attempt = _Attempt(request, self.make(request), fits)
                if attempt.form.shapes != here.form.shapes:
                    return attempt
            except SepTranError:  # the logic refuses such tiles
                return None
        return None

    def _fit(self, here: _Attempt[S], key: Key, value: int, why: str) -> Fit:
        """Return the record of a tunable made smaller, with its first value."""
        before, known = self.first.form.sizes[key], here.fits.get(key)
        return Fit(*key, value, before.value, known.why if known else why, before.where)

    def refused(self, here: _Attempt[S]) -> S:
        """Return the stages of the nearest attempt, whose error says that no tiling fits."""
        tried = ", ".join(
            f"{key[1]} of {key[0]} ({size.value} to {here.form.sizes[key].value})"
            for key, size in self.first.form.sizes.items()
        )
        if not tried:
            return self.first.stages
        whole = _whole_axis(here.stages.task_tree)
        for error in _each(here.error):
            told = (f"no tiling fits, even with smaller {tried}", error.hint, whole)
            error.hint = "; ".join(part for part in told if part)
        stages: S = self.make(here.request, refusal=here.error)
        return stages


def _whole_axis(tree: TaskTree) -> str:
    """Return what to write where a leaf reduces or scans the whole of a long axis at once.

    Sums within products are none of these: a cut axis of theirs is another algorithm, or a tunable.
    """
    axes = {extent for param in tree.root.params for extent in param.shape}
    found = [
        (extent, task, param.name)
        for task in tree.tasks()
        for extent in sorted(axes & _gathered(task))
        for param in task.params
        if extent in param.shape
    ]
    extent, task, name = max(found, key=lambda f: f[0], default=(0, tree.root, ""))
    if extent < LONG:
        return ""
    return (
        f"{task.name} ({task.location}) is given all {extent:,} elements of an axis of {name} at "
        "once: cut that axis by `task.partition`, too, walk its blocks by `task.sequential_range`, "
        "and keep in temporaries what each row has found so far (septran/operators/cumsum.py for "
        "scans, logsumexp.py for maxima and sums), with a second walk for results that need all "
        "of it"
    )


def _gathered(task: TaskNode) -> set[int]:
    """Return the extents along which a leaf reduces or scans."""
    found: set[int] = set()
    for statement in statements(task.body) if task.leaf else ():
        if isinstance(statement, Assign):
            parts = (node for node in walk(statement.value) if isinstance(node, Reduce))
            found.update(part.operand.shape[part.axis] for part in parts)
        elif isinstance(statement, Primitive) and statement.name == SCAN.name:
            axis = int(dict(statement.attributes).get("axis", -1))
            found.add(statement.operands[1].shape[axis])
    return found


def _exchange_may_not_fit(program: TileProgram) -> bool:
    """Return whether threads may lack room to exchange the buffers that they hold in registers."""
    memory = backend_of(program.machine.backend).exchange
    limit = program.machine.memory(memory).capacity_bytes if memory else None
    if limit is None:
        return False
    held = sum(size_bytes(b) for b in program.buffers if b.memory == REGISTERS)
    return peak(program.plan, memory) + held > limit


def _each(error: SepTranError | None) -> tuple[SepTranError, ...]:
    """Return the single mistakes of an error."""
    if error is None:
        return ()
    return error.errors if isinstance(error, Errors) else (error,)


def _below(value: int) -> int:
    """Return the power of two below a value, at least 1."""
    # `value - 1`, so that a power of two becomes the next one down.
    return max(1, 1 << ((value - 1).bit_length() - 1)) if value > 1 else 1


def _groups(sizes: Mapping[Key, Setting[int]]) -> list[tuple[Key, ...]]:
    """Return the tunables made smaller in one step: one alone, or one name in all of its tasks.

    The largest goes first. Tasks may rely on tunables of one name being equal.
    """
    alone = sorted(sizes, key=lambda key: (-sizes[key].value, key))
    by_name = groupby(sorted(sizes, key=lambda key: key[1]), key=lambda key: key[1])
    together = [group for _, keys in by_name if len(group := tuple(keys)) > 1]
    return [*((key,) for key in alone), *together]

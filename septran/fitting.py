"""Tiles that fit: tunables are made smaller until every memory holds what it is to hold.

What a mapping's rules say of tunables is for any logic. Where a memory would have to hold more
than it has, the compiler looks for smaller values by itself, and says which ones and why. It
takes them down a step at a time (to the power of two below), each time the one after which
least is too much; of several after which all fits, the one with the fewest cycles, where the
machine file tells cycles. What is given with the call, or by an instance, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Generic, TypeVar

from septran.backends import backend_of
from septran.errors import CapacityRefusal, Errors, SepTranError, Shortage
from septran.mapping.mapping import Fit
from septran.mapping.mistakes import MappedCapacityError
from septran.mapping.resolved import Setting
from septran.request import CompileRequest
from septran.runtime.stages import Stages
from septran.task import trace
from septran.tile.analyses.cycle_bound import cycle_bound
from septran.tile.interpret.storage import size_bytes
from septran.tile.nodes import TileProgram
from septran.tile.passes.layout.plan_memory import peak

REGISTERS = "REGISTER"
MOST_STEPS = 24
"""Of one search: four tunables from 64 down to 1."""

Key = tuple[str, str]
"""Of a tunable: the name of the task that asks, and its own."""
S = TypeVar("S", bound=Stages)


def fit(request: CompileRequest, make: Callable[..., S]) -> S:
    """The stages of `request`, with smaller tunables where its own do not fit a memory.

    `make` gives the stages of a request, and takes as `refusal` the error that says that no
    tiles fit. Other mistakes are left for the stage that raises them.
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
        """What its tile program is refused for, or its code, where that needs room of its own."""
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
        """How far it is from fitting: what the first look refuses is further than the plan's."""
        early = any(isinstance(e, MappedCapacityError) for e in _each(self.error))
        return early, sum(shortage.excess for shortage in self.shortages)

    @property
    def cycles(self) -> int:
        """The least that it takes; 0 where the machine file tells no cycles."""
        bound = cycle_bound(self.stages.tile_program)
        return 0 if bound is None else bound.cycles

    @cached_property
    def form(self) -> _Form:
        """What its tunables make of the logic."""
        return _Form.of(self.request)


@dataclass(frozen=True)
class _Form:
    """A logic cut by tunables."""

    sizes: Mapping[Key, Setting[int]]
    """The tunables that may be made smaller, with their values."""
    shapes: tuple[object, ...]
    """Of every task's tensors: where they stay the same, a tunable has no effect."""

    @staticmethod
    def of(request: CompileRequest) -> _Form:
        """Trace the logic; raises LogicError."""
        r, chooser = request.completed(), request.chooser()
        tree = trace(r.entry, r.shapes, r.dtypes, chooser, r.static)
        shapes = tuple((t.path, *(p.shape for p in t.params)) for t in tree.tasks())
        return _Form(dict(chooser.sizes), shapes)


@dataclass(frozen=True)
class _Search(Generic[S]):
    """The way down from a first attempt that does not fit."""

    make: Callable[..., S]
    first: _Attempt[S]

    def run(self) -> _Attempt[S]:
        """The best of the first attempts that fit; else the one that is nearest to it."""
        here = self.first
        for _ in range(MOST_STEPS):
            around = list(self._around(here, _groups(here.form.sizes)))
            if not any(a.error is None or self._nearer(a, here) for a in around):
                around = list(self._around(here, [tuple(here.form.sizes)]))
            right = [a for a in around if a.error is None]
            if right:
                return min(right, key=lambda a: a.cycles)
            nearer = [a for a in around if self._nearer(a, here)]
            if not nearer:
                break
            here = min(nearer, key=lambda a: a.excess)
        return here

    @staticmethod
    def _nearer(attempt: _Attempt[S], here: _Attempt[S]) -> bool:
        """Whether less is too much for the memories, and nothing else is wrong."""
        return bool(attempt.shortages) and attempt.excess < here.excess

    def _around(
        self, here: _Attempt[S], groups: Iterable[tuple[Key, ...]]
    ) -> Iterator[_Attempt[S]]:
        """Attempts with the tunables of each group a step smaller."""
        for keys in groups:
            attempt = self._smaller(here, keys)
            if attempt is not None:
                yield attempt

    def _smaller(self, here: _Attempt[S], keys: tuple[Key, ...]) -> _Attempt[S] | None:
        """With some tunables as far down as makes a difference; None where nothing does."""
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
        """A tunable made smaller, told beside what it was at first."""
        before, known = self.first.form.sizes[key], here.fits.get(key)
        return Fit(*key, value, before.value, known.why if known else why, before.where)

    def refused(self, here: _Attempt[S]) -> S:
        """The stages of the nearest attempt, whose error says that no tiling fits."""
        tried = ", ".join(
            f"{key[1]} of {key[0]} ({size.value} to {here.form.sizes[key].value})"
            for key, size in self.first.form.sizes.items()
        )
        if not tried:
            return self.first.stages
        for error in _each(here.error):
            error.hint = f"no tiling fits, even with smaller {tried}; {error.hint}"
        stages: S = self.make(here.request, refusal=here.error)
        return stages


def _exchange_may_not_fit(program: TileProgram) -> bool:
    """Whether threads may have no room to exchange what they hold in registers."""
    memory = backend_of(program.machine.backend).exchange
    limit = program.machine.memory(memory).capacity_bytes if memory else None
    if limit is None:
        return False
    held = sum(size_bytes(b) for b in program.buffers if b.memory == REGISTERS)
    return peak(program.plan, memory) + held > limit


def _each(error: SepTranError | None) -> tuple[SepTranError, ...]:
    """The single mistakes of an error."""
    if error is None:
        return ()
    return error.errors if isinstance(error, Errors) else (error,)


def _below(value: int) -> int:
    """The power of two below a value; 1 at least."""
    return max(1, 1 << ((value - 1).bit_length() - 1)) if value > 1 else 1


def _groups(sizes: Mapping[Key, Setting[int]]) -> list[tuple[Key, ...]]:
    """What is made smaller at one time: a tunable alone, or one of several tasks in all of them.

    The largest goes first. Tasks may rely upon what they ask for by one name being the same.
    """
    alone = sorted(sizes, key=lambda key: (-sizes[key].value, key))
    by_name = groupby(sorted(sizes, key=lambda key: key[1]), key=lambda key: key[1])
    together = [group for _, keys in by_name if len(group := tuple(keys)) > 1]
    return [*((key,) for key in alone), *together]

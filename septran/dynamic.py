"""Extents that are known when a kernel is called: one compilation for each length of a dimension.

`septran.compile(..., dynamic={"N": (1, 8192)})` compiles for tensors whose ``N`` is at most 8192.
Loops count as far as ``N`` reaches, the last tile is ragged as at any edge, and rows of the
caller's tensors lie as far apart as ``N`` says. What the kernel sets aside for itself, and what a
mapping's rules choose by, is for the greatest ``N``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from septran.errors import CallError, LogicError
from septran.ir.atoms import CallExtent
from septran.ir.index import Index
from septran.request import CompileRequest, CompleteRequest
from septran.runtime.signature import Specialisation, TensorParam
from septran.runtime.stages import Stages, stage
from septran.task.trace.dims import extent, named_dims, names_in

if TYPE_CHECKING:
    from septran.mapping.resolved import ResolvedMapping
    from septran.targets.base import Executable, TensorIR
    from septran.task.tree import Param, TaskTree
    from septran.tile.nodes import TileProgram

LEAST_BOUND = 1024
"""The greatest extent that a kernel without a stated range is made for at first."""


class SizeRangeError(CallError):
    """A tensor's dimension is outside of the range that the kernel was compiled for."""

    code = "SEP684"


class FixedDimensionError(LogicError):
    """The logic uses a dimension in a way for which its extent must be known when compiling."""

    code = "SEP132"


class AtSizes(Stages):
    """A compilation for every size, at one size: the logic is traced for that size alone.

    The reference and the error bounds thus do not share what makes the code general.
    """

    def __init__(self, request: CompleteRequest, whole: Stages) -> None:
        """`request` has the sizes of one call, `whole` the code for all of them."""
        super().__init__(whole.passes)
        self.request, self.whole = request, whole

    @stage
    def task_tree(self) -> TaskTree:
        """The task tree for these sizes."""
        return self.request.traced()

    @stage
    def mapping(self) -> ResolvedMapping:
        """The resolved mapping of all sizes."""
        return self.whole.mapping

    @stage
    def tile_program(self) -> TileProgram:
        """The tile program of all sizes."""
        return self.whole.tile_program

    @stage
    def tensor_ir(self) -> TensorIR:
        """The TensorIR of all sizes."""
        return self.whole.tensor_ir

    @stage
    def executable(self) -> Executable:
        """The code for all sizes."""
        return self.whole.executable

    @property
    def code_origin(self) -> str:
        """Where the code for all sizes came from; empty before it is made."""
        return self.whole.code_origin


@dataclass
class Dynamic:
    """The compilations of a kernel with dynamic dimensions."""

    compiled: Callable[[CompileRequest], Stages]
    """Makes the stages of a request whose shapes are the greatest."""
    known: dict[Any, Stages] = field(default_factory=dict)
    """By the greatest shapes, and the dtypes."""

    def specialise(self, request: CompileRequest) -> Specialisation:
        """The specialisation for a call's shapes; compiled at most once for each bound.

        Raises SizeRangeError.
        """
        exact = request.completed()
        dims = named_dims(exact.entry, exact.shapes, exact.static)
        greatest = {n: self._bound(request, exact, n, dims.get(n, 0)) for n in exact.dynamic}
        whole = self._whole(exact, greatest)
        tree, stages = _tree(exact, whole), AtSizes(exact, whole)
        params = tree.root.params
        if any(p.places for p in params):  # which may be as many as an extent of the call
            params = stages.task_tree.root.params
        told = {p.name: _told(p) for p in tree.root.params}
        tensors = tuple(
            replace(TensorParam.of(p), shape=exact.shapes[p.name], told=told[p.name] or ())
            for p in params
        )
        # What is computed from an extent, another one has to be computed for.
        spans = {} if None in told.values() else self._spans(request, exact, greatest)
        return Specialisation(tensors, tree.scalars, stages, spans=spans)

    def _spans(
        self, request: CompileRequest, exact: CompleteRequest, greatest: Mapping[str, int]
    ) -> dict[str, tuple[int, int]]:
        """The extents for which the code of a call is that of others, too; empty where unknown."""
        same = exact.same_case(request.mapping)
        if not same:
            return {}
        spans = {}
        for name, most in greatest.items():
            least = exact.dynamic[name][0]
            # Without a stated range there is code for each power of two.
            if exact.dynamic[name][1] is None and most > LEAST_BOUND:
                least = max(least, most // 2 + 1)
            low, high = same[name]
            spans[name] = int(max(least, low)), int(min(most, high))
        return spans

    def _bound(self, request: CompileRequest, exact: CompleteRequest, name: str, found: int) -> int:
        """The greatest extent of the compilation that serves `found`; raises SizeRangeError.

        `exact` has a shorter range where a case of a dispatch file is for a part of it.
        """
        least, most = request.dynamic[name]
        if found and (found < least or (most is not None and found > most)):
            raise SizeRangeError(
                f"{name} of {request.entry.name} is {found}, and the kernel is for {least} to "
                f"{most or 'any'}",
                request.entry.location,
                hint=f"compile it for a longer range: dynamic={{{name!r}: "
                f"({min(least, found)}, {max(found, most or 0)})}}",
            )
        most = exact.dynamic[name][1]
        return most or max(LEAST_BOUND, 1 << max(0, found - 1).bit_length())

    def _whole(self, exact: CompleteRequest, greatest: Mapping[str, int]) -> Stages:
        shapes = _grown(exact, greatest)
        taken = exact.mapping.taken
        case = taken.name if taken else ""
        key = (case, tuple(sorted(shapes.items())), tuple(sorted(exact.dtypes.items())))
        if key not in self.known:
            fixed = {n: (exact.dynamic[n][0], most) for n, most in greatest.items()}
            asked = CompileRequest(**{**vars(exact), "shapes": shapes, "dynamic": fixed})
            self.known[key] = self.compiled(asked)
        return self.known[key]


def _told(param: Param) -> tuple[str, ...] | None:
    """The dimension that each extent is as it is; None where one is computed from such."""
    found = []
    for index in param.valid:
        match index:
            case Index(terms=()):
                found.append("")
            case Index(terms=((CallExtent(name=name), 1),), constant=0):
                found.append(name)
            case _:
                return None
    return tuple(found)


def _tree(exact: CompleteRequest, whole: Stages) -> TaskTree:
    """The task tree for any size; raises LogicError.

    A logic that is right for the sizes of the call raises FixedDimensionError.
    """
    try:
        return whole.task_tree
    except LogicError as error:
        exact.traced()  # what is wrong in any case is reported as it is
        names = " and ".join(exact.dynamic)
        raise FixedDimensionError(
            f"{names} of {exact.entry.name} cannot be left to calls here: {error.message}",
            error.where,
            hint=f"leave out of dynamic what decides here (of {names}): a kernel is then compiled "
            "for each extent. Dynamic are lengths that are cut into tiles or kept whole",
        ) from None


def _grown(exact: CompleteRequest, greatest: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes with each dynamic dimension at its greatest."""
    entry, static = exact.entry, exact.static
    dims = named_dims(entry, exact.shapes, static) | dict(greatest)
    found = dict(exact.shapes)
    for name, kind in entry.specialised(static):
        if kind.dims is not None:
            found[name] = tuple(
                found[name][n]
                if names_in(d).isdisjoint(greatest)
                else extent(d, dims, static, entry, name)
                for n, d in enumerate(kind.dims)
            )
    return found

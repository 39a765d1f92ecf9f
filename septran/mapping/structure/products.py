"""The products of matrices that a task reaches: which of its tensors play which part.

A loop or an axis belongs to the *rows* of a product if the result and the left operand vary with
it and the right one does not, to the *columns* if the left one does not, to the *sum* if the
result does not, and to the *batch* if all vary: as the letters of an Einstein sum do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from septran.ir.index import Index, Var, axis
from septran.ir.views import View
from septran.mapping.structure.flow import (
    ComputedView,
    Flow,
    Loops,
    Multiply,
    flow_of,
    is_own,
    loop_variables,
)
from septran.task.tree import TaskNode

AXES = ("rows", "columns", "sum", "batch")
ROLES = ("left", "right", "result")
_TILE = {"result": ("rows", "columns"), "left": ("rows", "sum"), "right": ("sum", "columns")}
"""What the two axes of each operand of a tile's product are."""


@dataclass(frozen=True)
class Place:
    """A task's own tensor as an operand of a product."""

    tensor: str
    axes: tuple[frozenset[str], ...]
    """What each of the tensor's axes is; several where a window lies along it."""
    exact: bool
    """Whether the operand is the tensor itself or a copy of it, and not computed from it."""


@dataclass(frozen=True)
class Operand:
    """One operand of a product."""

    places: tuple[Place, ...]
    """The nearest to the product first."""
    computed: bool = False
    """Whether it is computed from tensors beforehand, and not by an earlier product."""

    @property
    def tensors(self) -> tuple[str, ...]:
        """The task's own tensors that are this operand, or a copy of it."""
        return tuple(dict.fromkeys(p.tensor for p in self.places if p.exact))


@dataclass(frozen=True)
class Product:
    """A product of matrices, with all the loops in which it is done."""

    operands: Mapping[str, Operand]
    """By role."""
    order: tuple[str, ...]
    """What the loops around it walk, outermost first."""
    sums_apart: bool
    """Whether each step along the sum has sums of its own, which are added later."""
    dtype: str
    """The element type of its left operand as it is multiplied."""

    def extent(self, kind: str, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """How many rows, columns... it has, by the tensors' extents; None where they do not say."""
        roles = [role for role in ("result", "left", "right") if kind in (*_TILE[role], "batch")]
        places = [p for role in roles for p in self.operands[role].places if p.tensor in shapes]
        found: list[int] = []
        for place in places:
            # A window has rows (or columns) and the sum along one axis: it gives no count.
            if any(len(kinds) > 1 for kinds in place.axes):
                continue
            total = 1
            for extent, kinds in zip(shapes[place.tensor], place.axes, strict=True):
                # An image has its rows along several axes, whose extents multiply.
                total *= extent if kind in kinds else 1
            found.append(total)
        # An operand that merges a part of the batch with its rows says less of it than others.
        return (max(found) if kind == "batch" else found[0]) if found else None


@dataclass(frozen=True)
class Products:
    """All products of a task, and what lies between them."""

    products: tuple[Product, ...]
    between: str
    """What lies between an earlier one and a later one that multiplies what is made from it.

    ``reduction`` where there is one, ``elements`` where there are none but expressions of single
    elements, or nothing at all, and ``nothing`` where no product takes anything of another one.
    """
    masked: bool
    """Whether a product's result is changed by where its elements lie."""
    carried: bool
    """Whether one multiplies what an earlier iteration of a sequential loop has summed."""
    reduces: bool
    """Whether something else than a product is reduced along an axis."""
    scans: bool
    """Whether elements are joined with all those before them along an axis."""
    scatters: bool
    """Whether data chooses where something is written."""
    turns: bool
    """Whether something is made from what lies across it, as a transpose is."""


def products_of(task: TaskNode) -> Products:
    """The products that a task and those below it compute."""
    flow = flow_of(task)
    work = _Analysis(flow)
    work.follow()
    found = tuple(work.product(n, event) for n, event in enumerate(work.multiplies))
    scans = any(isinstance(e, ComputedView) and e.scans for e in flow.events)
    scatters = any(isinstance(e, ComputedView) and e.scatters for e in flow.events)
    turns = any(isinstance(e, ComputedView) and e.turns for e in flow.events)
    between = "reduction" if work.reduced else "elements" if work.taken else "nothing"
    return Products(found, between, work.masked, work.carried, work.reduces, scans, scatters, turns)


@dataclass
class _Analysis:
    flow: Flow
    varies: dict[str, frozenset[Var]] = field(default_factory=dict)
    """The loop indices on which the elements of a tensor depend."""
    made: dict[str, frozenset[tuple[int, bool]]] = field(default_factory=dict)
    """The products from which a tensor is made, and whether by a reduction."""
    taken: bool = False
    reduced: bool = False
    masked: bool = False
    carried: bool = False
    reduces: bool = False

    @property
    def multiplies(self) -> list[Multiply]:
        """The products' events."""
        return [event for event in self.flow.events if isinstance(event, Multiply)]

    def follow(self) -> None:
        """Find what depends on what: twice, as loops come again to what they begin with."""
        for _ in range(2):
            # By the same numbers in both rounds, as `made` refers to products by them.
            number = 0
            for event in self.flow.events:
                if isinstance(event, Multiply):
                    self._multiply(number, event)
                    number += 1
                else:
                    self._compute(event)

    def _multiply(self, number: int, event: Multiply) -> None:
        operands = (event.left, event.right)
        used = frozenset(m for view in operands for m in self.made.get(view.tensor, frozenset()))
        self.taken |= any(n < number for n, _ in used)
        self.reduced |= any(n < number and reduced for n, reduced in used)
        # Made from this product or a later one: by an earlier iteration, as the second round finds.
        repeats = any(not parallel for _, parallel in event.loops)
        self.carried |= repeats and any(n >= number for n, _ in used)
        self._written(event.result, operands, used | {(number, False)})

    def _compute(self, event: ComputedView) -> None:
        used = frozenset(m for view in event.sources for m in self.made.get(view.tensor, ()))
        self.masked |= event.positions and bool(used)
        # A reduction of a product's results is noted in `made`: it may lie between products.
        self.reduces |= event.reduces and not used
        made = frozenset((n, reduced or event.reduces) for n, reduced in used)
        self._written(event.target, event.sources, made)

    def _written(
        self, target: View, sources: Iterable[View], made: frozenset[tuple[int, bool]]
    ) -> None:
        name = target.tensor
        held = frozenset(v for view in sources for v in self._depends(view))
        self.varies[name] = self.varies.get(name, frozenset()) | held
        self.made[name] = self.made.get(name, frozenset()) | made

    def _depends(self, view: View) -> frozenset[Var]:
        return loop_variables(view) | self.varies.get(view.tensor, frozenset())

    def _inside(self, tensor: str) -> frozenset[Var]:
        return frozenset(v for v, _ in self.flow.allocated.get(tensor, ()))

    def product(self, number: int, event: Multiply) -> Product:
        """A product with what its operands are."""
        results, outer = self._results(event)
        left, right = (self._depends(view) for view in (event.left, event.right))
        kinds = {
            v: kind for v in outer | left | right
            if (kind := _kind(v in outer, v in left, v in right))
        }  # fmt: skip
        operands = {"result": self._operand("result", results, kinds, computed=False)}
        for role, view in (("left", event.left), ("right", event.right)):
            operands[role] = self._operand(
                role, list(self._origins(view)), kinds, self._is_computed(view, number)
            )
        home = self._inside(event.result.tensor)
        # The result is allocated inside of a loop along the sum, as with split-K.
        apart = any(kinds.get(v) == "sum" for v in home)
        return Product(
            operands, _order(event.loops, kinds), apart, self.flow.dtypes[event.left.tensor]
        )

    def _operand(
        self, role: str, views: list[tuple[View, bool]], kinds: Mapping[Var, str], computed: bool
    ) -> Operand:
        places = tuple(
            Place(view.tensor, tuple(_axis(entry, role, kinds) for entry in view.index), exact)
            for view, exact in views
            if is_own(view.tensor)
        )
        return Operand(places, computed)

    def _results(self, event: Multiply) -> tuple[list[tuple[View, bool]], frozenset[Var]]:
        """Where the sums go, its own target first, and the loops that distinguish them."""
        views, around = [(event.result, True)], frozenset(v for v, _ in event.loops)
        outer = loop_variables(event.result) | self._inside(event.result.tensor)
        seen, waiting = {event.result.tensor}, [(event.result, True)]
        while waiting:
            view, exact = waiting.pop(0)
            held = (loop_variables(view) | self._inside(view.tensor)) & around
            for step in self._steps(view.tensor, seen):
                if not held <= {v for v, _ in step.loops}:
                    continue  # it goes over the results by loops of its own
                # Where a tensor is taken whole, a view's place in it is its place in the target.
                goal = step.target.compose(view) if _is_whole(step, view.tensor) else step.target
                seen.add(goal.tensor)
                views.append((goal, exact and step.copies))
                waiting.append(views[-1])
                reached = loop_variables(step.target) | self._inside(goal.tensor)
                # Where partial sums are added up, the target varies with fewer loops: the others
                # are the sum's.
                outer = min(outer, reached & around, key=len)
        return sorted(views, key=lambda v: self._inner(v[0])), outer

    def _inner(self, view: View) -> bool:
        """Temporaries after parameters, so that extents are those of what a caller passes."""
        return view.tensor in self.flow.allocated

    def _steps(self, tensor: str, seen: set[str]) -> Iterator[ComputedView]:
        """Where the elements of a tensor go, one by one."""
        for event in self.flow.events:
            if not isinstance(event, ComputedView) or event.target.tensor in seen:
                continue
            if any(view.tensor == tensor for view in event.aligned):
                yield event

    def _origins(self, view: View) -> Iterator[tuple[View, bool]]:
        """An operand, and what it is a copy of or, element by element, made from."""
        exact, seen = True, {view.tensor}
        yield view, True
        while True:
            steps = [
                e for e in self.flow.events
                if isinstance(e, ComputedView) and e.target.tensor == view.tensor and e.aligned
            ]  # fmt: skip
            # With several writers, parts or sources, no one tensor is what it is made from.
            if len(steps) != 1 or not steps[0].target.is_plain or len(steps[0].aligned) != 1:
                return
            step = steps[0]
            view, exact = step.aligned[0].compose(view), exact and step.copies
            if view.tensor in seen:
                return
            seen.add(view.tensor)
            yield view, exact

    def _is_computed(self, view: View, number: int) -> bool:
        """Whether an operand is computed, and not from products' results."""
        names = {v.tensor for v, exact in self._origins(view) if exact}
        return any(
            isinstance(e, ComputedView) and e.target.tensor in names and not e.copies
            for e in self.flow.events
        ) and not any(self.made.get(name) for name in names)


def _kind(result: bool, left: bool, right: bool) -> str:
    """What a loop or axis is to a product, by which of its operands vary with it."""
    match result, left, right:
        case True, True, True:
            return "batch"
        case _, True, False:
            return "rows"
        case _, False, True:
            return "columns"
        case False, True, True:
            return "sum"
    return ""


def _axis(entry: Index, role: str, kinds: Mapping[Var, str]) -> frozenset[str]:
    """What an axis of a tensor is, by the index that a product takes along it."""
    # What the tile itself walks goes first: loops count where it has one place along the axis.
    own = {axis(n): kind for n, kind in enumerate(_TILE[role])}
    tile = frozenset(own[v] for v in entry.variables() if v in own)
    return tile or frozenset(kinds[v] for v in entry.variables() if v in kinds)


def _order(loops: Loops, kinds: Mapping[Var, str]) -> tuple[str, ...]:
    walked = [kinds[v] for v, _ in loops if v in kinds]
    # Loops of one kind inside of each other, as of a sum that was cut twice, count once.
    return tuple(k for n, k in enumerate(walked) if n == 0 or walked[n - 1] != k)


def _is_whole(step: ComputedView, tensor: str) -> bool:
    """Whether a computation takes all of a tensor, so that its parts are parts of the target."""
    return any(view.tensor == tensor and view.is_plain for view in step.aligned)

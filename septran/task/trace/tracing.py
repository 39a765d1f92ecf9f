"""Run a logic once on symbolic tensors and record its task tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from septran.errors import LogicError, SepTranError, nearest
from septran.ir import expressions as ex
from septran.ir.atoms import Min, table_name
from septran.ir.bounds import greatest, least, loop_range
from septran.ir.gather import repeats
from septran.ir.index import Index, Range, Var, maximum, minimum, one_extremum
from septran.ir.views import View
from septran.location import Location
from septran.task.check.aliases import check_aliases
from septran.task.check.computed_indices import check_indices
from septran.task.check.definedness import check_defined
from septran.task.check.privileges import check_declared, with_privileges
from septran.task.check.races import check_races
from septran.task.check.scopes import check_scopes
from septran.task.errors import (
    CompositeTouchesDataError,
    EarlyExitError,
    EndlessRecursionError,
    EscapeError,
    InferenceError,
    LaunchArgumentsError,
    LeafLaunchesError,
    NotInTaskError,
    ReadOnlyError,
    ShapeError,
    UnknownTaskError,
    UnmetDemandError,
)
from septran.task.frontend.definition import Task, TensorType
from septran.task.frontend.python_errors import located_errors
from septran.task.trace.arguments import (
    bound,
    check_dtype,
    check_keywords,
    check_tensors,
    checked_dtypes,
    checked_shapes,
    checked_static,
    entry_keywords,
    not_a_tensor,
    require_chooser,
    require_none,
)
from septran.task.trace.chooser import Chooser, DefaultChooser, LaunchSite
from septran.task.trace.dims import NOTHING_DYNAMIC, named_dims, run_time_sizes
from septran.task.trace.dtype_rules import check_expression
from septran.task.trace.scans import PendingScan, settled
from septran.task.trace.symbols import BROADCAST, Expression, operand
from septran.task.trace.tensors import Tile
from septran.task.tree import (
    Assign,
    Cut,
    Launch,
    Param,
    Statement,
    StaticValue,
    TaskNode,
    TaskTree,
    TunableValue,
)

Views = Sequence[tuple[tuple[int, ...], tuple[Index, ...], str]]
"""Nominal extents, extents that exist, and the type of each tensor of a launch."""
DEPTH = 64
"""The greatest nesting of launches."""


@dataclass(frozen=True)
class Home:
    """The place of a task's tensor: a view of the entry's tensor, or of a caller's temporary."""

    view: View
    shape: tuple[int, ...]
    """The extents of the entry's tensor or the temporary."""
    temporary: bool = False
    """Whether it is a temporary of a task, not a tensor of the kernel's caller."""
    opened: int = 0
    """How many loops were open where it was allocated."""
    owner: str = ""
    """The path of the task whose temporary it is."""

    @property
    def table(self) -> str:
        """The name by which elements are read from it when the kernel runs."""
        name = self.view.tensor
        return table_name(self.owner, name) if self.temporary else name


@dataclass
class Frame:
    """A task whose body is being traced."""

    tracer: Tracer
    task: Task
    site: LaunchSite
    body: list[Statement] = field(default_factory=list)
    parallel: int = 0
    """The number of its own parallel loops that are open."""
    spread: list[Index] = field(default_factory=list)
    """How often each index of those turns."""
    tunables: dict[str, TunableValue] = field(default_factory=dict)
    launched: dict[str, int] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    """What its tunables cut, in a draft."""
    names: set[str] = field(default_factory=set)
    types: dict[str, TensorType] = field(default_factory=dict)
    homes: dict[str, Home] = field(default_factory=dict)
    """The place of each parameter and temporary of the task."""
    nest: list[tuple[Var, Index, bool]] = field(default_factory=list)
    """Its own open loops: the index, the extent, and whether it is parallel."""
    joining: bool = False
    """Whether parts are joined to what a tensor holds, which may be chosen by an index."""
    outermost: int = 0
    """The number of the first parallel one of them."""
    around: list[tuple[Callable[[], None], Callable[[], None]]] = field(default_factory=list)
    """What is to be recorded before and after the outermost parallel loop that is open."""
    slots: dict[Any, Any] = field(default_factory=dict)
    """The places for what the iterations of that loop reduce into one tensor."""
    scans: dict[str, PendingScan] = field(default_factory=dict)
    """The scans that expressions stand for, by the name of what holds their result."""
    live: bool = True
    left: Location | None = None
    """The place of a loop whose body was left by break or return, else None."""

    @property
    def ranges(self) -> dict[Var, Range]:
        """The ranges of all loop indices so far."""
        return self.tracer.ranges

    def simplified(self, view: View) -> View:
        """The view with what the loops' ranges decide decided; nothing exists of less than 0.

        In a draft all tiles are whole: its loops may turn once more than there are tiles.
        """
        if self.tracer.drafting:
            return replace(view, valid=tuple(map(Index.of, view.shape)))
        return replace(
            view,
            index=tuple(i if not i.terms else i.simplify(self.ranges) for i in view.index),
            valid=tuple(v if not v.terms else self._existing(v) for v in view.valid),
        )

    def _existing(self, valid: Index) -> Index:
        """Return an extent, 0 where a slice of a ragged tile begins behind what exists of it."""
        known = valid.simplify(self.ranges)
        told = any(True for _ in known.sizes()) or any(True for _ in known.elements())
        extrema = one_extremum(known) if told else None
        if extrema is not None and extrema[0] is Min:
            known = self._least(list(extrema[1]))
        behind = least(known, self.ranges, self.tracer.extents) < 0
        return maximum(0, known) if behind else known

    def _least(self, operands: list[Index]) -> Index:
        """The minimum of operands without those that one of the others never exceeds.

        What calls or data tell bounds loops, too: of ``min(1, B - i)`` in a loop over ``B``, 1 is
        left.
        """
        extents = self.tracer.extents
        for one in list(operands):
            rest = [other for other in operands if other is not one]
            if any(least(one - other, self.ranges, extents) >= 0 for other in rest):
                operands = rest
        return minimum(*operands)

    def require_live(self, tile: Tile) -> None:
        """Refuse tensors of other tasks; raises EscapeError."""
        if tile.frame is not current():
            raise EscapeError(
                f"{tile.name} belongs to task {tile.frame.task.name}, not to this one",
                Location.of_caller(),
                hint="pass it as an argument of launch",
            )

    def require_leaf(self, what: str) -> None:
        """Refuse an operation in composites; raises CompositeTouchesDataError."""
        if not self.task.leaf:
            raise CompositeTouchesDataError(
                f"composite task {self.task.name} {what}",
                Location.of_caller(),
                hint="put it in a leaf task (@task.define(leaf=True)) and launch that",
            )

    def require_composite(self, what: str) -> None:
        """Refuse an operation in leaves; raises LeafLaunchesError."""
        if self.task.leaf:
            raise LeafLaunchesError(
                f"leaf task {self.task.name} {what}",
                Location.of_caller(),
                hint="a leaf holds primitives and tensor expressions only",
            )

    def require_writable(self, tile: Tile) -> None:
        """Refuse to write an input; raises ReadOnlyError."""
        self.require_live(tile)
        if self.types.get(tile.name, TensorType()).privilege == "In":
            raise ReadOnlyError(
                f"{tile.name} of {self.task.name} is declared as In, but it is written",
                Location.of_caller(),
                hint="write into a tensor of its own (task.empty), or take In from its annotation",
            )
        if tile.view.padded:
            raise ReadOnlyError(
                f"a padded window of {tile.name} cannot be written",
                Location.of_caller(),
                hint="padding has no memory; write by a partition of the tensor itself",
            )
        if tile.view.scattered() and not self.joining:
            raise ReadOnlyError(
                f"{tile.name} is written through an index", Location.of_caller(),
                hint="two elements may name one row, and which of them comes last is open. Gather "
                "from the side of the result: for each of its rows say what it is read from; or "
                "join a part a time: task.reduce_into(C[index[t]], part)",
            )  # fmt: skip
        if repeats(tile.view):
            raise ReadOnlyError(
                f"overlapping windows of {tile.name} cannot be written", Location.of_caller(),
                hint="which of the values should an element get that is in several windows?",
            )  # fmt: skip

    def assign(self, target: Tile, value: Any) -> None:
        """Record ``target[:] = value``.

        Raises ShapeError, DtypeError, ReadOnlyError or EscapeError.
        """
        self.require_leaf("computes on elements")
        self.require_writable(target)
        goal = ex.Load(target.view, target.own_dtype)
        expr = settled(self, operand(value), goal)
        if expr is None:
            return
        try:
            shape, valid = ex.broadcast(goal, expr)
        except ex.ShapeMismatchError as error:
            message = f"{error} in an assignment"
            raise ShapeError(message, Location.of_caller(), hint=BROADCAST) from None
        if shape != goal.shape or valid != goal.valid:
            raise ShapeError(
                f"a value of shape {expr.shape} does not fit into {target.name} of {goal.shape}",
                Location.of_caller(),
                hint="reduce or index the value to the target's axes, or make the target as large",
            )
        self.compute(target.view, expr)

    def compute(self, target: View, expr: ex.Expr) -> None:
        """Record an expression's value; raises DtypeError or EscapeError."""
        self.require_own(expr)
        if self.tracer.check:
            check_expression(expr, Location.of_caller())
        self.body.append(Assign(target, expr, Location.of_caller()))

    def require_own(self, expr: ex.Expr) -> None:
        """Refuse an expression that reads other tasks' tensors; raises EscapeError."""
        for view in ex.loads(expr):
            if view.tensor not in self.names:
                raise EscapeError(
                    f"{view.tensor} is of another task",
                    Location.of_caller(),
                    hint="pass it to this task as a parameter when it is launched",
                )

    def take(
        self,
        name: str,
        kind: TensorType,
        given: tuple[tuple[int, ...], tuple[Index, ...], str],
        place: Location,
        home: Home | None,
    ) -> Param:
        """Return a parameter of the given extents and dtype, which lies in `home`."""
        shape, valid, dtype = given
        self.names.add(name)
        self.types[name] = kind
        self.homes[name] = home or Home(View.whole(name, shape, valid), shape)
        dims = tuple(str(d) if d is not None else "" for d in kind.dims or ())
        return Param(
            name, shape, valid, dtype, reads=False, writes=False, location=place, dims=dims,
            span=kind.span,
        )  # fmt: skip

    def begin(self, name: str, view: View, opened: int | None = None) -> None:
        """Note the place of a new temporary, in as many open loops as there are now."""
        loops = len(self.tracer.open) if opened is None else opened
        self.homes[name] = Home(
            view, view.shape, temporary=True, opened=loops, owner=self.site.path
        )

    def home(self, view: View) -> Home:
        """Return the place of a view of this task's tensor."""
        held = self.homes[view.tensor]
        return replace(held, view=held.view.compose(view))

    def fresh(self, name: str) -> str:
        """Return a name that nothing in this task has yet."""
        unique, number = name, 1
        while unique in self.names:
            number += 1
            unique = f"{name}_{number}"
        self.names.add(unique)
        return unique


@dataclass
class Tracer:
    """One trace: the open tasks, the open loops, the chooser."""

    chooser: Chooser
    dims: dict[str, int] = field(default_factory=dict)
    static: dict[str, StaticValue] = field(default_factory=dict)
    ranges: dict[Var, Range] = field(default_factory=dict)
    extents: dict[Var, Index] = field(default_factory=dict)
    """The number of iterations of each loop, outer loops first."""
    open: list[Var] = field(default_factory=list)
    """The indices of the loops that are open now."""
    frames: list[Frame] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)
    check: bool = True
    """Whether races, privileges and demands are checked."""
    demand: UnmetDemandError | None = None
    """The first demand that was not met in a trace without checks, whose sizes may be made up."""
    drafting: bool = False
    """Whether this is a draft, for the structure of what is launched alone."""
    drafts: dict[str, TaskNode] = field(default_factory=dict)
    """What drafts have found, by path: each task by its own decomposition."""

    @property
    def given(self) -> Mapping[str, TunableValue]:
        """Tunables that whoever traces gives, whatever a mapping says."""
        given: Mapping[str, TunableValue] = getattr(self.chooser, "given", {})
        return given

    def unmet(self, demand: UnmetDemandError) -> None:
        """Raise for a demand that is not met, or remember it in a trace without checks."""
        if self.check:
            raise demand
        self.demand = self.demand or demand

    def range_of(self, extent: Index) -> Range:
        """The range of a loop's index; in a draft never of one value, lest the loop be unseen."""
        low, high = loop_range(extent, self.ranges)
        return low, max(high, 1) if self.drafting else high

    def variable(self, letter: str) -> Var:
        """Return a loop index that is unique in the tree."""
        number = self.variables.get(letter, 0)
        self.variables[letter] = number + 1
        return Var(f"{letter}_{number}" if number else letter)

    def run(
        self,
        task: Task,
        views: Views,
        keywords: Mapping[str, Any],
        where: Location,
        homes: Sequence[Home] | None = None,
    ) -> TaskNode:
        """Trace one launch of `task` with parameters of the given extents and dtypes."""
        site = self._site(task, views, where, homes or [])
        site = replace(site, draft=Draft(self, task, site, views, keywords, where, homes or []))
        if site.level >= DEPTH:
            raise EndlessRecursionError(
                f"tasks are nested {DEPTH} deep at {task.name}", where,
                hint="a task that launches itself needs a variant that is a leaf",
            )  # fmt: skip
        # The variant is chosen before the body is traced, as the body's tunables depend on it.
        body = self._chosen(task, site, where)
        if body is not task and site.path in self.drafts:
            # A rule has looked at the task's own tasks; the variant's replace those.
            site.draft(body.variant)  # what it launches is now what is below
        return self.traced(body, site, views, keywords, where, homes)

    def traced(
        self,
        body: Task,
        site: LaunchSite,
        views: Views,
        keywords: Mapping[str, Any],
        where: Location,
        homes: Sequence[Home] | None,
    ) -> TaskNode:
        """Trace one launch by the decomposition `body`."""
        # A built-in leaf has no line in a logic file, so the line of its launch stands for it.
        place = where if body.builtin else body.location
        frame = Frame(self, body, replace(site, variant=body.variant, leaf=body.leaf))
        lying: Sequence[Home | None] = homes or [None] * len(views)
        params = [
            frame.take(name, kind, view, place, home)
            for (name, kind), view, home in zip(body.tensors, views, lying, strict=True)
        ]
        self._call(frame, params, keywords, where)
        node = TaskNode(
            site.task, body.variant, site.path, body.leaf, tuple(params), tuple(frame.body),
            tuple(frame.tunables.items()), site.parallel, site.level, place, body.doc,
            body.builtin,
        )  # fmt: skip
        if self.drafting:
            return replace(node, cuts=tuple(frame.cuts))
        # Checked for each task when it is complete: an error then names the innermost launch.
        check_scopes(node.body, frozenset(self.open))
        node = with_privileges(node, self.ranges)
        if self.check:
            check_declared(node, frame.types, where)
            check_races(node, self.ranges)
        return node

    def _call(
        self, frame: Frame, params: Sequence[Param], keywords: Mapping[str, Any], where: Location
    ) -> None:
        """Run the body of a task, whose statements are added to its frame."""
        tiles = {p.name: Tile(frame, View.whole(p.name, p.shape, p.valid), p.dtype) for p in params}
        self.frames.append(frame)
        try:
            with located_errors(frame.task.name), self._blaming(frame):
                result = frame.task.function(**tiles, **bound(frame.task, keywords, where))
            require_none(result, frame.task)
            if frame.left is not None:
                raise EarlyExitError(
                    f"a loop of {frame.site.task} is left before its end", frame.left,
                    hint="the body runs once while tracing; let the loop's extent say where "
                    "it ends (task.least, task.greatest)",
                )  # fmt: skip
        finally:
            self.frames.pop()
            frame.live = False

    @contextmanager
    def _blaming(self, frame: Frame) -> Iterator[None]:
        """Let the chooser report a mistake as one of its choice, not of the logic."""
        try:
            yield
        except LogicError as error:
            blamed = getattr(self.chooser, "blamed", None)
            other = blamed(frame.site, error) if blamed else error
            if other is error:
                raise
            raise other from None

    def _site(
        self,
        task: Task,
        views: Views,
        where: Location,
        homes: Sequence[Home],
    ) -> LaunchSite:
        caller = self.frames[-1] if self.frames else None
        names = [name for name, _ in task.tensors]
        path = task.name
        if caller is not None:
            count = caller.launched[task.name] = caller.launched.get(task.name, 0) + 1
            path = f"{caller.site.path}/{task.name}" + (f"#{count}" if count > 1 else "")
        level = caller.site.level + 1 if caller else 0
        return LaunchSite(
            task.name, tuple(task.variants), path, level, task.leaf,
            bool(caller and caller.parallel),
            {n: v[0] for n, v in zip(names, views, strict=True)},
            {n: v[2] for n, v in zip(names, views, strict=True)},
            caller.site.path if caller else None, where, dict(self.dims), "", dict(self.static),
            task.builtin,
            # An entry has no homes: its parameters lie in themselves.
            homes=dict(zip(names, (home.view for home in homes), strict=False))
            or {n: View.whole(n, v[0], v[1]) for n, v in zip(names, views, strict=True)},
            ranges=self.ranges,
            opened={
                # `opened` counts the loops that were open then, so those behind it are inside.
                n: frozenset(self.open[home.opened :])
                for n, home in zip(names, homes, strict=False)
            },
            iterations=self._iterations(caller),
        )  # fmt: skip

    def _iterations(self, caller: Frame | None) -> int:
        """How often the parallel loops turn in which a task is launched now; 0 without any."""
        extents = caller.spread if caller else []
        return math.prod(greatest(extent, self.ranges) for extent in extents) if extents else 0

    def _chosen(self, task: Task, site: LaunchSite, where: Location) -> Task:
        # The rest of the choice is the mapping's.
        if task.base is not None:  # the author launches this very decomposition
            return task
        name = self.chooser.variant(site)
        if name is None or name == task.variant:
            return task
        if name not in task.variants:
            known = [task.variant, *task.variants]
            raise UnknownTaskError(
                f"task {task.name} has no variant {name!r}", where, hint=nearest(name, known)
            )
        chosen = task.variants[name]
        if [n for n, _ in chosen.tensors] != [n for n, _ in task.tensors]:
            raise LaunchArgumentsError(
                f"variant {name} has other parameters than {task.name}",
                chosen.location,
                hint="all variants of a task take the same tensors in the same order",
            )
        return chosen


@dataclass(frozen=True)
class Draft:
    """A launch that can be traced before anything is chosen for it and for what is below it.

    Nothing is checked, loops of one iteration are seen as loops, tunables have their defaults,
    and what goes wrong is no mistake: whoever asks then knows nothing of the structure.
    """

    tracer: Tracer
    task: Task
    site: LaunchSite
    views: Views
    keywords: Mapping[str, Any]
    where: Location
    homes: Sequence[Home]

    def __call__(self, variant: str) -> TaskNode | None:
        """The task by its own decomposition, or by the variant of that name."""
        own = variant in ("", self.task.variant)
        body = self.task if own else self.task.variants.get(variant)
        if body is None:
            return None
        # A task is launched once at each path, so its draft is made once.
        found = self.tracer.drafts.get(self.site.path) if own else None
        if found is not None:
            return found
        made = self._traced(body)
        for node in made.walk() if made else ():
            if node is not made or own:
                self.tracer.drafts[node.path] = node
        return made

    def _traced(self, body: Task) -> TaskNode | None:
        outer = self.tracer
        # Copies, so that nothing of a draft is left in the trace that asks for it.
        inner = Tracer(
            DefaultChooser(outer.given), dict(outer.dims), dict(outer.static), dict(outer.ranges),
            dict(outer.extents), list(outer.open), variables=dict(outer.variables), check=False,
            drafting=True,
        )  # fmt: skip
        # Tiles that the caller passes are whole, too, as those that the draft cuts are.
        views = [(shape, tuple(map(Index.of, shape)), dtype) for shape, _, dtype in self.views]
        homes = list(self.homes) or None
        try:
            with _tracing(inner):
                return inner.traced(body, self.site, views, self.keywords, self.where, homes)
        except SepTranError:
            return None


_ACTIVE: ContextVar[Tracer | None] = ContextVar("_ACTIVE", default=None)
"""The innermost trace of this context: threads may trace at the same time."""


def current() -> Frame:
    """Return the task being traced; raises NotInTaskError outside of one."""
    tracer = _ACTIVE.get()
    if tracer is None or not tracer.frames:
        raise NotInTaskError(
            "this can only be used in a task that SepTran traces", Location.of_caller(),
            hint="call it in a function with @task.define, and run that by task.run or compile",
        )  # fmt: skip
    return tracer.frames[-1]


@contextmanager
def _tracing(tracer: Tracer) -> Iterator[None]:
    outer = _ACTIVE.set(tracer)
    try:
        yield
    finally:
        _ACTIVE.reset(outer)


def trace(
    logic: Task,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, str] | None = None,
    chooser: Chooser | None = None,
    static: Mapping[str, Any] | None = None,
    *,
    check: bool = True,
    dynamic: Mapping[str, int] = NOTHING_DYNAMIC,
) -> TaskTree:
    """Return the task tree of `logic` for tensors of `shapes` and `dtypes` (float32 where missing).

    `dynamic` names dimensions whose extent is known only when the kernel is called, from the given
    one on; `shapes` has the greatest.

    Raises:
        LogicError: of one of the classes in `septran.task.errors`.
    """
    shapes = checked_shapes(logic, shapes)
    given, kinds = checked_static(logic, static), checked_dtypes(logic, dtypes)
    dims = named_dims(logic, shapes, given)
    tracer = Tracer(require_chooser(chooser), dims, check=check)
    views = []
    sizes = run_time_sizes(logic, shapes, dims, given, dynamic)
    for name, kind in logic.tensors:
        if name not in shapes:
            raise InferenceError(
                f"the shape of {name} is not known", logic.location,
                hint=f"trace takes the shapes of all tensors: add {name!r}: (...)",
            )  # fmt: skip
        shape = shapes[name]
        dtype = kinds.get(name) or kind.dtype or "float32"
        check_dtype(logic, name, kind.dtype, dtype, logic.location)
        views.append((shape, sizes.get(name) or tuple(map(Index.of, shape)), dtype))
    scalars, keywords = entry_keywords(logic, given)
    tracer.static = fixed = {k: v for k, v in keywords.items() if not isinstance(v, Expression)}
    with _tracing(tracer):
        try:
            root = tracer.run(logic, views, keywords, logic.location)
            root = _with_tables(root, tracer.ranges)
        except LogicError:
            if tracer.demand is None:
                raise
            raise tracer.demand from None  # what failed then need not work at all
    unfollowed = check_defined(root, tracer.ranges) if check else ()
    flags = tuple(sorted(fixed.items()))
    named = tuple(dims.items())
    return TaskTree(root, scalars, flags, named, logic.file, unfollowed, tracer.drafts)


def _with_tables(root: TaskNode, ranges: Mapping[Var, Range]) -> TaskNode:
    """An entry whose tensors of indices are read, though no statement reads them as numbers."""
    tables = check_indices(root, ranges)
    if not tables:
        return root
    params = (
        replace(p, reads=True, places=tables[p.name]) if p.name in tables else p
        for p in root.params
    )
    return replace(root, params=tuple(params))


def launch(task: Any, *arguments: Any, **keywords: Any) -> None:
    """Run `task` on views; keywords are its scalars and static flags.

    Raises:
        LeafLaunchesError, LaunchArgumentsError, EscapeError: with the line of the launch.
    """
    frame, where = current(), Location.of_caller()
    if not isinstance(task, Task):
        raise LaunchArgumentsError(
            f"{task!r} is not a task", where, hint="decorate the function with @task.define"
        )
    frame.require_composite(f"launches {task.name}")
    if len(arguments) != len(task.tensors):
        names = ", ".join(n for n, _ in task.tensors)
        raise LaunchArgumentsError(
            f"{task.name} takes {len(task.tensors)} tensors ({names}), "
            f"but {len(arguments)} are given", where,
            hint="tensors are passed by position, in this order",
        )  # fmt: skip
    views, homes = [], []
    for (name, _), tile in zip(task.tensors, arguments, strict=True):
        if not isinstance(tile, Tile):
            message, hint = f"argument {name} of {task.name} is not a tensor", not_a_tensor(tile)
            raise LaunchArgumentsError(message, where, hint=hint)
        frame.require_live(tile)
        views.append((tile.view.shape, tile.view.valid, tile.own_dtype))
        homes.append(frame.home(tile.view))
    tiles = dict(zip((name for name, _ in task.tensors), arguments, strict=True))
    check_keywords(task, keywords, where)
    check_tensors(task, tiles, keywords, where, dtypes=frame.tracer.check)
    node = frame.tracer.run(task, views, keywords, where, homes)
    # Which parameters a task writes is known only now that it has been traced.
    for param, tile in zip(node.params, arguments, strict=True):
        if param.writes:
            frame.require_writable(tile)
    passed = tuple(t.view for t in arguments)
    if frame.tracer.check:
        check_aliases(node, passed, frame.ranges, where)
    frame.body.append(Launch(node, passed, where))

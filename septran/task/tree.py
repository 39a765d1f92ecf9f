"""The task tree: the result of tracing a logic, against which a mapping is resolved.

Every node is specialised to its launch: extents are integers, loop indices of the
callers may occur in it, and loop indices are unique in the whole tree. Within a task,
views name the task's own parameters and temporaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

from septran.ir.expressions import Expr
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.location import Location
from septran.stage import Stage

TunableValue = Union[int, str, float, bool]
StaticValue = Union[TunableValue, tuple[int, ...]]


@dataclass(frozen=True)
class Param:
    """A tensor parameter of a task."""

    name: str
    shape: tuple[int, ...]
    """The nominal extents."""
    valid: tuple[Index, ...]
    """The extents that exist."""
    dtype: str
    reads: bool
    """Whether its initial content matters: an element is read before it is written."""
    writes: bool
    location: Location = field(compare=False)
    dims: tuple[str, ...] = ()
    """The names of its dimensions where annotated."""
    accumulates: bool = False
    """Whether a primitive adds to it."""
    joins: str = ""
    """The function by which parts are joined, of which no order is wrong, if nothing else is done.

    An empty text for none.
    """
    places: int | None = None
    """Of an entry's tensor of indices: each is at least 0 and less than this."""
    span: tuple[int, int] | None = None
    """Of an integer that a call tells, the least and the greatest that it may be."""

    @property
    def privilege(self) -> str:
        """The privilege as a word: ``read``, ``write`` or ``read-write``."""
        return "read-write" if self.reads and self.writes else "write" if self.writes else "read"


@dataclass(frozen=True)
class Allocate:
    """A temporary that lives from here to the end of its task."""

    name: str
    shape: tuple[int, ...]
    valid: tuple[Index, ...]
    dtype: str
    fill: float | int | None
    """The initial content of every element; None where it is undefined."""
    location: Location = field(compare=False)
    scans: bool = False
    """Whether it holds what a scan by a function of the logic has joined so far."""


@dataclass(frozen=True)
class Primitive:
    """A named operation on tiles; `operands[0]` is written (primitives.py)."""

    name: str
    operands: tuple[View, ...]
    attributes: tuple[tuple[str, TunableValue], ...]
    location: Location = field(compare=False)


@dataclass(frozen=True)
class Assign:
    """``target[:] = value`` for the extents that exist."""

    target: View
    value: Expr
    location: Location = field(compare=False)


@dataclass(frozen=True)
class Launch:
    """A run of `task` on `arguments`, views of the caller's tensors, one for each parameter."""

    task: TaskNode
    arguments: tuple[View, ...]
    location: Location = field(compare=False)


@dataclass(frozen=True)
class Loop:
    """An iteration of `body` for ``var = 0 .. extent - 1``; extents may use outer indices."""

    variables: tuple[Var, ...]
    extents: tuple[Index, ...]
    parallel: bool
    body: tuple[Statement, ...]
    location: Location = field(compare=False)


Statement = Union[Allocate, Primitive, Assign, Launch, Loop]


@dataclass(frozen=True)
class ScalarParam:
    """A run-time scalar of the entry task."""

    name: str
    dtype: str
    default: float | int | None = None


@dataclass(frozen=True)
class Cut:
    """An axis that is partitioned in tiles as long as a tunable says."""

    tunable: str
    tensor: str
    axis: int | None
    """The axis of the task's tensor; None where a view merges several."""
    extent: int
    """Its nominal extent in the draft that found it."""


@dataclass(frozen=True)
class TaskNode:
    """One task as specialised for one launch."""

    name: str
    """The name of the task, by which it is launched."""
    variant: str
    """The name of the function that was traced: the task itself or a variant of it."""
    path: str
    """A unique name in the tree: ``gemm/gemm_block/gemm_tile``, with ``#2`` for a second launch."""
    leaf: bool
    params: tuple[Param, ...]
    body: tuple[Statement, ...]
    tunables: tuple[tuple[str, TunableValue], ...]
    """The values of the tunables that the body reads, in order of first use."""
    parallel: bool
    """Whether it is launched from a parallel loop."""
    level: int
    """The number of launches between the entry (0) and this task."""
    location: Location = field(compare=False)
    doc: str = field(default="", compare=False)
    builtin: bool = False
    """Whether it is the language's own `fill` or `copy`, not an author's task of that name."""
    cuts: tuple[Cut, ...] = field(default=(), compare=False, repr=False)
    """What its tunables cut; of a draft alone."""

    def launches(self) -> Iterator[Launch]:
        """Yield the launches in the task's own body, in program order."""
        for statement in statements(self.body):
            if isinstance(statement, Launch):
                yield statement

    def walk(self) -> Iterator[TaskNode]:
        """Yield this task and all below it, callers first."""
        yield self
        for launch in self.launches():
            yield from launch.task.walk()


@dataclass(frozen=True)
class TaskTree(Stage):
    """A logic traced for given shapes, dtypes, tunables and static flags."""

    root: TaskNode
    scalars: tuple[ScalarParam, ...] = ()
    static: tuple[tuple[str, StaticValue], ...] = ()
    dims: tuple[tuple[str, int], ...] = ()
    """The named dimensions and their extents."""
    file: str = field(default="", compare=False)
    """The path of the logic file, for display."""
    unfollowed: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Temporaries, by path and name, for which undefined reads were not ruled out."""
    drafts: Mapping[str, TaskNode] = field(default_factory=dict, compare=False, repr=False)
    """Tasks by path as they were traced before their variants and tunables were chosen."""

    @property
    def name(self) -> str:
        """The name of the entry task."""
        return self.root.name

    def tasks(self) -> Iterator[TaskNode]:
        """Yield all tasks, callers first."""
        return self.root.walk()

    def __str__(self) -> str:
        from septran.task.printer import to_text

        return to_text(self)

    def task(self, path: str) -> TaskNode:
        """Return the task at `path`; raises KeyError where there is none."""
        for node in self.tasks():
            if node.path == path:
                return node
        raise KeyError(path)


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements of a body, loops before their bodies, without those of launched tasks."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)

"""The task tree: what tracing a logic gives, and what a mapping is resolved against.

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


@dataclass(frozen=True)
class Param:
    """A tensor parameter of a task."""

    name: str
    shape: tuple[int, ...]
    """Nominal extents."""
    valid: tuple[Index, ...]
    """Extents that exist."""
    dtype: str
    reads: bool
    """Whether its first content matters (read before it is fully written)."""
    writes: bool
    location: Location = field(compare=False)
    dims: tuple[str, ...] = ()
    """Names of its dimensions where annotated."""
    accumulates: bool = False
    """Whether a primitive sums into it."""

    @property
    def privilege(self) -> str:
        """``read``, ``write`` or ``read-write``."""
        return "read-write" if self.reads and self.writes else "write" if self.writes else "read"


@dataclass(frozen=True)
class Allocate:
    """A temporary that lives from here to the end of its task."""

    name: str
    shape: tuple[int, ...]
    valid: tuple[Index, ...]
    dtype: str
    fill: float | int | None
    """Its first content; None when undefined."""
    location: Location = field(compare=False)


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
    """Run `task` on `arguments`, views of the caller's tensors, one a parameter."""

    task: TaskNode
    arguments: tuple[View, ...]
    location: Location = field(compare=False)


@dataclass(frozen=True)
class Loop:
    """Iterate `body` for ``var = 0 .. extent - 1``; extents may use outer indices."""

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
class TaskNode:
    """One task as specialised for one launch."""

    name: str
    """The task's name: what `launch` named."""
    variant: str
    """The function that was traced: the task itself or a variant of it."""
    path: str
    """Unique in the tree: ``gemm/gemm_block/gemm_tile``, with ``#2`` for a second launch."""
    leaf: bool
    params: tuple[Param, ...]
    body: tuple[Statement, ...]
    tunables: tuple[tuple[str, TunableValue], ...]
    """The values that were used, in order of first use."""
    parallel: bool
    """Whether it is launched from a parallel loop."""
    level: int
    """Launches between the entry (0) and this task."""
    location: Location = field(compare=False)
    doc: str = field(default="", compare=False)
    builtin: bool = False
    """Whether it is the language's `fill` or `copy`, and not a task of the author's so called."""

    def launches(self) -> Iterator[Launch]:
        """The launches in its own body, in program order."""
        for statement in statements(self.body):
            if isinstance(statement, Launch):
                yield statement

    def walk(self) -> Iterator[TaskNode]:
        """This task and all below it, callers first."""
        yield self
        for launch in self.launches():
            yield from launch.task.walk()


@dataclass(frozen=True)
class TaskTree(Stage):
    """A logic traced for given shapes, dtypes, tunables and static flags."""

    root: TaskNode
    scalars: tuple[ScalarParam, ...] = ()
    static: tuple[tuple[str, TunableValue], ...] = ()
    dims: tuple[tuple[str, int], ...] = ()
    """Named dimensions and their extents."""
    file: str = field(default="", compare=False)
    """The logic file, for display."""
    unfollowed: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Temporaries, by path and name, that may be read where nobody has written them."""
    drafts: Mapping[str, TaskNode] = field(default_factory=dict, compare=False, repr=False)
    """Tasks by path as they were traced before their variants and tunables were chosen."""

    @property
    def name(self) -> str:
        """The entry task's name."""
        return self.root.name

    def tasks(self) -> Iterator[TaskNode]:
        """All tasks, callers first."""
        return self.root.walk()

    def __str__(self) -> str:
        from septran.task.printer import to_text

        return to_text(self)

    def task(self, path: str) -> TaskNode:
        """The task at `path`; KeyError where there is none."""
        for node in self.tasks():
            if node.path == path:
                return node
        raise KeyError(path)


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements of a body, loops before what is in them; not those of launched tasks."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)

"""Tile IR: a tile-level program in which every copy and synchronisation is a node.

About ten node types, frozen dataclasses. Every node has an `Origin` that names the logic
line, the mapping line and the rule that made it; passes keep it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Union

from septran.ir.atoms import CallExtent
from septran.ir.expressions import Expr, Position, walk
from septran.ir.index import ZERO, Index, IndexLike, Var
from septran.ir.views import View
from septran.location import Location
from septran.machine.model import Machine
from septran.stage import Stage
from septran.task.tree import ScalarParam, TaskNode, TunableValue
from septran.tile.layouts import ROW, Layout
from septran.tile.records import LoopSchedule, Placement


@dataclass(frozen=True)
class Origin:
    """The source places of a node, and the reason for it."""

    task: str
    """The path of the task instance: ``gemm/gemm_block``."""
    instance: str
    """The name of the mapping instance, or of the rule, that placed the task."""
    logic: Location | None
    mapping: Location | None
    """The mapping line that decided; None where a default of the machine did."""
    rule: str
    """One sentence of reason: ``A is GLOBAL in gemm and L2 in gemm_block, so it is copied in``."""

    def __str__(self) -> str:
        places = ", ".join(str(place) for place in (self.logic, self.mapping) if place)
        return f"{self.rule} [{places}]" if places else self.rule


@dataclass(frozen=True)
class Buffer:
    """Storage in one memory; its scope is the smallest body that holds all its uses."""

    name: str
    memory: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout = ROW
    stages: int = 1
    """The number of instances, through which a pipelined loop cycles."""
    tensor: str = ""
    """The logic's tensor that it holds, for display."""
    origin: Origin | None = field(default=None, compare=False)
    asked: Location | None = field(default=None, compare=False)
    """The entry of the mapping that asks for its layout."""
    kept: tuple[Var, ...] = ()
    """Loops over whose iterations it keeps its content, though all its uses are inside."""
    own: tuple[Var, ...] = ()
    """Parallel loops inside of which it is made: each iteration has its own."""
    exists: tuple[Index, ...] = ()
    """The extents of a caller's tensor where some are known only when the kernel is called.

    `shape` then has the greatest that they may be; empty where they are those of `shape`.
    """

    @property
    def extents(self) -> tuple[Index, ...]:
        """The extents that its rows and planes are apart by."""
        return self.exists or tuple(map(Index.of, self.shape))

    def renamed(self, values: Mapping[Var, IndexLike], unit: Var) -> Buffer:
        """Return the buffer for a loop over `unit` that replaces the loops over `values`."""
        mine = tuple(v for v in self.own if v not in values)
        # Made inside of some of these loops only, it is shared by iterations of several units.
        whole = len(mine) + len(values) == len(self.own)
        return replace(self, own=(*mine, unit)) if whole else self


@dataclass(frozen=True)
class Region(View):
    """A view of a buffer; `tensor` is the buffer's name."""

    stage: Index = ZERO
    """The index of the buffer's stage."""

    @property
    def buffer(self) -> str:
        """The name of the buffer."""
        return self.tensor

    @staticmethod
    def all_of(buffer: Buffer, valid: tuple[Index, ...] | None = None) -> Region:
        """Return a region of all of a buffer that exists."""
        view = View.whole(buffer.name, buffer.shape, valid)
        return Region(view.tensor, view.index, view.shape, view.valid)

    def substitute(self, values: Mapping[Var, IndexLike]) -> Region:
        """Return the region with loop indices replaced in its map, extents and stage."""
        return replace(super().substitute(values), stage=self.stage.substitute(values))

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.stage == ZERO else f"{text}@{self.stage}"


@dataclass(frozen=True)
class Channel:
    """A ring of stages between the asynchronous copies that fill buffers and their readers.

    Its fills are numbered from 0 in the smallest body that holds all its nodes: where that
    is the body of a loop, each iteration starts anew with every slot free. A channel of
    copies *out of* `buffers` has `Commit` and `Wait` only: once a fill has landed, what it
    was copied from may be overwritten.
    """

    name: str
    engine: str
    stages: int
    buffers: tuple[str, ...]
    """The buffers whose stages advance together."""
    origin: Origin = field(compare=False)


@dataclass(frozen=True)
class Copy:
    """A move of a region, which changes the layout where the buffers' layouts differ.

    Elements that do not exist in `source` but do in `target`'s nominal shape are left
    undefined unless `zero_fill`.
    """

    target: Region
    source: Region
    engine: str
    processor: str
    """The level that issues it."""
    origin: Origin = field(compare=False)
    channel: str | None = None
    """The channel on which its completion is waited for; None for a synchronous copy."""
    zero_fill: bool = False
    multicast: tuple[tuple[Var, int], ...] = ()
    """Loops over the blocks of a cluster, with extents, on which the copy does not depend.

    Each of those blocks copies a part and sends it to all of them.
    """
    optional: bool = False
    """Whether it may be left out where it costs more than it saves: ``[NONE, L2]``."""

    @property
    def receivers(self) -> int:
        """The number of blocks that receive what one of them copies."""
        return math.prod(extent for _, extent in self.multicast)


@dataclass(frozen=True)
class Compute:
    """A primitive or a tensor expression on regions, by one instruction.

    `operands[0]` is written. For ``map`` the value is `expression`, whose loads are
    regions; `operands[1:]` list them.
    """

    primitive: str
    """A name of `ir.primitives`, or ``map``."""
    operands: tuple[Region, ...]
    instruction: str
    processor: str
    origin: Origin = field(compare=False)
    attributes: tuple[tuple[str, TunableValue], ...] = ()
    expression: Expr | None = None
    accumulates: bool = False
    """Whether `operands[0]` is read as well."""
    meaning: TaskNode | None = None
    """Of a function of the user's (``extern``), the leaf that it computes."""


@dataclass(frozen=True)
class Acquire:
    """Wait until the slot of fill number `index` is free again (its last reader released it).

    The first `stages` fills find their slots free.
    """

    channel: str
    index: Index
    origin: Origin = field(compare=False)


@dataclass(frozen=True)
class Commit:
    """All copies issued on the channel since the last commit are fill number `index`."""

    channel: str
    index: Index
    origin: Origin = field(compare=False)


@dataclass(frozen=True)
class Wait:
    """Wait until fill number `index` has arrived; returns at once where it is below 0."""

    channel: str
    index: Index
    origin: Origin = field(compare=False)


@dataclass(frozen=True)
class Release:
    """The reader is done with fill number `index`; its slot may be filled again."""

    channel: str
    index: Index
    origin: Origin = field(compare=False)


@dataclass(frozen=True)
class Barrier:
    """A point that all units of a processor level that run this body reach before any goes on."""

    processor: str
    origin: Origin = field(compare=False)


@dataclass(frozen=True)
class For:
    """``for variable in range(extent)``."""

    variable: Var
    extent: Index
    kind: str
    """``parallel`` (any order), ``sequential`` or ``unrolled``."""
    processor: str | None
    """The level whose units share the iterations; None when one unit runs them all."""
    body: tuple[Node, ...]
    origin: Origin = field(compare=False)
    pipeline: int = 1
    """The stages of the asynchronous copies in it; `LoopSchedule` has the number requested."""
    specialize: bool = False
    """Whether a role of its own issues its copies ahead."""
    cluster: bool = False
    """Whether its iterations are the blocks of one cluster, which run at the same time."""


@dataclass(frozen=True)
class Role:
    """A body that one group of processors runs beside the other roles at its place."""

    name: str
    """``producer``, ``consumer``, ``consumer 1``, ..."""
    processor: str
    count: int
    body: tuple[Node, ...]
    origin: Origin = field(compare=False)
    registers: int | None = None
    """The registers of each thread, None where the mapping does not say."""
    pingpong: bool = False
    """Whether its units issue the products of a loop alternately (ping-pong), not together."""


Node = Union[Copy, Compute, Acquire, Commit, Wait, Release, Barrier, For, Role]


@dataclass(frozen=True)
class Remark:
    """A decision, or why something was not done, and what to change to have it."""

    kind: str
    """``decision``, ``missed`` (an optimisation not applied), ``no-effect``, or ``unchecked``."""
    about: str
    """The task path, buffer or mapping key that it is about."""
    message: str
    hint: str | None = None
    """The YAML change that would help."""
    where: Location | None = field(default=None, compare=False)
    passed: str = ""
    """The name of the pass that made it."""


@dataclass(frozen=True)
class RemovedCopy:
    """A copy that a pass removed, kept for the ledger."""

    copy: Copy
    by: str
    """The name of the pass."""
    reason: str
    trips: int


@dataclass(frozen=True)
class TileProgram(Stage):
    """A program that says what runs where, with every movement visible."""

    name: str
    machine: Machine
    params: tuple[str, ...]
    """The buffers that the caller passes, in order."""
    outputs: tuple[str, ...]
    """Those of `params` that are written."""
    scalars: tuple[ScalarParam, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    channels: tuple[Channel, ...] = ()
    plan: tuple[Placement, ...] = ()
    remarks: tuple[Remark, ...] = ()
    removed: tuple[RemovedCopy, ...] = ()
    requests: tuple[LoopSchedule, ...] = ()
    """The schedule of each task instance with loops or copies, in program order."""

    def __str__(self) -> str:
        from septran.tile.printer import to_text  # the printer imports this module

        return to_text(self)

    def sizes(self) -> tuple[CallExtent, ...]:
        """The extents that are known only when the kernel is called, in the parameters' order."""
        extents = (e for name in self.params for e in self.buffer(name).exists)
        return tuple(dict.fromkeys(size for extent in extents for size in extent.sizes()))

    def request(self, task: str) -> LoopSchedule:
        """The schedule that the mapping requests for the task at a path, else the default."""
        return next((r for r in self.requests if r.task == task), LoopSchedule(task))

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name; raises KeyError where there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def channel(self, name: str) -> Channel:
        """Return the channel of that name; raises KeyError where there is none."""
        for channel in self.channels:
            if channel.name == name:
                return channel
        raise KeyError(name)

    def remark(self, *remarks: Remark) -> TileProgram:
        """Return the program with further remarks, each kept once."""
        fresh = tuple(r for r in remarks if r not in self.remarks)
        return replace(self, remarks=self.remarks + fresh) if fresh else self


def nodes(body: tuple[Node, ...]) -> Iterator[Node]:
    """Yield all nodes, loops and roles before their bodies."""
    found: list[Node] = []
    _gather(body, found)
    return iter(found)


_HOLDERS = (For, Role)
"""The nodes with a body, as a tuple: a union would be made anew wherever it is written."""


def _gather(body: tuple[Node, ...], found: list[Node]) -> None:
    for node in body:
        found.append(node)
        if isinstance(node, _HOLDERS):
            _gather(node.body, found)


def rewrite(body: tuple[Node, ...], change: Callable[[Node], tuple[Node, ...]]) -> tuple[Node, ...]:
    """Return a body with every node replaced by zero or more, innermost first."""
    result: list[Node] = []
    for node in body:
        if isinstance(node, For | Role):
            node = replace(node, body=rewrite(node.body, change))
        result += change(node)
    return tuple(result)


def regions(node: Node) -> tuple[Region, ...]:
    """Return the regions that a node itself touches."""
    match node:
        case Copy():
            return (node.target, node.source)
        case Compute():
            return node.operands
        case _:
            return ()


def reads(node: Node) -> tuple[Region, ...]:
    """Return the regions that a node reads."""
    match node:
        case Copy():
            return (node.source,)
        case Compute():
            return node.operands if node.accumulates else node.operands[1:]
        case _:
            return ()


def views(node: Node) -> tuple[View, ...]:
    """Return the regions that a node touches, and the views whose positions it computes with."""
    if not isinstance(node, Compute) or node.expression is None:
        return regions(node)
    positions = (e.view for e in walk(node.expression) if isinstance(e, Position))
    return (*regions(node), *positions)


def tables(node: Node) -> tuple[str, ...]:
    """Return the tensors of integers whose elements a node itself reads as indices or counts."""
    counts = node.extent.elements() if isinstance(node, For) else ()
    elements = (e for view in views(node) for e in view.elements())
    return tuple(dict.fromkeys(e.tensor for e in (*counts, *elements)))


def writes(node: Node) -> tuple[Region, ...]:
    """Return the regions that a node writes."""
    match node:
        case Copy():
            return (node.target,)
        case Compute():
            return node.operands[:1]
        case _:
            return ()

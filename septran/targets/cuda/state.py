"""The state that the emitters of one kernel share from node to node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from septran.ir.index import Index
    from septran.targets.cuda.context import Threads
    from septran.targets.cuda.fragment.fragments import Fragment
    from septran.targets.cuda.fragment.statements import Split
    from septran.targets.cuda.run.instrumentation import Marks
    from septran.targets.cuda.sync.channels import BarrierRing
    from septran.tile.nodes import Compute, Node, Role


@dataclass
class InFlight:
    """Asynchronous work that the code so far has issued and not waited for."""

    products: list[Compute] = field(default_factory=list)
    """The products that are under way, the oldest first."""
    overlapped: dict[str, None] = field(default_factory=dict)
    """Buffers in registers that were computed since a product was issued."""


@dataclass
class KernelState:
    """One field a fact; each is set by the module that its comment names."""

    # lowering
    uniform: frozenset[str] = frozenset()
    """Buffers of which every node touches the same extents."""
    splits: dict[int, Split] = field(default_factory=dict)
    """What is done element by element, by the node's identity."""
    domains: dict[int, Fragment] = field(default_factory=dict)
    """The fragment over which a statement's iterations are spread, by its identity."""
    # roles
    body: tuple[Node, ...] = ()
    """The nodes of the whole kernel."""
    roles: dict[int, Threads] = field(default_factory=dict)
    """The threads of each role, by its identity; empty where all threads do the same."""
    alone: bool = False
    """Whether registers are handed from role to role, so that no other block fits beside."""
    registers: int | None = None
    """Registers of a thread of the role that is written; None where the compiler chooses."""
    one_thread: bool = False
    """Whether the body that is written is run by a single thread."""
    # channels, pending, ring_loops
    rings: dict[str, BarrierRing] = field(default_factory=dict)
    """The channels of the kernel, by name."""
    fences: tuple[str, ...] | None = None
    """Proxy fences that a barrier needs; None before they are known."""
    pending: Mapping[tuple[str, object], int] | None = None
    """Younger groups at each wait, by channel and index; None before they are counted."""
    covered: set[int] = field(default_factory=set)
    """Commits whose stage is free by a barrier that is there anyway, by identity."""
    in_registers: dict[str, Any] = field(default_factory=dict)
    """Of channels whose fills wait in registers, where they are written; None: at once."""
    # wgmma_scoreboard, pingpong
    flight: InFlight = field(default_factory=InFlight)
    pin: int | None = None
    """Shared memory of the store that keeps arithmetic before a wait."""
    pingpong: Role | None = None
    """The role whose warpgroups take turns in issuing products."""
    # warps
    warp: Any = None
    """The number of the thread's warp, uniform."""
    warpgroups: dict[int, Index] = field(default_factory=dict)
    """The number of the thread's warpgroup by the first thread of those that count."""
    # shared, epilogue, marks
    shared_base: Any = None
    """The shared-window address of shared memory's first byte."""
    descriptors: Any = None
    """The start of shared memory as matrix descriptors have it."""
    epilogues: dict[str, tuple[int, int]] = field(default_factory=dict)
    """First byte and panels a warpgroup of the panels for stores, by the threads."""
    marks: Marks | None = None
    """Where times are written, if they are taken."""

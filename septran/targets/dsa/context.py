"""The state that every emitter of a DSA needs: buffers, loop indices, commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from septran.dtypes import itemsize
from septran.errors import TargetError
from septran.ir.index import ZERO, Index, IndexLike, Var, axis
from septran.machine.model import Machine
from septran.simulator.commands import ADDRESS, EXTERNS
from septran.simulator.queues import Queues
from septran.targets.dsa.runs import fused, runs, slope
from septran.targets.lower.indices import WritingScope, flat_offset
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Buffer, Node, Origin, Region


class UnsupportedByDsaError(TargetError):
    """A node of the tile program cannot be said in the DSA's commands."""

    code = "SEP530"


def unsupported(
    origin: Origin, message: str, hint: str | None = None, **more: Any
) -> UnsupportedByDsaError:
    """The error at the line that a node comes from, or at `where`."""
    why = hint or f"the node is there because: {origin.rule}"
    where = origin.logic or origin.mapping
    return UnsupportedByDsaError(message, **{"where": where, "hint": why, **more})


@dataclass(frozen=True)
class Storage:
    """A buffer as TensorIR sees it: flat, in its own element type."""

    buffer: Buffer
    flat: Any
    base: Index = ZERO
    """Elements before its first one."""

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return itemsize(self.buffer.dtype)


@dataclass(frozen=True)
class Address:
    """An element of a flat buffer."""

    flat: Any
    offset: Index


@dataclass(frozen=True)
class Access:
    """A region with the flat offset of its element ``($0, $1, ...)``."""

    storage: Storage
    region: Region
    offset: Index

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.storage.buffer.dtype

    def slope(self, number: int) -> int | Index | None:
        """Elements from one to the next along an axis, inside of a run.

        An index where a call tells how far apart rows are.
        """
        return slope(self.offset, axis(number))

    def affine(self, number: int) -> bool:
        """Whether all of an axis is one run."""
        return runs([self.offset], axis(number)).whole

    def at(self, coordinates: Mapping[int, IndexLike]) -> Address:
        """The address of one element; axes that are not named are at 0."""
        known = {axis(n): coordinates.get(n, 0) for n in range(self.region.rank)}
        return Address(self.storage.flat, self.offset.substitute(known))


@dataclass
class Context(WritingScope):
    """The state of one lowering."""

    machine: Machine
    queues: Queues
    storages: dict[str, Storage] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    whole_blocks: frozenset[str] = frozenset()
    """Buffers in blocks that only copies write: these leave no block half undefined."""
    starts: Mapping[str, int] = field(default_factory=dict)
    """Where temporaries begin in their memory, behind the buffers that are in it."""
    temporaries: dict[tuple[str, str], Any] = field(default_factory=dict)
    """All of a memory of temporaries as one flat buffer, by memory and dtype."""

    def temporary(self, memory: str, dtype: str) -> Any:
        """A memory of temporaries, in elements of a dtype."""
        key = (memory, dtype)
        if key not in self.temporaries:
            held = self.machine.memory(memory).capacity_bytes or 0
            size = (held - self.starts.get(memory, 0)) // itemsize(dtype)
            name = self.writer.name(f"{memory}_{dtype}")
            self.temporaries[key] = local_buffer(name, memory, size, dtype)
        return self.temporaries[key]

    def declare(self, flat: Any, memory: str, offset: int) -> None:
        """A buffer at its place in a memory of the core."""
        where = tirx.const(offset, "int64")
        pointer = tirx.call_extern("handle", "dsa.pointer", memory, where)
        self.writer.emit(tirx.DeclBuffer(flat, data=pointer))

    def access(self, region: Region) -> Access:
        """The region's storage and offsets."""
        storage, known = self.storages[region.buffer], self.indices.ranges
        buffer = storage.buffer
        extents = buffer.extents if buffer.exists else ()
        flat = flat_offset(region, buffer.layout, buffer.shape, known, extents)
        return Access(storage, region, fused(flat + storage.base))

    def when_positive(self, value: Index) -> Any:
        """Run what is written inside only where an index is above 0."""
        low, high = self.indices.bounds(value)
        known: Any = True if low > 0 else False if high <= 0 else None
        if known is None:
            known = self.lower(value - value.constant) > self.writer.index(-value.constant)
        return self.writer.when(known)

    def command(self, name: str, queue: int | None = None, **given: Any) -> None:
        """One command; its arguments by name, indices and addresses as they are."""
        command, _ = EXTERNS[f"dsa.{name}"]
        if queue is not None:
            given["queue"] = queue
        arguments = [
            self._argument(argument.kind, given.pop(argument.name))
            for argument in command.arguments
        ]
        if given:
            raise TypeError(f"dsa.{name} takes no {', '.join(given)}")
        self.writer.evaluate(tirx.call_extern("int32", f"dsa.{name}", *arguments))

    def _argument(self, kind: str, value: Any) -> Expr:
        if kind == ADDRESS:
            spot = tirx.BufferLoad(value.flat, [self.lower(value.offset)])
            return tirx.address_of(spot)
        return self.lower(value) if isinstance(value, int | Index | Var) else value

    def note(self, node: Node) -> Any:
        """Say where what is written inside comes from."""
        return self.writer.origin(str(node.origin))


def local_buffer(name: str, memory: str, elements: int, dtype: str) -> Any:
    """A flat buffer in a memory of the core."""
    return tirx.decl_buffer(
        (max(1, elements),),
        dtype,
        name,
        data_alignment=1,
        scope=f"global.{memory.lower()}",
        layout=None,
    )

"""What the text of one TileLang kernel knows: names, indices, axes, buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from septran.dtypes import is_float
from septran.ir.index import Index, Var
from septran.targets.cuda.fragment.fragments import power_of_two
from septran.targets.lower.python_indices import PythonIndices
from septran.targets.lower.python_writer import PythonWriter, tuple_text
from septran.targets.tilelang.blocks import KernelBlocks
from septran.tile.nodes import Buffer, Compute, Region, TileProgram, nodes, writes

AXES = ("r", "c", "d", "e", "f", "g")
"""What the axes of a tile are called, wherever its elements are gone through."""
At = tuple[Index, ...]
"""A coordinate for each axis of a tile."""


@dataclass
class TileLangIndices(PythonIndices):
    """Indices as TileLang's; those that tensors hold become 32 bits wide."""

    program: TileProgram = field(kw_only=True)

    def looked_up(self, tensor: str, at: str) -> str:
        """An element of a tensor of indices."""
        text = super().looked_up(tensor, at)
        narrow = self.program.buffer(tensor).dtype == "int32"
        return text if narrow else f'T.Cast("int32", {text})'


CALLS = {"minimum": "T.min", "maximum": "T.max", "clip": "T.clamp"}


@dataclass
class TileLangContext:
    """The state of one kernel's text."""

    program: TileProgram
    writer: PythonWriter
    indices: PythonIndices
    names: dict[str, str]
    """What each buffer and scalar is called."""
    blocks: KernelBlocks
    main: str
    """The memory that the caller's tensors are in."""
    axes: tuple[Var, ...] = field(init=False)
    head: list[str] = field(default_factory=list)
    """The statements that make the block's buffers."""
    free: dict[tuple[str, str, tuple[int, ...], str], list[Region]] = field(default_factory=dict)
    """Scratch buffers by their kind, which the next node may take again."""
    taken: list[tuple[tuple[str, str, tuple[int, ...], str], Region]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.axes = tuple(Var(f"tile axis {name}") for name in AXES)
        for axis, name in zip(self.axes, AXES, strict=True):
            self.indices.names[axis] = self.writer.name(name)

    def buffer(self, name: str) -> Buffer:
        """A buffer of the program."""
        return self.program.buffer(name)

    def in_main(self, region: Region) -> bool:
        """Whether a region is of main memory, and not of a block's own."""
        return self.buffer(region.buffer).memory == self.main

    @property
    def fragments(self) -> bool:
        """Whether the block has fragments, and not all in shared memory."""
        return self.blocks.fragments

    @contextmanager
    def guarded(self, conditions: Sequence[str]) -> Iterator[None]:
        """A block under conditions, if there are any; one inside of another is one with both.

        TileLang 0.1.15 may write a vector under the outer one of two conditions alone.
        """
        if not conditions:
            yield
            return
        lines, opened = self.writer.lines, "    " * (self.writer.depth - 1) + "if "
        if lines and lines[-1].startswith(opened):
            outer = lines.pop().removeprefix(opened).removesuffix(":")
            lines.append(f"{opened}{all_of([outer, *conditions])}:")
            yield
            return
        with self.writer.block(f"if {all_of(conditions)}:"):
            yield

    def in_registers(self, region: Region) -> bool:
        """Whether a region is of a fragment, which a block's threads hold in parts."""
        return self.buffer(region.buffer).memory == "REGISTER"

    def is_tile(self, region: Region) -> bool:
        """Whether a region is all of a buffer of the block, and no part of one."""
        return not self.in_main(region) and self.is_all(region)

    def is_all(self, region: Region) -> bool:
        """Whether a region is all of its buffer, in order."""
        return region.is_plain and region.shape == self.buffer(region.buffer).shape

    def scratch(self, wish: str, memory: str, shape: tuple[int, ...], dtype: str) -> Region:
        """All of a buffer of the block for what one node computes on the way."""
        kind = (wish, memory, shape, dtype)
        if free := self.free.get(kind):
            found = free.pop()
        else:
            name = self.writer.name(wish)
            made = Buffer(name, memory, shape, dtype)
            self.program = replace(self.program, buffers=(*self.program.buffers, made))
            self.names[name] = name
            self.head.append(self.allocation(made))
            found = Region.all_of(made)
        self.taken.append((kind, found))
        return found

    def release(self) -> None:
        """The next node may overwrite what scratch buffers hold."""
        for kind, region in reversed(self.taken):
            self.free.setdefault(kind, []).append(region)
        self.taken.clear()

    def allocation(self, buffer: Buffer) -> str:
        """The statement that makes a buffer of the block."""
        kind = "fragment" if buffer.memory == "REGISTER" else "shared"
        shape = tuple_text(buffer.shape or (1,))
        return f'{self.names[buffer.name]} = T.alloc_{kind}({shape}, "{buffer.dtype}")'

    @cached_property
    def computed(self) -> frozenset[str]:
        """The buffers that hold results, and not only copies of main memory."""
        found = (n for n in nodes(self.program.body) if isinstance(n, Compute))
        return frozenset(r.buffer for n in found if n.primitive != "fill" for r in writes(n))

    # ---- elements -------------------------------------------------------------------------

    @contextmanager
    def elements(self, shape: Sequence[int]) -> Iterator[At]:
        """A loop over all elements of a tile, in any order; gives their coordinates.

        TileLang shares a loop out evenly, so that without fragments, which would have to have the
        same extents, it turns more often.
        """
        extents = tuple(shape) or (1,)
        if len(extents) > len(self.axes):
            raise ValueError(f"a tile of {len(extents)} axes")
        turned = extents if self.fragments else tuple(map(power_of_two, extents))
        axes = self.axes[: len(extents)]
        before = self.indices.ranges
        ranges = {a: (0, n - 1) for a, n in zip(axes, extents, strict=True)}
        self.indices.ranges = {**before, **ranges}
        names = [self.indices.names[a] for a in axes]
        head = f"for {', '.join(names)} in T.Parallel({', '.join(map(str, turned))}):"
        pairs = zip(names, extents, turned, strict=True)
        inside = [f"{name} < {n}" for name, n, more in pairs if more > n]
        with self.writer.block(head), self.guarded(inside):
            yield tuple(map(Index.of, axes))[: len(shape)]
        self.indices.ranges = before

    def element(self, region: Region, at: At) -> str:
        """One element of a region; a buffer of one number is an array of one."""
        places = region.at(at) or (Index(),)
        text = ", ".join(self.indices.text(place) for place in places)
        return f"{self.names[region.buffer]}[{text}]"

    def exists(self, shape: Sequence[int], valid: Sequence[Index], at: At) -> list[str]:
        """The conditions under which an element of a tile exists."""
        found = []
        for extent, limit, place in zip(shape, valid, at, strict=True):
            limit = self.indices.simple(limit)
            if limit != Index.of(extent):
                found.append(f"{self.indices.factor(place)} < {self.indices.text(limit)}")
        return found

    def inside(self, region: Region, at: At) -> list[str]:
        """The conditions under which an element of a window is of the tensor, not of its edges."""
        if not region.padded:
            return []
        found = []
        buffer = self.buffer(region.buffer)
        for place, extent in zip(region.at(at), buffer.shape, strict=True):
            least, most = self.indices.bounds(place)
            text = self.indices.factor(place)
            found += [f"0 <= {text}"] if least < 0 else []
            found += [f"{text} < {extent}"] if most >= extent else []
        return found


def all_of(conditions: Sequence[str]) -> str:
    """The conjunction of conditions."""
    first, *rest = conditions
    for each in rest:
        first = f"T.And({first}, {each})"
    return first


def number(value: float | int | bool, dtype: str, *, typed: bool = False) -> str:
    """A number as it is written beside others of its type; `typed` where it stands alone."""
    if isinstance(value, bool) or dtype == "bool":
        return f"T.bool({bool(value)})" if typed else str(bool(value))
    found = float(value) if is_float(dtype) else int(value)
    if found != found:
        return f'T.Cast("{dtype}", T.float32("nan"))'
    if found in (float("inf"), float("-inf")):
        return f'{"-" if found < 0 else ""}T.infinity("{dtype}")'
    return f"T.{dtype}({found!r})" if typed else repr(found)

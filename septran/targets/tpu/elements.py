"""Elements of vector memory as JAX text: how they are read, converted, masked and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from septran.dtypes import is_float
from septran.ir.index import Index
from septran.targets.lower.python_writer import bracket, is_simple, tuple_text
from septran.targets.tpu import element_types
from septran.targets.tpu.access import axis_ranges, looped, reaches_end, sizes_of
from septran.targets.tpu.context import Context
from septran.targets.tpu.unsupported import unsupported
from septran.tile.nodes import Origin, Region

UNROLLED = 64
"""How many parts a value may be put together from."""


class TileElements:
    """The elements that one node reads and writes."""

    def __init__(self, context: Context, origin: Origin) -> None:
        """`origin` is of the node, for what cannot be said."""
        self.context, self.origin = context, origin

    def named(self, text: str) -> str:
        """Write an assignment, and return the name."""
        name = self.context.writer.name("t")
        self.context.writer.line(f"{name} = {text}")
        return name

    def converted(self, text: str, dtype: str, wanted: str) -> str:
        """A value of a type in another one; of a type that is not known, it has none."""
        old, new = element_types.computed(dtype) if dtype else "", element_types.computed(wanted)
        if old == new:
            return text
        if new == "bool":
            return f"({text} != 0)"
        if old and is_float(old) and not is_float(new):
            text = f"{self.context.helper('_whole')}({text})"
            return text if new == "int32" else f"{text}.astype({element_types.name(new)})"
        if old == "bool" and new in ("int8", "uint8", "int16", "uint16"):
            text = f"{postfix(text)}.astype(jnp.int32)"
        return f"{postfix(text)}.astype({element_types.name(new)})"

    def masked(
        self,
        text: str,
        shape: Sequence[int],
        valid: Sequence[Index],
        axes: Sequence[int],
        neutral: str,
    ) -> str:
        """The value with `neutral` where nothing exists along some of its axes."""
        sizes = sizes_of(shape, valid)
        for number in axes:
            exists = self.context.indices.simple(valid[number])
            if exists.is_constant and exists.constant == sizes[number]:
                continue
            mask = self.mask(sizes, number, exists)
            text = f"jnp.where({mask}, {text}, {neutral})"
        return text

    def mask(self, sizes: Sequence[int], number: int, exists: Index) -> str:
        """Where a value's elements exist along an axis."""
        iota = f"jax.lax.broadcasted_iota(jnp.int32, {tuple_text(sizes)}, {number})"
        return f"{iota} < {self.context.indices.text(exists)}"

    # ---- elements of buffers ------------------------------------------------------------

    def load(self, region: Region) -> str:
        """The elements of a region, in the order of its axes."""
        dtype = self.context.buffer(region.buffer).dtype
        element_types.require(dtype, self.origin)
        if self.context.in_hbm(region.buffer):
            raise unsupported(
                self.origin,
                f"{region.buffer} is read where it is in main memory",
                "place it in vector memory, so that it is copied",
            )
        text = self._gathered(region, {}, sizes_of(region.shape, region.valid))
        return f"({text} != 0)" if dtype == "bool" else text

    def _gathered(self, region: Region, fixed: dict[int, Index], sizes: tuple[int, ...]) -> str:
        """A region with some axes at one place, which the value does not have."""
        if region.padded and self._leaves(region):
            raise unsupported(
                self.origin,
                f"{region} reaches beyond vector memory",
                "leave the tensor in main memory, so that DMA brings zeros",
            )
        loops = sorted(looped(region, strided=True) - set(fixed))
        ones = [n for n in loops if sizes[n] == 1]
        fixed = {**fixed, **{n: Index() for n in ones}}
        rest = [n for n in loops if n not in ones]
        if not rest:
            text = self._plain(region, fixed, sizes)
        else:
            number = min(rest, key=lambda n: sizes[n])
            if sizes[number] > UNROLLED:
                raise unsupported(self.origin, f"{region} is no slice of vector memory")
            kept = [n for n in range(region.rank) if n not in fixed and n != number]
            place = sum(n < number for n in kept)
            pieces = [
                self.named(self._gathered(region, {**fixed, number: Index.of(at)}, sizes))
                for at in range(sizes[number])
            ]
            text = f"jnp.stack([{', '.join(pieces)}], axis={place})"
        if ones:
            shape = tuple(s for n, s in enumerate(sizes) if n not in fixed or n in ones)
            text = f"jnp.reshape({text}, {tuple_text(shape)})"
        return text

    def _plain(self, region: Region, fixed: Mapping[int, Index], sizes: Sequence[int]) -> str:
        at, order = self.context.at(region, fixed, sizes, value=True)
        text = f"{self.context.names[region.buffer]}[{at}]"
        if order != sorted(order):
            places = sorted(range(len(order)), key=lambda n: order[n])
            text = f"{text}.T" if places == [1, 0] else f"jnp.transpose({text}, {tuple(places)})"
        missing = [n for n in range(region.rank) if n not in fixed and n not in order]
        if not missing:
            return text
        shape = tuple(s for n, s in enumerate(sizes) if n not in fixed)
        kept = [n for n in range(region.rank) if n not in fixed]
        if not order:
            return f"jnp.full({tuple_text(shape)}, {text})"
        entries = ["None" if n in missing else ":" for n in kept]
        text = f"{text}[{', '.join(entries)}]"
        if any(sizes[n] != 1 for n in missing):
            text = f"jnp.broadcast_to({text}, {tuple_text(shape)})"
        return text

    def _leaves(self, region: Region) -> bool:
        ranges = axis_ranges(region)
        for entry, extent in zip(
            region.index, self.context.buffer(region.buffer).shape, strict=True
        ):
            least, most = self.context.indices.bounds(entry, ranges)
            if least < 0 or most >= extent:
                return True
        return False

    def store(self, target: Region, text: str, dtype: str, shape: Sequence[int] | None) -> None:
        """Write a value of `shape` and type; None is one number for all elements."""
        buffer = self.context.buffer(target.buffer)
        element_types.require(buffer.dtype, self.origin)
        if self.context.in_hbm(target.buffer):
            raise unsupported(
                self.origin,
                f"{target.buffer} is written where it is in main memory",
                "place it in vector memory, so that it is copied",
            )
        if looped(target, strided=True):
            raise unsupported(self.origin, f"{target} is no slice of vector memory")
        sizes = sizes_of(target.shape, target.valid)
        held = element_types.held(buffer.dtype)
        text = self.converted(text, dtype, buffer.dtype)
        if buffer.dtype == "bool":
            text = f"{postfix(text)}.astype(jnp.int32).astype(jnp.int8)"
        if shape is None:
            text = f"jnp.full({tuple_text(sizes)}, {text}, jnp.{held})"
        elif tuple(shape) != sizes:
            text = f"jnp.broadcast_to({text}, {tuple_text(sizes)})"
        self._write(target, text, sizes)

    def _write(self, target: Region, text: str, sizes: tuple[int, ...]) -> None:
        context, buffer = self.context, self.context.buffer(target.buffer)
        masks = [
            self.mask(sizes, n, context.indices.simple(v))
            for n, v in enumerate(target.valid)
            if not v.is_constant and not reaches_end(target, n, buffer, context.indices)
        ]
        at, order = context.at(target, {}, sizes, value=True)
        name = context.names[target.buffer]
        if masks:
            condition = " & ".join(f"({m})" for m in masks)
            text = f"jnp.where({condition}, {text}, {self._plain(target, {}, sizes)})"
        lost = [n for n in range(target.rank) if n not in order]
        if lost:
            kept = ("0" if n in lost else ":" for n in range(target.rank))
            text = f"{postfix(text)}[{', '.join(kept)}]"
        if order != sorted(order):
            ranks = sorted(order)
            text = f"jnp.transpose({text}, {tuple(ranks.index(n) for n in order)})"
        if not buffer.shape and target.rank == 0:
            text = f"{bracket(text)}"
        context.writer.line(f"{name}[{at}] = {text}")


def postfix(text: str) -> str:
    """Text before a bracket or a dot."""
    return text if is_simple(text) and not text[0].isdigit() else f"({text})"

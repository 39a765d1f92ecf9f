"""Zeros in registers: before a product's first step, and beyond what exists in its sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from septran.ir.index import Index, axis
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.registers import RegisterLoop, exists, register_digits
from septran.tile.nodes import Compute, Region


def clear_accumulator(context: Context, node: Compute) -> None:
    """Set the sums to 0 where a product overwrites what its accumulator holds."""
    first = context.first(dict(node.attributes))
    if first is False:
        return
    target, writer = context.storages[node.operands[0].buffer], context.writer
    assert target.fragment is not None
    zero = context.arithmetic.constant(0, target.dtype)
    with writer.when(first), context.loop("r", target.fragment.registers, unrolled=True) as number:
        writer.store(target.flat, context.lower(number), zero)


def cleared(context: Context, node: Compute) -> Any:
    """A's registers, with zeros where a step of the product does not exist.

    What lies there is undefined, and B has other rows of its tensor there, not zeros.
    """
    left = node.operands[1]
    clear(context, left, [1])
    return context.storages[left.buffer].flat


def clear(context: Context, region: Region, axes: Sequence[int]) -> None:
    """Zeros in a whole buffer's registers, where elements do not exist along some axes.

    A part that begins elsewhere is read through shared memory, with zeros for what is missing:
    its buffer has elements beyond it, which stay.
    """
    own = _axes_of(region)
    if own is None:
        return
    valid = tuple(region.valid[n] for n in own)
    ragged = [m for m, n in enumerate(own) if n in axes and valid[m] != Index.of(region.shape[n])]
    storage = context.storages[region.buffer]
    fragment = storage.fragment
    if not ragged or fragment is None:
        return
    walk = RegisterLoop(context, fragment)
    with walk.over(register_digits(fragment)):
        there = exists(context, walk.coordinates, valid, ragged)
        if there is not None:
            spot = Index()
            for digit in register_digits(fragment):
                spot = spot + walk.steps.get(digit, Index()) * digit.stride
            at = context.lower(spot)
            value = tirx.Select(
                there, storage.flat[at], context.arithmetic.constant(0, storage.dtype)
            )
            context.writer.store(storage.flat, at, value)


def _axes_of(region: Region) -> tuple[int, ...] | None:
    """Return which axis of a region each axis of its buffer is, as it may be transposed.

    None where a part begins elsewhere.
    """
    numbers = {Index.of(axis(n)): n for n in range(region.rank)}
    found = [numbers.get(entry) for entry in region.index]
    if None in found or len(set(found)) != region.rank:
        return None
    return tuple(n for n in found if n is not None)

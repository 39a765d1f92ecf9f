"""Zeros beyond what exists, in what a product sums over."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from septran.targets.cuda.context import Context
from septran.targets.cuda.registers import Walk, register_digits, zero
from septran.task.index import Index
from septran.tile.nodes import Compute


def cleared(context: Context, node: Compute) -> Any:
    """A's registers, with zeros where a step of the product does not exist.

    What lies there is undefined, and B has other rows of its tensor there, not zeros.
    """
    left = node.operands[1]
    storage = context.storages[left.buffer]
    valid = left.valid[1]
    if valid == Index.of(left.shape[1]):
        return storage.flat
    fragment = storage.fragment
    assert fragment is not None
    walk = Walk(context, fragment)
    with walk.over(register_digits(fragment)):
        column = walk.coordinate(1)
        exists = context.indices.below(column, valid)
        if exists is not None:
            spot = Index()
            for axis in range(2):
                for digit, _ in fragment.weighted(axis):
                    if digit.place == "register":
                        spot = spot + walk.steps.get(digit, Index()) * digit.stride
            at = context.lower(spot)
            value = tirx.Select(exists, storage.flat[at], zero(storage.dtype))
            context.writer.store(storage.flat, at, value)
    return storage.flat

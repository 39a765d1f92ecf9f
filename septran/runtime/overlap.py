"""Whether arrays share memory, with others or with themselves."""

from __future__ import annotations

import numpy as np


class AddressedMemory:
    """Memory described to NumPy by address, writable whatever its owner says."""

    def __init__(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, typestr: str
    ) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
        }


def share_memory(
    first: tuple[int, tuple[int, ...]],
    first_shape: tuple[int, ...],
    first_size: int,
    second: tuple[int, tuple[int, ...]],
    second_shape: tuple[int, ...],
    second_size: int,
) -> bool:
    """Whether two arrays, each given by (address, strides), shape and item size, overlap.

    Exact where that is cheap to find out; else a common range of addresses counts.
    """
    if 0 in first_shape or 0 in second_shape:
        return False
    a = np.asarray(AddressedMemory(first[0], first_shape, first[1], f"|V{first_size}"))
    b = np.asarray(AddressedMemory(second[0], second_shape, second[1], f"|V{second_size}"))
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]  # any bound will do
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    """Whether two elements of one array may lie at the same place (broadcast outputs)."""
    if 0 in shape:
        return False
    reach = size
    axes = sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1)
    for stride, extent in axes:
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False

"""Tensor maps as the emulated copy engine reads them, checked as the driver does."""

from __future__ import annotations

import ctypes

from septran.dtypes import itemsize as known_itemsize
from septran.emulator.errors import EmulatedBoundsError, MisuseError
from septran.emulator.launch import TensorMap
from septran.emulator.native import MAGIC, TensorMapBits

TYPES = (
    "float16",
    "bfloat16",
    "",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
    "float32",
    "int32",
)
"""By the numbers of ``Type`` in device/calls.h."""


def itemsize(dtype: str) -> int:
    """Bytes of an element; 8-bit floats are known, too."""
    return 1 if dtype.startswith("float8") else known_itemsize(dtype)


def encode(wanted: TensorMap, base: int, size: int) -> TensorMapBits:
    """The map of a buffer of `size` bytes at `base`; raises MisuseError or BoundsError."""
    element = itemsize(wanted.dtype)
    _check(wanted, element)
    strides = (element, *wanted.strides)
    last = sum((e - 1) * s for e, s in zip(wanted.extents, strides, strict=True)) + element
    if wanted.offset + last > size:
        raise EmulatedBoundsError(
            f"the tensor map {wanted.name} reaches {wanted.offset + last} bytes into "
            f"{wanted.buffer}, which has {size}"
        )
    bits = TensorMapBits()
    bits.base = base + wanted.offset
    bits.rank, bits.element = len(wanted.extents), element
    bits.swizzle, bits.magic = wanted.swizzle // 32, MAGIC
    bits.type = TYPES.index(wanted.dtype) if wanted.dtype in TYPES else 255
    for axis, (extent, stride, box) in enumerate(
        zip(wanted.extents, strides, wanted.box, strict=True)
    ):
        bits.extent[axis], bits.stride[axis], bits.box[axis] = extent, stride, box
    assert ctypes.sizeof(bits) == 128
    return bits


def _check(wanted: TensorMap, element: int) -> None:
    """Refuse what cuTensorMapEncodeTiled refuses."""
    rank, name = len(wanted.extents), wanted.name
    row = wanted.box[0] * element if wanted.box else 0
    rules = (
        (1 <= rank <= 5, f"has {rank} axes; the copy engine knows 1 to 5"),
        (len(wanted.strides) == rank - 1 and len(wanted.box) == rank,
         "has strides or a box of another rank"),
        (wanted.offset % 16 == 0, f"starts at byte {wanted.offset}, no multiple of 16"),
        (all(s % 16 == 0 and 0 < s < 1 << 40 for s in wanted.strides),
         f"has strides {wanted.strides}, which are not all multiples of 16 bytes"),
        (all(1 <= b <= 256 for b in wanted.box), f"has a box {wanted.box}; 256 is the most"),
        (all(1 <= e <= 1 << 32 for e in wanted.extents), f"has extents {wanted.extents}"),
        (row % 16 == 0, f"has box rows of {row} bytes, no multiple of 16"),
        (wanted.swizzle in (0, 32, 64, 128), f"has a swizzle of {wanted.swizzle} bytes"),
        (not wanted.swizzle or row <= wanted.swizzle,
         f"has box rows of {row} bytes, longer than the swizzle of {wanted.swizzle}"),
    )  # fmt: skip
    for holds, otherwise in rules:
        if not holds:
            raise MisuseError(f"the tensor map {name} {otherwise}")

"""The memory of a tensor that an executable is called with."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import tvm_ffi

from septran.errors import TargetError

Array = np.ndarray[Any, Any]


class NotContiguousError(TargetError):
    """A tensor that is passed to an executable is not one run of bytes in this memory."""

    code = "SEP545"


def as_bytes(x: Any) -> Array:
    """The memory of a contiguous tensor as bytes, without a copy."""
    if isinstance(x, np.ndarray):
        if not x.flags.c_contiguous:
            raise NotContiguousError("a tensor is not contiguous, so its bytes are not one run")
        return x.reshape(-1).view(np.uint8)
    tensor = tvm_ffi.from_dlpack(x, require_alignment=0, require_contiguous=False)
    if not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise NotContiguousError("a tensor is not contiguous, or not in the host's memory")
    size = math.prod(tensor.shape) * tensor.dtype.itemsize
    if not size:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(tensor.data_ptr()))

"""TensorIR of kernels as OpenCL C can say it: its functions, its barrier, types it has.

Floats of 16 and 8 bits are stored as they are and computed with in float32, so conversions are
their only operations: they become integers of the same bits, and conversions calls of the prelude's
functions. So no device needs `cl_khr_fp16`, and all types compute alike on all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from septran.dtypes import SHORT, itemsize

CONSTANT = "septran_constant"
"""The call that stands for a float whose digits the printer would cut off."""
BARRIER = "septran_barrier"
_MATHEMATICS = re.compile(
    r"(ceil|copysign|cos|erf|exp2?|fabs|floor|fma|fmod|log2?|pow|rint|r?sqrt|sin|tanh|trunc)f?"
)
_INTEGER = re.compile(r"(u?int)(8|16|32|64)_t")
_OTHERS: Mapping[str, str] = {"__longlong_as_double": "as_double"}
_ATOMIC = re.compile(r"atomic(Add|Max|Min)|septran_atomic_(sum|max|min)_\w+")
_NAMES: Mapping[str, str] = {
    "bool": "bool", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort",
    "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong",
    "float32": "float", "float64": "double",
}  # fmt: skip
"""What OpenCL C calls types."""


def in_opencl(function: Any, shared_bytes: int) -> Any:
    """A kernel's PrimFunc in the words of OpenCL C, with local memory as large as it needs."""
    words = _Words(shared_bytes)
    found = tvm_ffi.structural_map(
        function,
        [
            (tirx.Cast, words.cast), (tirx.FloatImm, words.constant), (tvm.ir.Call, words.call),
            (tirx.Select, lambda s: tirx.if_then_else(s.condition, s.true_value, s.false_value)),
        ],
    )  # fmt: skip
    # Types last: a conversion is known by what it converts.
    return tvm_ffi.structural_map(
        found,
        [
            (tvm.ir.PrimType, words.kind), (tirx.BufferType, words.buffer),
            (tvm.ir.Call, words.result),
        ],
    )  # fmt: skip


class _Words:
    def __init__(self, shared_bytes: int) -> None:
        self.shared_bytes = shared_bytes

    def cast(self, node: Any) -> Any:
        to, kind = str(node.ty.dtype), str(node.value.ty.dtype)
        if to in SHORT:
            value = node.value if kind == "float32" else tirx.Cast("float32", node.value)
            return tirx.call_pure_extern(to, f"septran_to_{to}", value)
        if kind in SHORT:
            value = tirx.call_pure_extern("float32", f"septran_from_{kind}", node.value)
            return value if to == "float32" else tirx.Cast(to, value)
        return node

    def constant(self, node: Any) -> Any:
        """Numbers of which six decimals are all that there is stay as they are."""
        value, dtype = float(node.value), str(node.ty.dtype)
        if not math.isfinite(value) or float(f"{value:.6e}") == value:
            return node
        kind = np.dtype(dtype)
        whole = tirx.IntImm("int64", int(kind.type(value).view(f"int{kind.itemsize * 8}")))
        return tirx.call_pure_extern(dtype, f"{CONSTANT}_{_NAMES[dtype]}", whole)

    def call(self, node: Any) -> Any:
        name = getattr(node.op, "name", "")
        dtype = str(getattr(node.ty, "dtype", "void"))
        match name.removeprefix("tirx."):
            case "cuda_cta_sync" | "cuda.cta_sync":
                return tirx.call_extern("void", BARRIER)
            case "reinterpret":
                return tirx.call_pure_extern(dtype, f"as_{_NAMES[dtype]}", node.args[0])
            case "call_extern" | "call_pure_extern":
                return self._extern(node, dtype)
        return node

    def _extern(self, node: Any, dtype: str) -> Any:
        name, operands = str(node.args[0].value), node.args[1:]
        if joins := _ATOMIC.fullmatch(name):
            function = (joins[1] or joins[2]).lower().replace("sum", "add")
            called = f"septran_atomic_{function}_{_NAMES[dtype]}"
            return tirx.call_extern(dtype, called, *operands)
        renamed = _OTHERS.get(name, name)
        if whole := _INTEGER.fullmatch(name):
            renamed = f"convert_{_NAMES[whole[1] + whole[2]]}"
        elif known := _MATHEMATICS.fullmatch(name):
            renamed = known[1]
        if renamed == name:
            return node
        return tirx.call_pure_extern(dtype, renamed, *operands)

    @staticmethod
    def result(node: Any) -> Any:
        """A call that gives a short float: its type is no part of what is mapped."""
        dtype = str(getattr(node.ty, "dtype", "void"))
        return (
            tirx.call_pure_extern(_stored(dtype), str(node.args[0].value), *node.args[1:])
            if dtype in SHORT
            else node
        )

    @staticmethod
    def kind(node: Any) -> Any:
        element, cross, lanes = str(node.dtype).partition("x")
        stored = _stored(element)
        return node if stored == element else tvm.ir.PrimType(f"{stored}{cross}{lanes}")

    def buffer(self, node: Any) -> Any:
        """Shared memory as a local array; all views of it begin where it does."""
        if node.storage_scope != "shared.dyn":
            return node
        return tirx.BufferType(
            node.dtype, "shared", [max(1, self.shared_bytes)], node.strides, node.elem_offset,
            node.data_alignment, node.offset_factor, node.layout, node.allocated_addr,
        )  # fmt: skip


def _stored(dtype: str) -> str:
    """The type of which a kernel has elements of `dtype` in memory."""
    return f"uint{itemsize(dtype) * 8}" if dtype in SHORT else dtype

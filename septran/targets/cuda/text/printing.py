"""TensorIR of kernels as CUDA text: TVM's printer, comments, a prelude without headers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from septran.dtypes import is_float
from septran.targets.cuda.text.prelude import lighten, prelude
from septran.targets.cuda.writer import NOTE, UNROLL

_NOTE = re.compile(rf'^(\s*){NOTE}\("((?:[^"\\]|\\.)*)"\);$', re.MULTILINE)
_MOVED = re.compile(r"\*\((half4|nv_bfloat164|__nv_fp8x[24]_e4m3)\*\)")
_LEAST = re.compile(r"-2147483648(?![\w.])")
_EXTERN, _CHOICE = tvm.ir.Op.get("tirx.call_pure_extern"), "septran_choice"
_BYTES = {"__nv_fp8x2_e4m3": "ushort", "__nv_fp8x4_e4m3": "uint"}


def target_of(arch: str) -> Any:
    """TVM's target for an architecture such as ``sm_90a``."""
    return tvm.target.Target({"kind": "cuda", "arch": arch})


def print_cuda(module: Any, target: Any, opening: Callable[[str], str] = prelude) -> str:
    """The text of all kernels of a module of device functions, with `opening` of it in front."""
    lowered = lower_intrinsics(module)
    build = tvm.get_global_func("target.build.cuda")
    text = lighten(str(build(lowered, target).inspect_source()), opening)
    text = with_comments(text)
    # C has no negative literals: 2147483648 alone is a long, and `max` of an int and a long is
    # ambiguous. TVM writes the least int64 so by itself.
    text = _LEAST.sub("(-2147483647 - 1)", text)
    # Four 16-bit floats are only ever moved, as 8 bytes; so are vectors of 8-bit ones.
    return _MOVED.sub(lambda m: f"*({_BYTES.get(m[1], 'uint2')}*)", text)


def lower_intrinsics(module: Any) -> Any:
    """A module of device functions in what TVM's printers know.

    TVM's pass looks for the bounds of all that has a name, and fails for a product or quotient of
    which one factor is chosen of two floats. So such a choice is a call to it, which has no bounds.
    """
    return _mapped(
        tirx.transform.LowerIntrin()(_mapped(module, tirx.Select, _hidden)), tvm.ir.Call, _shown
    )


def _mapped(module: Any, node: type, change: Callable[[Any], Any]) -> Any:
    functions = {
        name: tvm_ffi.structural_map(function, [(node, change)], order="post")
        for name, function in module.functions.items()
    }
    return tvm.IRModule(functions)


def _hidden(node: Any) -> Any:
    dtype = str(node.ty.dtype)
    if not is_float(dtype.split("x")[0]):
        return node
    choice = (node.condition, node.true_value, node.false_value)
    return tirx.call_pure_extern(dtype, _CHOICE, *choice)


def _shown(node: Any) -> Any:
    chosen = node.op.same_as(_EXTERN) and node.args[0].value == _CHOICE
    return tirx.Select(*node.args[1:]) if chosen else node


def with_comments(text: str) -> str:
    """TensorIR has no comments: each was a call that no compiler is to see."""
    return _NOTE.sub(_line, text)


def _line(note: re.Match[str]) -> str:
    """A comment, or the pragma that it stands for."""
    words = _plain(note[2])
    return f"{note[1]}{words if words.startswith(UNROLL) else f'// {words}'}"


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\'", "'").rstrip("\\")

"""TensorIR of kernels as CUDA text: TVM's printer, comments, a prelude without headers."""

from __future__ import annotations

import re
from typing import Any

import tvm
from tvm import tirx

from septran.targets.cuda.text.prelude import lighten
from septran.targets.cuda.writer import NOTE, ROLLED

_NOTE = re.compile(rf'^(\s*){NOTE}\("((?:[^"\\]|\\.)*)"\);$', re.MULTILINE)
_MOVED = re.compile(r"\*\((half4|nv_bfloat164|__nv_fp8x[24]_e4m3)\*\)")
_LEAST = re.compile(r"-2147483648(?![\w.])")
_BYTES = {"__nv_fp8x2_e4m3": "ushort", "__nv_fp8x4_e4m3": "uint"}


def target_of(arch: str) -> Any:
    """TVM's target for an architecture such as ``sm_90a``."""
    return tvm.target.Target({"kind": "cuda", "arch": arch})


def print_cuda(module: Any, target: Any) -> str:
    """The text of all kernels of a module of device functions."""
    lowered = tirx.transform.LowerIntrin()(module)
    build = tvm.get_global_func("target.build.cuda")
    text = lighten(str(build(lowered, target).inspect_source()))
    # TensorIR has no comments: each was a call that no compiler is to see.
    text = _NOTE.sub(_line, text)
    # C has no negative literals: 2147483648 alone is a long, and `max` of an int and a long is
    # ambiguous. TVM writes the least int64 so by itself.
    text = _LEAST.sub("(-2147483647 - 1)", text)
    # Four 16-bit floats are only ever moved, as 8 bytes; so are vectors of 8-bit ones.
    return _MOVED.sub(lambda m: f"*({_BYTES.get(m[1], 'uint2')}*)", text)


def _line(note: re.Match[str]) -> str:
    """A comment, or the pragma that it stands for."""
    words = _plain(note[2])
    return f"{note[1]}{words if words == ROLLED else f'// {words}'}"


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\'", "'").rstrip("\\")

"""TensorIR of kernels as OpenCL C: TVM's printer, comments, exact constants, a prelude."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from septran.targets.cuda.text.printing import lower_intrinsics, with_comments
from septran.targets.opencl.text.prelude import prelude
from septran.targets.opencl.text.vectors import ALIGNED, with_vectors
from septran.targets.opencl.text.words import CONSTANT, in_opencl

_DECLARED = re.compile(r"^(?:// Function: .*|__kernel void [^{;]*;)\n", re.MULTILINE)
_HEAD = re.compile(r"^__kernel void (\w+)\(", re.MULTILINE)
_CONSTANT = re.compile(rf"{CONSTANT}_(float|double)\([^\d-]*(-?\d+)\D*?\)")
_KERNELS = re.compile(r"(?=^__kernel)", re.MULTILINE)
_NUMBERS = re.compile(r"\(convert_int\(get_(local|group)_id\(0\)\)\)")
# TensorIR's extents are computed once. A driver that computes them in each turn has to see that
# they stay the same for all work-items, or barriers in the loop part them: PoCL 3.0 did not.
_LOOP = re.compile(r"^( *)for \((int|long) (\w+) = 0; \3 < (.*[(\[].*); \+\+\3\) \{$", re.MULTILINE)
_LOCAL = re.compile(r"^(\s*__local) uchar (\w+\[)", re.MULTILINE)
_PRAGMA = re.compile(r"#ifdef cl_khr_fp64\n.*?#endif\n", re.DOTALL)


def print_opencl(
    module: Any, shared_bytes: Mapping[str, int], work_items: Mapping[str, int]
) -> str:
    """The text of all kernels, which have so many bytes of local memory and work-items."""
    lowered = lower_intrinsics(module)
    functions = {
        name: in_opencl(function, shared_bytes[name.name_hint])
        for name, function in lowered.functions.items()
    }
    build = tvm.get_global_func("target.build.opencl")
    target = tvm.target.Target({"kind": "opencl"})
    text = str(build(tvm.IRModule(functions), target).inspect_source())
    text = _DECLARED.sub("", _PRAGMA.sub("", text))
    text = with_comments(_CONSTANT.sub(_digits, text))
    text = _LOCAL.sub(rf"\1 {ALIGNED} uchar \2", text)
    text = _LOOP.sub(r"\1for (\2 \3 = 0, \3_end = \4; \3 < \3_end; ++\3) {", text)
    text = _NUMBERS.sub(lambda m: f"septran_{m[1]}", text)
    text = "".join(with_vectors(kernel) for kernel in _KERNELS.split(text))
    text = _HEAD.sub(lambda m: _attributes(work_items[m[1]]) + m[0], text)
    return f"{prelude(text)}\n{text.strip()}\n"


def _attributes(work_items: int) -> str:
    return f"__attribute__((reqd_work_group_size({work_items}, 1, 1)))\n"


def _digits(found: re.Match[str]) -> str:
    """A float with all its bits: OpenCL C has the hexadecimal ones of C99."""
    if found[1] == "float":
        return f"{float(np.int32(int(found[2])).view(np.float32)).hex()}f"
    return float(np.int64(int(found[2])).view(np.float64)).hex()

"""What one core reaches with an instruction alone: a loop of independent sums in registers.

The bars of products in short types are parts of this, measured in the same run on the same core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm

from septran.targets.cpu import simd
from septran.targets.cpu.gemm.dot_instructions import VDPBF16PS, VPDPBUSD, Dot
from septran.targets.cpu.run.build import compile_module
from septran.targets.cpu.run.isa import features, host_arch, native
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.writer import Expr, flat_buffer

SUMS = 12
"""Independent ones: more than are in flight, and as many as every processor has registers for."""
STEPS = 1 << 20
TRIALS = 20

NEEDS: Mapping[str, tuple[Dot, str]] = MappingProxyType(
    {"int8": (VPDPBUSD, "avx512vnni"), "bfloat16": (VDPBF16PS, "avx512bf16")}
)
"""The instruction of each type, and the feature without which there is none."""


def peak(dtype: str) -> float | None:
    """Operations a second, in 10**9, of the host's best instruction; None where it has none."""
    unit = native().unit
    if dtype == "float32":
        return _rate(unit.lanes("float32"), "float32", 2, simd.fma)
    dot, feature = NEEDS[dtype]
    if feature not in native().features:
        return None
    lanes = unit.lanes("float32")
    text = dot.text(lanes, features(host_arch()))

    def add(a: Expr, b: Expr, total: Expr) -> Expr:
        kind = simd.vector_type(dot.sums, lanes)
        return simd.external(kind, dot.function(lanes), total, simd.words(a), simd.words(b))

    return _rate(lanes, dot.sums, 2 * dot.size, add, text)


def _rate(
    lanes: int, dtype: str, work: int, add: Callable[[Expr, Expr, Expr], Expr], text: str = ""
) -> float:
    """Of a loop that adds to some registers, `work` operations in each lane."""
    writer = CpuWriter()
    if text:
        writer.functions["dot"] = text
    buffers = [flat_buffer(name, SUMS * lanes, dtype) for name in "CAB"]
    zero = writer.index(0)
    a, b = (writer.bind("x", simd.load(x, zero, lanes)) for x in buffers[1:])
    sums = [writer.allocate("acc", lanes, dtype) for _ in range(SUMS)]
    for n, one in enumerate(sums):
        start = simd.load(buffers[0], writer.index(n * lanes), lanes)
        simd.store(writer, one, zero, start, lanes)
    with writer.loop("i", writer.index(STEPS)):
        for one in sums:
            simd.store(writer, one, zero, add(a, b, simd.load(one, zero, lanes)), lanes)
    for n, one in enumerate(sums):
        last = simd.load(one, zero, lanes)
        simd.store(writer, buffers[0], writer.index(n * lanes), last, lanes)
    function = writer.function("run", buffers)
    module = compile_module(tvm.IRModule({"run": function}), host_arch())
    given = [tvm.runtime.tensor(np.zeros(SUMS * lanes, dtype)) for _ in buffers]
    return SUMS * STEPS * lanes * work / _shortest(lambda: module["run"](*given)) / 1e9


def _shortest(run: Callable[[], Any]) -> float:
    times = []
    for _ in range(TRIALS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)

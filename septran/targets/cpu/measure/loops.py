"""Small loops in machine code: sums in registers, vectors of a buffer, links from line to line.

They are written as kernels are and compiled by the same LLVM, so no other compiler is needed.
How long they run is a parameter; each is compiled once in a process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from septran.machine.model import Machine
from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.gemm.dot_instructions import (
    BFDOT,
    SDOT,
    SVE_SDOT,
    USDOT,
    VDPBF16PS,
    VPDPBUSD,
    VPMADDWD,
    Dot,
)
from septran.targets.cpu.gemm.tile_registers import (
    BYTE_DOTS,
    LEFT,
    RIGHT,
    ROW_BYTES,
    ROWS,
    TDPBF16PS,
    TileDot,
    TileRegisters,
)
from septran.targets.cpu.run.build import compile_module
from septran.targets.cpu.run.isa import features, host_arch, is_foreign, native, processor
from septran.targets.cpu.run.permission import ask_for_tiles, uses_tiles
from septran.targets.cpu.run.threads import set_threads, usable_cores
from septran.targets.cpu.simd import AVX2, CACHE_LINE
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.values import broadcast, vector_type
from septran.targets.lower.writer import Expr, flat_buffer

LINE = CACHE_LINE
"""Bytes of a link, a line of the caches."""
SUMS = 12
"""Independent ones: more than are in flight, and as many as every processor has registers for."""
CHAIN = 32
"""Cycles of an iteration of `clock`: sums and exclusive ors alternate, a cycle each everywhere."""
READS = 8
"""Vectors that one iteration of a loop over a buffer takes, each with a sum of its own."""
Run = Callable[[int], object]
"""Runs a loop so many times."""

_DOTS: dict[str, tuple[Dot, int]] = {
    "avx512_vnni": (VPDPBUSD, 64),
    "avx_vnni": (VPDPBUSD, AVX2.bytes),
    "byte_pairs": (VPMADDWD, 64),
    "avx512_bf16": (VDPBF16PS, 64),
    "dotprod": (SDOT, 16),
    "i8mm": (USDOT, 16),
    "bf16": (BFDOT, 16),
    "sve_dotprod": (SVE_SDOT, 64),
}
"""Instructions that are dot products, and the bytes of the longest registers that they have."""
_TILE_DOTS = {"amx_int8": BYTE_DOTS["int8", "int8"], "amx_bf16": TDPBF16PS}
"""Those that are products of tile registers."""
_PLAIN = {
    "fma_microkernel": ("float32", simd.fma),
    "int8_microkernel": ("float32", simd.fma),
}
"""Those that multiply and add elements of one type."""


def sums(instruction: str, threads: int = 1, dtype: str = "") -> tuple[Run, int] | None:
    """Iterations of a loop of independent sums in registers, and the multiply-adds of each.

    None where nothing is known of the instruction. The iterations of all threads count.
    """
    unit = native().unit
    lanes = unit.lanes("float32")
    if instruction in _DOTS:
        dot, most = _DOTS[instruction]
        lanes = min(unit.bytes, most) // 4
        text = dot.text(lanes, features(native().arch))

        def add(writer: CpuWriter, a: Expr, b: Expr, total: Expr) -> Expr:
            del writer
            kind = vector_type(dot.sums, lanes)
            return simd.external(kind, dot.function(lanes), total, simd.words(a), simd.words(b))

        return _sums(lanes, dot.sums, add, threads, SUMS, text), SUMS * lanes * dot.size * threads
    if instruction in _TILE_DOTS:
        tile_dot = _TILE_DOTS[instruction]
        return _tile_sums(tile_dot, threads), LEFT * ROWS * ROWS * tile_dot.step * threads
    if instruction in _PLAIN:
        kind = dtype or "float32"
        lanes, of = unit.lanes(kind), SUMS
        return _sums(lanes, kind, _multiply_add, threads, of), of * lanes * threads
    if instruction == "muladd_microkernel":
        return _sums(lanes, "int32", _multiply_add, threads, SUMS), SUMS * lanes * threads
    if instruction == "vector":
        return _sums(lanes, "float32", _add, threads, SUMS), SUMS * lanes * threads
    if instruction == "scalar":
        return _sums(1, "float32", _multiply_add, threads, 1), threads
    return None


def _multiply_add(writer: CpuWriter, a: Expr, b: Expr, total: Expr) -> Expr:
    return wrapping.multiply_add(writer, a, b, total)


def _add(writer: CpuWriter, a: Expr, b: Expr, total: Expr) -> Expr:
    del writer, b
    return total + a


def _sums(
    lanes: int,
    dtype: str,
    add: Callable[[CpuWriter, Expr, Expr, Expr], Expr],
    threads: int,
    count: int,
    text: str = "",
) -> Run:
    """A loop that adds to `count` registers an iteration, in each of some threads."""
    writer = CpuWriter()
    if text:
        writer.functions["dot"] = text
    buffers = [flat_buffer(name, threads * count * lanes, dtype) for name in "CA"]
    iterations = tirx.Var("turns", "int32")
    zero = writer.index(0)
    with writer.loop("t", threads, parallel=True) as thread:
        a = writer.bind("x", simd.load(buffers[1], zero, lanes))
        totals = [writer.allocate("acc", lanes, dtype) for _ in range(count)]
        starts = [thread * (count * lanes) + n * lanes for n in range(count)]
        for start, one in zip(starts, totals, strict=True):
            simd.store(writer, one, zero, simd.load(buffers[0], start, lanes), lanes)
        with writer.loop("i", iterations):
            for one, beside in zip(totals, [*totals[1:], totals[0]], strict=True):
                # What is multiplied differs each time, or LLVM would do it before the loop.
                total, other = (simd.load(x, zero, lanes) for x in (one, beside))
                simd.store(writer, one, zero, add(writer, a, other, total), lanes)
        for start, one in zip(starts, totals, strict=True):
            simd.store(writer, buffers[0], start, simd.load(one, zero, lanes), lanes)
    run = _compiled(writer, [*buffers, iterations])
    given = [tvm.runtime.tensor(np.zeros(threads * count * lanes, dtype)) for _ in buffers]
    return lambda iterations: run(*given, iterations)


def _tile_sums(dot: TileDot, threads: int) -> Run:
    """A loop that adds to all tile registers of sums an iteration, in each of some threads."""
    writer, iterations = CpuWriter(), tirx.Var("turns", "int32")
    sums = flat_buffer("sums", threads * ROWS * ROWS, dot.sums)
    with writer.loop("t", threads, parallel=True) as thread:
        registers = TileRegisters(writer, native().arch)
        registers.configure(writer.index(ROWS))
        with writer.loop("i", iterations):
            for number in range(LEFT):
                registers.dot(dot, number, LEFT + number // 2, RIGHT + number % 2)
        registers.store(0, sums, thread * ROWS * ROWS, ROW_BYTES)
        registers.release()
    run = _compiled(writer, [sums, iterations])
    given = tvm.runtime.tensor(np.zeros(threads * ROWS * ROWS, dot.sums))
    return lambda iterations: run(given, iterations)


@functools.cache
def clock() -> tuple[Run, int]:
    """Iterations of operations that wait for one another, and the cycles of each."""
    writer = CpuWriter()
    total, iterations = flat_buffer("total", 2, "int32"), tirx.Var("turns", "int32")
    chain = writer.allocate("chain", 1, "int32")
    writer.store(chain, 0, writer.load(total, 0))
    # LLVM would join a chain of sums to one; with a mask that it does not know it cannot.
    mask = writer.bind("mask", writer.load(total, 1))
    with writer.loop("i", iterations) as i:
        for _ in range(CHAIN // 2):
            writer.store(chain, 0, tirx.bitwise_xor(writer.load(chain, 0) + i, mask))
    writer.store(total, 0, writer.load(chain, 0))
    run = _compiled(writer, [total, iterations])
    given = tvm.runtime.tensor(np.ones(2, "int32"))
    return lambda iterations: run(given, iterations), CHAIN


@functools.cache
def launch(threads: int) -> Run:
    """Iterations of parallel loops with nothing to do but one store in each thread."""
    writer = CpuWriter()
    # A cache line for each thread, so that none waits for another one's store.
    out, iterations = flat_buffer("out", threads * 16, "int32"), tirx.Var("turns", "int32")
    with writer.loop("i", iterations) as i, writer.loop("t", threads, parallel=True) as thread:
        writer.store(out, thread * 16, i)
    run = _compiled(writer, [out, iterations])
    given = tvm.runtime.tensor(np.zeros(threads * 16, "int32"))
    return lambda iterations: run(given, iterations)


class Buffers:
    """Vectors of one or two large buffers, read, written and copied, by one thread or several."""

    def __init__(self, size: int, threads: int) -> None:
        """`size` bytes for each thread, of two buffers for all."""
        self.threads = threads
        self.lanes = native().unit.lanes("float32")
        self.step = READS * self.lanes * 4
        """Bytes of one iteration of the inner loop."""
        self.apart = -(-size // self.step) * self.step
        elements = threads * self.apart // 4
        self._given = [tvm.runtime.tensor(np.zeros(elements, "float32")) for _ in range(2)]
        self._sums = tvm.runtime.tensor(np.zeros(threads * READS * self.lanes, "float32"))
        self._loops = {name: self._loop(name) for name in ("read", "write", "copy", "stream")}

    def run(self, name: str, size: int, times: int) -> int:
        """Go over `size` bytes of each thread so many times; the bytes that all have moved.

        What a copy moves counts twice: it is read and written. A stream is written past the caches.
        """
        steps = max(1, min(size, self.apart) // self.step)
        self._loops[name](*self._given, self._sums, steps, times)
        return self.threads * steps * self.step * times * (2 if name == "copy" else 1)

    def _loop(self, name: str) -> Any:
        writer, lanes = CpuWriter(), self.lanes
        source, target = (_any_size(n, "float32") for n in ("x", "y"))
        sums = flat_buffer("sums", self.threads * READS * lanes, "float32")
        steps, times = (tirx.Var(n, "int32") for n in ("steps", "times"))
        zero = writer.index(0)
        with writer.loop("t", self.threads, parallel=True) as thread:
            start = writer.bind("start", thread * (self.apart // 4))
            totals = [writer.allocate("acc", lanes, "float32") for _ in range(READS)]
            for one in totals:
                simd.store(writer, one, zero, simd.constant(0, "float32", lanes), lanes)
            with writer.loop("r", times) as r, writer.loop("i", steps) as i:
                number = broadcast(tirx.Cast("float32", r), lanes)
                for n, one in enumerate(totals):
                    at = start + i * (READS * lanes) + n * lanes
                    if name == "read":
                        total = simd.load(one, zero, lanes) + simd.load(source, at, lanes)
                        simd.store(writer, one, zero, total, lanes)
                    elif name == "stream":
                        simd.stream(writer, target, at, number, lanes * 4)
                    else:
                        value = simd.load(source, at, lanes) if name == "copy" else number
                        simd.store(writer, target, at, value, lanes)
            if name == "stream":
                simd.fence(writer, native().unit)
            for n, one in enumerate(totals):
                at = thread * (READS * lanes) + n * lanes
                simd.store(writer, sums, at, simd.load(one, zero, lanes), lanes)
        return _compiled(writer, [source, target, sums, steps, times])


class Links:
    """A way through the lines of a buffer in random order, each of which names the next."""

    def __init__(self, size: int) -> None:
        """At most `size` bytes, in large pages where the system has them: of NumPy's memory."""
        raw = np.zeros((size + LINE) // 4, "int32")
        first = -raw.ctypes.data % LINE // 4
        self._links = raw[first : first + size // 4]
        self._end = np.zeros(1, "int32")
        self._run = _linked()

    def lay(self, size: int) -> int:
        """Link the lines of the first `size` bytes to a ring, stand at its first; how many."""
        each = LINE // 4
        # In random order, which prefetchers do not foresee: each step then takes a load's latency.
        order = np.random.default_rng(size).permutation(size // LINE).astype("int32")
        ring = self._links[: len(order) * each].reshape(-1, each)
        ring[order, 0] = np.roll(order, -1) * each
        self._end[0] = 0
        return len(order)

    def follow(self, steps: int) -> None:
        """Go along so many links, on from where the last way ended."""
        self._run(tvm_ffi.from_dlpack(self._links), tvm_ffi.from_dlpack(self._end), steps)


buffers, links = Buffers, Links


@functools.cache
def _linked() -> Any:
    writer = CpuWriter()
    links, end = _any_size("links", "int32"), flat_buffer("end", 1, "int32", alignment=4)
    steps = tirx.Var("steps", "int32")
    at = writer.allocate("at", 1, "int32")
    writer.store(at, 0, writer.load(end, 0))
    with writer.loop("i", steps):
        writer.store(at, 0, writer.load(links, writer.load(at, 0)))
    writer.store(end, 0, writer.load(at, 0))
    return _compiled(writer, [links, end, steps])


def _any_size(name: str, dtype: str) -> Any:
    """A buffer whose size is known when the loop runs."""
    size = tirx.Var(f"{name}_size", "int32")
    return tirx.decl_buffer((size,), dtype, name, data_alignment=LINE, layout=None)


def cores() -> int:
    """Cores that affinity and quota allow."""
    return usable_cores()


def host() -> str:
    """Return what the code generator calls this processor."""
    return processor(host_arch())


def runs(machine: Machine) -> bool:
    """Whether the machine's code is for this kind of processor."""
    return not is_foreign(machine)


def use_threads(count: int) -> None:
    """Run parallel loops on so many threads from now on."""
    set_threads(count)


def _compiled(writer: CpuWriter, params: list[Any]) -> Any:
    function = writer.function("run", params)
    if uses_tiles(str(function)):
        ask_for_tiles("a loop that measures them")
    return compile_module(tvm.IRModule({"run": function}), native().arch)["run"]

"""Speed of the DSA simulator beside NumPy's own product: ``python -m benchmarks.dsa_simulator``.

Both sides multiply the same matrices in one process and alternate; the median of the
pairs' ratios counts. A ratio of 0.5 means that simulating takes twice as long.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from septran.machine.loader import load_machine
from septran.machine.model import Machine
from septran.simulator import Run, simulate
from septran.simulator.commands import memory_address, parameter_address
from septran.simulator.queues import Queues
from septran.simulator.script import Script

Array = np.ndarray[Any, Any]


def gemm_stream(machine: Machine, n: int, tile: tuple[int, int, int], kind: str) -> Array:
    """C += A @ B of n x n x n with double buffers, as the compiler would schedule it."""
    queues = Queues(machine).numbers
    copy_in, copy_out, mma = queues["dma_in"], queues["dma_out"], queues["MMA"]
    m, w, k = tile
    item = np.dtype(kind).itemsize
    spm, acc = memory_address(1), memory_address(2)
    a_bytes, b_bytes, c_bytes = m * k * item, k * w * item, m * w * 4
    script = Script()
    step = 0
    for tile_number, (i, j) in enumerate((i, j) for i in range(n // m) for j in range(n // w)):
        c = acc + tile_number % 2 * c_bytes
        if tile_number >= 2:
            script.add("wait_flag", src=copy_out, dst=mma, flag=2 + tile_number % 2)
        for p in range(n // k):
            stage = step % 2
            a = spm + stage * (a_bytes + b_bytes)
            b = a + a_bytes
            if step >= 2:
                script.add("wait_flag", src=mma, dst=copy_in, flag=stage)
            script.add(
                "dma_copy", queue=copy_in, dst=a, dst_stride=k * item,
                src=parameter_address(0) + (i * m * n + p * k) * item, src_stride=n * item,
                rows=m, row_bytes=k * item,
            )  # fmt: skip
            script.add(
                "dma_copy", queue=copy_in, dst=b, dst_stride=w * item,
                src=parameter_address(1) + (p * k * n + j * w) * item, src_stride=n * item,
                rows=k, row_bytes=w * item,
            )  # fmt: skip
            script.add("set_flag", src=copy_in, dst=mma, flag=stage)
            script.add("wait_flag", src=copy_in, dst=mma, flag=stage)
            script.add(
                "mma", queue=mma, c=c, c_stride=w * 4, a=a, a_stride=k * item, a_transposed=0,
                b=b, b_stride=w * item, b_transposed=0, m=m, n=w, k=k, c_type="float32",
                type=kind, accumulate=int(p > 0),
            )  # fmt: skip
            script.add("set_flag", src=mma, dst=copy_in, flag=stage)
            step += 1
        script.add("set_flag", src=mma, dst=copy_out, flag=2)
        script.add("wait_flag", src=mma, dst=copy_out, flag=2)
        script.add(
            "dma_copy", queue=copy_out, dst=parameter_address(2) + (i * m * n + j * w) * 4,
            dst_stride=n * 4, src=c, src_stride=w * 4, rows=m, row_bytes=w * 4,
        )  # fmt: skip
        script.add("set_flag", src=copy_out, dst=mma, flag=2 + tile_number % 2)
    for stage in range(min(2, step)):
        script.add("wait_flag", src=mma, dst=copy_in, flag=(step + stage) % 2)
    for stage in range(min(2, tile_number + 1)):
        script.add("wait_flag", src=copy_out, dst=mma, flag=2 + (tile_number + 1 + stage) % 2)
    return script.stream()


def products_stream(machine: Machine, n: int, count: int) -> Array:
    """`count` products of n x n x n float32 on resident operands."""
    queues = Queues(machine).numbers
    spm, acc = memory_address(1), memory_address(2)
    script = Script()
    for operand in range(2):
        script.add(
            "dma_copy", queue=queues["dma_in"], dst=spm + operand * n * n * 4,
            dst_stride=n * 4, src=parameter_address(operand), src_stride=n * 4, rows=n,
            row_bytes=n * 4,
        )  # fmt: skip
    script.add("sync")
    for number in range(count):
        script.add(
            "mma", queue=queues["MMA"], c=acc, c_stride=n * 4, a=spm, a_stride=n * 4,
            a_transposed=0, b=spm + n * n * 4, b_stride=n * 4, b_transposed=0, m=n, n=n, k=n,
            c_type="float32", type="float32", accumulate=int(number > 0),
        )  # fmt: skip
    script.add("sync")
    script.add(
        "dma_copy", queue=queues["dma_out"], dst=parameter_address(2), dst_stride=n * 4,
        src=acc, src_stride=n * 4, rows=n, row_bytes=n * 4,
    )  # fmt: skip
    return script.stream()


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(ours: Callable[[], object], theirs: Callable[[], object], pairs: int) -> list[float]:
    """Median seconds of ours and of theirs, and the median of the pairs' ratios."""
    ours(), theirs()
    times = [(_seconds(ours), _seconds(theirs)) for _ in range(pairs)]
    ratio = statistics.median(b / a for a, b in times)
    return [*(statistics.median(column) for column in zip(*times, strict=True)), ratio]


def gemm(machine: Machine, n: int, tile: tuple[int, int, int], kind: str, pairs: int) -> None:
    """Print the time of one whole gemm."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((n, n)).astype(kind) for _ in range(2))
    c = np.empty((n, n), np.float32)
    stream = gemm_stream(machine, n, tile, kind)
    wide = a.astype("f4"), b.astype("f4")

    def ours() -> Run:
        return simulate(machine, stream, [a, b, c])

    mine, theirs, ratio = compare(ours, lambda: np.matmul(*wide), pairs)
    error = np.abs(c - wide[0].astype("f8") @ wide[1].astype("f8")).max()
    run = ours()
    print(
        f"gemm {n}^3 {kind} {'x'.join(map(str, tile))}: {len(stream)} commands, "
        f"{mine * 1e3:.1f} ms, numpy {theirs * 1e3:.1f} ms, ratio {ratio:.2f}; "
        f"{run.cycles} cycles, mma {run.utilisation['MMA']:.1%}, error {error:.1e}"
    )


def products(machine: Machine, n: int, count: int, pairs: int) -> None:
    """Print the rate of products on resident operands."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((n, n)).astype("f4") for _ in range(2))
    c = np.empty((n, n), np.float32)
    stream = products_stream(machine, n, count)

    def theirs() -> None:
        for _ in range(count):
            np.matmul(a, b, out=c)

    mine, other, ratio = compare(lambda: simulate(machine, stream, [a, b, c]), theirs, pairs)
    work = 2e-9 * n**3 * count
    print(
        f"mma {n}^3 float32 x {count}: {work / mine:.1f} GFLOP/s, "
        f"numpy {work / other:.1f}, ratio {ratio:.2f}"
    )


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    options = parser.parse_args()
    machine = load_machine("dsa-sim")
    gemm(machine, 1024, (128, 64, 256), "float16", options.pairs)
    gemm(machine, 1024, (128, 64, 128), "float32", options.pairs)
    for n in (64, 96, 128):
        products(machine, n, 1000, options.pairs)


if __name__ == "__main__":
    main()

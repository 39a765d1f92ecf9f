"""Streams of a tiled product on dsa-sim, written by hand as the recorder would write them."""

from __future__ import annotations

import numpy as np
import pytest

from septran.machine.loader import load_machine
from septran.simulator import simulate
from septran.simulator.commands import memory_address, parameter_address
from septran.simulator.queues import Queues
from septran.simulator.script import Script
from septran.targets.dsa.profiles.profile import DsaProfile

ROWS, COLUMNS, STEP = 64, 64, 64
ORIGINS = {
    "a": "A is GLOBAL in block and SPM in tile: copied in [gemm.py:28, m.mapping.yaml:7:3]",
    "mma": "gemm by mma [gemm.py:16, m.mapping.yaml:9:3]",
    "out": "C is ACC in block and GLOBAL in gemm, so it is copied out [gemm.py:30]",
}


def product(stages: int, steps: int = 8) -> DsaProfile:
    """C[64, 64] = A[64, 64 steps] @ B, tiles of A and B in a ring of `stages`."""
    machine = load_machine("dsa-sim")
    queues = Queues(machine).numbers
    incoming, outgoing, matrix = (queues[name] for name in ("dma_in", "dma_out", "MMA"))
    script, what = Script(), {}

    def add(origin, name, **arguments):
        what[script.add(name, **arguments) + 1] = ORIGINS.get(origin, "")

    spm, acc = memory_address(1), memory_address(2)
    size, width = ROWS * STEP * 4, STEP * steps * 4
    for k in range(steps):
        slot = k % stages
        if k >= stages:
            add("a", "wait_flag", src=matrix, dst=incoming, flag=slot)
        for n, stride in ((1, width), (2, COLUMNS * 4)):
            source = parameter_address(n) + (k * STEP * 4 if n == 1 else k * STEP * COLUMNS * 4)
            place = spm + (2 * slot + n - 1) * size
            add(
                "a", "dma_copy", queue=incoming, dst=place, dst_stride=STEP * 4, src=source,
                src_stride=stride, rows=STEP, row_bytes=STEP * 4,
            )  # fmt: skip
        add("a", "set_flag", src=incoming, dst=matrix, flag=slot)
        add("mma", "wait_flag", src=incoming, dst=matrix, flag=slot)
        add(
            "mma", "mma", queue=matrix, c=acc, c_stride=COLUMNS * 4, a=spm + 2 * slot * size,
            a_stride=STEP * 4, a_transposed=0, b=spm + (2 * slot + 1) * size,
            b_stride=COLUMNS * 4, b_transposed=0, m=ROWS, n=COLUMNS, k=STEP, c_type="float32",
            type="float32", accumulate=int(k > 0),
        )  # fmt: skip
        if k + stages < steps:
            add("mma", "set_flag", src=matrix, dst=incoming, flag=slot)
    add("out", "set_flag", src=matrix, dst=outgoing, flag=0)
    add("out", "wait_flag", src=matrix, dst=outgoing, flag=0)
    add(
        "out", "dma_copy", queue=outgoing, dst=parameter_address(0), dst_stride=COLUMNS * 4,
        src=acc, src_stride=COLUMNS * 4, rows=ROWS, row_bytes=COLUMNS * 4,
    )  # fmt: skip
    add("", "sync")
    rng = np.random.default_rng(0)
    a = rng.standard_normal((ROWS, STEP * steps)).astype("float32")
    b = rng.standard_normal((STEP * steps, COLUMNS)).astype("float32")
    c = np.zeros((ROWS, COLUMNS), "float32")
    stream = script.stream()
    run = simulate(machine, stream, [c, a, b])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-3)
    return DsaProfile("product", run, stream, what)


@pytest.fixture(scope="session")
def one_stage():
    return product(1)


@pytest.fixture(scope="session")
def two_stages():
    return product(2)

"""Counting work, timing calls, and the figures that follow."""

from __future__ import annotations

import math

import pytest

import septran
from septran import task
from septran.machine.loader import load_machine
from septran.runtime.profile import Profile, measure
from septran.runtime.roofline import Roofline, peak_flops
from septran.runtime.work import work
from septran.task.trace.chooser import DefaultChooser


@task.define(leaf=True)
def gemm_tile(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def tiled(C, A, B):
    m, n, k = task.tunable("block_M"), task.tunable("block_N"), task.tunable("block_K")
    task.fill(C, 0)
    Cp = task.partition(C, shape=(m, n))
    Ap = task.partition(A, shape=(m, k))
    Bp = task.partition(B, shape=(k, n))
    for i, j in task.parallel_range(Cp.shape):
        for p in task.sequential_range(Ap.shape[1]):
            task.launch(gemm_tile, Cp[i, j], Ap[i, p], Bp[p, j])


@task.define
def triangle(C, A, B):
    Cp = task.partition(C, shape=(4, C.shape[1]))
    Ap = task.partition(A, shape=(4, 4))
    Bp = task.partition(B, shape=(4, B.shape[1]))
    task.fill(C, 0)
    for i in task.parallel_range(Cp.shape[0]):
        for k in task.sequential_range(i + 1):
            task.launch(gemm_tile, Cp[i, 0], Ap[i, k], Bp[k, 0])


@task.define(leaf=True)
def softmax_rows(Y, X):
    e = task.exp(X - task.max(X, axis=1)[:, None])
    Y[:, :] = e / task.sum(e, axis=1)[:, None]


@pytest.mark.parametrize("size", [(64, 64, 64), (65, 33, 17), (1, 1, 1), (100, 7, 0), (0, 3, 4)])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (48, 20, 7)])
def test_ragged_tiles_are_counted_exactly(size, blocks):
    m, n, k = size
    tunables = dict(zip(("block_M", "block_N", "block_K"), blocks, strict=True))
    shapes = {"C": (m, n), "A": (m, k), "B": (k, n)}
    found = work(task.trace(tiled, shapes, None, DefaultChooser(tunables)))
    assert found.operations.get("gemm", 0) == 2 * m * n * k
    assert found.bytes_read == 4 * (m * k + k * n)
    assert found.bytes_written == 4 * m * n
    if found.bytes_moved:
        assert found.intensity == found.flops / found.bytes_moved


def test_loops_that_depend_on_outer_ones_are_counted():
    shapes = {"C": (18, 3), "A": (18, 18), "B": (18, 3)}
    found = work(task.trace(triangle, shapes))
    rows = [4, 4, 4, 4, 2]
    assert found.flops == 2 * 3 * sum(rows[i] * rows[k] for i in range(5) for k in range(i + 1))


def test_expressions_count_each_operation_an_element():
    found = work(task.trace(softmax_rows, {"Y": (10, 6), "X": (10, 6)}))
    # max, subtract, exp, (again for the sum:) max, subtract, exp, sum, divide
    assert found.operations == {"map": 8 * 60}


def test_many_iterations_are_counted_without_walking_them():
    tunables = {"block_M": 1, "block_N": 1, "block_K": 1}
    shapes = {"C": (3000, 3000), "A": (3000, 3000), "B": (3000, 3000)}
    found = work(task.trace(tiled, shapes, None, DefaultChooser(tunables)))
    assert found.flops == 2 * 3000**3


PROFILE = Profile("gemm", (3e-3, 1e-3, 2e-3, 2e-3), 8_000_000, 4_000_000, 8e9, 1e9, "box")


def test_figures():
    assert PROFILE.median == 2e-3
    assert PROFILE.best == 1e-3
    assert PROFILE.quartiles == pytest.approx((1.75e-3, 2.25e-3))
    assert PROFILE.flops_per_second == 4e9
    assert PROFILE.bytes_per_second == 2e9
    assert PROFILE.intensity == 2
    assert PROFILE.fraction_of_peak == 0.5
    assert PROFILE.fraction_of_bandwidth == 2
    assert PROFILE.limit == "memory"


def test_text():
    assert str(PROFILE) == (
        "gemm: 2 ms a call (half of 4 samples between 1.75 ms and 2.25 ms, best 1 ms)\n"
        "  4.00 GFLOP/s (50% of peak)\n"
        "  2.00 GB/s (200% of bandwidth)\n"
        "  2.00 FLOP/byte: memory-bound on box"
    )


def test_what_is_unknown_is_said_to_be():
    profile = Profile("f", (1e-3,), 0, 0)
    assert profile.fraction_of_peak is profile.fraction_of_bandwidth is profile.limit is None
    assert math.isinf(profile.intensity)
    assert "(peak unknown)" in str(profile)


def test_a_machine_for_any_device_has_no_peaks():
    sizes = {"M": 8, "N": 8, "K": 8}
    limits = Roofline.of(septran.produce_stages("gemm", "opencl-generic", shapes=sizes))
    assert (limits.peak_flops, limits.peak_bandwidth) == (None, None)


def test_to_pandas_has_one_row():
    frame = PROFILE.to_pandas()
    assert len(frame) == 1
    assert frame["median_s"][0] == 2e-3
    assert frame["limit"][0] == "memory"


def test_measuring_repeats_short_calls():
    calls = []
    samples = measure(lambda: calls.append(1), repeat=7)
    assert len(samples) == 7
    assert all(s > 0 for s in samples)
    assert len(calls) > 100
    assert len(measure(lambda: sum(range(1000)))) >= 5


def test_peak_is_clock_times_throughput_times_cores():
    import septran

    machine = load_machine("cpu-x86")
    stages = septran.produce_stages("gemm", "cpu-x86", shapes={"M": 64, "N": 64, "K": 64})
    program = stages.tile_program
    peak = peak_flops(program, work(stages.task_tree).operations)
    a_cycle = machine.instruction("fma_microkernel").throughput  # differs with the arch
    assert a_cycle in (16, 32)
    assert peak == a_cycle * 2 * 4000e6 * program.machine.processor("CORE").count
    assert machine.clock_mhz == 4000
    double = septran.produce_stages(
        "gemm", "cpu-x86", shapes={"M": 64, "N": 64, "K": 64}, dtypes="float64"
    )
    assert peak_flops(double.tile_program, {"gemm": 1}) == peak / 2

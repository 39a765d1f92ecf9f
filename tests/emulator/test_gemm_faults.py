"""A right GEMM is right in every mode; each fault that is put into it is found and named."""

import numpy as np
import pytest

from septran.emulator import (
    ArrivalError,
    EmulatedBoundsError,
    EmulatedDeadlockError,
    EmulationError,
    MisuseError,
    ProxyError,
    RegisterError,
    ThreadRaceError,
    UnfinishedError,
    UnwrittenSharedError,
)

M, N, K = 128, 128, 320


@pytest.fixture
def run(launch, tensor_map, random):
    inputs = {}

    def call(text, m=M, n=N, k=K, shared=3 * 16384 + 8192 + 48, **options):
        if (m, n, k) not in inputs:
            inputs[m, n, k] = random("float16", m, k), random("float16", n, k)
        a, b = inputs[m, n, k]
        d = np.full((m, n), np.nan, np.float16)
        maps = [tensor_map(x, v, (64, 64), 128) for x, v in (("A", a), ("B", b), ("D", d))]
        arrays = {"A": a, "B": b, "D": d}
        found = launch(text, arrays, block=256, grid=4, shared=shared, maps=maps, **options)
        return a, b, d, found

    return call


def wrong(a, b, d):
    """Elements beyond rounding: K terms of float32, one rounding to float16."""
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T
    bound = 2 * a.shape[1] * 2.0**-24 * sizes + 2.0**-11 * np.abs(exact) + 2.0**-24
    return int((~(np.abs(d.astype(np.float64) - exact) <= bound)).sum())


@pytest.mark.parametrize("options", [{}, *({"seed": s} for s in range(6))], ids=str)
@pytest.mark.one_in(2)
def test_right_in_every_mode(gemm, run, options):
    a, b, d, found = run(gemm, **options)
    assert wrong(a, b, d) == 0
    assert found.statistics["tma_load_bytes"] == 4 * 5 * 16384
    assert found.statistics["flops"] == 2 * M * N * K
    assert found.conflicts == ()


@pytest.mark.parametrize("seed", [None, 0, 3])
def test_ragged_edges_are_filled_and_clipped(gemm, run, seed):
    a, b, d, _ = run(gemm, 100, 72, 264, seed=seed)
    assert wrong(a, b, d) == 0


FAULTS = {
    "wrong_stride": ("1024, 1), descriptor(b", "512, 1), descriptor(b", None),
    "wrong_swizzle": ("1024, 1), i + k > 0", "1024, 2), i + k > 0", None),
    "too_much_expected": ("expect(full + s, 16384)", "expect(full + s, 16400)",
                          EmulatedDeadlockError),
    "too_little_expected": ("expect(full + s, 16384)", "expect(full + s, 16368)",
                            (ArrivalError, EmulatedDeadlockError)),
    "no_wait_for_wgmma": ("wg_wait();  // before", "//", (RegisterError, UnfinishedError)),
    "no_wait_for_a_free_slot": (
        "wait(empty + s, (i / STAGES & 1) ^ 1);", "", (UnfinishedError, ArrivalError)),
    "no_wait_for_data": ("wait(full + s, i / STAGES & 1);", "", UnfinishedError),
    "wrong_parity": ("wait(full + s, i / STAGES & 1)", "wait(full + s, (i / STAGES & 1) ^ 1)",
                     (UnfinishedError, EmulatedDeadlockError)),
    "no_wait_for_stores": ("wait_stores();\n  }\n}", "}\n}", UnfinishedError),
    "more_arrivals_expected": ("bar_init(empty + s, 4)", "bar_init(empty + s, 5)",
                               EmulatedDeadlockError),
    "fewer_arrivals_expected": ("bar_init(empty + s, 4)", "bar_init(empty + s, 3)", EmulationError),
    "wrong_exclusive_or": ("^ (row % 8)", "^ (row % 4)", None),
    "no_proxy_fence": ("fence_async();  // for the store", "", ProxyError),
    "no_barrier_before_the_store": ('asm volatile("bar.sync 1, 128;" ::: "memory");', "",
                                    (ThreadRaceError, UnwrittenSharedError)),
    "no_barrier_after_the_init": ("  __syncthreads();\n", "", (ThreadRaceError, MisuseError)),
    "no_fence_after_the_init": ("    fence_init();\n", "", ProxyError),
    "no_wgmma_fence": ("    wg_fence();\n", "", RegisterError),
    "barrier_of_too_many": ('"bar.sync 1, 128;"', '"bar.sync 1, 160;"', EmulatedDeadlockError),
    "arrival_by_one_warp": ("if (lane == 0) arrive(empty + s)",
                            "if (threadIdx.x == 128) for (int x = 0; x < 4; ++x) arrive(empty + s)",
                            UnfinishedError),
    "one_stage_too_few": ("#define STAGES 3", "#define STAGES 4", EmulatedBoundsError),
    "accumulators_read_too_early": ("wg_commit();\n    wg_wait();",
                                    "wg_commit(); d[3] += 1.f; wg_wait();", RegisterError),
    "accumulators_written_behind_the_fence": ("wg_fence();\n", "wg_fence(); d[0] = 0;\n",
                                              RegisterError),
    "stage_overrun": ("a + s * 8192, &A", "a + (s + 4) * 8192 + 128, &A", EmulationError),
}  # fmt: skip


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.one_in(4)
def test_faults_are_found(gemm, run, name, seed):
    right, faulty, kind = FAULTS[name]
    assert right in gemm
    text = gemm.replace(right, faulty)
    if kind is None:
        try:
            a, b, d, _ = run(text, seed=seed)
        except EmulationError:
            return
        assert wrong(a, b, d) > 0
        return
    with pytest.raises(kind):
        run(text, seed=seed)


def test_a_fault_names_thread_line_and_origin(gemm, run):
    text = gemm.replace("wait(empty + s, (i / STAGES & 1) ^ 1);", "")
    with pytest.raises(EmulationError) as caught:
        run(text)
    said = str(caught.value)
    assert "A -> shared, because gemm reads it there [gemm.py:7]" in said
    assert "load2(a + s * 8192, &A, full + s, i * 64, m);" in said
    assert (caught.value.block, caught.value.thread) == (0, 0)


def test_a_deadlock_says_who_waits_where(gemm, run):
    text = gemm.replace("expect(full + s, 16384)", "expect(full + s, 16400)")
    with pytest.raises(EmulatedDeadlockError) as caught:
        run(text)
    said = str(caught.value)
    assert "block 0, 128 threads (128 to 255): mbarrier.try_wait for parity 0" in said
    assert "16 bytes still expected" in said
    assert "wait(full + s, i / STAGES & 1);  // the data is there" in said


def test_the_same_seed_does_the_same(gemm, run):
    runs = [run(gemm, seed=5, trace=True) for _ in range(2)]
    assert np.array_equal(runs[0][2].view(np.uint16), runs[1][2].view(np.uint16))
    assert runs[0][3].statistics == runs[1][3].statistics
    assert np.array_equal(runs[0][3].trace, runs[1][3].trace)


def test_blocks_share_host_threads(gemm, run):
    a, b, d, found = run(gemm, threads=3)
    assert wrong(a, b, d) == 0
    assert found.statistics["wgmma"] == 4 * 5 * 4 * 4

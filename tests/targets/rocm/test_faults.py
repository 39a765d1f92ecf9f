"""A right kernel is right in every mode; each fault that is put into its HIP text is found."""

import re
from dataclasses import replace

import numpy as np
import pytest

from septran.emulator import (
    EmulatedBoundsError,
    EmulatedDeadlockError,
    EmulationError,
    MisuseError,
    ThreadRaceError,
    UnwrittenSharedError,
    emulate,
)

GEMM = {"M": 70, "N": 64, "K": 160}
SYNC = "tvm_builtin_cuda_cta_sync();"
LOADED = r"\*\(uint2\*\)\(a_ptr \+ 0\)"


@pytest.fixture
def gemm(program):
    return program("gemm", "float16", **GEMM)


@pytest.fixture
def softmax(program):
    return program("softmax", "float32", M=20, N=150)


def multiplied(program, **options):
    """How far the product is from the exact one, at most, as a share of the bound."""
    rng = np.random.default_rng(1)
    m, n, k = GEMM.values()
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float16)
    emulate(program, {"C": c, "A": a, "B": b}, **options)
    exact, sizes = a.astype(float) @ b, abs(a).astype(float) @ abs(b)
    bound = 2 * k * 2.0**-24 * sizes + 2.0**-11 * abs(exact) + 2.0**-24
    return np.nan_to_num(abs(c.astype(float) - exact) / bound, nan=np.inf).max()


def normalised(program):
    x = np.random.default_rng(2).standard_normal((20, 150)).astype(np.float32)
    y = np.full_like(x, np.nan)
    emulate(program, {"Y": y, "X": x})
    exact = np.exp(x.astype(float))
    exact /= exact.sum(1, keepdims=True)
    return np.nan_to_num(abs(y - exact) / exact, nan=np.inf).max()


def changed(program, pattern, to, *, nth=0):
    """The program with the nth match of a pattern replaced; it has to be there."""
    text = program.source
    found = list(re.finditer(pattern, text))[nth]
    text = text[: found.start()] + found.expand(to) + text[found.end() :]
    assert text != program.source
    return replace(program, source=text)


@pytest.mark.parametrize("mode", ["eager", "late", "random"])
def test_the_kernels_are_right(gemm, softmax, mode):
    assert multiplied(gemm, mode=mode, seed=3) <= 1
    assert normalised(softmax) < 1e-5


@pytest.mark.parametrize("seed", [1, 2])
def test_no_barrier_between_copies_and_products(gemm, seed):
    nth = [m.start() for m in re.finditer(re.escape(SYNC), gemm.source)]
    last = len(nth) - 1
    with pytest.raises((ThreadRaceError, UnwrittenSharedError)):
        multiplied(changed(gemm, re.escape(SYNC), "", nth=last), mode="random", seed=seed)


def test_no_barrier_in_the_loop(gemm):
    count = len(re.findall(re.escape(SYNC), gemm.source))
    with pytest.raises((ThreadRaceError, UnwrittenSharedError), match="line"):
        multiplied(changed(gemm, re.escape(SYNC), "", nth=count - 2), mode="random", seed=1)


def test_a_tile_that_is_written_to_the_stage_that_others_read(gemm):
    wrong = changed(gemm, r"\(k & 1\)", "((k + 1) & 1)")
    with pytest.raises((ThreadRaceError, UnwrittenSharedError), match="line"):
        multiplied(wrong, mode="random", seed=1)


@pytest.mark.parametrize(
    ("pattern", "to"),
    [
        pytest.param(r"(int at\w* = .*)\bgroup\b", r"\1(group ^ 1)", id="steps in other lanes"),
        pytest.param(r"int column = (.*);", r"int column = ((\1) ^ 1);", id="columns exchanged"),
        pytest.param(r"(septran_mfma_\w+)\((.*?\]\)\)), (.*?\]\)\)), (.*?\]\)\))\);",
                     r"\1(\2, \4, \3);", id="operands exchanged"),
        pytest.param(r"&\(acc_ptr\[4\]\)", r"&(acc_ptr[0])", id="two products in one sum"),
        pytest.param(r"(acc_ptr\[r_\d+\]) = 0x0p\+0f", r"\1 = 1.0f", id="sums that begin at one"),
    ],
)  # fmt: skip
def test_a_wrong_map_of_lanes_gives_wrong_numbers(gemm, pattern, to):
    nth = 1 if "mfma" in pattern else 0
    assert multiplied(changed(gemm, pattern, to, nth=nth)) > 1


def test_rows_that_nobody_copied(gemm):
    """A lane that takes its rows from beyond what is there."""
    with pytest.raises((UnwrittenSharedError, EmulatedBoundsError)):
        multiplied(changed(gemm, r"int group = (.*);", r"int group = ((\1) + 8192);"))


def test_shared_memory_that_the_launch_did_not_ask_for(gemm):
    (launch,) = gemm.launches
    small = replace(launch, shared_bytes=launch.shared_bytes // 2)
    with pytest.raises(EmulatedBoundsError, match="shared memory"):
        multiplied(replace(gemm, launches=(small,)))


def test_more_shared_memory_than_a_block_has(gemm):
    (launch,) = gemm.launches
    large = replace(launch, shared_bytes=1 << 19)
    with pytest.raises(MisuseError, match="524288 bytes of shared memory"):
        multiplied(replace(gemm, launches=(large,)))


def test_a_product_by_half_a_wave(gemm):
    half = changed(gemm, r"(septran_mfma_\w+\(\(&.*\);)", r"if (threadIdx.x & 32) { \1 }")
    with pytest.raises(EmulatedDeadlockError, match="a matrix instruction"):
        multiplied(half)


def test_a_barrier_for_some_waves(gemm):
    some = changed(
        gemm, r"(?<=\n) +tvm_builtin_cuda_cta_sync\(\);", f"if (threadIdx.x < 64) {SYNC}"
    )
    with pytest.raises((EmulatedDeadlockError, ThreadRaceError, UnwrittenSharedError)):
        multiplied(some, mode="random", seed=1)


def test_a_store_beyond_the_tensor(gemm):
    with pytest.raises(EmulatedBoundsError, match="C"):
        multiplied(changed(gemm, r"\(C \+ \(", "(C + 4096 + ("))


def test_a_load_beyond_the_tensor(gemm):
    with pytest.raises(EmulatedBoundsError, match="A"):
        multiplied(changed(gemm, r"\(A \+ \(", "(A + 4096 * 4 + ("))


def test_a_sum_over_the_wrong_lanes(softmax):
    assert normalised(changed(softmax, r"septran_partner<16>", "septran_partner<8>", nth=1)) > 1e-3


def test_an_instruction_that_is_not_modelled_is_refused(softmax):
    strange = changed(softmax, r"0xb1, 0xf", "0x142, 0xf")
    with pytest.raises(EmulationError, match="DPP"):
        normalised(strange)

"""Control programs for every length: extents are arguments, whichever calls tell them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import septran
from septran.dynamic import FixedDimensionError
from septran.targets.dsa.code import build
from septran.targets.dsa.code.build import load

Make = Callable[[int], dict[str, np.ndarray]]
MACHINES = ("dsa-sim", "npu-cube")
LENGTHS = (1, 65, 200)


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def attention(m: int, n: int) -> dict[str, np.ndarray]:
    return {"Q": normal(1, 4, m, 16), "K": normal(1, 2, n, 16), "V": normal(1, 2, n, 16)}


CASES: dict[str, tuple[str, tuple[str, ...], Make]] = {
    "elementwise": ("elementwise", ("N",), lambda n: {"X": normal(9, n)}),
    "gemm": ("gemm", ("M",), lambda n: {"A": normal(n, 48), "B": normal(48, 33)}),
    "gemm sums": ("gemm", ("K",), lambda n: {"A": normal(20, n), "B": normal(n, 33)}),
    "softmax": ("softmax", ("M", "N"), lambda n: {"X": normal(n, n + 3)}),
    "attention": ("attention", ("M", "N"), lambda n: attention(n, 2 * n)),
    "batches": ("transpose", ("B",), lambda n: {"X": normal(n, 5, 7)}),
}


def kernel_of(case: str, machine: str, **more):
    name, dims, _ = CASES[case]
    return septran.compile(name, machine, dynamic=dict.fromkeys(dims, (1, 512)), **more)


def of_both(*cases: str, slow: tuple[str, ...]):
    """Each case on each machine, some for the slow tests."""
    mark = {True: pytest.mark.slow, False: ()}
    return [
        pytest.param(case, machine, marks=mark[machine != "dsa-sim" or case in slow])
        for case in cases
        for machine in MACHINES
    ]


@pytest.mark.parametrize(("case", "machine"), of_both(*CASES, slow=("attention",)))
@pytest.mark.one_in(2)
def test_one_control_program_is_right_for_every_length(case, machine, monkeypatch):
    built: list[str] = []
    compiled = build.compile_code

    def noted(vendor, code, *rest):
        built.append(code.name)
        return compiled(vendor, code, *rest)

    monkeypatch.setattr(build, "compile_code", noted)
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    kernel = kernel_of(case, machine)
    for length in LENGTHS:
        kernel.check(**CASES[case][2](length)).raise_if_wrong()
    assert len(built) == 1


def test_a_length_is_an_argument_behind_the_others():
    kernel = kernel_of("gemm", "dsa-sim", shapes={"M": 20, "N": 33, "K": 48})
    text = kernel.stages.executable.source.text
    assert "void gemm(int32_t core, float *C, float *A, float *B, int32_t M)" in text
    assert "(M + 127) / 128" in text


def test_rows_lie_as_far_apart_as_the_call_says():
    """The commands of a length are those of a kernel that is made for it."""
    flexible = kernel_of("elementwise", "dsa-sim")
    x = normal(9, 70)
    y = flexible(X=x)
    own = septran.compile("elementwise", "dsa-sim", shapes={"M": 9, "N": 70})
    one, other = (k.stages.executable.stream((), (y, x)) for k in (flexible, own))
    assert (one["arguments"] == other["arguments"]).all()


def test_a_length_out_of_range_is_refused_by_the_code():
    kernel = kernel_of("gemm", "dsa-sim")
    kernel(*CASES["gemm"][2](20).values())
    long = {n: np.zeros((600, e), np.float32) for n, e in (("C", 33), ("A", 48))}
    with pytest.raises(ValueError, match="M is not in 1 to 512"):
        kernel.stages.executable(long["C"], long["A"], normal(48, 33))


@pytest.mark.parametrize("compiler", [True, False])
def test_a_saved_control_program_takes_lengths(compiler, tmp_path, monkeypatch):
    if not compiler:  # the recording of LLVM
        monkeypatch.setattr(build, "compiler", lambda: None)
        monkeypatch.setenv("SEPTRAN_CACHE", "0")
    kernel = kernel_of("gemm", "dsa-sim")
    inputs = CASES["gemm"][2](20)
    kernel(**inputs)
    kernel.stages.executable.save(tmp_path)
    again = load(tmp_path)
    for length in (20, 130):
        a, b = CASES["gemm"][2](length).values()
        c = np.empty((length, 33), np.float32)
        again(c, a, b)
        assert np.array_equal(c, kernel(a, b))


def test_the_bound_is_that_of_the_call():
    kernel = kernel_of("gemm", "dsa-sim")
    short, long = (kernel.profile(**CASES["gemm"][2](n)).bound.cycles for n in (20, 500))
    own = septran.compile("gemm", "dsa-sim").profile(**CASES["gemm"][2](20)).bound
    assert short == own.cycles
    assert long > 4 * short


def test_an_extent_that_is_a_quotient_of_a_call_s_is_refused_where_rows_are_so_long():
    shapes = {"B": 1, "C": 1, "H": 8, "W": 8}
    with pytest.raises(FixedDimensionError, match="rows of Y of pool2d are") as error:
        septran.compile("pool2d", "dsa-sim", shapes=shapes, dynamic={"W": (1, 16)})
    assert "out of dynamic" in str(error.value.hint)


def test_samples_choose_places_that_the_call_has():
    kernel = septran.compile("grouped_gemm", "dsa-sim", dynamic={"T": (1, 96)}, shapes={
        "T": 7, "K": 8, "N": 8, "E": 2})  # fmt: skip
    assert all(x.max() <= 7 for x in kernel.sample().values() if x.dtype.kind == "i")


def test_all_cores_share_what_a_call_tells():
    """One batch of one head: the tiles of its queries are all that there is to share."""
    kernel = septran.compile("attention", "npu-cube", dynamic={"M": (1, 512)})
    q, k = normal(1, 1, 256, 16), normal(1, 1, 32, 16)
    own = septran.compile("attention", "npu-cube")
    # On one core of the two it would take almost twice as long.
    assert kernel.profile(q, k, k).cycles < 1.3 * own.profile(q, k, k).cycles


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_a_sum_of_a_told_length_is_as_fast_as_one_that_is_known(machine):
    """The first product overwrites, and the next tiles are fetched while one is multiplied."""
    kernel = septran.compile("gemm", machine, dynamic={"K": (1, 1024)})
    own = septran.compile("gemm", machine)
    for length in (500, 1024):
        a, b = (normal(*shape).astype(np.float16) for shape in ((64, length), (length, 64)))
        assert kernel.profile(a, b).cycles <= 1.05 * own.profile(a, b).cycles
    one = normal(64, 1).astype(np.float16)
    assert kernel.check(one, one.T.copy()).right


def test_whole_rows_are_taken_as_many_at_a_time_as_fit():
    """Tiles for rows of 2048 have fewer rows than those for 1280 would."""
    own = septran.compile("softmax", "npu-cube")
    kernel = septran.compile("softmax", "npu-cube", dynamic={"N": (1, 2048)})
    x = normal(256, 1280)
    assert kernel.profile(x).cycles <= 1.05 * own.profile(x).cycles

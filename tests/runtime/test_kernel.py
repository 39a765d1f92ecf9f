"""Calls: outputs allocated or filled, scalars, specialisation, the short way."""

from __future__ import annotations

import gc
import timeit
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.runtime.errors import (
    ArgumentCountError,
    ArgumentDtypeError,
    ArgumentShapeError,
    NotATensorError,
    NotSpecialisedError,
    ScalarError,
)
from septran.task.tree import ScalarParam
from tests.runtime.fakes import make_kernel

A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)


def test_output_is_allocated_and_of_the_inputs_kind(gemm):
    assert isinstance(gemm(A, B), np.ndarray)
    c = gemm(torch.from_numpy(A), torch.from_numpy(B))
    assert isinstance(c, torch.Tensor)
    assert (c.numpy() == A @ B).all()


def test_out_is_filled_and_returned(gemm):
    c = np.full((3, 5), np.nan, np.float32)
    for _ in range(2):  # the long way, then the short
        c[:] = np.nan
        assert gemm(A, B, out=c) is c
        assert (c == A @ B).all()


def test_repeated_call_takes_the_short_way(gemm, monkeypatch):
    gemm(A, B)
    monkeypatch.setattr(gemm, "_call", None)
    assert (gemm(A + 1, B) == (A + 1) @ B).all()
    assert (gemm(A + 1, B=B) == (A + 1) @ B).all()
    assert (gemm(B=B, A=A + 1) == (A + 1) @ B).all()


def test_tensors_may_be_named(gemm):
    c = np.empty((3, 5), np.float32)
    assert (gemm(A, B=B) == A @ B).all()
    assert gemm(A=A, B=B, C=c) is c
    assert gemm(A, B, out={"C": c}) is c


def rows(count):
    return np.ones((count, 4), np.float32)


def test_a_kernel_keeps_the_shapes_that_were_used_last(monkeypatch):
    monkeypatch.setattr("septran.runtime.kernel.MOST_COMPILATIONS", 3)
    kernel, requests = make_kernel()
    often = rows(1)
    for count in range(1, 20):
        for x in (rows(count), often):
            assert (kernel(x, B) == x @ B).all()
    assert len(kernel.specialisations) == 3
    assert len(kernel._plans) <= 3
    assert len(requests) == 19, "the one that is used all the time was never dropped"
    assert kernel.specialisations[-1].shapes["A"] == (19, 4)
    gone = weakref.ref(kernel.specialisations[0].stages)
    for count in range(20, 23):
        kernel(rows(count), B)
    gc.collect()
    assert gone() is None
    kernel(rows(2), B)
    assert len(requests) == 23, "compiled again"


def test_only_the_latest_compilation_keeps_the_stages_before_its_code():
    kernel = septran.compile("softmax", "cpu-x86")
    for count in (1, 2):
        kernel(rows(count))
    first, second = (s.stages for s in kernel.specialisations)
    assert first.made == ("executable",)
    assert set(second.made) >= {"task_tree", "tile_program", "tensor_ir", "executable"}
    executable, text = first.executable, str(first.source)
    assert "softmax" in str(first.tile_program), "made anew"
    assert first.executable is executable
    assert str(first.source) == text
    assert kernel.check(rows(1)).right


def test_each_shape_and_dtype_is_specialised_once():
    kernel, requests = make_kernel()
    for _ in range(3):
        kernel(A, B)
        kernel(A, B, out=np.empty((3, 5), np.float32))
        kernel(A.astype(np.float64), B.astype(np.float64))
        kernel(A[:2], B)
    assert len(kernel.specialisations) == 3
    assert len(requests) == 3  # with and without C is the same


def test_accumulating_output_starts_at_zero_unless_passed():
    kernel, _ = make_kernel(accumulates=True)
    for _ in range(2):
        assert (kernel(A, B) == A @ B).all()
        c = np.ones((3, 5), np.float32)
        kernel(A, B, out=c)
        assert (c == A @ B + 1).all()


def test_scalars_have_defaults_and_are_checked(alpha):
    kernel, _ = make_kernel([alpha])
    for _ in range(2):
        assert (kernel(A, B) == A @ B).all()
        assert (kernel(A, B, alpha=2) == 2 * (A @ B)).all()
        assert (kernel(A, B, alpha=np.float32(0.5)) == 0.5 * (A @ B)).all()
        with pytest.raises(ScalarError, match="must be a number, not a str"):
            kernel(A, B, alpha="2")
    with pytest.raises(ArgumentCountError, match=r"no argument 'alhpa'(.|\n)*'alpha'"):
        kernel(A, B, alhpa=2)


def test_scalar_without_default_is_demanded():
    kernel, _ = make_kernel([ScalarParam("n", "int8")])
    for _ in range(2):
        assert (kernel(A, B, n=2) == 2 * (A @ B)).all()
        with pytest.raises(ScalarError, match="scalar n is missing"):
            kernel(A, B)
        with pytest.raises(ScalarError, match=r"n is int8, but got 2\.5"):
            kernel(A, B, n=2.5)
        with pytest.raises(ScalarError, match="n = 200 does not fit int8"):
            kernel(A, B, n=200)
        with pytest.raises(ScalarError, match="n is int8, but got nan"):
            kernel(A, B, n=float("nan"))


def test_missing_and_extra_tensors_are_named(gemm):
    for _ in range(2):
        with pytest.raises(ArgumentCountError, match="B missing; it is called as gemm"):
            gemm(A)
        with pytest.raises(ArgumentCountError, match=r"by position \(A, B\), not 3(.|\n)*out="):
            gemm(A, B, A @ B)
        gemm(A, B, out=np.empty((3, 5), np.float32))
    with pytest.raises(ArgumentCountError, match="A is passed twice"):
        gemm(A, B, A=A)
    with pytest.raises(ArgumentCountError, match="C is passed twice"):
        gemm(A, B, C=A @ B, out=A @ B)
    with pytest.raises(ArgumentCountError, match="out= has 2"):
        gemm(A, B, out=(A @ B, A @ B))


def test_disagreeing_dimension_is_named(gemm):
    with pytest.raises(ArgumentShapeError, match=r"K is 4 in A \(3 x 4\), but 3 in B \(3 x 4\)"):
        gemm(A, A)
    with pytest.raises(ArgumentShapeError, match=r"M is 3 in A|M is 4 in C"):
        gemm(A, B, out=np.empty((4, 5), np.float32))
    with pytest.raises(ArgumentShapeError, match=r"B is 2 x 4 x 5 \(3-dim.*must be K x N"):
        gemm(A, np.stack([B, B]))


def test_output_of_a_wrong_shape_is_an_error_without_named_dimensions():
    kernel, _ = make_kernel(dims=False)
    kernel._specialise = lambda shapes, dtypes, old=kernel._specialise: old(
        {k: v for k, v in shapes.items() if k != "C"}, dtypes
    )
    with pytest.raises(ArgumentShapeError, match="C is 4 x 5, but must be 3 x 5"):
        kernel(A, B, out=np.empty((4, 5), np.float32))


def test_wrong_dtype_is_an_error_where_it_is_fixed():
    kernel, _ = make_kernel(dtype="float32")
    with pytest.raises(ArgumentDtypeError, match=r"A is float64, but must be float32(.|\n)*astype"):
        kernel(A.astype(np.float64), B)
    with pytest.raises(ArgumentDtypeError, match=r"A is float64(.|\n)*to\(torch.float32\)"):
        kernel(torch.from_numpy(A).double(), torch.from_numpy(B))


def test_all_mistakes_are_reported_at_once():
    kernel, _ = make_kernel(dtype="float32")
    with pytest.raises(Exception, match=r"(?s)A is float64.*B is 4 \(1-dim.*2 mistakes"):
        kernel(A.astype(np.float64), B[:, 0])


@pytest.mark.parametrize("value", [[[1.0]], 3.0, None, "x", object()])
def test_what_is_no_array_is_an_error(gemm, value):
    with pytest.raises(NotATensorError, match="A is a"):
        gemm(value, B)


def test_mixed_kinds_are_an_error(gemm):
    with pytest.raises(NotATensorError, match="A of NumPy but B of torch"):
        gemm(A, torch.from_numpy(B))


def test_stages_before_shapes_are_an_error(gemm):
    with pytest.raises(NotSpecialisedError, match="call it once"):
        _ = gemm.stages
    gemm(A, B)
    assert "executable" in gemm.timings
    assert gemm.stages.source.language == "numpy"


def test_signature_prints_as_it_is_called(alpha):
    kernel, _ = make_kernel([alpha], dtype="float32")
    assert str(kernel.signature) == (
        "gemm(A: [M, K] float32, B: [K, N] float32, *, alpha: float32 = 1.0) -> C: [M, N] float32"
    )


def test_fixed_shape_is_checked():
    kernel, _ = make_kernel(shape=(8, 4))
    with pytest.raises(ArgumentShapeError, match="A is 3 x 4, but the kernel is for 8 x 4"):
        kernel(A, B)


def test_threads_share_one_specialisation():
    kernel, requests = make_kernel()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: kernel(A, B), range(32)))
    assert all((c == A @ B).all() for c in results)
    assert len(requests) == 1
    assert len({id(c) for c in results}) == 32


def test_a_call_like_one_before_costs_microseconds():
    kernel, _ = make_kernel()
    kernel.specialise({"A": A.shape, "B": B.shape}, {"A": "float32", "B": "float32"})
    kernel.stages._made["executable"] = lambda *_: None
    kernel(A, B)
    best = min(timeit.repeat(lambda: kernel(A, B), number=1000, repeat=20)) / 1000
    assert best < 40e-6  # 3 us on a quiet machine; the long way takes 60


@task.define(leaf=True)
def place_tile(Y):
    Y[:, :] = task.index(Y, 0)[:, None] * 100 + task.index(Y, 1)[None, :]


@task.define
def places(Y: task.Tensor["M", "N"]):
    """A logic without inputs: where each element lies."""
    Yp = task.partition(Y, shape=(16, 16))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(place_tile, Yp[i, j])


@pytest.mark.parametrize("target", ["cpu-x86", "dsa-sim"])
def test_a_logic_without_inputs_has_the_shapes_that_it_was_compiled_for(target):
    def wanted(m, n):
        return np.arange(m)[:, None] * 100.0 + np.arange(n)

    kernel = septran.compile(places, target, shapes={"M": 40, "N": 50})
    assert kernel.check().right
    assert np.array_equal(kernel(), wanted(40, 50))
    assert np.array_equal(kernel.reference(), wanted(40, 50))
    assert np.array_equal(kernel.interpret(), wanted(40, 50))
    assert kernel.profile()
    assert np.array_equal(kernel(out=np.zeros((3, 20), "float32")), wanted(3, 20))
    assert np.array_equal(kernel(), wanted(3, 20)), "the latest compilation's"


def test_a_logic_without_inputs_needs_shapes_or_its_output():
    with pytest.raises(septran.SepTranError, match="does not follow from the inputs"):
        septran.compile(places, "cpu-x86")()

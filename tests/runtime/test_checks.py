"""`Kernel.check` finds wrong kernels of every kind, on the machine's own code and on fakes."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import septran
from septran import task
from septran.runtime.accuracy import WrongResultError
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Signature, Specialisation, TensorParam
from tests.runtime.fakes import made_by


@task.define(leaf=True)
def gemm(C, A, B):
    task.fill(C, 0)
    task.call_primitive("gemm", C, A, B)


def kernel(run):
    """A kernel whose tree is `gemm` and whose code is `run`."""
    signature = Signature("gemm", (TensorParam("C", False, True), *map(TensorParam, "AB")))

    def specialise(shapes, dtypes):
        full = {"C": (shapes["A"][0], shapes["B"][1]), **shapes}
        kind = {"C": dtypes["A"], **dtypes}
        stages = made_by(
            task_tree=lambda _: task.trace(gemm, full, kind),
            tile_program=lambda _: SimpleNamespace(remarks=(), machine=None, body=()),
            executable=lambda _: run,
        )
        return Specialisation.of(stages)

    return Kernel(signature, specialise)


A = np.random.default_rng(0).standard_normal((9, 16)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((16, 11)).astype(np.float32)


def right(c, a, b):
    np.matmul(a, b, out=c)


def one_element_unwritten(c, a, b):
    c[:4] = a[:4] @ b
    c[5:] = a[5:] @ b


def past_the_end(c, a, b):
    right(c, a, b)
    ctypes.memset(c.ctypes.data + c.nbytes, 1, 4)


def before_the_start(c, a, b):
    right(c, a, b)
    ctypes.memset(a.ctypes.data - 1, 1, 1)


def input_changed(c, a, b):
    right(c, a, b)
    a[0, 0] += 1


def transposed(c, a, b):
    c[:] = (a @ b)[::-1]


def half_precision(c, a, b):
    c[:] = a.astype("f2") @ b.astype("f2")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (one_element_unwritten, r"C: 11 of 99 elements are wrong; C\[4, 0\] is nan instead of"),
        (past_the_end, "memory beside C was written to"),
        (before_the_start, "memory beside A was written to"),
        (input_changed, "input A was written to"),
        (transposed, "elements are wrong"),
        (half_precision, "elements are wrong"),
    ],
)
def test_a_wrong_kernel_is_found(run, message):
    check = kernel(run).check(A, B)
    assert not check.right
    with pytest.raises(WrongResultError, match=message):
        check.raise_if_wrong()


def test_a_right_kernel_passes():
    check = kernel(right).check(A, B)
    assert check.right
    assert check.raise_if_wrong() is check
    assert str(check).startswith("C: right, error at most 0.")


def test_what_is_passed_is_left_alone():
    a = A.copy()
    kernel(input_changed).check(a, B)
    assert (a == A).all()


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path / "cache"))
    return septran.compile("gemm", "cpu-x86")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_machine_code_passes(compiled, dtype):
    check = compiled.check(A.astype(dtype), B.astype(dtype))
    assert check.right, check
    assert compiled.check().right  # random inputs of the same shapes


def test_reference_interpreter_and_machine_code_agree(compiled):
    c = compiled(A, B)
    exact = compiled.reference(A, B)
    assert exact.dtype == np.float64
    assert np.abs(exact - A.astype("f8") @ B.astype("f8")).max() < 1e-14
    assert compiled.reference(A, B, dtype=None).dtype == np.float32
    bound = 17 * 2.0**-24 * (np.abs(A).astype("f8") @ np.abs(B))
    for order in ("early", "late", 3):
        assert (np.abs(compiled.interpret(A, B, order=order) - exact) <= 2 * bound).all()
    assert (np.abs(c - exact) <= 2 * bound).all()


def test_kinds_are_kept(compiled):
    import torch

    a, b = torch.from_numpy(A), torch.from_numpy(B)
    assert compiled.reference(a, b).dtype is torch.float64
    assert compiled.interpret(a, b).dtype is torch.float32
    assert compiled.check(a.bfloat16(), b.bfloat16()).right
    assert compiled.reference(a.bfloat16(), b.bfloat16(), dtype=None).dtype is torch.bfloat16


@pytest.mark.parametrize("shape", [(0, 4, 5), (4, 0, 5), (4, 5, 0), (0, 0, 0), (4, 0, 0)])
def test_empty_dimensions(compiled, shape):
    import torch

    m, k, n = shape
    for make in (np.ones, torch.ones):
        c = compiled(make((m, k)), make((k, n)))
        assert tuple(c.shape) == (m, n)
        assert not c.any()
        out = make((m, n))
        compiled(make((m, k)), make((k, n)), out=out)
        assert not out.any()


def test_profile_of_machine_code(compiled):
    profile = compiled.profile(A, B, repeat=5)
    assert profile.flops == 2 * A.size * B.shape[1]
    assert profile.machine == "cpu-x86"
    assert 0 < profile.fraction_of_peak < 1
    assert len(profile.samples) == 5
    assert len(compiled.profile(repeat=3).samples) == 3


def test_views_of_all_kinds_run_on_machine_code(compiled):
    raw = np.zeros(A.nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(A.shape)
    odd[:] = A
    expected = compiled(A, B)
    views = [odd, np.asfortranarray(A), np.repeat(A, 3, axis=1)[:, ::3], A[::-1].copy()[::-1]]
    for view in views:
        for _ in range(2):
            assert (compiled(view, B) == expected).all()


def test_three_runs_are_bit_identical(compiled):
    random = np.random.default_rng(5)
    a, b = random.standard_normal((150, 130)), random.standard_normal((130, 140))
    first = compiled(a, b)
    assert all((compiled(a, b) == first).all() for _ in range(3))

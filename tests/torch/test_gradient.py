"""Gradients: torch's gradcheck judges the logics that logic files name as their `BACKWARD`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import septran.torch as st
from septran.errors import SepTranError


def made(name: str, operator, **options) -> st.Operator:
    return st.op(operator, "cpu-x86", name=f"septran_tests::grad_{name}", **options)


def of(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_softmax():
    assert torch.autograd.gradcheck(made("softmax", "softmax"), of(5, 7))


@pytest.mark.parametrize("static", [{}, {"trans_a": True}, {"trans_b": True},
                                    {"trans_a": True, "trans_b": True}])  # fmt: skip
def test_gemm(static):
    a = of(4, 3) if static.get("trans_a") else of(3, 4)
    b = of(5, 4) if static.get("trans_b") else of(4, 5)
    name = "gemm_" + "_".join(["n", *static])
    assert torch.autograd.gradcheck(made(name, "gemm", static=static), (a, b))


def test_a_gradient_goes_through_a_compiled_graph():
    gemm, softmax = made("gemm", "gemm"), made("softmax", "softmax")
    a, b = of(20, 30), of(30, 40)
    function = torch.compile(
        lambda a, b: softmax(gemm(a, b)).pow(2).sum(), fullgraph=True, backend="aot_eager"
    )
    function(a, b).backward()
    found = a.grad.clone()
    a.grad = None
    torch.softmax(a @ b, 1).pow(2).sum().backward()
    torch.testing.assert_close(found, a.grad)


def test_without_a_logic_for_it_the_gradient_is_an_error_that_says_what_to_write():
    silu = made("silu", "elementwise")
    x = torch.randn(3, 4, requires_grad=True)
    result = silu(x)
    with pytest.raises(st.NoGradientError, match="grad_silu has no gradient") as caught:
        result.sum().backward()
    assert "BACKWARD" in caught.value.hint
    with torch.no_grad():
        assert not silu(x).requires_grad


LOGIC = """
from septran import task

BACKWARD = {backward!r}


@task.define(leaf=True)
def scale_tile(Y, X, *, factor: float):
    Y[:] = X * factor


@task.define
def scaled(Y: task.Tensor["N"], X: task.Tensor["N"], *, factor: float = 3.0):
    task.launch(scale_tile, Y, X, factor=factor)
"""
GRADIENT = """
from septran import task


@task.define(leaf=True)
def gradient_tile(dX, dY, *, factor: float):
    dX[:] = dY * factor


@task.define
def scaled_gradient({out}: task.Tensor["N"], {into}: task.Tensor["N"], *, factor: float = 1.0):
    task.launch(gradient_tile, {out}, {into}, factor=factor)
"""


def written(folder: Path, backward: object = "gradient.py", out: str = "dX", into: str = "dY"):
    (folder / "scaled.py").write_text(LOGIC.format(backward=backward))
    (folder / "gradient.py").write_text(GRADIENT.format(out=out, into=into))
    return folder / "scaled.py"


def test_a_file_beside_the_logic_and_its_scalars(tmp_path):
    op = made("scaled", written(tmp_path))
    assert torch.autograd.gradcheck(op, of(6))
    assert torch.autograd.gradcheck(lambda x: op(x, factor=5.0), of(6))


@pytest.mark.parametrize(("backward", "out", "into", "message"), [
    ("gradient.py", "dX", "Z", "takes Z"),
    ("gradient.py", "dZ", "dY", "returns dZ"),
    (3, "dX", "dY", "BACKWARD of scaled is 3"),
    ("nothing", "dX", "dY", "BACKWARD of scaled is 'nothing'"),
])  # fmt: skip
def test_what_a_gradient_cannot_be_is_said(tmp_path, backward, out, into, message):
    with pytest.raises(st.GradientLogicError, match=message) as caught:
        made("wrong", written(tmp_path, backward, out, into))
    assert isinstance(caught.value, SepTranError)
    assert caught.value.where is not None

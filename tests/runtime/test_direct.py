"""Calls that a compiled function checks itself end as those that are checked before."""

from __future__ import annotations

import pytest
import torch

import septran
from septran.errors import SepTranError


@pytest.fixture
def kernel():
    made = septran.compile("gemm", "cpu-x86", shapes={"M": 8, "N": 6, "K": 5})
    made(torch.ones(8, 5), torch.ones(5, 6), out=torch.empty(8, 6))
    assert made._direct is not None
    return made


def operands(m=8, n=6, k=5):
    return torch.randn(m, k), torch.randn(k, n)


def right(result, a, b):
    return torch.allclose(result, a @ b, atol=1e-5)


def test_results_are_right_with_and_without_out(kernel):
    a, b = operands()
    c = torch.empty(8, 6)
    before = c._version
    assert kernel(a, b, out=c) is c
    assert right(c, a, b)
    assert c._version > before
    assert right(kernel(a, b), a, b)
    assert kernel._direct.works


def test_other_shapes_are_compiled_for(kernel):
    for shape in ((3, 4, 5), (8, 6, 5), (9, 1, 2)):
        a, b = operands(*shape)
        assert right(kernel(a, b), a, b)


@pytest.mark.parametrize("spoil", ["stride", "negated", "slice", "subclass"])
def test_awkward_tensors_are_seen(kernel, spoil):
    a, b = operands()
    match spoil:
        case "stride":
            a = a.T.contiguous().T
        case "negated":
            a = torch._neg_view(a)
        case "slice":
            a = torch.randn(41)[1:].view(8, 5)
        case "subclass":
            a = torch.nn.Parameter(a, requires_grad=False)
    assert right(kernel(a, b), a, b)


def test_a_gradient_is_refused(kernel):
    a, b = operands()
    with pytest.raises(SepTranError, match="gradient"):
        kernel(a.requires_grad_(), b)


def test_an_output_over_an_input_is_refused():
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 6, "N": 6, "K": 6})
    a, b = operands(6, 6, 6)
    kernel(a, b, out=torch.empty(6, 6))
    with pytest.raises(SepTranError, match="memory"):
        kernel(a, b, out=a)


def test_wrong_arguments_are_refused_as_ever(kernel):
    a, b = operands()
    with pytest.raises(SepTranError):
        kernel(a)
    with pytest.raises(SepTranError):
        kernel(a, b, out=torch.empty(8, 7))
    with pytest.raises(SepTranError):
        kernel(a, b.int())
    assert right(kernel(a, b), a, b)

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
    assert kernel._direct is not None


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


@pytest.mark.parametrize("input_number", [0, 1])
@pytest.mark.parametrize(("start", "refused"), [(0, False), (1, True), (71, True), (72, False)])
def test_an_output_beside_an_input_is_told_from_one_over_it(input_number, start, refused):
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 6, "N": 6, "K": 6})
    room, inputs = torch.randn(108), [torch.randn(6, 6), torch.randn(6, 6)]
    inputs[input_number] = room[36:72].view(6, 6)
    kernel(*inputs, out=torch.empty(6, 6))
    c = room[start : start + 36].view(6, 6)
    if refused:
        with pytest.raises(SepTranError, match="memory"):
            kernel(*inputs, out=c)
        assert kernel._direct is None
    else:
        assert right(kernel(*inputs, out=c), *inputs)
        assert kernel._direct is not None


def test_after_a_refusal_calls_go_the_longer_way(kernel):
    a, b = operands(9, 6, 5)
    assert right(kernel(a, b), a, b)
    a, b = operands()
    assert right(kernel(a, b), a, b)
    assert kernel._direct is None


def test_wrong_arguments_are_refused_as_ever(kernel):
    a, b = operands()
    with pytest.raises(SepTranError):
        kernel(a)
    with pytest.raises(SepTranError):
        kernel(a, b, out=torch.empty(8, 7))
    with pytest.raises(SepTranError):
        kernel(a, b.int())
    assert right(kernel(a, b), a, b)


def test_an_odd_address_is_read_as_it_is(kernel):
    raw = torch.zeros(8 * 5 * 4 + 1, dtype=torch.uint8).numpy()[1:].view("f4").reshape(8, 5)
    a, b = torch.from_numpy(raw), torch.randn(5, 6)
    a[:] = torch.randn(8, 5)
    assert a.data_ptr() % 4
    assert right(kernel(a, b), a.clone(), b)

"""Calls that a compiled function checks itself end as those that are checked before."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.errors import SepTranError


@task.define(leaf=True)
def both(Y, Z, X):
    Y[:] = X + 1.0
    Z[:] = X - 1.0


@task.define
def twice(Y: task.Tensor["N"], Z: task.Tensor["N"], X: task.Tensor["N"]):
    Yp, Zp, Xp = (task.partition(T, shape=(16,)) for T in (Y, Z, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(both, Yp[i], Zp[i], Xp[i])


@pytest.fixture
def kernel():
    made = septran.compile("gemm", "cpu-x86", shapes={"M": 8, "N": 6, "K": 5})
    made(torch.ones(8, 5), torch.ones(5, 6), out=torch.empty(8, 6))
    assert made.direct
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
    assert kernel.direct


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
        assert not kernel.direct
    else:
        assert right(kernel(*inputs, out=c), *inputs)
        assert kernel.direct


def test_after_a_refusal_calls_go_the_longer_way(kernel):
    a, b = operands(9, 6, 5)
    assert right(kernel(a, b), a, b)
    a, b = operands()
    assert right(kernel(a, b), a, b)
    assert not kernel.direct


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


@pytest.fixture
def greatest():
    made = septran.compile("topk", "cpu-x86", static={"k": 3})
    made(torch.randn(5, 40))
    assert made.direct
    return made


def places(values, kind=torch):
    return (kind.empty((5, 3), dtype=values), kind.empty((5, 3), dtype=kind.int64))


@pytest.mark.parametrize("sort", [tuple, list])
def test_several_outputs_are_filled_in_a_direct_call_as_in_a_planned_one(greatest, sort):
    x, out = torch.randn(5, 40), sort(places(torch.float32))
    before = [y._version for y in out]
    for _ in range(3):  # the first list leaves a plan, a tuple goes straight
        assert greatest(x, out=out) is out
    for found, expected in zip(out, torch.topk(x, 3), strict=True):
        assert torch.equal(found, expected)
    assert all(y._version > old for y, old in zip(out, before, strict=True))
    assert greatest.direct
    fresh = greatest(x)
    assert isinstance(fresh, tuple)
    assert torch.equal(fresh[0], out[0])


def test_several_outputs_of_numpy_are_planned(greatest):
    x = np.random.default_rng(0).standard_normal((5, 40)).astype("f4")
    out = places(np.float32, np)
    for _ in range(3):
        assert greatest(x, out=out) is out
    np.testing.assert_array_equal(out[0], -np.sort(-x, axis=1)[:, :3])


def test_outputs_over_each_other_are_refused_each_time():
    kernel = septran.compile(twice, "cpu-x86")
    x, y = torch.randn(64), torch.empty(64)
    kernel(x, out=(y, torch.empty(64)))
    for _ in range(3):
        with pytest.raises(SepTranError, match="share"):
            kernel(x, out=(y, y))
    other = torch.empty(64)
    kernel(x, out=(y, other))
    assert torch.equal(y, x + 1)
    assert torch.equal(other, x - 1)


@pytest.mark.parametrize("out", [(), (torch.empty(5, 3),)])
def test_too_few_outputs_are_refused_as_ever(greatest, out):
    for _ in range(2):
        with pytest.raises(SepTranError, match="output"):
            greatest(torch.randn(5, 40), out=out)

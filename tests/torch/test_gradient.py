"""Gradients: torch's gradcheck judges the logics that logic files name as their `BACKWARD`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

import septran
import septran.torch as st
from septran.errors import SepTranError
from septran.operators.elementwise_backward import DERIVATIVES
from tests.tiers import slow_but


def made(name: str, operator, **options) -> st.Operator:
    return st.op(operator, "cpu-x86", name=f"septran_tests::grad_{name}", **options)


def of(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_softmax():
    assert torch.autograd.gradcheck(made("softmax", "softmax"), of(5, 7))


@pytest.mark.one_in(4, first=1)
@pytest.mark.parametrize("static", [{}, {"trans_a": True}, {"trans_b": True},
                                    {"trans_a": True, "trans_b": True}])  # fmt: skip
def test_gemm(static):
    a = of(4, 3) if static.get("trans_a") else of(3, 4)
    b = of(5, 4) if static.get("trans_b") else of(4, 5)
    name = "gemm_" + "_".join(["n", *static])
    assert torch.autograd.gradcheck(made(name, "gemm", static=static), (a, b))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("act", ["none", "relu", "gelu"])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm_bias_act(act, trans_b):
    b = of(5, 4) if trans_b else of(4, 5)
    op = made(f"linear_{act}_{trans_b}", "gemm_bias_act", static={"act": act, "trans_b": trans_b})
    assert torch.autograd.gradcheck(op, (of(3, 4), b, of(5)))


@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.one_in(2, first=1)
def test_norms(eps):
    rms_norm, layer_norm = made("rms_norm", "rms_norm"), made("layer_norm", "layer_norm")
    assert torch.autograd.gradcheck(lambda x, w: rms_norm(x, w, eps=eps), (of(3, 7), of(7)))
    assert torch.autograd.gradcheck(
        lambda x, w, b: layer_norm(x, w, b, eps=eps), (of(3, 7), of(7), of(7))
    )


@pytest.mark.one_in(9)
@pytest.mark.parametrize("function", DERIVATIVES)
def test_elementwise(function):
    op = made(f"elementwise_{function}", "elementwise", static={"function": function})
    x = torch.rand(3, 4, dtype=torch.float64) + 0.1  # what has a logarithm
    if function not in ("log", "rsqrt", "sqrt"):
        x[:2] *= -1
    assert torch.autograd.gradcheck(op, x.requires_grad_())


TARGETS = torch.tensor([1, -100, 3, 0, 6])
ANGLES = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
GRADIENTS = {
    "conv2d": ((2, 4, 7, 6), (6, 2, 3, 2)),
    "cross_entropy": ((5, 7), TARGETS),
    "cumsum": ((5, 7),),
    "linear_recurrence": ((2, 9, 3), (2, 9, 3)),
    "max_pool2d_indices": ((2, 3, 9, 8),),
    "linear_attention": ((1, 2, 70, 3), (1, 2, 70, 3), (1, 2, 70, 4)),
    "logsumexp": ((5, 7),),
    "permute": ((2, 3, 4),),
    "pool2d": ((2, 3, 9, 8),),
    "rope": ((5, 2, 6), *ANGLES),
    "swiglu": ((3, 4), (4, 5), (4, 5)),
    "transpose": ((2, 3, 4),),
}
"""The inputs of each, by the shape where there is a gradient."""
FLAGS = {
    "conv2d": {"stride": 2, "padding": 1, "groups": 2},
    "cumsum": {"reverse": True, "exclusive": True},
    "linear_recurrence": {"reverse": True},
    "max_pool2d_indices": {"size": 3, "stride": 2, "padding": 1},
    "permute": {"order": (2, 0, 1)},
    "pool2d": {"size": 3, "stride": 2, "padding": 1},
}


@pytest.mark.parametrize("name", slow_but(["swiglu", "cross_entropy"], GRADIENTS))
@pytest.mark.one_in(2)
def test_gradients_of_further_operators(name):
    op = made(f"further_{name}", name, static=FLAGS.get(name, {}))
    given = [of(*x) if isinstance(x, tuple) else x for x in GRADIENTS[name]]
    assert torch.autograd.gradcheck(op, tuple(given))


def test_the_slope_at_a_corner_is_torchs():
    for function in ("relu", "abs"):
        op = made(f"corner_{function}", "elementwise", static={"function": function})
        x = torch.tensor([[0.0, -0.0, 1.0, -1.0]], requires_grad=True)
        op(x).sum().backward()
        other = x.detach().clone().requires_grad_()
        getattr(torch, function)(other).sum().backward()
        assert torch.equal(x.grad, other.grad)


def test_sums_of_attention_in_float64():
    """Finite differences of sums in float32 would be noise."""
    attention = made("attention_float64", "attention", static={"causal": True})
    assert torch.autograd.gradcheck(attention, (of(1, 2, 5, 2), of(1, 1, 7, 2), of(1, 1, 7, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    """Its gradient is that of attention_lse, which returns what it takes."""
    static = {"causal": causal}
    attention = made(f"attention_{causal}", "attention", static=static)
    shapes = (1, 4, 33, 16), (1, 2, 40, 16), (1, 2, 40, 16)
    q, k, v = (torch.randn(*shape, requires_grad=True) for shape in shapes)
    given = torch.randn(1, 4, 33, 16)
    found = torch.autograd.grad(attention(q, k, v), (q, k, v), given)

    plain = [x.detach() for x in (q, k, v)]
    o, lse = septran.compile("attention_lse", "cpu-x86", static=static)(*plain)
    backward = septran.compile("attention_backward", "cpu-x86", static=static)
    for ours, wanted in zip(found, backward(*plain, o, lse, given), strict=True):
        assert torch.equal(ours, wanted)

    mask = torch.ones(33, 40, dtype=torch.bool).tril(7) if causal else None
    same = [x.double().requires_grad_() for x in plain]
    theirs = torch.nn.functional.scaled_dot_product_attention(*same, mask, enable_gqa=True)
    for ours, wanted in zip(found, torch.autograd.grad(theirs, same, given), strict=True):
        torch.testing.assert_close(ours, wanted.float())


@pytest.mark.slow
def test_the_forward_runs_where_a_gradient_is_to_follow():
    attention = made("attention_once", "attention")
    q = torch.randn(1, 2, 9, 8)
    graph = torch.export.export(_Module(attention), (q,)).graph
    assert "attention_once.default" in str(graph)
    seen = []

    def keep(module, _):
        seen.append(str(module.graph))
        return make_boxed_func(module.forward)

    compiled = torch.compile(
        _Module(attention), fullgraph=True, backend=aot_autograd(fw_compiler=keep)
    )
    compiled(q.requires_grad_()).sum().backward()
    assert ["attention_once__forward.default" in text for text in seen] == [True, False]
    assert "attention_once__forward__backward.default" in seen[1]
    assert torch.equal(q.grad, torch.autograd.grad(attention(q, q, q).sum(), q)[0])


class _Module(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, q):
        return self.attention(q, q, q)


@pytest.mark.slow
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
    running = made("running", "reduce")
    x = torch.randn(2, 3, requires_grad=True)
    result = running(x)
    with pytest.raises(st.NoGradientError, match="grad_running has no gradient") as caught:
        result.sum().backward()
    assert "BACKWARD" in caught.value.hint
    with torch.no_grad():
        assert not running(x).requires_grad


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


FORWARD = """
from septran import task

FORWARD = {forward!r}


@task.define(leaf=True)
def twice_tile(Y, X):
    Y[:] = 2.0 * X


@task.define
def twice(Y: task.Tensor["N"], X: task.Tensor["N"]):
    task.launch(twice_tile, Y, X)
"""


@pytest.mark.parametrize(("forward", "message"), [
    ("nothing", "FORWARD of twice is 'nothing'"),
    ("gemm", "gemm cannot run in the place of twice"),
    ("scaled.py", "scaled cannot run in the place of twice"),  # it takes a scalar, too
])  # fmt: skip
def test_what_cannot_run_in_an_operators_place_is_said(tmp_path, forward, message):
    written(tmp_path)
    (tmp_path / "twice.py").write_text(FORWARD.format(forward=forward))
    with pytest.raises(st.GradientLogicError, match=message) as caught:
        made("wrong_forward", tmp_path / "twice.py")
    assert caught.value.hint

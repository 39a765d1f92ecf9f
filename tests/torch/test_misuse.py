"""What an outsider tries with operators of torch: an answer, or an error that says what to do."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import septran
import septran.torch as st
from septran.argument_checks import WrongArgumentError
from septran.runtime.errors import NotATensorError, NotPickledError

DOUBLED = """
from septran import task

BACKWARD = "nothing.py"


@task.define(leaf=True)
def doubled_tile({name}, X):
    {name}[:] = 2.0 * X


@task.define
def doubled({name}: task.Tensor["N"], X: task.Tensor["N"]):
    task.launch(doubled_tile, {name}, X)
"""


def made(name: str, operator="gemm", **options) -> st.Operator:
    return st.op(operator, "cpu-x86", name=f"septran_misuse::{name}", **options)


@pytest.fixture(scope="module")
def gemm() -> st.Operator:
    return made("gemm")


A, B = torch.randn(8, 16), torch.randn(16, 12)


def test_functions_of_torch_func_differentiate(gemm):
    expected = B.sum(1).expand(8, 16)

    def total(a):
        return gemm(a, B).sum()

    torch.testing.assert_close(torch.func.grad(total)(A), expected)
    torch.testing.assert_close(torch.vmap(torch.func.grad(total))(A[None])[0], expected)
    value, pull = torch.func.vjp(lambda a: gemm(a, B), A)
    torch.testing.assert_close(pull(torch.ones_like(value))[0], expected)
    several = torch.func.jacrev(lambda a: gemm(a, B))(A[:1])
    torch.testing.assert_close(several[0, :, 0], B.t().contiguous())


@pytest.mark.slow
def test_functions_of_torch_func_differentiate_in_a_graph(gemm):
    grad = torch.func.grad(lambda a: gemm(a, B).sum())
    graph = torch.compile(grad, fullgraph=True, backend="aot_eager")
    assert torch.equal(graph(A), grad(A))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # by torch itself
def test_a_derivative_forwards_is_refused_and_not_zero(gemm):
    with pytest.raises(st.NoGradientError, match="no derivative forwards"):
        torch.func.jvp(lambda a: gemm(a, B), (A,), (A,))
    with forward_ad.dual_level(), pytest.raises(st.NoGradientError, match="forwards"):
        gemm(forward_ad.make_dual(A, A), B)
    with forward_ad.dual_level():
        assert torch.equal(gemm(A, B), gemm.kernels["cpu"](A, B))


def test_scalars_that_equal_the_default_reach_the_gradient():
    norm = made("norm", "rms_norm")
    grads = []
    for named in ({}, {"eps": 1e-6}, {"eps": 1.0}):
        x = A.clone().requires_grad_()
        norm(x, torch.ones(16), **named).square().sum().backward()
        grads.append(x.grad)
    assert torch.equal(grads[0], grads[1])
    assert not torch.allclose(grads[0], grads[2])


def test_autocast_leaves_a_tensor_that_is_changed():
    into, c = made("into", mutates=["C"]), torch.zeros(8, 12)
    with torch.autocast("cpu", torch.bfloat16):
        into(c, A, B)
    assert torch.equal(c, into.kernels["cpu"](A.bfloat16(), B.bfloat16(), out=torch.empty(8, 12)))


def test_what_changes_a_tensor_has_no_gradient():
    into = made("into", mutates=["C"])
    with pytest.raises(st.NoGradientError, match="changes a tensor in place"):
        into(torch.empty(8, 12), A.clone().requires_grad_(), B)
    with torch.no_grad():
        into(torch.empty(8, 12), A.clone().requires_grad_(), B)


def test_vmap_over_what_is_changed():
    into, batch = made("into", mutates=["C"]), torch.randn(3, 8, 16)

    def call(c, a):
        into(c, a, B)
        return c

    found = torch.vmap(call)(torch.empty(3, 8, 12), batch)
    assert torch.equal(found, torch.stack([made("gemm")(a, B) for a in batch]))
    with pytest.raises(WrongArgumentError, match="C is changed in place, and vmap has one of it"):
        torch.vmap(call, in_dims=(None, 0))(torch.empty(8, 12), batch)


def test_vmap_over_nothing(gemm):
    assert torch.vmap(gemm, in_dims=(0, None))(torch.empty(0, 8, 16), B).shape == (0, 8, 12)
    topk = made("topk", "topk", static={"k": 2})
    values, places = torch.vmap(topk)(torch.empty(0, 4, 50))
    assert values.shape == places.shape == (0, 4, 2)
    assert places.dtype == torch.int64


def test_none_is_no_tensor(gemm):
    with pytest.raises(NotATensorError, match="B is a NoneType"):
        gemm(A, None)


class Layer(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op
        self.weight = torch.nn.Parameter(B.clone())

    def forward(self, x):
        return self.op(x, self.weight)


def test_a_model_that_holds_an_operator_is_copied_and_kept(gemm):
    layer = Layer(gemm)
    assert copy.deepcopy(layer).op is gemm
    assert torch.equal(pickle.loads(pickle.dumps(layer))(A), layer(A))
    assert repr(gemm).startswith("<septran_misuse::gemm(Tensor A, Tensor B) -> Tensor on cpu")
    bytes_of_another = pickle.dumps(gemm).replace(b"misuse::gemm", b"misuse::gone")
    with pytest.raises(st.OperatorNameError, match="there is no operator septran_misuse::gone"):
        pickle.loads(bytes_of_another)


def test_a_kernel_is_shared_by_copies_and_not_pickled():
    kernel = septran.compile("gemm", "cpu-x86")
    assert copy.deepcopy([kernel])[0] is copy.copy(kernel) is kernel
    with pytest.raises(NotPickledError, match="gemm cannot be pickled"):
        pickle.dumps(kernel)


def test_what_fails_leaves_the_operator_of_that_name(tmp_path):
    first = made("kept")
    (tmp_path / "doubled.py").write_text(DOUBLED.format(name="Y"))
    for wrong in ({"operator": tmp_path / "doubled.py"}, {"static": {"q": 1}}):
        with pytest.raises(septran.SepTranError):
            made("kept", **wrong)
        assert torch.equal(first(A, B), first.kernels["cpu"](A, B))


def test_what_holds_a_replaced_operator_calls_the_new_one():
    first = made("again")
    expected, held = first(A, B), first.overload
    for _ in range(3):
        made("again")
        assert torch.equal(first(A, B), expected)
        assert torch.equal(held(A, B), expected)
    other, rows = made("again", static={"trans_b": True}), B.t().contiguous()
    assert torch.equal(first(A, rows), other.kernels["cpu"](A, rows))
    made("again", "softmax")
    with pytest.raises(RuntimeError, match=r"again\(\) expected at most 1 argument"):
        first(A, B)


def test_the_names_of_gradients_are_taken():
    softmax = made("rows", "softmax")
    with pytest.raises(st.OperatorNameError, match="rows__backward computes the gradient of"):
        made("rows__backward")
    x = torch.randn(3, 5, requires_grad=True)
    softmax(x).sum().backward()
    made("mine__backward")
    with pytest.raises(st.OperatorNameError, match=r"mine__backward .* is another operator"):
        made("mine", "softmax")
    made("rows", "topk", static={"k": 2})  # which has no gradient, so that the name is free
    made("rows__backward")


def test_names_that_torch_cannot_read(tmp_path):
    file = tmp_path / "doubled.py"
    file.write_text(DOUBLED.format(name="Y").replace("X", "ξ"), encoding="utf-8")
    with pytest.raises(st.OperatorNameError, match="torch cannot read the schema"):
        made("greek", file)


def test_mappings_are_for_the_devices_they_are_named_for():
    with pytest.raises(WrongArgumentError, match="has for 'cuda' one that runs on cpu"):
        st.op("gemm", {"cuda": "cpu-x86"}, name="septran_misuse::wrong")
    with pytest.raises(WrongArgumentError, match="mapping is empty"):
        st.op("gemm", {}, name="septran_misuse::wrong")


def test_types_of_warming_are_words_or_numpys_or_torchs():
    kernel = septran.compile("softmax", "cpu-x86")
    for dtype in ("float64", np.float64, torch.float64, np.dtype("float64")):
        kernel.warm({"M": 2, "N": 3}, dtypes=dtype)
    assert len(kernel.specialisations) == 1

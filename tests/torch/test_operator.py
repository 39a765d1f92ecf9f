"""Operators of torch: `torch.library.opcheck` judges what is registered of them."""

from __future__ import annotations

import pytest
import torch

import septran
import septran.torch as st
from septran import operators
from septran.argument_checks import WrongArgumentError
from septran.request import extents
from septran.runtime.arrays import as_torch
from tests.tiers import slow_but

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")


def made(name: str, operator: str, **options) -> st.Operator:
    return st.op(operator, "cpu-x86", name=f"septran_tests::{name}", **options)


def sample(op: st.Operator, case: operators.Case) -> list[torch.Tensor]:
    """Inputs of one case of an operator."""
    kernel = op.kernels["cpu"]
    shapes = extents(kernel.logic, case.sizes, kernel.logic.flags(case.static))
    dtypes = {t.name: t.dtype or case.dtype for t in kernel.signature.inputs}
    kernel.specialise(shapes, dtypes)
    return [as_torch(x) for x in kernel.sample().values()]


@pytest.mark.parametrize("operator", slow_but(operators.names()[3::9], operators.names()))
@pytest.mark.one_in(3)
def test_torch_finds_nothing_wrong_with_any_operator(operator):
    case = operators.cases(operator)[0]
    op = made(operator, operator, static=case.static)
    inputs = sample(op, case)
    if op.gradient is not None:
        inputs = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    checks = [
        f"test_{name}" for name in ("autograd_registration", "faketensor", "aot_dispatch_dynamic")
    ]
    if not any(x.dtype == torch.float8_e4m3fn for x in inputs):  # which this check multiplies
        checks.append("test_schema")
    found = torch.library.opcheck(
        op.overload, tuple(inputs), raise_exception=False, test_utils=checks
    )
    assert found == dict.fromkeys(checks, "SUCCESS")


def test_results_are_the_kernels():
    op = made("rms_norm", "rms_norm")
    x, w = torch.randn(8, 64), torch.randn(64)
    kernel = septran.compile("rms_norm", "cpu-x86")
    assert torch.equal(torch.ops.septran_tests.rms_norm(x, w, 1e-3), kernel(x, w, eps=1e-3))
    assert torch.equal(op(x, w, eps=1e-3), kernel(x, w, eps=1e-3))
    assert not torch.equal(op(x, w), op(x, w, eps=1.0))


def test_one_graph_serves_every_number_of_rows():
    gemm, norm = made("gemm", "gemm"), made("rms_norm", "rms_norm")
    function = torch.compile(
        lambda a, b, w: norm(gemm(a, b).relu(), w), fullgraph=True, dynamic=True, backend="eager"
    )
    b, w = torch.randn(33, 65), torch.randn(65)
    function(torch.randn(17, 33), b, w)
    with torch.compiler.set_stance("fail_on_recompile"):
        for rows in (5, 2):
            a = torch.randn(rows, 33)
            assert torch.equal(function(a, b, w), norm(gemm(a, b).relu(), w))


def test_an_exported_program_has_the_operator_and_a_free_extent():
    softmax = made("softmax", "softmax")

    class Model(torch.nn.Module):
        def forward(self, x):
            return softmax(x * 2)

    rows = torch.export.Dim("rows", min=2, max=512)
    program = torch.export.export(Model(), (torch.randn(8, 30),), dynamic_shapes=({0: rows},))
    assert "septran_tests.softmax" in str(program.graph)
    x = torch.randn(5, 30)
    assert torch.equal(program.module()(x), softmax(x * 2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ahead_of_time_inductor_calls_the_operator():
    softmax = made("softmax", "softmax")

    class Model(torch.nn.Module):
        def forward(self, x):
            return softmax(x * 2).sin()

    program = torch.export.export(Model(), (torch.randn(8, 30),))
    package = torch._inductor.aoti_compile_and_package(program)
    x = torch.randn(8, 30)
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(x), Model()(x))


def test_extents_that_differ_are_refused_in_a_graph():
    gemm = made("gemm", "gemm")
    with pytest.raises(Exception, match="K is 33, but 34 in B"):
        torch.ops.septran_tests.gemm(
            torch.empty(2, 33, device="meta"), torch.empty(34, 5, device="meta")
        )
    assert gemm.overload(torch.empty(2, 33), torch.empty(33, 5)).shape == (2, 5)


def test_vmap_calls_the_operator_for_each_element():
    gemm = made("gemm", "gemm")
    a, b = torch.randn(3, 4, 5), torch.randn(5, 6)
    found = torch.vmap(gemm, in_dims=(0, None))(a, b)
    assert torch.equal(found, torch.stack([gemm(x, b) for x in a]))
    moved = torch.vmap(gemm, in_dims=(1, None))(a.transpose(0, 1).contiguous(), b)
    assert torch.equal(moved, found)


def test_vmap_of_several_results():
    topk = made("topk", "topk", static={"k": 2})
    x = torch.randn(3, 4, 50)
    values, places = torch.vmap(topk)(x)
    for n in range(3):
        one = topk(x[n])
        assert torch.equal(values[n], one[0])
        assert torch.equal(places[n], one[1])


def test_autocast_lowers_products_and_leaves_norms():
    gemm, norm = made("gemm", "gemm"), made("rms_norm", "rms_norm")
    a, b, w = torch.randn(4, 5), torch.randn(5, 6), torch.randn(5)
    with torch.autocast("cpu", torch.bfloat16):
        lowered = gemm(a, b)
        assert lowered.dtype == torch.bfloat16
        assert gemm(a.double(), b.double()).dtype == torch.float64
        assert norm(a, w).dtype == torch.float32
    assert torch.equal(lowered, gemm(a.bfloat16(), b.bfloat16()))
    assert gemm(a, b).dtype == torch.float32


def test_an_output_can_be_changed_in_place():
    gemm = made("gemm_into", "gemm", mutates=["C"])
    assert gemm.schema == "septran_tests::gemm_into(Tensor(a!) C, Tensor A, Tensor B) -> ()"
    a, b, c = torch.randn(4, 5), torch.randn(5, 6), torch.empty(4, 6)
    version = c._version
    assert gemm(c, a, b) is None
    assert torch.equal(c, made("gemm", "gemm")(a, b))
    assert c._version > version
    torch.library.opcheck(gemm.overload, (c, a, b))


def test_one_of_two_outputs_can_be_changed_in_place():
    topk = made("topk_into", "topk", mutates=["indices"], static={"k": 2})
    x = torch.randn(4, 50)
    values, places = made("topk", "topk", static={"k": 2})(x)
    into = torch.empty_like(places)
    assert torch.equal(topk(into, x), values)
    assert torch.equal(into, places)


@pytest.mark.slow
def test_one_kernel_serves_every_extent_of_a_dynamic_dimension():
    op = made("dynamic", "rms_norm", dynamic={"M": (1, 500)})
    graph = torch.compile(lambda x, w: op(x, w), fullgraph=True, dynamic=True, backend="aot_eager")
    w, kernel = torch.randn(24, requires_grad=True), op.kernels["cpu"]
    for rows in (3, 40, 500):
        x = torch.randn(rows, 24, requires_grad=True)
        assert torch.equal(graph(x, w), kernel(x.detach(), w.detach()))
        assert kernel.check(x.detach(), w.detach()).right
        assert torch.autograd.grad(graph(x, w).sum(), x)[0].shape == x.shape
    assert len({id(one.stages.executable) for one in kernel.specialisations}) == 1
    assert len(kernel.specialisations) == 3


def test_a_simulated_machine_is_an_operator_too():
    op = st.op("softmax", "dsa-sim", name="septran_tests::softmax_dsa")
    x = torch.randn(3, 8)
    assert torch.equal(op(x), septran.compile("softmax", "dsa-sim")(x))


def test_names():
    first = made("twice", "softmax")
    second = made("twice", "rms_norm")
    assert "Tensor W" in second.schema
    assert first.name == second.name
    with pytest.raises(st.OperatorNameError, match="'softmax' is no name"):
        st.op("softmax", name="softmax")
    with pytest.raises(st.OperatorNameError, match="torch has an operator aten::relu"):
        st.op("softmax", name="aten::relu")
    with pytest.raises(WrongArgumentError, match="mutates names 'X'"):
        made("wrong", "softmax", mutates=["X"])
    with pytest.raises(WrongArgumentError, match="has for 'cuda' one that runs on cpu"):
        st.op("softmax", {"cpu": "cpu-x86", "cuda": "dsa-sim"}, name="septran_tests::both")

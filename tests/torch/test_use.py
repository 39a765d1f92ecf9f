"""`septran.torch.use`: models of torch whose functions run by kernels."""

from __future__ import annotations

import contextlib
import re

import pytest
import torch
from torch.nn import functional

import septran.torch as st
from septran.argument_checks import WrongArgumentError
from septran.runtime.kernel import Kernel
from septran.torch.replacements import KNOWN


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        64, 4, 128, activation="gelu", batch_first=True, dropout=0.0
    )
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    torch.backends.mha.set_fastpath_enabled(fast)


@torch.no_grad()
def test_a_transformer_runs_by_kernels(encoder):
    x = torch.randn(2, 10, 64)
    expected = encoder(x)
    with st.use(mapping="cpu-x86") as report:
        found = encoder(x)
    torch.testing.assert_close(found, expected)
    assert dict(report.replaced) == {
        ("gelu", "elementwise"): 2,
        ("layer_norm", "layer_norm"): 4,
        ("linear", "gemm_bias_act"): 8,
        ("scaled_dot_product_attention", "attention"): 2,
    }
    assert not report.kept
    assert str(report).splitlines()[1] == (
        "gelu                              2  SepTran's elementwise"
    )


@torch.no_grad()
@pytest.mark.parametrize("kind", ["padding", "mask"])
def test_masks(encoder, kind):
    x = torch.randn(2, 10, 64)
    hidden = torch.zeros(2, 10, dtype=torch.bool)
    hidden[1, 6:] = True
    causal = torch.nn.Transformer.generate_square_subsequent_mask(10)
    named = {"src_key_padding_mask": hidden} if kind == "padding" else {"mask": causal}
    expected = encoder(x, **named)
    with st.use() as report:
        found = encoder(x, **named)
    torch.testing.assert_close(found, expected)
    assert report.replaced["scaled_dot_product_attention", "attention_bias"] == 2


@pytest.mark.slow
@torch.no_grad()
def test_a_graph_without_breaks(encoder):
    x = torch.randn(2, 10, 64)
    expected = encoder(x)
    compiled = torch.compile(encoder, fullgraph=True, backend="eager")
    with st.use():
        encoder(x)
        torch.testing.assert_close(compiled(x), expected)


@torch.no_grad()
def test_later_calls_with_weights_and_strided_heads_are_fast(encoder, monkeypatch):
    """Frozen weights are of another type than tensors, and heads of a projection are strided."""
    encoder.requires_grad_(False)
    x = torch.randn(2, 10, 64)
    with st.use(mapping="cpu-x86"):
        expected = encoder(x)
        slow = []
        monkeypatch.setattr(Kernel, "_call", lambda self, *_: slow.append(self.name))
        with contextlib.suppress(TypeError, AttributeError):  # what None leads to
            assert torch.equal(encoder(x), expected)
    assert slow == []


CALLS = {
    "linear": lambda: functional.linear(torch.randn(2, 3, 8), torch.randn(5, 8)),
    "matmul": lambda: torch.matmul(torch.randn(2, 3, 8), torch.randn(8, 5)),
    "bmm": lambda: torch.bmm(torch.randn(2, 3, 8), torch.randn(2, 8, 5)),
    "operator": lambda: torch.randn(2, 4, 3, 8) @ torch.randn(2, 4, 8, 5),
    "softmax": lambda: torch.randn(2, 3, 8).softmax(-1),
    "softmax of one axis": lambda: functional.softmax(torch.randn(8), dim=0),
    "rms_norm": lambda: functional.rms_norm(torch.randn(2, 3, 8), (8,), torch.randn(8), 1e-5),
    "layer_norm without weights": lambda: functional.layer_norm(torch.randn(2, 3, 8), (8,)),
    "silu": lambda: functional.silu(torch.randn(2, 3, 8)),
    "tanh": lambda: torch.tanh(torch.randn(2, 3, 8)),
    "embedding": lambda: functional.embedding(torch.randint(7, (2, 3)), torch.randn(7, 8)),
    "conv2d": lambda: functional.conv2d(
        torch.randn(1, 4, 9, 9),
        torch.randn(6, 2, 3, 3),
        torch.randn(6),
        stride=2,
        padding=1,
        groups=2,
    ),
    "grouped heads": lambda: functional.scaled_dot_product_attention(
        torch.randn(1, 4, 6, 8),
        torch.randn(1, 2, 6, 8),
        torch.randn(1, 2, 6, 8),
        is_causal=True,
        scale=0.3,
        enable_gqa=True,
    ),
    "booleans": lambda: functional.scaled_dot_product_attention(
        torch.randn(1, 2, 6, 8),
        torch.randn(1, 2, 7, 8),
        torch.randn(1, 2, 7, 8),
        attn_mask=torch.ones(6, 7, dtype=torch.bool).tril(),
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CALLS)
def test_each_function_gives_torchs_result(name):
    torch.manual_seed(1)
    expected = CALLS[name]()
    torch.manual_seed(1)
    with st.use() as report:
        found = CALLS[name]()
    assert report.replaced.total() == 1
    assert not report.kept
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected)


LEFT = {
    "it is not along the last axis": lambda: torch.softmax(torch.randn(3, 4), 0),
    "it has dropout": lambda: functional.scaled_dot_product_attention(
        *(torch.randn(1, 2, 3, 4) for _ in range(3)), dropout_p=0.5
    ),
    "it is causal, but not square": lambda: functional.scaled_dot_product_attention(
        torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4), is_causal=True
    ),
    "its batches are not alike": lambda: torch.randn(2, 1, 3, 4) @ torch.randn(1, 5, 4, 3),
    "its stride differs between the axes": lambda: functional.conv2d(
        torch.randn(1, 2, 9, 9), torch.randn(2, 2, 3, 3), stride=(1, 2)
    ),
    "it works in place or approximates": lambda: functional.gelu(
        torch.randn(3, 4), approximate="tanh"
    ),
    "it needs a gradient, and attention_bias has none": (
        lambda: functional.scaled_dot_product_attention(
            torch.randn(1, 2, 3, 4, requires_grad=True),
            torch.randn(1, 2, 5, 4),
            torch.randn(1, 2, 5, 4),
            torch.randn(1, 2, 3, 5),
        )
    ),
    "its tensors are on meta": lambda: torch.mm(
        torch.empty(3, 4, device="meta"), torch.empty(4, 5, device="meta")
    ),
}


@pytest.mark.parametrize("reason", LEFT)
def test_what_no_operator_can_do_is_left_to_torch_with_the_reason(reason):
    torch.manual_seed(1)
    expected = LEFT[reason]()
    torch.manual_seed(1)
    with st.use() as report:
        found = LEFT[reason]()
    assert [why for _, why in report.kept] == [reason]
    assert not report.replaced
    assert found.device.type == "meta" or torch.equal(found, expected)


def test_chosen_functions_alone_are_replaced():
    x, w = torch.randn(3, 8), torch.randn(5, 8)
    with torch.no_grad(), st.use({torch.nn.Linear: "gemm"}, "cpu-x86") as report:
        functional.softmax(functional.linear(x, w), dim=-1)
    assert list(report.replaced) == [("linear", "gemm")]


def test_a_trained_layer_keeps_its_gradient():
    layer = torch.nn.Linear(8, 5, bias=False)
    x = torch.randn(3, 8)
    layer(x).square().sum().backward()
    expected = layer.weight.grad.clone()
    layer.weight.grad = None
    with st.use({torch.nn.Linear: "gemm"}) as report:
        layer(x).square().sum().backward()
    assert report.replaced["linear", "gemm"] == 1
    torch.testing.assert_close(layer.weight.grad, expected)


@pytest.mark.slow
def test_a_trained_block_keeps_its_gradients():
    """All of a feed-forward block's operators have a gradient."""
    torch.manual_seed(0)
    block = torch.nn.Sequential(
        torch.nn.LayerNorm(16), torch.nn.Linear(16, 40), torch.nn.GELU(), torch.nn.Linear(40, 16),
        torch.nn.RMSNorm(16, eps=1e-6), torch.nn.Softmax(-1),
    )  # fmt: skip
    x, weights = torch.randn(2, 5, 16), torch.randn(2, 5, 16)
    (block(x) * weights).sum().backward()
    expected = [p.grad.clone() for p in block.parameters()]
    block.zero_grad()
    with st.use() as report:
        (block(x) * weights).sum().backward()
    assert not report.kept
    assert report.replaced.total() == 6
    for p, wanted in zip(block.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, wanted)


def test_an_operator_of_ones_own():
    own = st.op("elementwise", "cpu-x86", name="septran_tests::own", static={"function": "exp"})
    with st.use({torch.exp: own}) as report:
        torch.exp(torch.zeros(2, 3))
    assert list(report.replaced) == [("exp", "septran_tests::own")]


def test_what_cannot_stand_in_is_said():
    with pytest.raises(WrongArgumentError, match="LSTM") as caught, st.use({torch.nn.LSTM: "gemm"}):
        pass
    assert "softmax" in caught.value.hint
    message = "'softmax' cannot stand in for linear"
    with (
        pytest.raises(WrongArgumentError, match=message),
        st.use({torch.nn.Linear: "softmax"}),
    ):
        pass


def test_every_function_names_operators_of_the_library():
    from septran import operators

    for stand in KNOWN.values():
        assert set(stand.operators) <= set(operators.names())


R = torch.randn


@pytest.mark.parametrize(("function", "arguments"), [
    (torch.mm, (R(2, 3, 4), R(4, 5))),
    (torch.bmm, (R(3, 4), R(4, 5))),
    (functional.linear, (R(2, 4), R(3, 4).double(), R(3).double())),
    (functional.linear, (R(2, 4), R(3, 5))),
    (functional.softmax, (torch.ones(2, 3, dtype=torch.int64), -1)),
    (functional.layer_norm, (torch.ones(2, 3, dtype=torch.int64), (3,))),
    (functional.layer_norm, (R(2, 3), (4,))),
    (functional.embedding, (torch.tensor([7]), R(7, 4))),
    (functional.embedding, (torch.tensor([-1]), R(7, 4))),
    (functional.embedding, (torch.tensor([1.0]), R(7, 4))),
    (functional.embedding, (torch.tensor([1]), R(7))),
    (functional.conv2d, (R(1, 2, 2, 2), R(4, 2, 3, 3))),
    (functional.conv2d, (R(1, 2, 5, 5), R(4, 2, 3, 3), R(1))),
    (functional.conv2d, (R(1, 2, 5, 5), R(4, 2, 3, 3), None, 0)),
    (functional.conv2d, (R(1, 2, 5, 5), R(4, 2, 3, 3), None, 1, -1)),
])  # fmt: skip
def test_what_torch_refuses_is_refused_with_torchs_words(function, arguments):
    try:
        function(*arguments)
    except (RuntimeError, IndexError, NotImplementedError) as alone:
        kind, words = type(alone), str(alone)
    with st.use(mapping="cpu-x86") as report, pytest.raises(kind, match=re.escape(words)):
        function(*arguments)
    assert not report.replaced


@pytest.mark.parametrize("x", [
    R(4, 3).t(), R(2, 3, 4, 5).to(memory_format=torch.channels_last), R(2, 3, 4).permute(1, 0, 2),
])  # fmt: skip
def test_results_of_functions_of_elements_lie_as_their_inputs(x):
    with st.use(mapping="cpu-x86") as report:
        y = functional.gelu(x)
    assert report.replaced == {("gelu", "elementwise"): 1}
    expected = functional.gelu(x)
    assert y.stride() == expected.stride()
    torch.testing.assert_close(y, expected)


def test_indices_under_vmap_have_no_values_to_look_at():
    weight, rows = R(7, 4), torch.tensor([[1, 2], [6, 0]])
    with st.use(mapping="cpu-x86") as report:
        found = torch.vmap(lambda index: functional.embedding(index, weight))(rows)
    assert torch.equal(found, weight[rows])
    assert report.replaced == {("embedding", "embedding"): 1}


def test_functions_are_named_in_a_mapping():
    for wrong in ("linear", [torch.nn.Linear]):
        with (
            pytest.raises(WrongArgumentError, match="no mapping"),
            st.use(wrong, mapping="cpu-x86"),
        ):
            pass
    with st.use(mapping="cpu-x86") as report:
        out = torch.sigmoid(R(2, 3), out=torch.empty(2, 3))
    assert out.shape == (2, 3)
    assert report.kept == {("sigmoid", "it works in place or approximates"): 1}

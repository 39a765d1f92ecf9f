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

R = torch.randn


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
    "max_pool2d": lambda: functional.max_pool2d(torch.randn(2, 3, 9, 8), 3, 2, 1),
    "max_pool2d without a batch": lambda: torch.nn.MaxPool2d(2)(torch.randn(3, 9, 8)),
    "avg_pool2d": lambda: functional.avg_pool2d(torch.randn(2, 3, 9, 8), 3, 2, (1, 1)),
    "avg_pool2d without overlap": lambda: functional.avg_pool2d(torch.randn(2, 3, 9, 8), 2),
    "adaptive_avg_pool2d": lambda: functional.adaptive_avg_pool2d(torch.randn(2, 3, 12, 8), (3, 2)),
    "cross_entropy": lambda: functional.cross_entropy(
        torch.randn(5, 7), torch.tensor([1, 6, -100, 0, 2])
    ),
    "cross_entropy of a sum": lambda: functional.cross_entropy(
        torch.randn(3, 7), torch.tensor([1, 6, 9]), ignore_index=9, reduction="sum"
    ),
    "cross_entropy of each": lambda: functional.cross_entropy(
        torch.randn(2, 7), torch.tensor([1, 6]), reduction="none"
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
    "it has windows that begin inside and end outside": lambda: functional.max_pool2d(
        torch.randn(1, 2, 9, 9), 2, ceil_mode=True
    ),
    "its windows have gaps": lambda: functional.max_pool2d(torch.randn(1, 2, 9, 9), 2, dilation=2),
    "its size differs between the axes": lambda: functional.avg_pool2d(
        torch.randn(1, 2, 9, 9), (2, 3)
    ),
    "it divides by another number": lambda: functional.avg_pool2d(
        torch.randn(1, 2, 9, 9), 3, padding=1, count_include_pad=False
    ),
    "its windows are not alike": lambda: functional.adaptive_avg_pool2d(torch.randn(1, 2, 9, 9), 2),
    "its classes have weights, or are smoothed": lambda: functional.cross_entropy(
        torch.randn(3, 4), torch.tensor([0, 1, 3]), label_smoothing=0.1
    ),
    "its logits are no matrix": lambda: functional.cross_entropy(torch.randn(3), torch.randn(3)),
    "it ignores a class": lambda: functional.cross_entropy(
        torch.randn(3, 4), torch.tensor([0, 1, 3]), ignore_index=3
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


class _Pictures(torch.nn.Module):
    """A small network of convolutions with all that such ones are made of."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.second, self.last = torch.nn.Conv2d(8, 12, 3), torch.nn.Linear(12, 10)

    def forward(self, x, target):
        x = functional.max_pool2d(self.norm(self.first(x)).relu(), 2)
        x = functional.avg_pool2d(functional.silu(self.second(x)), 2)
        x = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return functional.cross_entropy(self.last(x), target)


@pytest.mark.slow
def test_a_network_of_convolutions_is_trained_and_what_nothing_stands_in_for_is_counted():
    torch.manual_seed(0)
    model, x, target = _Pictures().eval(), torch.randn(2, 3, 14, 14), torch.tensor([3, 9])
    expected = model(x, target)
    wanted = torch.autograd.grad(expected, model.parameters())
    with st.use(mapping="cpu-x86") as report:
        found = model(x, target)
        gradients = torch.autograd.grad(found, model.parameters())
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients, wanted)
    assert report.unknown == {"batch_norm": 1}
    assert not report.kept
    assert str(report).splitlines()[-1].split()[:4] == ["batch_norm", "1", "torch:", "nothing"]
    with st.use(mapping="cpu-x86"):
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x, target), expected)


@pytest.mark.slow
def test_a_table_of_words_is_trained():
    table, words = torch.nn.Embedding(7, 4), torch.tensor([[1, 2, 1], [0, 6, 6]])
    weights = torch.randn(2, 3, 4)
    (wanted,) = torch.autograd.grad((table(words) * weights).sum(), table.weight)
    with st.use() as report:
        (found,) = torch.autograd.grad((table(words) * weights).sum(), table.weight)
    torch.testing.assert_close(found, wanted)
    table.padding_idx = 6
    with st.use() as kept:
        (without,) = torch.autograd.grad((table(words) * weights).sum(), table.weight)
    assert (report.replaced.total(), kept.replaced.total()) == (1, 0)
    assert not without[6].any()


def test_functions_that_nothing_stands_in_for_are_counted_where_they_compute():
    x = R(2, 3)
    with st.use() as report:
        torch.nn.LSTM(3, 4)(x)
        x.T.detach()[0], x.contiguous(), functional.dropout(x, 0.5, training=False), x > 0
    assert report.unknown == {"lstm": 1}
    with st.use({torch.nn.Linear: "gemm"}) as report:
        x.exp()
    assert not report.unknown


def test_places_of_the_greatest():
    x = R(2, 3, 9, 8)
    expected = functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    with st.use() as report:
        found = functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert all(map(torch.equal, found, expected))
    assert report.replaced == {("max_pool2d_with_indices", "max_pool2d_indices"): 1}


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
    (functional.max_pool2d, (R(1, 2, 5, 5), 2, 2, 2)),
    (functional.max_pool2d, (R(1, 2, 5, 5), 6)),
    (functional.avg_pool2d, (R(1, 2, 5, 5), 2, 0)),
    (functional.avg_pool2d, (R(2, 5), 2)),
    (functional.cross_entropy, (R(2, 5), torch.tensor([1, 5]))),
    (functional.cross_entropy, (R(2, 5), torch.tensor([1]))),
    (functional.conv2d, (R(1, 2, 2, 2), R(4, 2, 3, 3))),
    (functional.conv2d, (R(1, 2, 5, 5), R(4, 2, 3, 3), R(1))),
    (functional.conv2d, (R(1, 2, 5, 5), R(4, 2, 3, 3), None, 0)),
    (functional.conv2d, (R(1, 2, 5, 5), R(4, 2, 3, 3), None, 1, -1)),
])  # fmt: skip
def test_what_torch_refuses_is_refused_with_torchs_words(function, arguments):
    try:
        function(*arguments)
    except (RuntimeError, IndexError, NotImplementedError, ValueError) as alone:
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

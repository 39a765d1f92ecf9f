"""Further operators of models, each beside torch's fastest expression of `torch_baseline`.

Scans, windows, pages, experts, recurrences, gated products: one function a family, which yields a
case for each shape that models have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.cpu_case import Case, Run, by
from benchmarks.cpu_sections import beside, sections

Cases = Iterator[Case]


def _bytes(
    operator: str, inputs: tuple[torch.Tensor, ...], times: float, *others: Run, **flags: Any
) -> Case:
    """An operator of elements, whose rate is that of what it reads and writes of the first one."""
    x = inputs[0]
    work = times * x.numel() * x.element_size()
    words = "".join(f", {k} {v}" for k, v in flags.items())
    return beside(operator, by(*x.shape) + words, inputs, work, others, "GB/s", **flags)


def cumsum() -> Cases:
    """Long rows and short ones."""
    for m, n in ((64, 4096), (2048, 2048)):
        x, y = torch.randn(m, n), torch.empty(m, n)
        yield _bytes("cumsum", (x,), 2, partial(torch.cumsum, x, 1, out=y))


def logsumexp() -> Cases:
    """A vocabulary, and rows in cache."""
    for m, n in ((64, 50_257), (1024, 1024)):
        yield _bytes("logsumexp", (torch.randn(m, n),), 1)


def cross_entropy() -> Cases:
    """Tokens beside a vocabulary."""
    for t, v in ((128, 50_257), (1024, 1000)):
        yield _bytes("cross_entropy", (torch.randn(t, v), torch.randint(0, v, (t,))), 1)


def transpose() -> Cases:
    """Whole matrices, and heads beside tokens."""
    for b, m, n in ((1, 2048, 2048), (32, 197, 64)):
        x, y = torch.randn(b, m, n), torch.empty(b, n, m)
        yield _bytes("transpose", (x,), 2, partial(y.copy_, x.transpose(1, 2)))


def permute() -> Cases:
    """Heads beside tokens, and channels that go last."""
    for shape, order in (((8, 197, 12, 64), (0, 2, 1, 3)), ((8, 64, 56, 56), (0, 2, 3, 1))):
        x = torch.randn(shape)
        y = torch.empty([shape[n] for n in order])
        yield _bytes("permute", (x,), 2, partial(y.copy_, x.permute(order)), order=order)


def embedding() -> Cases:
    """Llama's rows of 4,096, and the gradient, which adds up those of a token."""
    w, index = torch.randn(32_000, 4096), torch.randint(0, 32_000, (512,))
    yield beside("embedding", "512 of 32000x4096", (w, index), 8.0 * 512 * 4096, (), "GB/s")


def embedding_backward() -> Cases:
    """The gradient of a small vocabulary's table."""
    for t, v, d in ((2048, 1000, 512), (512, 4096, 1024)):
        inputs = torch.randn(v, d), torch.randint(0, v, (t,)), torch.randn(t, d)
        work = 4.0 * (t + v) * d
        yield beside("embedding_backward", by(t, v, d), inputs, work, (), "GB/s")


def causal_conv1d() -> Cases:
    """Mamba's short convolution."""
    for b, c, n in ((1, 2048, 1024), (2, 512, 4096)):
        inputs = torch.randn(b, c, n), torch.randn(c, 4), torch.randn(c)
        yield _bytes("causal_conv1d", inputs, 2)


def pool2d() -> Cases:
    """A ResNet's pooling, channels first."""
    for function, size, stride, padding in (("max", 3, 2, 1), ("mean", 2, 2, 0)):
        flags = {"function": function, "size": size, "stride": stride, "padding": padding}
        yield _bytes("pool2d", (torch.randn(1, 64, 112, 112),), 1.25, **flags)


def pool2d_backward() -> Cases:
    """Its gradient, beside torch's of both ways."""
    for function, size, stride, padding in (("max", 3, 2, 1), ("mean", 2, 2, 0)):
        flags = {"function": function, "size": size, "stride": stride, "padding": padding}
        places = (112 + 2 * padding - size) // stride + 1
        inputs = torch.randn(1, 64, 112, 112), torch.randn(1, 64, places, places)
        yield _bytes("pool2d_backward", inputs, 2.25, **flags)


def swiglu() -> Cases:
    """Both products and the gate of a feed-forward layer."""
    for m, n, k in ((1, 5632, 2048), (32, 5632, 2048), (256, 2048, 1024)):
        inputs = torch.randn(m, k), torch.randn(k, n), torch.randn(k, n)
        yield beside("swiglu", by(m, n, k), inputs, 4.0 * m * n * k, ())


def _heads(b: int, h: int, g: int, m: int, d: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(b, h, m, d), torch.randn(b, g, m, d), torch.randn(b, g, m, d)


def sliding_attention() -> Cases:
    """A window of keys, once with a soft cap on the scores, as Gemma 2 has."""
    plain, capped = {"window": 256}, {"window": 256, "cap": 50.0}
    for h, m, d, flags in ((8, 1024, 64, plain), (8, 512, 128, capped)):
        work = 4.0 * h * m * 256 * d
        words = by(1, h, h, m, d) + "".join(f", {k} {v}" for k, v in flags.items())
        yield beside("sliding_attention", words, _heads(1, h, h, m, d), work, (), **flags)


def attention_lse() -> Cases:
    """Attention with its log-sum-exp."""
    for h, m, d in ((8, 512, 64), (8, 1024, 128)):
        work = 4.0 * h * m * m * d
        yield beside("attention_lse", by(1, h, h, m, d), _heads(1, h, h, m, d), work, ())


def attention_backward() -> Cases:
    """The gradient of attention, with what the forward pass left."""
    for h, m, d in ((8, 512, 64), (8, 1024, 128)):
        q, k, v = _heads(1, h, h, m, d)
        o, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        inputs = q, k, v, o, lse, torch.randn_like(q)
        yield beside("attention_backward", by(1, h, h, m, d), inputs, 10.0 * h * m * m * d, ())


def _pages(b: int, g: int, d: int, size: int, longest: int) -> tuple[torch.Tensor, ...]:
    """Keys, values, pages and lengths, from a quarter of the longest on."""
    many = longest // size
    generator = torch.Generator().manual_seed(0)
    table = torch.randperm(b * many, generator=generator).view(b, many)
    lengths = torch.randint(longest // 4, longest + 1, (b,), generator=generator)
    keys, values = (torch.randn(b * many, size, g, d) for _ in range(2))
    return keys, values, table, lengths


def paged_attention() -> Cases:
    """Decoding of several sequences over pages of 16 keys."""
    for b, h, g, d, longest in ((8, 32, 8, 128, 1024), (4, 8, 8, 64, 2048)):
        k, v, table, lengths = _pages(b, g, d, 16, longest)
        work = 4.0 * h * d * float(lengths.sum())
        inputs = torch.randn(b, h, d), k, v, table, lengths
        yield beside("paged_attention", by(b, h, g, d, longest), inputs, work, ())


def paged_prefill() -> Cases:
    """New queries of several sequences over pages."""
    for t, b, h, g, d, longest in ((512, 4, 8, 2, 64, 1024), (256, 8, 8, 8, 128, 512)):
        k, v, table, lengths = _pages(b, g, d, 16, longest)
        starts = sections(t, b)
        work = 4.0 * h * d * float((starts.diff() * lengths).sum())
        inputs = torch.randn(t, h, d), k, v, starts, table, lengths
        yield beside("paged_prefill", by(t, b, h, g, d, longest), inputs, work, ())


def moe() -> Cases:
    """A layer of experts, two for each token."""
    for t, e, d, f in ((256, 8, 512, 1024), (64, 8, 1024, 1024)):
        offsets, token = sections(2 * t, e), torch.randint(0, t, (2 * t,))
        matrices = (torch.randn(e, d, f), torch.randn(e, d, f), torch.randn(e, f, d))
        matrices = tuple(x / d**0.5 for x in matrices)
        inputs = torch.randn(t, d), *matrices, token, torch.rand(2 * t), offsets
        yield beside("moe", by(t, 2 * t, e, d, f), inputs, 12.0 * t * d * f, ())


def route() -> Cases:
    """Two experts for each token."""
    for t, e in ((128, 8), (1024, 8), (512, 64)):
        yield beside("route", by(t, e), (torch.randn(t, e),), 4.0 * t * e, (), "GB/s")


def moe_layer() -> Cases:
    """The gate and the routes, too."""
    for t, e, d, f in ((256, 8, 512, 1024), (64, 8, 1024, 1024), (1024, 8, 256, 512)):
        matrices = (torch.randn(e, d, f), torch.randn(e, d, f), torch.randn(e, f, d))
        matrices = tuple(x / d**0.5 for x in matrices)
        inputs = torch.randn(t, d), torch.randn(d, e) / d**0.5, *matrices
        yield beside("moe_layer", by(t, e, d, f), inputs, 12.0 * t * d * f, ())


def gated_delta_rule() -> Cases:
    """Heads of a hybrid model."""
    for h, t, d in ((4, 1024, 64), (8, 512, 128)):
        q, k, v = _heads(1, h, h, t, d)
        inputs = q, k, v, torch.randn(1, h, t), torch.randn(1, h, t)
        yield beside("gated_delta_rule", by(1, h, t, d, d), inputs, 8.0 * h * t * d * d, ())


def linear_recurrence() -> Cases:
    """Gates of a recurrent block, such as Griffin's, over time."""
    for b, t, d in ((1, 1024, 2048), (4, 256, 1024)):
        inputs = torch.rand(b, t, d), torch.randn(b, t, d)
        yield _bytes("linear_recurrence", inputs, 3)


def ssd() -> Cases:
    """Mamba-2's heads of 64 and states of 128, in groups."""
    for t, h, g, p, s in ((1024, 8, 1, 64, 128), (512, 16, 2, 64, 64)):
        x, decay = torch.randn(1, t, h, p), -torch.rand(1, t, h)
        inputs = x, decay, torch.randn(1, t, g, s), torch.randn(1, t, g, s)
        yield beside("ssd", by(1, t, h, g, p, s), inputs, 6.0 * t * h * p * s, ())


def fp8_gemm() -> Cases:
    """Floats of 8 bits with scales of blocks."""
    for m, n, k in ((1, 4096, 4096), (16, 4096, 4096), (128, 2048, 2048), (512, 2048, 2048)):
        a, b = (torch.randn(x, k).to(torch.float8_e4m3fn) for x in (m, n))
        scales = torch.rand(m, k // 128), torch.rand(n // 128, k // 128)
        yield beside("fp8_gemm", by(m, n, k), (a, b, *scales), 2.0 * m * n * k, ())


_CASES: dict[str, Callable[[], Cases]] = {
    f.__name__: f
    for f in (
        cumsum, logsumexp, cross_entropy, transpose, permute, embedding, embedding_backward,
        causal_conv1d, pool2d, pool2d_backward, swiglu, sliding_attention, attention_lse,
        attention_backward, paged_attention, paged_prefill, moe, route, moe_layer, gated_delta_rule,
        linear_recurrence, ssd, fp8_gemm,
    )
}  # fmt: skip
NAMES = tuple(_CASES)
"""The operators."""


def cases(names: set[str]) -> Cases:
    """All cases of the operators asked for, each made when it is reached."""
    for name, make in _CASES.items():
        if name in names:
            yield from make()

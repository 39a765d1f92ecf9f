"""Attention and its relatives on shapes of real models, ours and torch's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch.nn.functional import scaled_dot_product_attention as dot_attention

from benchmarks.cpu_case import Case, by, compiled, deviation

ATTENTIONS = (
    (1, 8, 8, 512, 64),
    (1, 4, 4, 1024, 128),
    (1, 32, 8, 512, 128),  # Llama-3 8B: 32 heads of queries, 8 of keys, of 128
    (1, 12, 12, 1024, 64),  # GPT-2 small
    (1, 12, 12, 197, 64),  # ViT-B/16
)
"""B, heads of queries, heads of keys, M = N, D; each in full and causal."""
DECODES = ((1, 32, 8, 4096, 128), (4, 8, 8, 1024, 64))
"""B, heads of queries, heads of keys, N, D; the first is Llama-3 8B's."""
MLAS = ((1, 128, 1024), (1, 16, 2048))
"""B, H, N at a latent of 512 and 64 rotary elements; DeepSeek-V2 has 128 heads, its Lite 16."""
LINEARS = ((1, 8, 2048, 64), (1, 16, 1024, 128))
"""B, H, N, D."""


def attention(b: int, h: int, g: int, n: int, d: int, causal: bool) -> Case:
    """Scaled dot-product attention in float32."""
    q, k, v = torch.randn(b, h, n, d), torch.randn(b, g, n, d), torch.randn(b, g, n, d)
    o, name = torch.empty_like(q), "attention causal" if causal else "attention full"
    kernel = compiled("attention", static={"causal": causal})
    kernel(q, k, v, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        return dot_attention(*operands, is_causal=causal, enable_gqa=h != g)

    error = deviation(o, torchs(q.double(), k.double(), v.double()))
    return Case(
        name, name, by(b, h, g, n, d), lambda: kernel(q, k, v, out=o),
        (lambda: torchs(q, k, v),), error, 4.0 * b * h * n * n * d * (0.5 if causal else 1.0),
        kernel=kernel,
    )  # fmt: skip


def attention_decode(b: int, h: int, g: int, n: int, d: int) -> Case:
    """One new query a head over `n` keys."""
    q, k, v = torch.randn(b, h, d), torch.randn(b, g, n, d), torch.randn(b, g, n, d)
    o = torch.empty_like(q)
    kernel = compiled("attention_decode")
    kernel(q, k, v, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        query, *cache = operands
        return dot_attention(query[:, :, None], *cache, enable_gqa=h != g)[:, :, 0]

    error = deviation(o, torchs(q.double(), k.double(), v.double()))
    return Case(
        "attention_decode", "attention_decode", by(b, h, g, n, d),
        lambda: kernel(q, k, v, out=o), (lambda: torchs(q, k, v),), error, 4.0 * b * h * n * d,
        kernel=kernel,
    )  # fmt: skip


def mla_decode(b: int, h: int, n: int) -> Case:
    """DeepSeek's latent attention; torch has no operator for it, so products and softmax."""
    q, r, o = torch.randn(b, h, 512), torch.randn(b, h, 64), torch.empty(b, h, 512)
    latent, rotary = torch.randn(b, n, 512), torch.randn(b, n, 64)
    kernel = compiled("mla_decode")
    kernel(q, r, latent, rotary, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        q, r, latent, rotary = operands
        scores = torch.baddbmm(q @ latent.transpose(1, 2), r, rotary.transpose(1, 2))
        return torch.softmax(scores / math.sqrt(192), -1) @ latent

    exact = torchs(*(x.double() for x in (q, r, latent, rotary)))
    return Case(
        "mla_decode", "mla_decode", by(b, h, n), lambda: kernel(q, r, latent, rotary, out=o),
        (lambda: torchs(q, r, latent, rotary),), deviation(o, exact),
        2.0 * b * h * n * (512 + 64 + 512),
        kernel=kernel,
    )  # fmt: skip


def linear_attention(b: int, h: int, n: int, d: int, chunk: int = 64) -> Case:
    """Causal linear attention, beside the same chunked form in torch."""
    q, k, v = (torch.randn(b, h, n, d) * 0.1 for _ in range(3))
    o, mask = torch.empty_like(q), torch.tril(torch.ones(chunk, chunk))
    kernel = compiled("linear_attention")
    kernel(q, k, v, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.view(b, h, n // chunk, chunk, d) for x in operands)
        added = k.transpose(-1, -2) @ v
        before = torch.cumsum(added, 2) - added
        own = (q @ k.transpose(-1, -2)) * mask.to(q.dtype)
        return (own @ v + q @ before).view(b, h, n, d)

    error = deviation(o, torchs(q.double(), k.double(), v.double()))
    return Case(
        "linear_attention", "linear_attention", by(b, h, n, d),
        lambda: kernel(q, k, v, out=o), (lambda: torchs(q, k, v),),
        error, 4.0 * b * h * n * d * (chunk + d),
        kernel=kernel,
    )  # fmt: skip


def attention_bias(b: int, h: int, g: int, n: int, d: int) -> Case:
    """Attention with a bias on the scores."""
    q, k, v = torch.randn(b, h, n, d), torch.randn(b, g, n, d), torch.randn(b, g, n, d)
    o, bias, kernel = (
        torch.empty_like(q),
        torch.randn(b, h, n, n),
        compiled("attention_bias"),
    )
    kernel(q, k, v, bias, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        q, k, v, bias = operands
        return dot_attention(q, k, v, attn_mask=bias, enable_gqa=h != g)

    error = deviation(o, torchs(*(x.double() for x in (q, k, v, bias))))
    return Case(
        "attention_bias", "attention_bias", by(b, h, g, n, d),
        lambda: kernel(q, k, v, bias, out=o), (lambda: torchs(q, k, v, bias),), error,
        4.0 * b * h * n * n * d,
        kernel=kernel,
    )  # fmt: skip


def cases(names: set[str]) -> Iterator[Case]:
    """All cases of the operators asked for, each made when it is reached."""
    if "attention" in names:
        yield from (attention(*s, causal) for causal in (False, True) for s in ATTENTIONS)
    if "attention_bias" in names:
        yield from (attention_bias(*s) for s in ATTENTIONS[-2:])
    if "attention_decode" in names:
        yield from (attention_decode(*shape) for shape in DECODES)
    if "mla_decode" in names:
        yield from (mla_decode(*shape) for shape in MLAS)
    if "linear_attention" in names:
        yield from (linear_attention(*shape) for shape in LINEARS)

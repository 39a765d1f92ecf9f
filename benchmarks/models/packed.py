"""The encoder in kernels, on sentences that lie one after another without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import septran
from benchmarks.models import logic
from benchmarks.models.minilm import EPS, HEADS, LAYERS, Weights
from septran.targets.cpu.run.isa import host_arch, processor

MEASURED = {"znver5": (64, 128), "cascadelake": (64, 48), "znver3": (16, 16)}
"""By processor: rows up to which weights in panels were faster, and the fastest panels' width.
Those as wide as a register tile are one stream, which matters more the slower memory is."""
OTHERS = {"AVX512": (64, 48)}
"""Of other processors, by torch's word for the vectors."""
FEW_ROWS, WIDTH = MEASURED.get(
    processor(host_arch()),
    OTHERS.get(torch.backends.cpu.get_cpu_capability(), MEASURED["znver3"]),
)


@dataclass(frozen=True)
class Batch:
    """Some sentences' tokens, and where each sentence's are."""

    ids: Tensor
    """The tokens' numbers [T], one sentence after another."""
    place: Tensor
    """The place of each in its sentence [T]."""
    rows: Tensor
    """Which of the T is token l of sentence b [B, L]; beyond its end, its last."""
    kept: Tensor
    """Which of the B * L places have a token [T]."""
    lengths: Tensor
    """Tokens of each sentence [B]."""

    @staticmethod
    def of(tokens: Sequence[Sequence[int]]) -> Batch:
        """Lay sentences one after another."""
        lengths = torch.tensor([len(t) for t in tokens])
        longest = torch.arange(int(lengths.max()))
        first = (lengths.cumsum(0) - lengths)[:, None]
        there = longest[None, :] < lengths[:, None]
        return Batch(
            torch.tensor([n for t in tokens for n in t]),
            longest.expand(there.shape)[there],
            first + torch.minimum(longest[None, :], lengths[:, None] - 1),
            there.flatten().nonzero()[:, 0],
            lengths,
        )


@dataclass(frozen=True)
class Product:
    """A layer's product, bias and activation: by panels of weights, or by the library's kernel.

    The weights are kept twice, as each reads them.
    """

    few: septran.Kernel
    many: septran.Kernel

    @staticmethod
    def given(weight: Tensor, bias: Tensor) -> Sequence[Tensor]:
        """A layer's weights [N, K] and bias, as a call takes them."""
        return weight, panels(weight), bias

    @staticmethod
    def compiled(mapping: str, act: str) -> Product:
        """Compile both ways."""
        few = septran.compile(logic.linear, mapping, static={"act": act})
        static = {"act": act, "trans_b": True}
        return Product(few, septran.compile("gemm_bias_act", mapping, static=static))

    def __call__(self, x: Tensor, weight: Tensor, in_panels: Tensor, bias: Tensor) -> Tensor:
        """Return act(x W + bias)."""
        # Packing pays when many rows are multiplied by what is packed.
        if len(x) <= FEW_ROWS:
            return self.few(x, in_panels, bias)
        return self.many(x, weight, bias)


class PackedMiniLM:
    """The encoder: five kernels of six layers' weights, and one before and after them."""

    product: type[Product] = Product
    """What multiplies in the layers."""

    def __init__(self, weights: Weights, mapping: str = "cpu-x86") -> None:
        def compiled(what: str | object, **static: object) -> septran.Kernel:
            return septran.compile(what, mapping, static=static)

        self.embed, self.add_norm = compiled(logic.embed), compiled(logic.add_norm)
        self.attention = compiled(logic.packed_attention, heads=HEADS)
        self.linear, self.gelu = (self.product.compiled(mapping, act) for act in ("none", "gelu"))
        self.choose, self.pool = compiled("embedding"), compiled(logic.mean_pool)

        def pair(prefix: str) -> tuple[Tensor, Tensor]:
            return weights[f"{prefix}.weight"], weights[f"{prefix}.bias"]

        tables = (f"embeddings.{n}_embeddings.weight" for n in ("word", "position", "token_type"))
        words, places, kinds = (weights[name] for name in tables)
        self.first = (words, places + kinds[0], *pair("embeddings.LayerNorm"))
        self.layers = []
        for n in range(LAYERS):
            layer = f"encoder.layer.{n}"
            parts = [pair(f"{layer}.attention.self.{p}") for p in ("query", "key", "value")]
            qkv = (torch.cat([w for w, _ in parts]), torch.cat([b for _, b in parts]))
            out, norm, up, down, last = (
                pair(f"{layer}.{name}")
                for name in (
                    "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
                    "output.dense", "output.LayerNorm",
                )
            )  # fmt: skip
            products = (self.product.given(*each) for each in (qkv, out, up, down))
            self.layers.append((*products, norm, last))

    def __call__(self, batch: Batch) -> Tensor:
        """Return the sentences' vectors [B, E]."""
        x = self.embed(*self.first, batch.ids, batch.place, eps=EPS)
        for qkv, out, up, down, norm, last in self.layers:
            seen = self.attention(self.linear(x, *qkv), batch.rows, batch.lengths)
            seen = seen.view(-1, seen.shape[2])
            if len(batch.kept) < len(seen):  # some sentences are shorter than the longest
                seen = self.choose(seen, batch.kept)
            x = self.add_norm(x, self.linear(seen, *out), *norm, eps=EPS)
            x = self.add_norm(x, self.linear(self.gelu(x, *up), *down), *last, eps=EPS)
        return self.pool(x, batch.rows, batch.lengths)


def panels(weight: Tensor, most: int = WIDTH) -> Tensor:
    """Return a layer's weights [N, K] in panels [P, K, S] of columns, evenly for two cores."""
    columns, inner = weight.shape
    halves = (most, most // 2, columns)
    width = next(s for s in halves if columns % (2 * s) == 0 or s == columns)
    return weight.view(-1, width, inner).transpose(1, 2).contiguous()

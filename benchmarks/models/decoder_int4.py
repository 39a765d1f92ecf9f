"""The decoder with weights of 4 bits: in kernels, in torch's own kernel, and in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import septran
from benchmarks.models import decoder
from benchmarks.models import decoder_logic as logic
from benchmarks.models.decoder import EPS, Shape, Weights
from benchmarks.models.int4 import GROUP, ZERO, Int4

MATRICES = ("qkv", "out", "gate", "up", "down")
"""A layer's matrices, which are rounded; its norms are not."""
Matrices = Mapping[str, Int4]


@dataclass(frozen=True)
class Quantised:
    """A model with weights of 4 bits."""

    layers: Sequence[Matrices]
    norms: Sequence[tuple[Tensor, Tensor]]
    """The two of each layer, float32."""
    words: Int4
    """Of the head [K, words], and for the vectors of tokens."""
    norm: Tensor
    """Before the head, float32."""

    @staticmethod
    def of(layers: Sequence[Weights], around: Weights) -> Quantised:
        """Round a model's matrices."""
        return Quantised(
            [{n: Int4.of(w[n]) for n in MATRICES} for w in layers],
            [(w["norm1"].float(), w["norm2"].float()) for w in layers],
            Int4.of(around["words"].t()),
            around["norm"].float(),
        )

    def wide(self, dtype: torch.dtype) -> tuple[list[Weights], Weights]:
        """The weights that the numbers of 4 bits mean, as `InTorch` takes them."""
        layers: list[Weights] = [
            {n: x.wide(dtype) for n, x in each.items()}
            | {"norm1": first.to(dtype), "norm2": second.to(dtype)}
            for each, (first, second) in zip(self.layers, self.norms, strict=True)
        ]
        words = self.words.wide(dtype).t().contiguous()
        return layers, {"words": words, "norm": self.norm.to(dtype)}


class Kernels:
    """The model whose layers are one kernel in float32; `round_rows` says if rows are int8.

    With a scale for a whole row, or for each `row_group` elements of it.
    """

    def __init__(
        self, shape: Shape, model: Quantised, *, round_rows: bool, row_group: int = 0
    ) -> None:
        self.dtype, self.shape, self.round_rows = torch.float32, shape, round_rows
        self.angles, self.caches = shape.angles(self.dtype), shape.caches(self.dtype)
        rounded = logic.of_int4_and_int8(GROUP, row_group)
        product = rounded if round_rows else logic.of_int4(GROUP)
        self.layer = septran.compile(logic.layer(shape.size, product), "cpu-x86")
        self.head = septran.compile(logic.head(product), "cpu-x86")
        parts, self.given = self.parts, []
        for w, (first, second) in zip(model.layers, model.norms, strict=True):
            before = [first, *parts(w["qkv"])]
            after = [
                *parts(w["out"]), second,
                *parts(Int4.beside(w["gate"], w["up"])), *parts(w["down"]),
            ]  # fmt: skip
            self.given.append((before, after))
        self.ends = [model.norm, *parts(model.words)]

    def parts(self, weights: Int4) -> list[Tensor]:
        """The tensors of a matrix, as the product takes them."""
        scale = weights.scale.to(self.dtype)
        both = [weights.halves(), scale]
        return both if self.round_rows else [*both, torch.full_like(scale, ZERO)]

    def __call__(self, token: int, position: int) -> Tensor:
        """The logits after a token."""
        x = self.embedded(token)
        for (before, after), caches in zip(self.given, self.caches, strict=True):
            y = torch.empty_like(x)
            self.layer(x, *before, *self.angles, position, *after, out=(*caches, y), eps=EPS)
            x = y
        return self.head(x, *self.ends, eps=EPS)

    def embedded(self, token: int) -> Tensor:
        """A token's vector [1, K], which is a column of the head's matrix."""
        halves, scale = (x[:, token] for x in self.ends[1:3])
        groups = halves.view(-1, GROUP // 2)
        numbers = torch.cat([groups & 15, groups >> 4], 1).to(self.dtype) - ZERO
        return (numbers * scale[:, None]).view(1, -1)


class InTorch(decoder.InTorch):
    """In functions of torch, the products by its own kernel, which is fastest in bfloat16."""

    def __init__(self, shape: Shape, model: Quantised) -> None:
        self.dtype = dtype = torch.bfloat16
        self.shape, self.angles, self.caches = shape, shape.angles(dtype), shape.caches(dtype)
        self.layers = [
            {n: x.for_torch(dtype) for n, x in each.items()}
            | {"norm1": first.to(dtype), "norm2": second.to(dtype)}
            for each, (first, second) in zip(model.layers, model.norms, strict=True)
        ]
        self.words = model.words.for_torch(dtype)
        self.around = {
            "words": model.words.wide(dtype).t().contiguous(), "norm": model.norm.to(dtype)
        }  # fmt: skip

    @staticmethod
    def linear(x: Tensor, weights: object) -> Tensor:
        """The product with packed weights, and their scales and shifts."""
        numbers, scales = weights
        return torch._weight_int4pack_mm_for_cpu(x, numbers, GROUP, scales)

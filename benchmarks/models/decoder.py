"""Tokens a second of a Llama-style decoder of seeded weights: kernels beside torch.

The shape is that of a model of a thousand million weights (16 layers, 2048 elements, 32 heads of
queries and 8 of keys, 8192 hidden elements), whose numbers of layers and words are options.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

import septran
from benchmarks.models import decoder_logic as logic

EPS, BASE, GROUP = 1e-5, 500_000.0, 32
Weights = Mapping[str, Tensor]
Next = Callable[[int, int], Tensor]
"""The logits [1, words] after a token at a place."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model."""

    layers: int = 16
    size: int = 2048
    heads: int = 32
    groups: int = 8
    hidden: int = 8192
    words: int = 128_256
    places: int = 1024

    @property
    def each(self) -> int:
        """Elements of a head."""
        return self.size // self.heads

    @property
    def queries_keys_values(self) -> int:
        """Elements of all heads of one token."""
        return (self.heads + 2 * self.groups) * self.each

    def angles(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines of every place [places, each / 2]."""
        rates = BASE ** -(torch.arange(0, self.each, 2, dtype=torch.float64) / self.each)
        angles = torch.arange(self.places)[:, None] * rates[None, :]
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def caches(self, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
        """Empty caches of keys and values of each layer."""
        shape = (self.groups, self.places, self.each)
        return [(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
                for _ in range(self.layers)]  # fmt: skip


TINY = Shape(layers=2, size=128, heads=4, groups=2, hidden=192, words=160, places=32)


def weights(shape: Shape, dtype: torch.dtype, seed: int = 0) -> tuple[list[Weights], Weights]:
    """The weights [in, out] of each layer, and those around the layers, from a seed."""
    generator = torch.Generator().manual_seed(seed)

    def some(*sizes: int) -> Tensor:
        made = torch.empty(sizes, dtype=torch.float32).normal_(generator=generator)
        return made.mul_(sizes[0] ** -0.5).to(dtype)

    D, F = shape.size, shape.hidden  # noqa: N806
    layers: list[Weights] = [
        {
            "norm1": torch.ones(D, dtype=dtype),
            "qkv": some(D, shape.queries_keys_values),
            "out": some(D, D),
            "norm2": torch.ones(D, dtype=dtype),
            "gate": some(D, F),
            "up": some(D, F),
            "down": some(F, D),
        }
        for _ in range(shape.layers)
    ]
    return layers, {"words": some(shape.words, D), "norm": torch.ones(D, dtype=dtype)}


class Kernels:
    """The model whose layers are one kernel, called once for each."""

    def __init__(self, shape: Shape, layers: Sequence[Weights], around: Weights) -> None:
        self.dtype = around["words"].dtype
        self.shape, self.layers, self.around = shape, layers, around
        self.angles, self.caches = shape.angles(self.dtype), shape.caches(self.dtype)
        self.layer = septran.compile(logic.layer(shape.size), "cpu-x86")
        self.head = septran.compile(logic.head(), "cpu-x86")
        self.given = [[each[n] for n in ("norm1", "qkv")] for each in layers]
        self.rest = [[w[n] for n in ("out", "norm2", "gate", "up", "down")] for w in layers]

    def __call__(self, token: int, position: int) -> Tensor:
        """The logits after a token."""
        x = self.around["words"][token : token + 1]
        for first, rest, caches in zip(self.given, self.rest, self.caches, strict=True):
            y = torch.empty_like(x)
            self.layer(x, *first, *self.angles, position, *rest, out=(*caches, y), eps=EPS)
            x = y
        return self.head(x, self.around["norm"], self.around["words"], eps=EPS)


class InTorch:
    """The same in functions of torch, with weights as `linear` reads them fastest."""

    def __init__(self, shape: Shape, layers: Sequence[Weights], around: Weights) -> None:
        self.dtype = around["words"].dtype
        self.shape, self.around = shape, around
        self.words = around["words"]
        self.angles, self.caches = shape.angles(self.dtype), shape.caches(self.dtype)
        self.layers = [
            {n: w.t().contiguous() if w.ndim == 2 else w for n, w in each.items()}
            for each in layers
        ]

    def __call__(self, token: int, position: int) -> Tensor:
        """The logits after a token."""
        x = self.around["words"][token : token + 1]
        cos, sin = (each[position] for each in self.angles)
        for w, (keys, values) in zip(self.layers, self.caches, strict=True):
            x = self.layer(x, w, keys, values, cos, sin, position)
        return self.head(x)

    def head(self, x: Tensor) -> Tensor:
        """The logits of what the layers made."""
        x = functional.rms_norm(x, (self.shape.size,), self.around["norm"], EPS)
        return self.linear(x, self.words)

    @staticmethod
    def linear(x: Tensor, weights: Tensor) -> Tensor:
        """The product with weights as they are kept."""
        return functional.linear(x, weights)

    def layer(
        self,
        x: Tensor,
        w: Weights,
        keys: Tensor,
        values: Tensor,
        cos: Tensor,
        sin: Tensor,
        position: int,
    ) -> Tensor:
        """A layer."""
        s = self.shape
        a = self.linear(functional.rms_norm(x, (s.size,), w["norm1"], EPS), w["qkv"])
        q, k, v = a.view(-1, s.each).split((s.heads, s.groups, s.groups))
        keys[:, position], values[:, position] = self.turned(k, cos, sin), v
        seen = slice(position + 1)
        o = functional.scaled_dot_product_attention(
            self.turned(q, cos, sin)[None, :, None], keys[None, :, seen], values[None, :, seen],
            enable_gqa=True,
        )  # fmt: skip
        x = x + self.linear(o.reshape(1, s.size), w["out"])
        n = functional.rms_norm(x, (s.size,), w["norm2"], EPS)
        z = functional.silu(self.linear(n, w["gate"])) * self.linear(n, w["up"])
        return x + self.linear(z, w["down"])

    @staticmethod
    def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Heads rotated by the angles of their place."""
        low, high = x.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def generated(model: Next, prompt: Sequence[int], count: int) -> list[int]:
    """The tokens that follow a prompt, each the likeliest."""
    tokens = list(prompt)
    for position in range(len(prompt) + count - 1):
        logits = model(tokens[position], position)
        if position == len(tokens) - 1:
            tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


def compiled(model: InTorch) -> InTorch:
    """The same through `torch.compile`: one graph for all layers, one for the head."""
    other = copy.copy(model)
    for name in ("layer", "head"):
        setattr(other, name, torch.compile(getattr(model, name)))
    return other

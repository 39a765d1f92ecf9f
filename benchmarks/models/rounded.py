"""The encoder with weights of 8 bits, of which rows are multiplied that are rounded to 8 bits.

Some channels are large in all rows and layers. Norms make them so, whose weights tell which; they
come last here, and neither they nor their weights are rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import septran
from benchmarks.models import logic_int8
from benchmarks.models.minilm import Weights
from benchmarks.models.packed import Batch, PackedMiniLM, panels

WIDTH = 48
"""Of panels of bytes: a register tile's on AVX-512."""
LARGE = 8
"""Channels that are not rounded."""
MOST = 127
"""The greatest weight of 8 bits."""


@dataclass(frozen=True)
class RoundedProduct:
    """A layer's product, bias and activation, of bytes but for the last channels."""

    kernel: septran.Kernel

    @staticmethod
    def given(weight: Tensor, bias: Tensor) -> Sequence[Tensor]:
        """A layer's weights [N, K], rounded but for the last channels, as a call takes them."""
        some, whole = weight[:, :-LARGE], weight[:, -LARGE:]
        scale = some.abs().amax(1) / MOST
        scale = torch.where(scale > 0, scale, 1)
        numbers = (some / scale[:, None]).round().to(torch.int8)
        # [P, K, S] in groups of four along K.
        packed = panels(numbers, WIDTH).unflatten(1, (-1, 4)).transpose(2, 3).contiguous()
        return packed, panels(whole, WIDTH), scale, numbers.sum(1).float(), bias

    @staticmethod
    def compiled(mapping: str, act: str) -> RoundedProduct:
        """Compile it."""
        return RoundedProduct(septran.compile(logic_int8.linear_int8, mapping, static={"act": act}))

    def __call__(self, x: Tensor, *given: Tensor) -> Tensor:
        """Return act(x W + bias)."""
        return self.kernel(x, *given)


class RoundedMiniLM(PackedMiniLM):
    """The encoder whose layers multiply bytes."""

    product = RoundedProduct

    def __init__(self, weights: Weights, mapping: str = "cpu-x86") -> None:
        order = by_size(weights)
        super().__init__({n: reordered(n, w, order) for n, w in weights.items()}, mapping)
        self.back = order.argsort()

    def __call__(self, batch: Batch) -> Tensor:
        """Return the sentences' vectors [B, E]."""
        return super().__call__(batch)[:, self.back]


def by_size(weights: Weights) -> Tensor:
    """The model's channels, those last that some norm makes largest beside the others."""
    sizes = []
    for name in (n for n in weights if n.endswith("LayerNorm.weight")):
        # Two standard deviations of what is normalised, around its mean.
        size = 2 * weights[name].abs() + weights[f"{name[: -len('weight')]}bias"].abs()
        sizes.append(size / size.median())
    return torch.stack(sizes).amax(0).argsort()


def reordered(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """One of the weights with the model's channels in another order."""
    if name.startswith("embeddings.") or "LayerNorm" in name:
        return weight[..., order]
    # What a layer takes are columns of its matrices, what it adds to the channels are rows.
    inner = ".self." in name or ".intermediate." in name
    if not inner:
        return weight[order]
    return weight[:, order] if weight.ndim == 2 else weight

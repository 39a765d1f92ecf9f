"""Weights of 4 bits in groups of 32 with one scale each, as kernels, torch and ggml keep them.

The values are those of ggml's type Q4_0: the scale of a group, rounded to 16 bits, is its element
of the largest magnitude by -8, and each weight is scale * (number - 8), numbers being 0 to 15.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 32
MOST = 15
"""The greatest number of 4 bits."""
ZERO = 8
"""The number that means 0."""


@dataclass(frozen=True)
class Int4:
    """A matrix of weights [K, N], grouped along K."""

    numbers: Tensor
    """Of 0 to 15, uint8 [K / 32, 32, N]."""
    scale: Tensor
    """One a group and column, float16 [K / 32, N]."""

    @staticmethod
    def of(weights: Tensor) -> Int4:
        """Round a matrix [K, N]."""
        groups = weights.float().contiguous().view(-1, GROUP, weights.shape[1])
        place = groups.abs().argmax(1, keepdim=True)
        size = groups.gather(1, place) / -ZERO
        shares = torch.where(size == 0, 0, groups / size)
        numbers = (shares + (ZERO + 0.5)).clamp_(0, MOST).to(torch.uint8)
        return Int4(numbers, size[:, 0].to(torch.float16))

    @staticmethod
    def beside(*matrices: Int4) -> Int4:
        """One matrix of the columns of all."""
        return Int4(
            *(torch.cat([getattr(m, n) for m in matrices], -1) for n in ("numbers", "scale"))
        )

    def columns(self, *sizes: int) -> list[Int4]:
        """Parts of so many columns each."""
        parts = (x.split(sizes, -1) for x in (self.numbers, self.scale))
        return [Int4(*each) for each in zip(*parts, strict=True)]

    def wide(self, dtype: torch.dtype) -> Tensor:
        """The weights [K, N] as numbers that they mean."""
        numbers = self.numbers.to(dtype) - ZERO
        return (numbers * self.scale.to(dtype)[:, None]).view(-1, self.scale.shape[1])

    def halves(self) -> Tensor:
        """Two weights a byte [K / 2, N]: a group's first rows in low halves, its last in high."""
        low, high = self.numbers.split(GROUP // 2, 1)
        return (low | high << 4).reshape(-1, self.scale.shape[1])

    def for_torch(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What torch's own kernel takes: its packing, and scales and what is added for each."""
        whole = self.numbers.view(-1, self.scale.shape[1]).t().contiguous().int()
        scales = torch.stack([self.scale, torch.zeros_like(self.scale)], 2).to(dtype)
        return torch._convert_weight_to_int4pack_for_cpu(whole, 1), scales

    def for_ggml(self) -> Tensor:
        """Rows of N blocks [N, K / 32 * 18]: a scale of two bytes, then 16 bytes of two weights."""
        low, high = self.numbers.split(GROUP // 2, 1)
        halves = (low | high << 4).permute(2, 0, 1)
        scales = self.scale.t().contiguous().view(torch.uint8).view(*halves.shape[:2], 2)
        return torch.cat([scales, halves], 2).flatten(1)

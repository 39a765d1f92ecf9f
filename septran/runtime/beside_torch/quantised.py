"""What torch has beside products of quantised operands: they are widened, then multiplied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def fp8_gemm(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    import torch

    block = static.get("block", 128)

    def call(a: Any, b: Any, of_rows: Any, of_blocks: Any) -> Any:
        wide = torch.promote_types(of_rows.dtype, torch.float32)
        (m, k), n = a.shape, b.shape[0]
        if k % block or n % block:
            left = of_rows.repeat_interleave(block, 1)[:, :k]
            right = of_blocks.repeat_interleave(block, 0)[:n].repeat_interleave(block, 1)[:, :k]
            return torch.mm(a.to(wide) * left, (b.to(wide) * right).T)
        # Whole blocks need no scales of each element, which takes torch half of the time.
        left = a.to(wide).view(m, -1, block) * of_rows[:, :, None]
        right = b.to(wide).view(n // block, block, -1, block) * of_blocks[:, None, :, None]
        return torch.mm(left.view(m, k), right.view(n, k).T)

    return "widened, then torch.mm", call

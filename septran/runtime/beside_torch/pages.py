"""What torch has beside attention over pages: attention over keys that are gathered first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any


def paged_attention(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    import torch

    def paged(q: Any, k: Any, v: Any, pages: Any, length: Any) -> Any:
        there = torch.arange(pages.shape[1] * k.shape[1]) < length[:, None]
        keys, values = (x[pages].flatten(1, 2).transpose(1, 2) for x in (k, v))
        found = torch.nn.functional.scaled_dot_product_attention(
            q[:, :, None], keys, values, attn_mask=there[:, None, None],
            scale=static.get("scale"), enable_gqa=q.shape[1] != k.shape[2],
        )  # fmt: skip
        return found[:, :, 0]

    return "torch.nn.functional.scaled_dot_product_attention of gathered pages", paged


def paged_prefill(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    import torch

    causal = static.get("causal", True)

    def prefill(q: Any, k: Any, v: Any, starts: Any, pages: Any, length: Any) -> Any:
        found = q.new_zeros(q.shape)
        sections = zip(itertools.pairwise(starts.tolist()), pages, length.tolist(), strict=True)
        for (low, high), table, count in sections:
            if low >= high:
                continue
            keys, values = (
                x[table[: -(-count // x.shape[1])]].flatten(0, 1)[:count].transpose(0, 1)[None]
                for x in (k, v)
            )
            # torch's own flag is for as many queries as keys: its first query sees one key.
            square = causal and high - low == count
            seen = None
            if causal and not square:
                seen = torch.ones(high - low, count, dtype=torch.bool).tril(count - high + low)
            found[low:high] = torch.nn.functional.scaled_dot_product_attention(
                q[low:high].transpose(0, 1)[None], keys, values, attn_mask=seen, is_causal=square,
                scale=static.get("scale"), enable_gqa=q.shape[1] != k.shape[2],
            )[0].transpose(0, 1)  # fmt: skip
        return found

    return "torch scaled_dot_product_attention of each sequence, its pages gathered", prefill

"""Functions of torch that are Python inside: written out, so that their parts can be replaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from septran.torch.replacements import Unsuitable


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """torch.nn.functional.multi_head_attention_forward without weights as a second result.

    query [M, B, E], key and value [N, B, E]; the projections of one matrix [3 E, E]. Raises
    Unsuitable for what is not written out here.
    """
    odd = (
        need_weights or bias_k is not None or bias_v is not None or add_zero_attn
        or (training and dropout_p) or in_proj_weight is None or query.dim() != 3
        or any(more.get(n) is not None for n in ("static_k", "static_v"))
    )  # fmt: skip
    if odd or in_proj_weight is None:
        raise Unsuitable("it returns weights, or has dropout, projections or keys of its own")
    if more.get("is_causal") and attn_mask is None:
        raise Unsuitable("it is causal without a mask")
    biases = [None] * 3 if in_proj_bias is None else list(in_proj_bias.chunk(3))
    if query is key and key is value:
        projected = functional.linear(query, in_proj_weight, in_proj_bias).chunk(3, dim=-1)
    else:
        parts = zip((query, key, value), in_proj_weight.chunk(3), biases, strict=True)
        projected = tuple(functional.linear(x, w, b) for x, w, b in parts)
    q, k, v = (_heads(x, num_heads) for x in projected)
    mask = _mask(attn_mask, key_padding_mask, q, k)
    found = functional.scaled_dot_product_attention(q, k, v, mask)
    joined = found.permute(2, 0, 1, 3).reshape(query.shape)
    return functional.linear(joined, out_proj_weight, out_proj_bias), None


def _heads(x: Tensor, count: int) -> Tensor:
    """Return [B, H, N, D] of [N, B, H * D]."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).permute(1, 2, 0, 3)


def _mask(mask: Tensor | None, padding: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """Return one mask to add to the scores, [B, H, M, N], of torch's two; None without them."""
    if mask is None and padding is None:
        return None
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    total = query.new_zeros(shape)
    if mask is not None:
        total = total + _added(mask, query.dtype).reshape(-1, *_split(mask, shape))
    if padding is not None:
        total = total + _added(padding, query.dtype)[:, None, None, :]
    return total


def _split(mask: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes after the batch of a mask [M, N], or [B * H, M, N]."""
    return (shape[1] if mask.dim() == 3 else 1, *shape[2:])


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask of scores to add: -inf where a mask of booleans, as torch means it, is true."""
    if mask.dtype is not torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)


COMPOSITES: Mapping[Callable[..., Any], Callable[..., Any]] = {
    functional.multi_head_attention_forward: multi_head_attention
}
"""Those of torch's functions, and what they do written out."""

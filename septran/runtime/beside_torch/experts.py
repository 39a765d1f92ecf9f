"""What torch has beside products of experts: those of each expert's rows, one after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def grouped_gemm(_: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    import torch

    def grouped(x: Any, w: Any, offsets: Any) -> Any:
        found = torch.zeros(x.shape[0], w.shape[2], dtype=x.dtype)
        for e, low, high in _sections(offsets):
            torch.mm(x[low:high], w[e], out=found[low:high])
        return found

    return "torch.mm of each group", grouped


def moe(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    import torch

    functions = torch.nn.functional
    act = functions.gelu if static.get("act") == "gelu" else functions.silu

    def layer(x: Any, w: Any, v: Any, u: Any, token: Any, weight: Any, offsets: Any) -> Any:
        routed = torch.zeros(
            token.shape[0], x.shape[1], dtype=torch.promote_types(x.dtype, torch.float32)
        )
        for e, low, high in _sections(offsets):
            rows = x[token[low:high]]
            hidden = act(rows @ w[e]) * (rows @ v[e])
            routed[low:high] = (hidden @ u[e]) * weight[low:high, None]
        return torch.zeros_like(x).index_add_(0, token, routed.to(x.dtype))

    return "torch.mm of each expert, index_add_", layer


def route(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    import torch

    k = int(static.get("k", 2))

    def routes(logits: Any) -> Any:
        top, chosen = torch.topk(logits, k, dim=1)
        experts, order = torch.sort(chosen.flatten(), stable=True)
        offsets = torch.searchsorted(experts, torch.arange(logits.shape[1] + 1))
        wide = torch.promote_types(logits.dtype, torch.float32)
        share = torch.softmax(top, 1, dtype=wide).to(logits.dtype)
        return order // k, share.flatten()[order], offsets

    return "torch.topk, softmax, sort, searchsorted", routes


def moe_layer(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    import torch

    _, routes = route(static)
    _, experts = moe(static)

    def layer(x: Any, gate: Any, w: Any, v: Any, u: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        return experts(x, w, v, u, *routes(x.to(wide) @ gate.to(wide)))

    return "torch.topk and sort, torch.mm of each expert, index_add_", layer


def _sections(offsets: Any) -> Iterator[tuple[int, int, int]]:
    """Yield each expert that has rows, with its first row and the one behind its last."""
    ends = offsets.tolist()
    for e, (low, high) in enumerate(itertools.pairwise(ends)):
        if low < high:
            yield e, low, high

"""What torch has beside recurrences: chunks, each a triangular system, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

CHUNK = 64


def gated_delta_rule(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    eps = static.get("eps", 1e-6)
    return "torch solve_triangular, matmul", lambda *given: _gated_delta_rule(*given, eps=eps)


def _gated_delta_rule(q: Any, k: Any, v: Any, forget: Any, write: Any, *, eps: float) -> Any:
    """Return the operator's O, with all systems solved at one time."""
    import torch

    functions: Any = torch.nn.functional
    kind = torch.promote_types(q.dtype, torch.float32)
    length, rest = q.shape[2], -q.shape[2] % CHUNK
    # Steps behind the end write nothing, and nobody reads them.
    queries, keys, values = (
        functions.pad(x.to(kind), (0, 0, 0, rest)).unflatten(2, (-1, CHUNK)) for x in (q, k, v)
    )
    g, beta = (
        functions.pad(x, (0, rest)).unflatten(2, (-1, CHUNK))
        for x in (functions.logsigmoid(forget.to(kind)), torch.sigmoid(write.to(kind)))
    )
    total, beta = g.cumsum(-1), beta[..., None]
    queries, keys = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + eps) for x in (queries, keys))
    upper = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
    kept = (total[..., :, None] - total[..., None, :]).masked_fill(upper, -torch.inf).exp()
    system = (beta * kept * (keys @ keys.mT)).tril(-1)
    begin = total.exp()[..., None]
    right = torch.cat([beta * values, beta * begin * keys], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    own, held = solved.split([v.shape[3], k.shape[3]], -1)
    seen = kept * (queries @ keys.mT)
    left = (total[..., -1:] - total).exp()[..., None]
    state = q.new_zeros(*q.shape[:2], k.shape[3], v.shape[3], dtype=kind)
    found = []
    for n in range(queries.shape[2]):
        u = own[:, :, n] - held[:, :, n] @ state
        found.append(begin[:, :, n] * (queries[:, :, n] @ state) + seen[:, :, n] @ u)
        state = begin[:, :, n, -1:] * state + (left[:, :, n] * keys[:, :, n]).mT @ u
    return torch.cat(found, 2)[:, :, :length].to(q.dtype)

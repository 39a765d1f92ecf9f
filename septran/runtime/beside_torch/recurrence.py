"""What torch has beside recurrences: chunks, one after another, of which each is a product."""

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


def linear_recurrence(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""

    def call(a: Any, x: Any) -> Any:
        import torch

        kind = torch.promote_types(x.dtype, torch.float32)
        state = x.new_zeros(x.shape[0], *x.shape[2:], dtype=kind)
        found = torch.empty_like(x)
        steps = range(x.shape[1])
        for t in reversed(steps) if static.get("reverse", False) else steps:
            state = torch.addcmul(x[:, t].to(kind), a[:, t].to(kind), state)
            found[:, t] = state
        return found

    return "torch addcmul, step by step", call


def linear_recurrence_backward(static: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    reverse = static.get("reverse", False)

    def call(a: Any, y: Any, dy: Any) -> Any:
        import torch

        kind = torch.promote_types(a.dtype, torch.float32)
        handed = a.new_zeros(a.shape[0], *a.shape[2:], dtype=kind)
        da, dx, count = torch.empty_like(a), torch.empty_like(a), a.shape[1]
        for t in range(count) if reverse else reversed(range(count)):
            slope = dy[:, t].to(kind) + handed
            before = t + 1 if reverse else t - 1
            dx[:, t], handed = slope, a[:, t].to(kind) * slope
            da[:, t] = slope * y[:, before] if 0 <= before < count else 0
        return da, dx

    return "torch, step by step", call


def ssd(_: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of what computes the operator by torch, and the function."""
    return "torch matmul, cumsum of chunks", _ssd


def _ssd(x: Any, decay: Any, b: Any, c: Any) -> Any:
    """Return the operator's Y, with the products within all chunks at one time."""
    import torch

    functions: Any = torch.nn.functional
    kind = torch.promote_types(x.dtype, torch.float32)
    steps, heads = x.shape[1:3]
    rest = (0, 0) * (x.ndim - 2) + (0, -steps % CHUNK)
    # Of each batch, head and chunk a matrix, so that products are those of matrices.
    values, keys, queries = (
        functions.pad(z.to(kind), rest)
        .unflatten(1, (-1, CHUNK))
        .repeat_interleave(heads // z.shape[2], 2 + 1)
        .permute(0, 3, 1, 2, 4)
        for z in (x, b, c)
    )
    total = functions.pad(decay.to(kind).clamp(max=0), rest[2:]).unflatten(1, (-1, CHUNK))
    total = total.permute(0, 3, 1, 2).cumsum(-1)
    upper = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=x.device).triu(1)
    kept = (total[..., :, None] - total[..., None, :]).masked_fill(upper, -torch.inf).exp()
    own = (kept * (queries @ keys.mT)) @ values
    left = (total[..., -1:] - total).exp()[..., None]
    added = (left * keys).mT @ values
    last = total[..., -1].exp()[..., None, None]
    state, states = torch.zeros_like(added[:, :, 0]), []
    for n in range(added.shape[2]):
        states.append(state)
        state = last[:, :, n] * state + added[:, :, n]
    found = own + total.exp()[..., None] * (queries @ torch.stack(states, 2))
    return found.permute(0, 2, 3, 1, 4).flatten(1, 2)[:, :steps].to(x.dtype)

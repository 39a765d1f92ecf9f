"""`torch.vmap` of an operator: one call for each element of the batch."""

from __future__ import annotations

from typing import Any

import torch


def register_vmap(name: str, overload: Any, count: int, library: Any) -> None:
    """Register the batching rule of an operator whose first `count` arguments are tensors.

    A logic says nothing of further axes, so each element of a batch is a call of its own, and the
    results are stacked. A logic with a batch dimension is faster where there is one.
    """

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any, **named: Any) -> Any:
        results = []
        for n in range(info.batch_size):
            one = [
                x if dim is None else x.select(dim, n)
                for x, dim in zip(arguments, in_dims, strict=True)
            ]
            results.append(overload(*one, **named))
        if results[0] is None:
            return None, None
        if isinstance(results[0], tuple):
            stacked = tuple(torch.stack(each) for each in zip(*results, strict=True))
            return stacked, (0,) * len(stacked)
        return torch.stack(results), 0

    torch.library.register_vmap(name, rule, lib=library)

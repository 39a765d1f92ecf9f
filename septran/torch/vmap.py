"""`torch.vmap` of an operator: one call for each element of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from septran.argument_checks import WrongArgumentError
from septran.torch.plan import Plan


def register_vmap(plan: Plan, overload: Any, fake: Callable[..., Any], library: Any) -> None:
    """Register the batching rule of an operator; `fake` makes results without computing them.

    A logic says nothing of further axes, so each element of a batch is a call of its own, and the
    results are stacked. A logic with a batch dimension is faster where there is one.
    """

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any, **named: Any) -> Any:
        _check_changed(plan, in_dims)
        if info.batch_size == 0:
            one = [_empty(x, dim) for x, dim in zip(arguments, in_dims, strict=True)]
            results = [fake(*one, **named)]
        else:
            results = [
                overload(
                    *(_element(x, d, n) for x, d in zip(arguments, in_dims, strict=True)), **named
                )
                for n in range(info.batch_size)
            ]
        if results[0] is None:
            return None, None
        if isinstance(results[0], tuple):
            stacked = tuple(_stack(each, info.batch_size) for each in zip(*results, strict=True))
            return stacked, (0,) * len(stacked)
        return _stack(results, info.batch_size), 0

    torch.library.register_vmap(plan.name, rule, lib=library)


def _element(x: Any, dim: int | None, n: int) -> Any:
    return x if dim is None else x.select(dim, n)


def _empty(x: Any, dim: int | None) -> Any:
    """Return a tensor like an element of the batch, which has none."""
    return x if dim is None else x.new_empty((*x.shape[:dim], *x.shape[dim + 1 :]))


def _stack(results: Sequence[Any], count: int) -> Any:
    return torch.stack(tuple(results))[:count]


def _check_changed(plan: Plan, in_dims: Sequence[int | None]) -> None:
    """Raise WrongArgumentError where calls of one batch would change one and the same tensor."""
    if all(dim is None for dim in in_dims):
        return
    for name, dim in zip(plan.passed, in_dims, strict=False):
        if name in plan.mutates and dim is None:
            raise WrongArgumentError(
                f"{plan.name}: {name} is changed in place, and vmap has one of it for all elements",
                hint=f"pass {name} with the batch's axis, too",
            )

"""Shapes and dtypes of outputs from those of inputs, symbolic extents included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from septran.runtime.arrays import TORCH
from septran.runtime.signature import Signature, TensorParam
from septran.task import Task
from septran.task.trace.dims import calculate
from septran.task.trace.inference import complete, complete_dtypes


def fake_outputs(
    logic: Task, signature: Signature, static: Mapping[str, Any], names: Sequence[str]
) -> Callable[..., dict[str, torch.Tensor]]:
    """Return a function from the tensors `names`, in order, to new tensors for all outputs.

    The tensors may be torch's fakes, with symbolic extents: extents follow from the logic's
    annotations, and where these do not suffice, from a trace for the extents at hand, to which the
    graph is specialised then.
    """
    dtypes: dict[tuple[str, ...], dict[str, str]] = {}

    def make(*tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        kinds = {n: str(TORCH.dtype(x)) for n, x in zip(names, tensors, strict=True)}
        key = tuple(kinds.values())
        if key not in dtypes:
            dtypes[key] = complete_dtypes(logic, kinds, static)
        given = {n: tuple(x.shape) for n, x in zip(names, tensors, strict=True)}
        shapes = _annotated(signature, logic.flags(static), given)
        if shapes is None:
            sizes = {n: tuple(int(e) for e in shape) for n, shape in given.items()}
            shapes = complete(logic, sizes, kinds, static=static)[0]
        return {
            t.name: tensors[0].new_empty(shapes[t.name], dtype=getattr(torch, dtypes[key][t.name]))
            for t in signature.outputs
        }

    return make


def _annotated(
    signature: Signature, flags: Mapping[str, Any], given: Mapping[str, Sequence[Any]]
) -> dict[str, tuple[Any, ...]] | None:
    """Return the outputs' shapes by the annotations; None where these do not suffice.

    Extents that must be equal are checked, which in a graph is a condition on its inputs.
    """
    values = dict(flags)
    named = {n for t in signature.inputs for n in t.dims or () if n.isidentifier()}
    for name in named:
        values.pop(name, None)
    for name, shape in given.items():
        for dim, size in zip(signature.tensor(name).dims or (), shape, strict=False):
            if dim.isidentifier():
                _bind(values, dim, size, name)
    try:
        return {t.name: _shape(t, values) for t in signature.outputs}
    except (KeyError, SyntaxError, TypeError, ValueError, ZeroDivisionError):
        return None


def _bind(values: dict[str, Any], dim: str, size: Any, name: str) -> None:
    known = values.setdefault(dim, size)
    if known is not size:
        check: Any = torch._check  # untyped
        check(known == size, lambda: f"{dim} is {known}, but {size} in {name}")


def _shape(tensor: TensorParam, values: Mapping[str, Any]) -> tuple[Any, ...]:
    if tensor.dims is None or "" in tensor.dims:
        raise ValueError("not annotated")
    greatest: Any = torch.sym_max  # untyped
    return tuple(greatest(0, calculate(dim, values)) for dim in tensor.dims)

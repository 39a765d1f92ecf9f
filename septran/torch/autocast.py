"""Autocast: operators with products take the lower precision, others what they are passed.

torch does the same with its own operators: matrix products and convolutions are cast, and softmax
and norms are not cast down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from septran.errors import LogicError
from septran.task import Task
from septran.task.trace.inference import probe
from septran.task.tree import Primitive, statements
from septran.torch.plan import Plan


def register_autocast(plan: Plan, overload: Any, library: Any) -> None:
    """Register the casts of an operator that multiplies matrices, for each of its devices."""
    if not multiplies(plan.entry, plan.static):
        return
    # A tensor that is changed in place stays what it is: a cast copy would be changed instead.
    free = [
        plan.signature.tensor(name).dtype is None and name not in plan.mutates
        for name in plan.passed
    ]
    for device in plan.kernels:
        _register(plan.name, overload, free, device, library)


def multiplies(entry: Task, static: Mapping[str, Any]) -> bool:
    """Return whether the logic has a matrix product; False where no made-up extents fit it."""
    try:
        tree = probe(entry, static)
    except LogicError:
        return False
    return any(
        isinstance(s, Primitive) and s.name == "gemm"
        for node in tree.tasks()
        for s in statements(node.body)
    )


def _register(name: str, overload: Any, free: Sequence[bool], device: str, library: Any) -> None:
    """Register the kernel of one device's autocast key, as torch.library.register_autocast does.

    That one casts to a dtype fixed at registration, not to the one of the surrounding context.
    """
    word = "Autocast" + torch._C._dispatch_key_for_device(device)
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, word))

    def cast(x: Any, changeable: bool) -> Any:
        # As torch: float64 is asked for by those who need it, and is left.
        lower = changeable and x.is_floating_point() and x.dtype is not torch.float64
        return x.to(torch.get_autocast_dtype(device)) if lower and x.device.type == device else x

    def run(_: Any, *arguments: Any, **named: Any) -> Any:
        tensors = [cast(x, f) for x, f in zip(arguments, free, strict=False)]
        # Without the guard the call would come back here.
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return overload(*tensors, *arguments[len(tensors) :], **named)

    overload.py_impl(getattr(torch._C.DispatchKey, word))(lambda *a, **n: run(None, *a, **n))
    library.impl(name.partition("::")[2], run, word, with_keyset=True)

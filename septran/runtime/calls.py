"""A call that has been made before: what is left to check, in the fewest steps.

The first call with given shapes and dtypes goes the long way (arguments.py) and leaves a
`Plan`. Later calls look it up by the arrays' types, shapes and dtypes; only what these
do not tell (layout, address, gradient, overlap) is looked at again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.dtypes import itemsize
from septran.runtime.arguments import scalar_values
from septran.runtime.arrays import TORCH, Library
from septran.runtime.signature import Signature, Specialisation


def call_key(tensors: Sequence[Any], out: Any) -> Hashable:
    """What a plan is found by; None where not all arguments are arrays."""
    try:
        key = tuple([(type(x), x.shape, x.dtype) for x in tensors])
        return key if out is None else (key, type(out), out.shape, out.dtype)
    except AttributeError:
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run one specialisation on arrays that are ready to be passed."""

    run: Callable[..., None]
    library: Library
    device: str
    scalars: Callable[[Mapping[str, Any]], Sequence[Any]]
    """Values of the scalars, from those that a call gives."""
    defaults: tuple[Any, ...] | None
    """Their values where a call gives none; None where it must give some."""
    order: tuple[int, ...] | None
    """For each tensor its place among results and inputs, in this order; None where
    that is the kernel's own."""
    allocators: tuple[Callable[[], Any], ...]
    """One for each output."""

    # Written for speed: with what `ready` does, this is what a call costs beside the kernel.
    def __call__(self, tensors: tuple[Any, ...], out: Any, named: Mapping[str, Any]) -> Any:
        """The result; NotImplemented where the long way must be gone."""
        if not self.library.ready(tensors, out, self.device):
            return NotImplemented
        return self.launch(tensors, out, named)

    def launch(self, tensors: tuple[Any, ...], out: Any, named: Mapping[str, Any]) -> Any:
        """Run on arrays that are ready, and return the result."""
        if out is not None:
            results: tuple[Any, ...] = (out,)
        else:
            results = tuple([allocate() for allocate in self.allocators])
        arguments = results + tensors
        if self.order is not None:
            arguments = tuple([arguments[place] for place in self.order])
        if named or self.defaults is None:
            self.run(*arguments, *self.scalars(named))
        else:
            self.run(*arguments, *self.defaults)
        if out is not None:
            self.library.touched(out)
            return out
        return results[0] if len(results) == 1 else results


@dataclass(slots=True)
class DirectCall:
    """A call of the only plan there is, by a function that checks its arguments itself.

    Shapes, dtypes, layout and device are then its matter: where it refuses them, the long
    way is gone, and no call is direct any more.
    """

    plan: Plan
    kind: Any
    """torch.Tensor; subclasses go the long way."""
    sizes: tuple[int, ...]
    """Bytes of each input."""
    result_size: int
    works: bool = True

    def __call__(self, tensors: tuple[Any, ...], out: Any) -> Any:
        """The result; NotImplemented where the arrays must be looked at more closely."""
        kind, first, last = self.kind, 0, 0
        if not self.works or len(tensors) != len(self.sizes):
            return NotImplemented
        try:
            if out is not None:
                if type(out) is not kind or out.requires_grad or out.is_neg():
                    return NotImplemented
                first = out.data_ptr()
                last = first + self.result_size
            for x, size in zip(tensors, self.sizes, strict=True):
                if type(x) is not kind or x.requires_grad or x.is_neg():
                    return NotImplemented
                start = x.data_ptr()
                if start & 7 or (start < last and first < start + size):
                    return NotImplemented
            return NotImplemented if first & 7 else self.plan.launch(tensors, out, {})
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            self.works = False
            return NotImplemented


def direct_call(
    plan: Plan, specialisation: Specialisation, signature: Signature
) -> DirectCall | None:
    """Where the plan's function checks its arguments, and they are torch's."""
    checks = getattr(specialisation.stages.executable, "checks_arguments", False)
    if not checks or plan.library is not TORCH or plan.defaults is None:
        return None
    sizes = {
        t.name: math.prod(t.shape or ()) * itemsize(t.dtype or "") for t in specialisation.tensors
    }
    inputs = tuple(sizes[t.name] for t in signature.inputs)
    results = [sizes[t.name] for t in signature.outputs]
    import torch

    return DirectCall(plan, torch.Tensor, inputs, results[0]) if len(results) == 1 else None


def plan_for(
    specialisation: Specialisation,
    signature: Signature,
    library: Library,
    device: str,
) -> Plan | None:
    """The plan of later calls by position; None where each must go the long way."""
    tensors = specialisation.tensors
    empty = any(0 in (t.shape or ()) for t in tensors)
    if empty or not signature.inputs:
        return None
    scalars = specialisation.scalars
    needed = any(s.default is None for s in scalars)
    outputs = [t for t in tensors if signature.tensor(t.name).writes]
    allocators = [
        _allocator(library, t.shape or (), t.dtype or "", t.reads, device) for t in outputs
    ]
    given = [t.name for t in (*outputs, *signature.inputs)]
    order = tuple(given.index(t.name) for t in tensors)
    executable = specialisation.stages.executable
    return Plan(
        # The bare function, where there is one, saves a call in Python.
        getattr(executable, "function", executable),
        library,
        device,
        functools.partial(scalar_values, signature.name, scalars),
        None if needed else tuple(scalar_values(signature.name, scalars, {})),
        None if order == tuple(range(len(given))) else order,
        tuple(allocators),
    )


def _allocator(
    library: Library, shape: tuple[int, ...], dtype: str, reads: bool, device: str
) -> Callable[[], Any]:
    if reads:  # what is summed into starts at zero
        return lambda: library.zeros(shape, dtype, device)
    return library.allocator(shape, dtype, device)

"""A call that has been made before: what is left to check, in the fewest steps.

The first call with given shapes and dtypes goes the long way (arguments.py) and leaves a
`Plan`. Later calls look it up by the arrays' types, shapes and dtypes; only what these
do not tell (layout, address, gradient, overlap) is looked at again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.runtime.arguments import scalar_values
from septran.runtime.arrays import Library
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

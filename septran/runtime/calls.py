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
    tensors: int
    """How many there are."""
    scalars: Callable[[Mapping[str, Any]], Sequence[Any]]
    """Values of the scalars, from those that a call gives."""
    defaults: tuple[Any, ...] | None
    """Their values where a call gives none; None where it must give some."""
    inputs: tuple[int, ...]
    """Where the positional tensors go."""
    outputs: tuple[int, ...]
    """Where the results go."""
    allocators: tuple[Callable[[], Any], ...]
    """One for each output."""

    def __call__(self, tensors: Sequence[Any], out: Any, named: Mapping[str, Any]) -> Any:
        """The result; NotImplemented where the long way must be gone."""
        ready, device = self.library.ready, self.device
        arguments: list[Any] = [None] * self.tensors
        for position, x in zip(self.inputs, tensors, strict=True):
            if not ready(x, device):
                return NotImplemented
            arguments[position] = x
        if named or self.defaults is None:
            arguments += self.scalars(named)
        else:
            arguments += self.defaults
        if out is not None:
            return self._fill(out, tensors, arguments)
        if len(self.outputs) == 1:
            result = arguments[self.outputs[0]] = self.allocators[0]()
            self.run(*arguments)
            return result
        results = tuple(allocate() for allocate in self.allocators)
        for position, x in zip(self.outputs, results, strict=True):
            arguments[position] = x
        self.run(*arguments)
        return results

    def _fill(self, out: Any, tensors: Sequence[Any], arguments: list[Any]) -> Any:
        library = self.library
        if not library.ready(out, self.device):
            return NotImplemented
        for x in tensors:
            if not library.apart(out, x):
                return NotImplemented
        arguments[self.outputs[0]] = out
        self.run(*arguments)
        library.touched(out)
        return out


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
    positions = {t.name: n for n, t in enumerate(tensors)}
    outputs = [t for t in tensors if signature.tensor(t.name).writes]
    allocators = [
        _allocator(library, t.shape or (), t.dtype or "", t.reads, device) for t in outputs
    ]
    return Plan(
        specialisation.stages.executable,
        library,
        device,
        len(tensors),
        functools.partial(scalar_values, signature.name, scalars),
        None if needed else scalar_values(signature.name, scalars, {}),
        tuple(positions[t.name] for t in signature.inputs),
        tuple(positions[t.name] for t in outputs),
        tuple(allocators),
    )


def _allocator(
    library: Library, shape: tuple[int, ...], dtype: str, reads: bool, device: str
) -> Callable[[], Any]:
    if reads:  # what is summed into starts at zero
        return lambda: library.zeros(shape, dtype, device)
    return library.allocator(shape, dtype, device)

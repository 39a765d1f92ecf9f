"""The fast path of a call like one before: the checks that are left, in the fewest steps.

The first call with given shapes and dtypes takes the slow path (arguments.py) and leaves a
`FastCall`. Later calls find it by the arrays' types, shapes and dtypes; only properties beyond
these (layout, address, gradient, overlap) are checked again. Where a C compiler is at hand, most
calls do without even that (`septran.runtime.direct`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.runtime.arguments import scalar_values
from septran.runtime.arrays import Library
from septran.runtime.signature import Signature, Specialisation, UseMark


def call_key(tensors: Sequence[Any], out: Any) -> Hashable:
    """Return the key of a plan; None where some argument is no array, or there are none."""
    try:
        key = tuple([(type(x), x.shape, x.dtype) for x in tensors])
        if out is None:
            return key or None
        return key, tuple([(type(x), x.shape, x.dtype) for x in outputs_of(out)])
    except (AttributeError, RuntimeError):  # no array, or nested: such a tensor has no shape
        return None


def outputs_of(out: Any) -> tuple[Any, ...]:
    """Return the outputs passed to a call as a tuple: one, or a tuple or list of them."""
    if out is None:
        return ()
    return tuple(out) if isinstance(out, tuple | list) else (out,)


@dataclass(frozen=True, slots=True)
class FastCall:
    """The way to run one specialisation on arrays that are ready to be passed."""

    run: Callable[..., None]
    library: Library
    device: str
    scalars: Callable[[Mapping[str, Any]], Sequence[Any]]
    """Returns the values of the scalars, from those that a call passes."""
    defaults: tuple[Any, ...] | None
    """The scalars' values where a call passes none; None where it must pass some."""
    order: tuple[int, ...] | None
    """The place of each tensor among results and inputs; None where that is the kernel's order."""
    allocators: tuple[Callable[[], Any], ...]
    """An allocator for each output."""
    use: UseMark
    """The mark of recent use of the specialisation."""

    # Written for speed: with what `ready` does, this is what a call costs beside the kernel.
    def __call__(self, tensors: tuple[Any, ...], out: Any, named: Mapping[str, Any]) -> Any:
        """Return the result, or NotImplemented where the call must take the slow path."""
        if not self.library.ready(tensors, outputs_of(out), self.device):
            return NotImplemented
        self.use.recent = True
        return self.launch(tensors, out, named)

    def launch(self, tensors: tuple[Any, ...], out: Any, named: Mapping[str, Any]) -> Any:
        """Run on arrays that are ready, and return the result."""
        results = outputs_of(out) or tuple([allocate() for allocate in self.allocators])
        arguments = results + tensors
        if self.order is not None:
            arguments = tuple([arguments[place] for place in self.order])
        if named or self.defaults is None:
            self.run(*arguments, *self.scalars(named))
        else:
            self.run(*arguments, *self.defaults)
        if out is not None:
            self.library.touched(results)
            return out
        return results[0] if len(results) == 1 else results


def plan_for(
    specialisation: Specialisation,
    signature: Signature,
    library: Library,
    device: str,
) -> FastCall | None:
    """Return the plan of later calls by position; None where each must take the slow path."""
    tensors = specialisation.tensors
    empty = any(0 in (t.shape or ()) for t in tensors)
    # Empty tensors launch nothing, and a call without tensors has no key.
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
    return FastCall(
        # The bare function, where there is one, saves a call in Python.
        getattr(executable, "function", executable),
        library,
        device,
        functools.partial(scalar_values, signature.name, scalars),
        None if needed else tuple(scalar_values(signature.name, scalars, {})),
        None if order == tuple(range(len(given))) else order,
        tuple(allocators),
        specialisation.use,
    )


def _allocator(
    library: Library, shape: tuple[int, ...], dtype: str, reads: bool, device: str
) -> Callable[[], Any]:
    if reads:  # what is summed into starts at zero
        return lambda: library.zeros(shape, dtype, device)
    return library.allocator(shape, dtype, device)

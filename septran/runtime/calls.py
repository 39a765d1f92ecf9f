"""A call that has been made before: what is left to check, in the fewest steps.

The first call with given shapes and dtypes goes the long way (arguments.py) and leaves a
`FastCall`. Later calls look it up by the arrays' types, shapes and dtypes; only what these
do not tell (layout, address, gradient, overlap) is looked at again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.runtime.arguments import scalar_values
from septran.runtime.arrays import TORCH, Library, increment_version
from septran.runtime.signature import Signature, Specialisation, Use


def call_key(tensors: Sequence[Any], out: Any) -> Hashable:
    """What a plan is found by; None where not all arguments are arrays, or there are none."""
    try:
        key = tuple([(type(x), x.shape, x.dtype) for x in tensors])
        if out is None:
            return key or None
        return key, tuple([(type(x), x.shape, x.dtype) for x in several(out)])
    except (AttributeError, RuntimeError):  # no array, or nested: such a tensor has no shape
        return None


def several(out: Any) -> tuple[Any, ...]:
    """The outputs that a call was given: one, or a tuple or list of them."""
    if out is None:
        return ()
    return tuple(out) if isinstance(out, tuple | list) else (out,)


@dataclass(frozen=True, slots=True)
class FastCall:
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
    use: Use
    """Of the specialisation."""

    # Written for speed: with what `ready` does, this is what a call costs beside the kernel.
    def __call__(self, tensors: tuple[Any, ...], out: Any, named: Mapping[str, Any]) -> Any:
        """The result; NotImplemented where the long way must be gone."""
        if not self.library.ready(tensors, several(out), self.device):
            return NotImplemented
        self.use.recent = True
        return self.launch(tensors, out, named)

    def launch(self, tensors: tuple[Any, ...], out: Any, named: Mapping[str, Any]) -> Any:
        """Run on arrays that are ready, and return the result."""
        results = several(out) or tuple([allocate() for allocate in self.allocators])
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


DIRECT = """\
def __call__(self, *tensors, out=None, **named):
    if not named:
        try:
            {inputs}, = tensors
            if {awkward}:
                pass
            elif out is None:
                {outputs}, = {allocated},
                run({arguments})
                return {result}
            elif {alike}:
                {outputs}, = {taken}
                if not ({unwritable}):
                    run({arguments})
                    touched(({outputs},))
                    return out
        except refusals:
            self._refuse()
    return otherwise(self, *tensors, out=out, **named)
"""
"""What `direct_call` compiles: loops over the arguments would take as long as the rest, and
so would a function that is called by another."""

REFUSALS = (RuntimeError, TypeError, ValueError, NotImplementedError)
"""What TVM's checks, guards and DLPack's exchange raise before any work: the long way then says
what is wrong, or copies what has to be copied."""


def direct_call(
    plan: FastCall,
    specialisation: Specialisation,
    signature: Signature,
    otherwise: Callable[..., Any],
) -> Callable[..., Any] | None:
    """A `Kernel.__call__` that goes the only plan there is; None where that is not possible.

    Shapes, dtypes, layout, device and shared memory are then the function's matter: where it
    refuses them, the kernel is notified (no call should be direct any more). What it cannot see is
    looked at here: other kinds of tensors, gradients, lazy negations. What is not direct goes
    `otherwise`, the kernel's own way.
    """
    checks = getattr(specialisation.stages.executable, "checks_arguments", False)
    if not checks or plan.library is not TORCH or plan.defaults is None:
        return None
    import torch

    count = len(signature.outputs)
    inputs = [f"x{n}" for n in range(len(signature.inputs))]
    outputs = [f"y{n}" for n in range(count)]
    given = [*outputs, *inputs]
    order = range(len(given)) if plan.order is None else plan.order
    scalars = [f"s{n}" for n in range(len(plan.defaults))]
    awkward = "type({0}) is not kind or {0}.requires_grad or {0}.is_neg()"
    text = DIRECT.format(
        inputs=", ".join(inputs),
        outputs=", ".join(outputs),
        awkward=" or ".join(awkward.format(x) for x in inputs),
        unwritable=" or ".join(awkward.format(x) for x in outputs),
        allocated=", ".join(f"allocate{n}()" for n in range(count)),
        result=outputs[0] if count == 1 else f"({', '.join(outputs)})",
        alike="True" if count == 1 else f"type(out) is tuple and len(out) == {count}",
        taken="out," if count == 1 else "out",
        arguments=", ".join([*(given[n] for n in order), *scalars]),
    )
    known: dict[str, Any] = {
        "kind": torch.Tensor,
        **{f"allocate{n}": make for n, make in enumerate(plan.allocators)},
        "run": plan.run,
        "touched": increment_version(),
        "refusals": REFUSALS,
        "otherwise": otherwise,
        **dict(zip(scalars, plan.defaults, strict=True)),
    }
    exec(compile(text, "<direct call>", "exec"), known)
    made: Callable[..., Any] = known["__call__"]
    return made


def plan_for(
    specialisation: Specialisation,
    signature: Signature,
    library: Library,
    device: str,
) -> FastCall | None:
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

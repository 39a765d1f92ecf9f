"""The fast path of a call like one before: the checks that are left, in the fewest steps.

The first call with given shapes and dtypes takes the slow path (arguments.py) and leaves a
`FastCall`. Later calls find it by the arrays' types, shapes and dtypes; only properties beyond
these (layout, address, gradient, overlap) are checked again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.runtime.arguments import scalar_values
from septran.runtime.arrays import TORCH, Library, increment_version
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
"""The text that `direct_call` compiles.

Loops over the arguments would take as long as the rest, and so would a function that is called by
another.
"""

REFUSALS = (RuntimeError, TypeError, ValueError, NotImplementedError)
"""The errors of TVM's checks, guards and DLPack's exchange, all raised before any work.

The slow path then reports the mistake, or copies what must be copied.
"""


def direct_call(
    plan: FastCall,
    specialisation: Specialisation,
    signature: Signature,
    otherwise: Callable[..., Any],
) -> Callable[..., Any] | None:
    """Return a `Kernel.__call__` that takes the only plan there is; None if that is not possible.

    The compiled function then checks shapes, dtypes, layout, device and shared memory: where it
    refuses them, the kernel is notified and stops calling directly. Properties that it cannot see
    are checked here: other kinds of tensors, gradients, lazy negations. Other calls go to
    `otherwise`, the kernel's own method.
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
    # All names in the text were made here: nothing in it comes from a caller.
    exec(compile(text, "<direct call>", "exec"), known)
    made: Callable[..., Any] = known["__call__"]
    return made


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

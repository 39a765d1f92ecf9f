"""How torch differentiates an operator: through autograd, and through `torch.func`.

The library's own `torch.library.register_autograd` does for autograd alone: under `torch.func.grad`
it is an error, and forward-mode derivatives of what it registers are zero without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from septran.runtime.signature import Signature
from septran.torch.errors import NoGradientError
from septran.torch.gradient import Forward, Gradient
from septran.torch.schema import ordered_scalars

_REMEDY = "call it under torch.no_grad()"


def register_gradient(
    name: str,
    overload: Any,
    signature: Signature,
    gradient: Gradient | None,
    below: Any,
    library: Any,
) -> None:
    """Register that `below`, the operator of the gradient, follows the operator's calls.

    Without a gradient a call works, and `backward()` is an error that says what to write.
    """
    function = _function(name, overload, signature, gradient, below)

    def run(*arguments: Any) -> Any:
        if not _differentiated(arguments):
            return _below_autograd(overload, *arguments)
        if not torch._C._are_functorch_transforms_active():
            return function.apply(*arguments)
        # torch.func has taken off its outermost transform here, as it does for torch's own.
        with _one_transform():
            return function.apply(*arguments)

    library.impl(name.partition("::")[2], run, "Autograd")


def register_forward(
    name: str, overload: Any, forward: Forward, instead: Any, library: Any
) -> None:
    """Register that `instead` runs where a gradient is to follow, and the operator elsewhere."""

    def run(*arguments: Any) -> Any:
        if not _differentiated(arguments):
            return _below_autograd(overload, *arguments)
        found = instead(*arguments)
        chosen = tuple(found[n] for n in forward.places)
        return chosen if len(chosen) > 1 else chosen[0]

    library.impl(name.partition("::")[2], run, "Autograd")


def register_refusal(name: str, overload: Any, library: Any) -> None:
    """Register that nothing is differentiated through an operator that changes its arguments."""

    def run(*arguments: Any) -> Any:
        if _differentiated(arguments):
            raise NoGradientError(
                f"{name} changes a tensor in place, and has no gradient; an argument requires one",
                hint=f"make an operator without mutates, or {_REMEDY}",
            )
        return _below_autograd(overload, *arguments)

    library.impl(name.partition("::")[2], run, "Autograd")


def _function(
    name: str, overload: Any, signature: Signature, gradient: Gradient | None, below: Any
) -> Any:
    """Return the function of autograd: the operator, and the operator of its gradient."""
    names = [t.name for t in signature.inputs]
    outputs = [t.name for t in signature.outputs]
    needed = () if gradient is None else gradient.arguments
    saved = [n for n in needed if n in {*names, *outputs}]
    scalars = ordered_scalars(signature)
    defaults = {s.name: s.default for s in scalars if s.default is not None}

    def forward(*inputs: Any) -> Any:
        return _below_autograd(overload, *inputs)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        values = dict(zip(names, inputs, strict=False))
        values.update(zip(outputs, output if isinstance(output, tuple) else (output,), strict=True))
        ctx.save_for_backward(*(values[n] for n in saved))
        given = zip((s.name for s in scalars), inputs[len(names) :], strict=False)
        # The dispatcher leaves out what equals a default, and the gradient's may be another.
        ctx.scalars, ctx.count = defaults | dict(given), len(inputs)

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if gradient is None:
            raise _no_gradient(name)
        values = dict(zip(saved, ctx.saved_tensors, strict=True))
        # Gradients that are missing were made zeros by autograd.
        values.update(zip((f"d{n}" for n in outputs), grads, strict=True))
        results = gradient.results(below, values, ctx.scalars)
        return (*(results.get(n) for n in names), *(None,) * (ctx.count - len(names)))

    members = {
        "forward": forward, "setup_context": setup_context, "backward": backward,
        "jvp": _no_derivative_forwards(name),
    }  # fmt: skip
    base: Any = torch.autograd.function._SingleLevelFunction  # untyped
    return type(name, (base,), {word: staticmethod(f) for word, f in members.items()})


def _no_gradient(name: str) -> NoGradientError:
    return NoGradientError(
        f"{name} has no gradient, as its logic file names none",
        hint=f'write BACKWARD = "..." there, the name of the logic of the gradient, or {_REMEDY}',
    )


def _no_derivative_forwards(name: str) -> Callable[..., Any]:
    """Return what refuses a derivative forwards."""

    def jvp(*_: Any) -> Any:
        raise NoGradientError(
            f"{name} has no derivative forwards, as no logic computes one",
            hint="ask for it backwards: torch.func.vjp, torch.func.jacrev",
        )

    return jvp


def _differentiated(arguments: Sequence[Any]) -> bool:
    """Return whether a derivative by an argument may be asked for, backwards or forwards."""
    if torch.is_grad_enabled() and _any_requires_grad(*arguments):
        return True
    if forward_ad._current_level < 0:
        return False
    tensors = (x for x in arguments if isinstance(x, torch.Tensor))
    return any(_unpacked(x).tangent is not None for x in tensors)


def _below_autograd(overload: Any, *arguments: Any) -> Any:
    with _below():
        return overload(*arguments)


# Functions of torch's without types.
_one_transform: Any = enable_single_level_autograd_function
_any_requires_grad: Any = torch._C._any_requires_grad
_below: Any = torch._C._AutoDispatchBelowAutograd
_unpacked: Any = forward_ad.unpack_dual

"""Gradients: the logic that a logic file names as its `BACKWARD`, joined by the tensors' names.

`softmax` says ``BACKWARD = "softmax_backward"``, and the task softmax_backward(dX, Y, dY) takes
the output Y, and dY, the gradient of the loss by Y; its output dX is the gradient by X. A logic
whose gradient takes more than its inputs and outputs names as its `FORWARD` one that returns more,
which has a gradient and runs in its place where one is to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from septran import operators
from septran.request import Logic
from septran.runtime.signature import Signature
from septran.task import Task, find_entry, load_logic
from septran.torch.errors import GradientLogicError, NoGradientError
from septran.torch.schema import ordered_scalars

if TYPE_CHECKING:
    from septran.torch.operator import Operator

Make = Callable[[Logic, Mapping[str, Any]], "Operator"]
"""Makes the operator of another logic, with static flags, under the same mapping."""


@dataclass(frozen=True)
class Gradient:
    """The operator that computes an operator's gradient, and where its arguments come from."""

    operator: Operator
    arguments: tuple[str, ...]
    """The tensors it takes: inputs and outputs of the operator, and ``d`` with an output."""
    results: tuple[str, ...]
    """The inputs whose gradients it returns, in its order."""
    scalars: tuple[str, ...]
    """The run-time scalars that it shares with the operator."""

    @property
    def backward(self) -> Operator:
        """The operator that computes the gradient."""
        return self.operator

    @staticmethod
    def of(
        entry: Task,
        signature: Signature,
        static: Mapping[str, Any],
        make: Make,
    ) -> Gradient | None:
        """Return the gradient that the logic file names, if it does; raises GradientLogicError."""
        named = _named(entry, "BACKWARD", static, make)
        if named is None:
            return None
        logic, operator = named
        inputs = {t.name for t in signature.inputs}
        outputs = {t.name for t in signature.outputs}
        known = inputs | outputs | {f"d{name}" for name in outputs}
        taken = tuple(t.name for t in operator.signature.inputs)
        given = tuple(t.name for t in operator.signature.outputs)
        for name in taken:
            if name not in known:
                raise _unknown(logic, f"takes {name}", sorted(known))
        for name in given:
            if name.removeprefix("d") not in inputs or not name.startswith("d"):
                raise _unknown(logic, f"returns {name}", sorted(f"d{n}" for n in inputs))
        shared = {s.name for s in signature.scalars} & {s.name for s in operator.signature.scalars}
        return Gradient(operator, taken, tuple(n[1:] for n in given), tuple(sorted(shared)))


@dataclass(frozen=True)
class Forward:
    """The operator that runs in an operator's place where a gradient is to follow."""

    operator: Operator
    places: tuple[int, ...]
    """Which of its outputs are the operator's, in the operator's order."""

    @property
    def backward(self) -> Operator | None:
        """The operator that computes the gradient; None where that logic names none."""
        return self.operator.gradient

    @staticmethod
    def of(
        entry: Task,
        signature: Signature,
        static: Mapping[str, Any],
        make: Make,
    ) -> Forward | None:
        """Return what the logic file names as its `FORWARD`; raises GradientLogicError."""
        named = _named(entry, "FORWARD", static, make)
        if named is None:
            return None
        logic, operator = named
        takes, wanted = (
            [*(t.name for t in s.inputs), *(x.name for x in ordered_scalars(s))]
            for s in (operator.signature, signature)
        )
        returned = [t.name for t in operator.signature.outputs]
        if takes != wanted or not {t.name for t in signature.outputs} <= set(returned):
            outputs = ", ".join(t.name for t in signature.outputs)
            raise GradientLogicError(
                f"{logic.name} cannot run in the place of {entry.name}", logic.location,
                hint=f"let it take {', '.join(wanted)} and return {outputs}, and more",
            )  # fmt: skip
        return Forward(operator, tuple(returned.index(t.name) for t in signature.outputs))


def _named(
    entry: Task, word: str, static: Mapping[str, Any], make: Make
) -> tuple[Task, Operator] | None:
    """Return the logic that a file names by `word`, and its operator; None where it names none."""
    named = entry.function.__globals__.get(word)
    if named is None:
        return None
    logic = _load(entry, word, named)
    flags = {k.name for k in logic.keywords if k.static}
    return logic, make(logic, {name: value for name, value in static.items() if name in flags})


def _load(entry: Task, word: str, named: Any) -> Task:
    """Return the logic that a file names: a task, an operator, or a file beside the logic."""
    if isinstance(named, Task):
        return named
    if isinstance(named, str) and named in operators.names():
        return operators.load(named)
    if isinstance(named, str) and named.endswith(".py"):
        return find_entry(load_logic(Path(entry.location.file).parent / named))
    raise GradientLogicError(
        f"{word} of {entry.name} is {named!r}, which is no logic", entry.location,
        hint="write a task, the name of an operator of the library, or a file beside this one",
    )  # fmt: skip


def _unknown(logic: Task, what: str, known: list[str]) -> GradientLogicError:
    return GradientLogicError(
        f"{logic.name} {what}, which the operator does not have", logic.location,
        hint=f"name it as one of {', '.join(known)}",
    )  # fmt: skip


def register_gradient(
    name: str, overload: Any, signature: Signature, gradient: Gradient | None, library: Any
) -> None:
    """Register how torch differentiates the operator; without a logic for it, an error says so."""
    names = [t.name for t in signature.inputs]
    outputs = [t.name for t in signature.outputs]
    needed = () if gradient is None else gradient.arguments
    saved = [name for name in needed if name in {*names, *outputs}]

    def context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        values = dict(zip(names, inputs, strict=False))
        values.update(zip(outputs, output if isinstance(output, tuple) else (output,), strict=True))
        ctx.save_for_backward(*(values[n] for n in saved))
        ctx.scalars, ctx.count = inputs[len(names) :], len(inputs)

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if gradient is None:
            raise NoGradientError(
                f"{name} has no gradient, as its logic file names none",
                hint='write BACKWARD = "..." there, the name of the logic of the gradient, or call '
                "it under torch.no_grad()",
            )
        values = dict(zip(saved, ctx.saved_tensors, strict=True))
        # Gradients that are missing were made zeros by autograd.
        values |= {f"d{n}": g for n, g in zip(outputs, grads, strict=True)}
        order = [s.name for s in ordered_scalars(signature)]
        scalars = dict(zip(order, ctx.scalars, strict=False))
        found = gradient.operator(
            *(values[n].contiguous() for n in gradient.arguments),
            **{n: scalars[n] for n in gradient.scalars if n in scalars},
        )
        results = found if isinstance(found, tuple) else (found,)
        made = dict(zip(gradient.results, results, strict=True))
        return (*(made.get(n) for n in names), *(None,) * (ctx.count - len(names)))

    torch.library.register_autograd(name, backward, setup_context=context, lib=library)


def register_forward(name: str, overload: Any, forward: Forward, library: Any) -> None:
    """Register that `forward` runs where a gradient is to follow, and the operator elsewhere."""

    def run(*arguments: Any, **named: Any) -> Any:
        needs = any(isinstance(x, torch.Tensor) and x.requires_grad for x in arguments)
        if needs and torch.is_grad_enabled():
            found = forward.operator.overload(*arguments, **named)
            chosen = tuple(found[n] for n in forward.places)
            return chosen if len(chosen) > 1 else chosen[0]
        below: Any = torch._C._AutoDispatchBelowAutograd  # untyped
        with below():
            return overload(*arguments, **named)

    library.impl(name.partition("::")[2], run, "Autograd")

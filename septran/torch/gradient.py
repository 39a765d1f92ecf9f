"""Gradients: the logic that a logic file names as its `BACKWARD`, joined by the tensors' names.

`softmax` says ``BACKWARD = "softmax_backward"``, and the task softmax_backward(dX, Y, dY) takes
the output Y, and dY, the gradient of the loss by Y; its output dX is the gradient by X. A logic
whose gradient takes more than its inputs and outputs names as its `FORWARD` one that returns more,
which has a gradient and runs in its place where one is to follow. Static flags go to those of the
same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import operators
from septran.request import Logic
from septran.runtime.signature import Signature
from septran.task import Task, find_entry, load_logic
from septran.torch.errors import GradientLogicError
from septran.torch.schema import ordered_scalars

if TYPE_CHECKING:
    from septran.torch.plan import Plan

Make = Callable[[Logic, Mapping[str, Any]], "Plan"]
"""Plans the operator of another logic, with static flags, under the same mapping."""


@dataclass(frozen=True)
class Gradient:
    """The operator that computes an operator's gradient, and where its arguments come from."""

    plan: Plan
    arguments: tuple[str, ...]
    """The tensors it takes: inputs and outputs of the operator, and ``d`` with an output."""
    inputs: tuple[str, ...]
    """The inputs whose gradients it returns, in its order."""
    scalars: tuple[str, ...]
    """The run-time scalars that it shares with the operator."""

    @property
    def backward(self) -> Plan:
        """The operator that computes the gradient."""
        return self.plan

    def results(
        self, operator: Any, values: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the gradients by the inputs' names.

        Args:
            operator: The operator that was made of the plan.
            values: The tensors it takes, by name.
            scalars: The run-time scalars of the operator's call.
        """
        found = operator(
            *(values[n].contiguous() for n in self.arguments),
            **{n: scalars[n] for n in self.scalars if n in scalars},
        )
        several = found if isinstance(found, tuple) else (found,)
        return dict(zip(self.inputs, several, strict=True))

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
        logic, plan = named
        inputs = {t.name for t in signature.inputs}
        outputs = {t.name for t in signature.outputs}
        known = inputs | outputs | {f"d{name}" for name in outputs}
        taken = tuple(t.name for t in plan.signature.inputs)
        given = tuple(t.name for t in plan.signature.outputs)
        for name in taken:
            if name not in known:
                raise _unknown(logic, f"takes {name}", sorted(known))
        for name in given:
            if name.removeprefix("d") not in inputs or not name.startswith("d"):
                raise _unknown(logic, f"returns {name}", sorted(f"d{n}" for n in inputs))
        shared = {s.name for s in signature.scalars} & {s.name for s in plan.signature.scalars}
        return Gradient(plan, taken, tuple(n[1:] for n in given), tuple(sorted(shared)))


@dataclass(frozen=True)
class Forward:
    """The operator that runs in an operator's place where a gradient is to follow."""

    plan: Plan
    places: tuple[int, ...]
    """Which of its outputs are the operator's, in the operator's order."""

    @property
    def backward(self) -> Plan | None:
        """The operator that computes the gradient; None where that logic names none."""
        return self.plan.backward

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
        logic, plan = named
        takes, wanted = (
            [*(t.name for t in s.inputs), *(x.name for x in ordered_scalars(s))]
            for s in (plan.signature, signature)
        )
        returned = [t.name for t in plan.signature.outputs]
        if takes != wanted or not {t.name for t in signature.outputs} <= set(returned):
            outputs = ", ".join(t.name for t in signature.outputs)
            raise GradientLogicError(
                f"{logic.name} cannot run in the place of {entry.name}", logic.location,
                hint=f"let it take {', '.join(wanted)} and return {outputs}, and more",
            )  # fmt: skip
        return Forward(plan, tuple(returned.index(t.name) for t in signature.outputs))


def _named(
    entry: Task, word: str, static: Mapping[str, Any], make: Make
) -> tuple[Task, Plan] | None:
    """Return the logic that a file names by `word`, and its plan; None where it names none.

    A task of the same file that the name is of is named for the file's other tasks.
    """
    named = entry.function.__globals__.get(word)
    if named is None or named is entry:
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

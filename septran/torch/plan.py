"""All that an operator is made of, before torch knows of it.

What cannot be planned is an error that leaves the operators that there are as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from septran.runtime.kernel import Kernel
from septran.runtime.signature import Signature, TensorParam
from septran.task import Task

if TYPE_CHECKING:
    from septran.torch.gradient import Forward, Gradient


@dataclass(frozen=True)
class Plan:
    """An operator that torch's dispatcher can be given."""

    name: str
    """The qualified name."""
    kernels: Mapping[str, Kernel]
    """The kernel of each of torch's device types."""
    entry: Task
    static: Mapping[str, Any]
    """The values of its static flags that were given."""
    mutates: tuple[str, ...]
    """The outputs that a call passes and the operator changes in place."""
    part_of: str | None = None
    """The operator whose gradient this computes; None of one that was asked for by its name."""
    gradient: Forward | Gradient | None = field(default=None, kw_only=True)

    @property
    def signature(self) -> Signature:
        """The tensors and scalars, which are those of every device's kernel."""
        return next(iter(self.kernels.values())).signature

    @property
    def passed(self) -> list[str]:
        """The tensors that a call passes, in order: inputs, and outputs changed in place."""
        return [t.name for t in passed_tensors(self.signature, self.mutates)]

    @property
    def returned(self) -> list[str]:
        """The outputs that a call returns."""
        return [t.name for t in self.signature.outputs if t.name not in self.mutates]

    @property
    def backward(self) -> Plan | None:
        """The operator that computes the gradient."""
        return None if self.gradient is None else self.gradient.backward


def passed_tensors(signature: Signature, mutates: Collection[str]) -> tuple[TensorParam, ...]:
    """The tensors that a call passes, in order: inputs, and outputs in `mutates`."""
    return tuple(t for t in signature.tensors if not t.writes or t.name in mutates)

"""`septran.torch.op`: a logic and its mapping as an operator of torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from septran import argument_checks as given
from septran.argument_checks import WrongArgumentError
from septran.compiler import compile_request
from septran.request import CompileRequest, Dynamics, Logic
from septran.runtime.errors import ScalarError
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Signature, TensorParam
from septran.task import Task
from septran.task.tree import TunableValue
from septran.torch.autocast import register_autocast
from septran.torch.errors import OperatorNameError
from septran.torch.gradient import Forward, Gradient, register_forward, register_gradient
from septran.torch.schema import ordered_scalars, schema
from septran.torch.shapes import fake_outputs
from septran.torch.vmap import register_vmap

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_made: dict[str, Operator] = {}
"""The operators that are registered, by name."""


@dataclass(frozen=True)
class Operator:
    """An operator that torch knows; called with tensors, as its kernel is.

    Inputs go by position, run-time scalars by name. Gradients, `torch.compile`, `torch.export`,
    `torch.vmap` and autocast work as with torch's own operators.
    """

    name: str
    """The qualified name: ``mylib::attention`` is ``torch.ops.mylib.attention``."""
    kernels: Mapping[str, Kernel]
    """The kernel of each device type: ``cpu``, ``cuda``."""
    signature: Signature
    mutates: tuple[str, ...]
    """The outputs that a call passes and the operator changes in place."""
    gradient: Operator | None
    """The operator that computes the gradient; None where the logic names none."""
    overload: Any = field(repr=False)
    """The `torch._ops.OpOverload`, which graphs hold."""
    library: Any = field(repr=False)
    """The `torch.library.Library` that keeps the registrations alive."""

    def __call__(self, *tensors: Any, **scalars: Any) -> Any:
        """Return the outputs for `tensors`, the inputs in the logic's order.

        A Python integer may stand for a `task.Integer`.
        """
        if self.integers:
            tensors = self._with_integers(tensors)
        return self.overload(*tensors, **scalars)

    @property
    def integers(self) -> tuple[tuple[int, TensorParam], ...]:
        """The integers that calls tell, with their places among what a call passes."""
        passed = [t for t in self.signature.tensors if not t.writes or t.name in self.mutates]
        return tuple((n, t) for n, t in enumerate(passed) if t.span is not None)

    def _with_integers(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        found = list(tensors)
        device = next((x.device for x in tensors if isinstance(x, torch.Tensor)), "cpu")
        for place, tensor in self.integers:
            if place >= len(found) or isinstance(found[place], torch.Tensor):
                continue
            value, (low, high) = found[place], tensor.span or (0, 0)
            if not low <= value <= high:
                message = f"{self.name}: {tensor.name} is {value}, and is from {low} to {high}"
                raise ScalarError(message)
            dtype = getattr(torch, tensor.dtype or "int64")
            found[place] = torch.tensor([value], dtype=dtype, device=device)
        return tuple(found)

    @property
    def schema(self) -> str:
        """The schema as torch prints it."""
        return str(self.overload._schema)


def op(
    logic: Logic,
    mapping: Any = None,
    *,
    name: str | None = None,
    machine: Any = None,
    static: Mapping[str, Any] | None = None,
    tunables: Mapping[str, TunableValue] | None = None,
    mutates: Sequence[str] = (),
    emulate: bool = False,
    dynamic: Dynamics = (),
) -> Operator:
    """Register a logic and its mapping as an operator of torch.

    Args:
        logic: A task, the name of an operator of the library, or a logic file.
        mapping: As for `septran.compile`; or several, by torch's device types:
            ``{"cpu": "cpu-x86", "cuda": "nvidia-h200"}``.
        name: The qualified name, ``mylib::attention``; ``septran::`` and the logic's name
            where None. An operator of that name made before is replaced.
        machine: Goes before the machine that the mapping names.
        static: Values of the logic's static flags.
        tunables: Values that go before the mapping's.
        mutates: The outputs that the caller passes, in the logic's order among the inputs, and
            that are changed in place, not returned.
        emulate: Run GPU code on the CPU, thread by thread.
        dynamic: As for `septran.compile`: dimensions of which one kernel serves every extent. A
            gradient's kernel is compiled for each extent still.

    The gradient is that of the logic file's `BACKWARD`, the name of an operator or a logic file
    beside it: its inputs are named as tensors of this logic, or as an output with a ``d`` before
    it for the gradient that comes in; its outputs are named as inputs with a ``d`` before them.
    A logic file may name instead, as its `FORWARD`, a logic that has a gradient and returns more:
    it runs where a gradient is to follow.

    Raises:
        OperatorNameError: `name` is none, or of an operator that SepTran did not make.
        GradientLogicError: the logic of the gradient has other tensors.
        SepTranError: as `septran.compile`.
    """
    mappings = mapping if isinstance(mapping, Mapping) else {None: mapping}
    requests = [
        CompileRequest.of(
            logic,
            each,
            machine=machine,
            static=static,
            tunables=tunables,
            emulate=emulate,
            dynamic=dynamic,
        )
        for each in mappings.values()
    ]
    kernels = [compile_request(request) for request in requests]
    by_device: dict[str, Kernel] = {}
    for kernel in kernels:
        if by_device.setdefault(kernel.device, kernel) is not kernel:
            message = f"mapping has two mappings for {kernel.device}"
            raise WrongArgumentError(message, hint="pass one for each of torch's device types")
    entry, signature = requests[0].entry, kernels[0].signature
    changed = _mutated(signature, mutates)
    qualified = _qualified(name, entry)

    def again(word: str) -> Callable[[Logic, Mapping[str, Any]], Operator]:
        return lambda other, flags: op(
            other, mapping, name=f"{qualified}_{word}", machine=machine, static=flags,
            tunables=tunables, emulate=emulate,
        )  # fmt: skip

    flags = requests[0].static
    gradient: Forward | Gradient | None = None
    if not changed:
        gradient = Forward.of(entry, signature, flags, again("forward"))
        gradient = gradient or Gradient.of(entry, signature, flags, again("backward"))
    return _register(qualified, by_device, entry, flags, changed, gradient)


def _register(
    name: str,
    kernels: Mapping[str, Kernel],
    entry: Task,
    static: Mapping[str, Any],
    changed: tuple[str, ...],
    gradient: Forward | Gradient | None,
) -> Operator:
    """Define the operator in torch's dispatcher, with all that torch can ask of one."""
    space, _, short = name.partition("::")
    signature = next(iter(kernels.values())).signature
    passed = [t.name for t in signature.tensors if not t.writes or t.name in changed]
    make_library: Any = torch.library.Library  # untyped
    library = make_library(space, "FRAGMENT")
    library.define(
        short + schema(signature, passed, changed),
        # Inductor may not choose other strides for the inputs: those would be copied at each call.
        tags=(torch.Tag.needs_fixed_stride_order, torch.Tag.pt2_compliant_tag),
    )
    for device, kernel in kernels.items():
        run = _implementation(kernel, passed, changed)
        library.impl(short, run, torch._C._dispatch_key_for_device(device))
    make = fake_outputs(entry, signature, static, passed)

    def fake(*arguments: Any, **_: Any) -> Any:
        made = make(*arguments[: len(passed)])
        return _results([made[t.name] for t in signature.outputs if t.name not in changed])

    torch.library.register_fake(name, fake, lib=library)
    overload = getattr(getattr(torch.ops, space), short).default
    if isinstance(gradient, Forward):
        register_forward(name, overload, gradient, library)
    elif not changed:
        register_gradient(name, overload, signature, gradient, library)
    register_vmap(name, overload, len(passed), library)
    register_autocast(name, overload, entry, static, signature, tuple(kernels), library)
    backward = None if gradient is None else gradient.backward
    made = Operator(name, kernels, signature, changed, backward, overload, library)
    _made[name] = made
    return made


def _implementation(
    kernel: Kernel, passed: Sequence[str], changed: tuple[str, ...]
) -> Callable[..., Any]:
    """Return the function that torch's dispatcher calls with tensors of the kernel's device."""
    count = len(passed)
    scalars = [s.name for s in ordered_scalars(kernel.signature)]

    def run(*arguments: Any, **named: Any) -> Any:
        # Autograd has seen the call above this; a kernel refuses tensors that need a gradient.
        # A parameter without a gradient is another type, for which a kernel takes the slow path.
        tensors = [
            x if type(x) is torch.Tensor and not x.requires_grad else x.detach()
            for x in arguments[:count]
        ]
        named.update(zip(scalars, arguments[count:], strict=False))
        if not changed:
            return kernel(*tensors, **named)
        given = dict(zip(passed, tensors, strict=True))
        out = {name: given.pop(name) for name in changed}
        results = kernel(*given.values(), out=out, **named)
        several = dict(
            zip((t.name for t in kernel.signature.outputs), _several(results), strict=True)
        )
        return _results([x for n, x in several.items() if n not in changed])

    return run


def _mutated(signature: Signature, mutates: Sequence[str]) -> tuple[str, ...]:
    names = given.as_tuple("mutates", mutates, '["C"]')
    outputs = [t.name for t in signature.outputs]
    for name in names:
        if name not in outputs:
            hint = f"{signature.name} writes {', '.join(outputs)}"
            raise WrongArgumentError(f"mutates names {given.short_repr(name)}", hint=hint)
    return tuple(n for n in outputs if n in names)


def _qualified(name: str | None, entry: Task) -> str:
    """Return the operator's full name, which is free or was ours and is free from now on."""
    qualified = f"septran::{entry.name}" if name is None else name
    if not isinstance(qualified, str) or not _NAME.fullmatch(qualified):
        raise OperatorNameError(
            f"{given.short_repr(name)} is no name of an operator",
            hint="write a namespace and a name: name='mylib::attention'",
        )
    known = _made.pop(qualified, None)
    if known is not None:
        # A cell of a notebook that runs again; torch has no public way to take a definition back.
        known.library._destroy()
        return qualified
    space, _, short = qualified.partition("::")
    if hasattr(getattr(torch.ops, space), short):
        raise OperatorNameError(
            f"torch has an operator {qualified} that SepTran did not make",
            hint="choose another name",
        )
    return qualified


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _results(tensors: Sequence[Any]) -> Any:
    """Return what an operator with these results returns: none, one, or a tuple."""
    if not tensors:
        return None
    return tensors[0] if len(tensors) == 1 else tuple(tensors)

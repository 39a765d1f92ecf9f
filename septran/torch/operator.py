"""`septran.torch.op`: a logic and its mapping as an operator of torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from septran.torch.differentiation import register_forward, register_gradient, register_refusal
from septran.torch.errors import OperatorNameError
from septran.torch.gradient import Forward, Gradient
from septran.torch.plan import Plan, passed_tensors
from septran.torch.schema import ordered_scalars, schema
from septran.torch.shapes import fake_outputs
from septran.torch.vmap import register_vmap

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_made: dict[str, Operator] = {}
"""The operators that are registered, by name."""
_kept: dict[str, Any] = {}
"""For each name that was ever registered, what keeps torch's entry for it; see `_keep`."""


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
    part_of: str | None = field(default=None, repr=False)
    """The operator whose gradient this computes; None of one that `op` was asked for."""

    def __repr__(self) -> str:
        return f"<{self.schema} on {', '.join(self.kernels)}>"

    def __deepcopy__(self, memo: Any) -> Operator:
        """Return the operator itself: a copy of a model calls what torch knows by this name."""
        return self

    def __reduce__(self) -> Any:
        """Keep the name alone, as torch does; what is loaded is the operator of that name."""
        return registered, (self.name,)

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
        passed = passed_tensors(self.signature, self.mutates)
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


def registered(name: str) -> Operator:
    """Return the operator that was made by this name; raises OperatorNameError."""
    if name not in _made:
        raise OperatorNameError(
            f"there is no operator {name} in this process",
            hint=f"call septran.torch.op(..., name={name!r}) before what holds it is loaded",
        )
    return _made[name]


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
        OperatorNameError: `name` is none, or of an operator that SepTran did not make, or of
            another operator's gradient; or torch cannot have the logic's names in a schema.
        GradientLogicError: the logic of the gradient has other tensors.
        SepTranError: as `septran.compile`.
    """
    planned = _plan(
        logic, mapping, name=name, machine=machine, static=static, tunables=tunables,
        mutates=mutates, emulate=emulate, dynamic=dynamic,
    )  # fmt: skip
    return _register(planned)


def _plan(
    logic: Logic,
    mapping: Any,
    *,
    name: str | None,
    mutates: Sequence[str] = (),
    part_of: str | None = None,
    **options: Any,
) -> Plan:
    """Plan the operator and those of its gradient; raises as `op`, before torch knows any."""
    mappings = mapping if isinstance(mapping, Mapping) else {None: mapping}
    if not mappings:
        raise WrongArgumentError("mapping is empty", hint="pass {'cpu': 'cpu-x86'}")
    requests = {
        device: CompileRequest.of(logic, each, **options) for device, each in mappings.items()
    }
    kernels = {device: compile_request(request) for device, request in requests.items()}
    request, kernel = next(iter(requests.values())), next(iter(kernels.values()))
    entry, changed = request.entry, _mutated(kernel.signature, mutates)
    qualified = _qualified(name, entry, part_of)
    plan = Plan(qualified, _by_device(kernels), entry, request.static, changed, part_of)
    _check_schema(plan)
    if changed:
        return plan

    def again(word: str) -> Callable[[Logic, Mapping[str, Any]], Plan]:
        further = options | {"dynamic": ()}
        return lambda other, flags: _plan(
            other, mapping, name=f"{qualified}__{word}", part_of=qualified,
            **(further | {"static": flags}),
        )  # fmt: skip

    gradient: Forward | Gradient | None = Forward.of(
        entry, kernel.signature, request.static, again("forward")
    )
    gradient = gradient or Gradient.of(entry, kernel.signature, request.static, again("backward"))
    return replace(plan, gradient=gradient)


def _by_device(kernels: Mapping[str | None, Kernel]) -> dict[str, Kernel]:
    """Return the kernels by the devices they run on; raises WrongArgumentError."""
    found: dict[str, Kernel] = {}
    for device, kernel in kernels.items():
        if device not in (None, kernel.device):
            raise WrongArgumentError(
                f"mapping has for {given.short_repr(device)} one that runs on {kernel.device}",
                hint="pass one for each of torch's device types: {'cpu': 'cpu-x86'}",
            )
        found[kernel.device] = kernel
    return found


def _register(plan: Plan) -> Operator:
    """Define the operator in torch's dispatcher, with all that torch can ask of one."""
    name, signature, passed = plan.name, plan.signature, plan.passed
    _take_back(name)
    below = None if plan.gradient is None else _register(plan.gradient.plan)
    space, _, short = name.partition("::")
    make_library: Any = torch.library.Library  # untyped
    library = make_library(space, "FRAGMENT")
    library.define(
        short + schema(signature, passed, plan.mutates),
        # Inductor may not choose other strides for the inputs: those would be copied at each call.
        tags=(torch.Tag.needs_fixed_stride_order, torch.Tag.pt2_compliant_tag),
    )
    _keep(name)
    for device, kernel in plan.kernels.items():
        run = _implementation(kernel, passed, plan.mutates)
        library.impl(short, run, torch._C._dispatch_key_for_device(device))
    make = fake_outputs(plan.entry, signature, plan.static, passed)

    def fake(*arguments: Any, **_: Any) -> Any:
        made = make(*arguments[: len(passed)])
        return _results([made[name] for name in plan.returned])

    torch.library.register_fake(name, fake, lib=library)
    overload = getattr(getattr(torch.ops, space), short).default
    if isinstance(plan.gradient, Forward):
        register_forward(name, overload, plan.gradient, below, library)
    elif plan.mutates:
        register_refusal(name, overload, library)
    else:
        register_gradient(name, overload, signature, plan.gradient, below, library)
    register_vmap(plan, overload, fake, library)
    register_autocast(plan, overload, library)
    backward = None if plan.backward is None else _made[plan.backward.name]
    made = Operator(
        name, plan.kernels, signature, plan.mutates, backward, overload, library, plan.part_of
    )
    _made[name] = made
    return made


def _take_back(name: str) -> None:
    """Take the operator `name`, if we made it, and those of its gradient, out of torch again."""
    known = _made.pop(name, None)
    if known is None:
        return
    for part in [n for n, made in _made.items() if made.part_of == name]:
        _take_back(part)
    # A cell of a notebook that runs again; torch has no public way to take a definition back.
    known.library._destroy()


def _keep(name: str) -> None:
    """Keep torch's entry for a name for good, so that a second definition finds the first one's.

    Models and graphs that hold the operator call through that entry, and would through freed
    memory, once all that was registered in it is taken back.
    """
    if name not in _kept:
        space, _, short = name.partition("::")
        make_library: Any = torch.library.Library  # untyped
        library = _kept[name] = make_library(space, "FRAGMENT")
        library.impl(short, _no_such_device, "PrivateUse3")


def _no_such_device(*_: Any) -> None:
    raise NotImplementedError("no kernel is for this device")


def _implementation(
    kernel: Kernel, passed: Sequence[str], changed: tuple[str, ...]
) -> Callable[..., Any]:
    """Return the function that torch's dispatcher calls with tensors of the kernel's device."""
    count = len(passed)
    scalars = [s.name for s in ordered_scalars(kernel.signature)]

    def run(*arguments: Any, **named: Any) -> Any:
        # Autograd has seen the call above this; a kernel refuses tensors that need a gradient.
        # A parameter without a gradient is another type, for which a kernel takes the slow path.
        # None is a tensor to torch's dispatcher; the kernel says that it is none.
        tensors = [
            x if x is None or (type(x) is torch.Tensor and not x.requires_grad) else x.detach()
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


def _qualified(name: str | None, entry: Task, part_of: str | None) -> str:
    """Return the operator's full name, which is free, or of an operator that may be replaced."""
    qualified = f"septran::{entry.name}" if name is None else name
    if not isinstance(qualified, str) or not _NAME.fullmatch(qualified):
        raise OperatorNameError(
            f"{given.short_repr(name)} is no name of an operator",
            hint="write a namespace and a name: name='mylib::attention'",
        )
    known = _made.get(qualified)
    if known is not None and known.part_of != part_of:
        one = f"computes the gradient of {known.part_of or part_of}"
        does = "already" if known.part_of else "by its name, but is another operator"
        raise OperatorNameError(f"{qualified} {one} {does}", hint="choose another name")
    space, _, short = qualified.partition("::")
    if known is None and hasattr(getattr(torch.ops, space), short):
        raise OperatorNameError(
            f"torch has an operator {qualified} that SepTran did not make",
            hint="choose another name",
        )
    return qualified


def _check_schema(plan: Plan) -> None:
    text = plan.name + schema(plan.signature, plan.passed, plan.mutates)
    parse: Any = torch._C.parse_schema  # untyped
    try:
        parse(text)
    except RuntimeError as error:
        raise OperatorNameError(
            f"torch cannot read the schema {text}",
            hint="give tensors and scalars names of ASCII letters, and finite defaults",
        ) from error


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _results(tensors: Sequence[Any]) -> Any:
    """Return what an operator with these results returns: none, one, or a tuple."""
    if not tensors:
        return None
    return tensors[0] if len(tensors) == 1 else tuple(tensors)

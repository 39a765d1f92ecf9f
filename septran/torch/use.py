"""`septran.torch.use`: an existing model whose functions run by kernels, and a report of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from septran.argument_checks import WrongArgumentError, short_repr
from septran.errors import SepTranError
from septran.torch.composites import COMPOSITES
from septran.torch.operator import Operator, op
from septran.torch.replacements import KNOWN, MODULES, StandIn, Unsuitable


@dataclass
class ReplacementReport:
    """What was replaced in a model, how often, and what was not and why; printed as a table."""

    replaced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of calls by torch's function and SepTran's operator."""
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of calls by torch's function and the reason why it was left to torch."""
    unknown: Counter[str] = field(default_factory=Counter)
    """The number of calls that computed floats and that nothing is known to stand in for; counted
    where all that is known was to be replaced, and not in graphs."""

    def __str__(self) -> str:
        rows = [("function", "calls", "by")]
        rows += [(f, str(n), f"SepTran's {o}") for (f, o), n in sorted(self.replaced.items())]
        rows += [(f, str(n), f"torch: {why}") for (f, why), n in sorted(self.kept.items())]
        nothing = "torch: nothing is known to stand in for it"
        rows += [(f, str(n), nothing) for f, n in sorted(self.unknown.items())]
        widths = [max(len(row[n]) for row in rows) for n in range(2)]
        return "\n".join(f"{f:{widths[0]}}  {n:>{widths[1]}}  {by}" for f, n, by in rows)


@contextmanager
def use(
    functions: Mapping[Any, str | Operator] | None = None, mapping: Any = None
) -> Iterator[ReplacementReport]:
    """Run functions of torch by kernels while the context lasts, and count them in a report.

    with septran.torch.use({torch.nn.Linear: "gemm_bias_act"}, mapping="cpu-x86") as report:
        model(x)
    print(report)

    Args:
        functions: By torch's functions or module classes, the library's operator that stands in,
            or an `Operator` that takes the same tensors; all that the library can replace where
            None. Calls that the operator cannot do are left to torch.
        mapping: As for `septran.torch.op`.

    Raises:
        WrongArgumentError: nothing is known to replace a function, or not by that operator.
        SepTranError: as `septran.compile`.
    """
    mode = _Mode(_chosen(functions), mapping, functions is None)
    with mode:
        yield mode.report


_operators: dict[Any, Operator] = {}
"""The operators made so far, by name, flags and mapping."""
_mappings: list[Any] = []
"""The mappings of these, kept alive, as some are distinguished by their identity."""


class _Mode(TorchFunctionMode):
    """Intercepts the chosen functions of torch."""

    def __init__(
        self, chosen: Mapping[Any, StandIn | Operator], mapping: Any, everything: bool
    ) -> None:
        super().__init__()
        self.everything = everything
        self.chosen = chosen
        self.mapping = mapping
        self.report = ReplacementReport()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the result of the operator that stands in, else of torch."""
        named = kwargs or {}
        stand, parts = self.chosen.get(function), COMPOSITES.get(function)
        try:
            if stand is not None:
                return self._run(_name(function), stand, args, named)
            if parts is not None:
                with self:  # the functions within are looked at as if the model called them
                    return parts(*args, **named)
        except Unsuitable as reason:
            self.report.kept[_name(function), str(reason)] += 1
            return function(*args, **named)
        result = function(*args, **named)
        if self.everything and _may_be_unknown(function) and _computed(result, args):
            self.report.unknown[_name(function)] += 1
        return result

    def _run(self, name: str, stand: StandIn | Operator, args: Any, named: Any) -> Any:
        if isinstance(stand, Operator):
            self.report.replaced[name, stand.name] += 1
            return stand(*args, **named)
        try:
            call = stand.replace(*args, **named)
        except (TypeError, AttributeError, IndexError, ValueError) as error:
            raise Unsuitable("it has other arguments") from error
        operator = _operator(call.operator, call.static, self.mapping)
        for x in call.tensors:
            if x.device.type not in operator.kernels:
                raise Unsuitable(f"its tensors are on {x.device.type}")
            if x.requires_grad and operator.gradient is None and torch.is_grad_enabled():
                raise Unsuitable(f"it needs a gradient, and {call.operator} has none")
        _check_dtypes(call.tensors)
        # A kernel copies what is not contiguous itself, on the slow path of its calls.
        tensors = [x if x.is_contiguous() else x.contiguous() for x in call.tensors]
        try:
            result = operator(*tensors, **call.scalars)
        except SepTranError as error:
            raise Unsuitable(error.message) from error
        self.report.replaced[name, call.operator] += 1
        return call.finish(result)


def _may_be_unknown(function: Any) -> bool:
    """Return whether a model, not a graph made of it, called a function rather than an operator."""
    return not torch.compiler.is_compiling() and not isinstance(function, torch._ops.OpOverload)


def _computed(result: Any, args: Any) -> bool:
    """Return whether a function made floats of tensors, not a view or what it was given."""
    given = [x for x in args if isinstance(x, torch.Tensor)]
    several = result if isinstance(result, tuple | list) else (result,)
    made = [x for x in several if isinstance(x, torch.Tensor) and x.is_floating_point()]
    inside: Any = torch._C  # untyped
    return bool(given) and any(not any(inside._is_alias_of(x, one) for one in given) for x in made)


def _check_dtypes(tensors: tuple[torch.Tensor, ...]) -> None:
    """Raise Unsuitable where torch's function computes in other types, or refuses these."""
    for x in tensors:
        if not (x.is_floating_point() or x.dtype is torch.int64):
            raise Unsuitable(f"it is of {x.dtype}".replace("torch.", ""))
    floats = {x.dtype for x in tensors if x.is_floating_point()}
    if len(floats) > 1 and not torch.is_autocast_enabled(tensors[0].device.type):
        raise Unsuitable("its dtypes differ")


def _operator(name: str, static: Mapping[str, Any], mapping: Any) -> Operator:
    """Return the operator of the library with these flags, registered once a process."""
    key = (name, *sorted(static.items()), mapping if isinstance(mapping, str) else id(mapping))
    made: Operator = _operators.get(key) or _registered(key, name, static, mapping)
    return made


def _register(key: Any, name: str, static: Mapping[str, Any], mapping: Any) -> Operator:
    """Register an operator under a name of its own for each choice of flags and mapping."""
    digest = hashlib.sha256(repr((sorted(static.items()), mapping)).encode()).hexdigest()[:8]
    made = op(name, mapping, name=f"septran_use::{name}_{digest}", static=static)
    _operators[key] = made
    _mappings.append(mapping)
    return made


_outside_of_graphs: Any = torch.compiler.disable  # untyped
_registered: Any = _outside_of_graphs(_register)
"""`_register` outside of graphs: a graph holds what it made."""


def _chosen(functions: Mapping[Any, str | Operator] | None) -> dict[Any, StandIn | Operator]:
    """Return what stands in for each function; raises WrongArgumentError."""
    if functions is None:
        return dict(KNOWN)
    if not isinstance(functions, Mapping):
        raise WrongArgumentError(
            f"functions is {short_repr(functions)}, and no mapping",
            hint="write {torch.nn.Linear: 'gemm_bias_act'}, or nothing for all that are known",
        )
    found: dict[Any, StandIn | Operator] = {}
    for key, value in functions.items():
        function = MODULES.get(key, key) if isinstance(key, type) else key
        if isinstance(value, Operator):
            found[function] = value
            continue
        if function not in KNOWN:
            known = ", ".join(sorted({_name(f) for f in KNOWN}))
            raise WrongArgumentError(
                f"nothing is known to stand in for {short_repr(key)}",
                hint=f"pass a septran.torch.op with the same arguments; known are {known}",
            )
        if value not in KNOWN[function].operators:
            can = " or ".join(KNOWN[function].operators)
            message = f"{short_repr(value)} cannot stand in for {_name(function)}"
            raise WrongArgumentError(message, hint=f"write {can}, or pass a septran.torch.op")
        found[function] = KNOWN[function]
    return found


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", function))

"""The arguments that `compile`, `explain`, `compare` and `tune` share, checked once."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import argument_checks, operators
from septran.backends import backend_of
from septran.dtypes import ALL
from septran.errors import CallError, nearest
from septran.machine.loader import load_machine
from septran.mapping.choose import MappingChooser
from septran.mapping.conditions import Value
from septran.mapping.dispatch.choice import check_names, narrowed, same_case, take
from septran.mapping.loader import load_mapping, mapping_names
from septran.mapping.mapping import MappingFile
from septran.mapping.mistakes import NoMappingError
from septran.mapping.rules import Facts
from septran.runtime.signature import Signature, TensorParam
from septran.task import Task, complete, find_entry, load_logic, trace, written
from septran.task.errors import InferenceError
from septran.task.frontend.decided_dims import pickable
from septran.task.frontend.definition import TensorType
from septran.task.trace.arguments import checked_static
from septran.task.trace.dims import NOTHING_DYNAMIC, extent, named_dims, names_in
from septran.task.tree import ScalarParam, TunableValue
from septran.tile.user_passes import user_passes

if TYPE_CHECKING:
    from septran.machine.model import Machine
    from septran.task.tree import TaskTree
    from septran.tile.user_passes import UserPass

Logic = Task | str | Path
"""A task, the name of a library operator, or the path of a logic file."""
Shapes = MappingOf[str, tuple[int, ...] | int]
"""Extents of tensor parameters by name, or of named dimensions."""


SizeRange = tuple[int, int | None]
"""The least and the greatest extent of a dimension; None where the calls decide."""
Dynamics = Iterable[str] | MappingOf[str, int | tuple[int, int]]
"""Names of dimensions that calls decide, with their ranges where they are stated."""


class MissingLogicError(CallError):
    """No logic was given, or no shapes to compile it for."""

    code = "SEP680"


class UnknownDtypeError(CallError):
    """`dtypes` names a tensor that the logic does not have, or an unknown element type."""

    code = "SEP681"


class UnsuitableRequestError(CallError):
    """`shapes`, `tunables` or `static` has a value for which nothing can be compiled."""

    code = "SEP682"


class DynamicRequestError(CallError):
    """`dynamic` names no dimension, has no range, or the target cannot let calls decide."""

    code = "SEP683"


@dataclass(frozen=True)
class CompileRequest:
    """A logic, a mapping, and everything else that a compilation depends on.

    Made by `CompileRequest.of`, which raises SepTranError for whatever no compilation can be
    made for; who is given one need not look at it again.
    """

    entry: Task
    mapping: MappingFile
    shapes: MappingOf[str, tuple[int, ...]] | None
    """Extents by tensor, for those that are given; None where the first call decides them all."""
    dtypes: MappingOf[str, str] = field(default_factory=dict)
    """Element types by tensor; float32 for the rest."""
    tunables: MappingOf[str, TunableValue] = field(default_factory=dict)
    """Values that override those of the mapping."""
    static: MappingOf[str, Any] = field(default_factory=dict)
    """Values of the logic's static flags, all of them."""
    passes: tuple[UserPass, ...] = ()
    """The caller's own passes, which run among the built-in ones."""
    emulate: bool = False
    """Whether generated GPU code is to run on the CPU."""
    dynamic: MappingOf[str, SizeRange] = field(default_factory=dict)
    """The dimensions whose extents a call tells, with the least and the greatest of each."""

    @staticmethod
    def of(
        logic: Logic | None,
        mapping: Any = None,
        *,
        machine: str | Path | Machine | None = None,
        shapes: Shapes | None = None,
        dtypes: MappingOf[str, str] | str | None = None,
        tunables: MappingOf[str, TunableValue] | None = None,
        static: MappingOf[str, Any] | None = None,
        passes: Sequence[UserPass] = (),
        emulate: bool = False,
        dynamic: Dynamics = (),
    ) -> CompileRequest:
        """Check the arguments of `septran.compile` and return the request; raises SepTranError."""
        entry, plan = load_pair(logic, mapping, machine)
        own = user_passes(passes)
        flags = checked_static(entry, table("static", static))
        _check_cases(entry, plan, flags)
        sizes = _dynamic(entry, plan, dynamic, flags)
        return CompileRequest(
            entry, plan, None if shapes is None else extents(entry, shapes, flags),
            _dtypes(entry, dtypes), table("tunables", tunables), flags, own, emulate, sizes,
        )  # fmt: skip

    @property
    def backend(self) -> str:
        """The name of the backend of the request's machine."""
        return self.mapping.machine.backend

    @property
    def signature(self) -> Signature:
        """The parameters and outputs of the kernel, before its sizes are known."""
        return _signature(self.entry, self.static)

    def with_example(self) -> CompileRequest:
        """Return the request with the example shapes if it has none; raises MissingLogicError."""
        if self.shapes is not None:
            return self
        example = self.entry.function.__globals__.get("EXAMPLE")
        if example is None:
            raise MissingLogicError(
                f"{self.entry.name} has no example shapes, so its stages need some",
                self.entry.location,
                hint="pass shapes={'A': (128, 64), ...} or shapes={'M': 128, ...}",
            )
        return replace(self, shapes=extents(self.entry, example, self.static))

    def for_sizes(self, shapes: Shapes, dtypes: MappingOf[str, str] | str | None) -> CompileRequest:
        """Return the request with other shapes, and with some types changed; raises CallError."""
        own = extents(self.entry, shapes, self.static)
        return replace(self, shapes=own, dtypes={**self.dtypes, **_dtypes(self.entry, dtypes)})

    def with_tunables(self, changes: MappingOf[str, TunableValue]) -> CompileRequest:
        """Return the request with some tunables changed."""
        return replace(self, tunables={**self.tunables, **changes})

    def chooser(self) -> MappingChooser:
        """Return the chooser that gives the logic a value for each of its tunables."""
        return self.mapping.chooser(tunables=self.tunables)

    def completed(self) -> CompleteRequest:
        """The request with the shape and type of every tensor, inferred by tracing the logic.

        Of a dispatch file it has the mapping of one case, and for dynamic dimensions the ranges
        that this case is for.
        """
        cases = self.mapping.cases
        one = self if not cases else replace(self, mapping=cases[-1].mapping)
        shapes, dtypes = complete(
            self.entry, self.shapes or {}, self.dtypes, one.chooser(), static=self.static
        )
        _check_sizes(self.entry, shapes)
        found = CompleteRequest(**{**vars(self), "shapes": shapes, "dtypes": dtypes})
        return found._dispatched() if cases else found

    def dispatched(self) -> CompileRequest:
        """The request with the mapping of one case, where it has a dispatch file."""
        return self.completed() if self.mapping.cases else self


@dataclass(frozen=True)
class CompleteRequest(CompileRequest):
    """A request that leaves nothing open: what one compilation is made from."""

    shapes: MappingOf[str, tuple[int, ...]]
    """Extents of every tensor."""

    def _dispatched(self) -> CompleteRequest:
        """The request with the case of its dispatch file that is for its sizes and types."""
        values = self._values()
        mapping = take(self.mapping, values, self.dynamic)
        if self.dynamic and mapping.taken is not None:
            same = self._same(values)
            ranges = narrowed(self.mapping, mapping.taken.name, same, self.dynamic)
            return replace(self, mapping=mapping, dynamic=ranges)
        return replace(self, mapping=mapping)

    def same_case(self, file: MappingFile) -> MappingOf[str, tuple[float, float]]:
        """The extents of dynamic dimensions for which `file` has the same case as for these.

        They are all extents where it is no dispatch file; the result is empty where only a look
        at each call tells.
        """
        if self.mapping.taken is None:
            return {name: (-math.inf, math.inf) for name in self.dynamic}
        values, dims = self._values(), named_dims(self.entry, self.shapes, self.static)
        found = {name: dims[name] for name in self.dynamic if name in dims}
        return same_case(file, self.mapping.taken.name, self._same(values), found)

    def _values(self) -> MappingOf[str, Value]:
        """What the conditions of a dispatch file can name."""
        facts = Facts(
            self.entry.name, "", self.entry.name, 0, leaf=False, parallel=False,
            shapes=self.shapes, dtypes=self.dtypes,
            dims=named_dims(self.entry, self.shapes, self.static),
            static=self.entry.flags(self.static),
        )  # fmt: skip
        return facts.values()

    def _same(self, values: MappingOf[str, Value]) -> dict[str, Value]:
        """The values that are the same for all extents of dynamic dimensions."""
        # An extent by a tensor's name may be a dynamic one.
        names = named_dims(self.entry, self.shapes, self.static).keys() - self.dynamic.keys()
        names |= {*self.entry.flags(self.static), "dtype"}
        return {name: value for name, value in values.items() if name in names}

    def traced(
        self,
        dynamic: MappingOf[str, int] = NOTHING_DYNAMIC,
        chooser: MappingChooser | None = None,
    ) -> TaskTree:
        """The task tree for the request's shapes, of which those of `dynamic` are the greatest.

        `chooser`, one of the request's own, then knows the tunables. Raises LogicError.
        """
        chooser = chooser or self.chooser()
        return trace(self.entry, self.shapes, self.dtypes, chooser, self.static, dynamic=dynamic)


def load_pair(logic: Logic | None, mapping: Any, machine: Any) -> tuple[Task, MappingFile]:
    """Return the entry task and the mapping that the arguments name; raises SepTranError."""
    if logic is None:
        raise MissingLogicError("no logic is given", hint="pass a task, an operator or a file")
    if not isinstance(logic, Task | str | Path):
        hint = "pass a task (a function with @task.define), an operator's name, or a logic file"
        raise MissingLogicError(f"{logic!r} is no logic", hint=hint)
    if mapping is None:
        mapping = _shipped(machine) if _is_file(machine) else machine or "cpu-x86"
    plan = load_mapping(mapping, machine)
    if isinstance(logic, Task):
        return logic, plan
    if isinstance(logic, str) and not logic.endswith(".py") and not _is_place(logic):
        return operators.load(logic), plan
    return find_entry(load_logic(logic), _entry_name(plan)), plan


def _entry_name(plan: MappingFile) -> str | None:
    """The name of the entry task, or of its variant, where a mapping says it."""
    for one in (plan, *(case.mapping for case in plan.cases)):
        if one.entrypoint is not None:
            variant = one.instances[one.entrypoint.value].variant
            return variant.value if variant is not None else None
    return None


def _check_cases(entry: Task, plan: MappingFile, static: MappingOf[str, Any]) -> None:
    """Raise ConditionError where a case of a dispatch file names what the logic does not have."""
    if not plan.cases:
        return
    tensors = dict(entry.specialised(static))
    dims = {d for kind in tensors.values() for d in kind.dims or () if isinstance(d, str)}
    check_names(plan, {*filter(str.isidentifier, dims), *entry.flags(static)}, tensors)


def _shipped(file: str | Path) -> str:
    """The name of the mapping that comes with the machine that a file describes."""
    machine = load_machine(file)
    if machine.name not in mapping_names():
        hint = "pass a mapping, too; a file that is called as a shipped machine has its mapping"
        message = f"no mapping comes with SepTran for a machine {machine.name!r}"
        raise NoMappingError(message, machine.location, hint=hint)
    return machine.name


def _is_file(machine: Any) -> bool:
    return isinstance(machine, Path) or str(machine).endswith((".yaml", ".yml"))


def _is_place(logic: str) -> bool:
    """Return whether a string means a file or a folder, not an operator of the library."""
    return logic not in operators.names() and (
        "/" in logic or os.sep in logic or (logic != "" and os.path.lexists(logic))
    )


def extents(entry: Task, shapes: Shapes, static: MappingOf[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return shapes of parameters, from shapes and named dimensions together; raises CallError."""
    shapes = table("shapes", shapes)
    several = {n: e for n, e in shapes.items() if isinstance(e, tuple | list)}
    known = {n: tuple(_whole(n, x) for x in e) for n, e in several.items()}
    sizes = {n: _whole(n, e) for n, e in shapes.items() if n not in several}
    for name, other in entry.function.__globals__.get("SAME", {}).items():
        if other in sizes:
            sizes.setdefault(name, sizes[other])
    tensors = entry.specialised(static)
    _check_names(entry, tensors, (*sizes, *known))
    for name, kind in tensors:
        if name not in known and kind.dims:
            with contextlib.suppress(InferenceError):  # it follows from others, or is reported
                known[name] = tuple(extent(d, sizes, static, entry, name) for d in kind.dims)
    return known


def _check_names(
    entry: Task, tensors: Sequence[tuple[str, TensorType]], named: Iterable[str]
) -> None:
    """Raise MissingLogicError for a name that is neither a tensor nor a dimension of one."""
    # An extent may be a formula of dimensions and of keywords; the latter are no shapes.
    dims = {n for _, kind in tensors for d in kind.dims or () for n in names_in(d)}
    known = {name for name, _ in tensors} | dims - {k.name for k in entry.keywords}
    # Sizes may be given for dimensions that static values do not pick, as an example's are.
    unpicked = {n for _, kind in entry.tensors for d in kind.dims or () for n in pickable(d)}
    for name in named:
        if name not in known | unpicked:
            message = f"{entry.name} has no tensor or dimension {name!r}"
            raise MissingLogicError(message, entry.location, hint=nearest(name, known))


def table(name: str, value: Any) -> dict[str, Any]:
    """Return an argument that is a dictionary or None as one; raises UnsuitableRequestError."""
    examples = {"shapes": "{'M': 128}", "tunables": "{'block_M': 64}", "static": "{'flag': True}"}
    return argument_checks.as_mapping(name, value, examples[name], UnsuitableRequestError)


def _dynamic(
    entry: Task, mapping: MappingFile, dynamic: Dynamics, static: MappingOf[str, Any]
) -> dict[str, SizeRange]:
    """Return dynamic dimensions with their ranges; raises DynamicRequestError."""
    if isinstance(dynamic, MappingOf):
        found = {str(n): _range(str(n), r) for n, r in dynamic.items()}
    elif isinstance(dynamic, str) or not isinstance(dynamic, Iterable):
        raise DynamicRequestError(
            f"dynamic is {dynamic!r}, and names dimensions", hint="write dynamic=['M']"
        )
    else:
        found = {str(n): (1, None) for n in dynamic}
    kinds = [kind.dims or () for _, kind in entry.specialised(static)]
    names = {d for dims in kinds for d in dims if isinstance(d, str) and d.isidentifier()}
    for name in found:
        if name not in names:
            raise DynamicRequestError(
                f"{entry.name} has no dimension {name!r} that a call could tell", entry.location,
                hint=f"name one that a tensor has as it is: {', '.join(sorted(names)) or 'none'}",
            )  # fmt: skip
    if found and not backend_of(mapping.machine.backend).dynamic:
        raise DynamicRequestError(
            f"{mapping.machine.name} has no extents that calls decide",
            mapping.machine.location,
            hint="leave out dynamic: the kernel is then compiled for each length, and cached; "
            "or pad to a few lengths",
        )
    return found


def _range(name: str, given: Any) -> SizeRange:
    """Return a stated range of a dimension, 1 to a number or both ends."""
    ends = tuple(given) if isinstance(given, tuple | list) else (1, given)
    whole = len(ends) == 2 and all(isinstance(e, int) and not isinstance(e, bool) for e in ends)
    if not whole or not 1 <= ends[0] <= ends[1]:
        raise DynamicRequestError(
            f"the range of {name} is {given!r}, and is two integers from 1",
            hint=f"write dynamic={{{name!r}: (1, 8192)}}",
        )
    return ends[0], ends[1]


def _whole(name: str, extent: Any) -> int:
    """Return an extent as an integer that is not negative; raises UnsuitableRequestError."""
    try:
        number = -1 if isinstance(extent, bool) else operator.index(extent)
    except TypeError:
        number = -1
    if number < 0:
        message = f"{name} is {extent!r} in shapes, and extents are integers from 0"
        raise UnsuitableRequestError(message, hint="write shapes={'M': 128} or {'A': (128, 64)}")
    return number


def _check_sizes(entry: Task, shapes: MappingOf[str, tuple[int, ...]]) -> None:
    """Refuse tensors that no machine can address; raises UnsuitableRequestError."""
    for name, shape in shapes.items():
        if math.prod(max(1, extent) for extent in shape) >= 2**59:  # times 8 bytes, and sums
            message = f"{name} of {entry.name} would be {' x '.join(map(str, shape))}: too large"
            raise UnsuitableRequestError(message, entry.location)


def _dtype_name(dtype: Any) -> str:
    """Return the name of an element type: of a word, or of NumPy's or torch's."""
    return dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")


def _dtypes(entry: Task, dtypes: MappingOf[str, str] | str | None) -> dict[str, str]:
    names = [name for name, _ in entry.tensors]
    if dtypes is None or isinstance(dtypes, MappingOf):
        found = {name: _dtype_name(dtype) for name, dtype in (dtypes or {}).items()}
    else:
        dtype, outputs = _dtype_name(dtypes), written(entry)
        # One type is for all inputs that have none of their own; those of outputs are inferred.
        found = {n: k.dtype or dtype for n, k in entry.tensors if n not in outputs}
    for name, dtype in found.items():
        if name not in names:
            message, hint = f"{entry.name} has no tensor {name!r}", nearest(name, names)
            raise UnknownDtypeError(message, entry.location, hint=hint)
        if dtype not in ALL:
            message = f"unknown element type {dtype!r} of {name}"
            raise UnknownDtypeError(message, hint=nearest(dtype, ALL))
    return found


def _signature(entry: Task, static: MappingOf[str, Any]) -> Signature:
    outputs = written(entry, static)
    tensors = tuple(
        TensorParam(
            name, name not in outputs, name in outputs,
            None if kind.dims is None else tuple("" if d is None else str(d) for d in kind.dims),
            kind.dtype, span=kind.span,
        )
        for name, kind in entry.specialised(static)
    )  # fmt: skip
    scalars = tuple(ScalarParam(k.name, k.dtype, k.default) for k in entry.keywords if not k.static)
    flags = tuple(k.name for k in entry.keywords if k.static)
    return Signature(entry.name, tensors, scalars, static=flags)

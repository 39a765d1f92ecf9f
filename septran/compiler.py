"""The whole compilation on one screen: the stages in order, and `compile` -> Kernel."""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import given, operators
from septran.dtypes import ALL
from septran.errors import CallError, nearest
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import Mapping
from septran.mapping.resolve import resolve
from septran.mapping.resolved import Decision, ResolvedMapping
from septran.runtime.cache import Cache, cache_key, without_notes, without_places
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Signature, Specialisation, TensorParam
from septran.runtime.stages import Stages
from septran.targets.registry import backends, emulator_for, target_for
from septran.task import Task, complete, find_entry, load_logic, trace, written
from septran.task.arguments import checked_static
from septran.task.dims import extent
from septran.task.errors import InferenceError
from septran.task.tree import ScalarParam, TunableValue
from septran.tile.own_passes import own_passes
from septran.tile.place import place

if TYPE_CHECKING:
    from septran.machine.model import Machine
    from septran.tile.own_passes import OwnPass

Logic = Task | str | Path
"""A task, the name of a library operator, or the path of a logic file."""
Shapes = MappingOf[str, tuple[int, ...] | int]
"""Extents of tensor parameters by name, or of named dimensions."""


class MissingLogicError(CallError):
    """No logic was given, or no shapes to compile it for."""

    code = "SEP680"


class UnknownDtypeError(CallError):
    """`dtypes` names a tensor that the logic does not have, or an unknown element type."""

    code = "SEP681"


class UnsuitableRequestError(CallError):
    """`shapes`, `tunables` or `static` is not what a compilation can be made for."""

    code = "SEP682"


def compile(  # the verb that users expect
    logic: Logic | None = None,
    mapping: Any = None,
    *,
    machine: str | Path | Machine | None = None,
    shapes: Shapes | None = None,
    dtypes: MappingOf[str, str] | str | None = None,
    tunables: MappingOf[str, TunableValue] | None = None,
    static: MappingOf[str, Any] | None = None,
    passes: Sequence[OwnPass] = (),
    logic_file: str | Path | None = None,
    mapping_file: str | Path | None = None,
    emulate: bool = False,
) -> Kernel:
    """Join a logic and a mapping into a kernel that is called with torch or NumPy arrays.

    Args:
        logic: A task, the name of an operator of the library, or a logic file.
        mapping: A mapping file, its text, or the name of a machine that comes with one;
            cpu-x86 where None.
        machine: Goes before the machine that the mapping names.
        shapes: Extents to compile for at once; where None, at the first call.
        dtypes: Element types of parameters by name, or one for all; float32 where None.
        tunables: Values that go before the mapping's.
        static: Values of the logic's static flags.
        passes: Passes of one's own, made by `septran.tile_pass`.
        logic_file: The same as `logic`.
        mapping_file: The same as `mapping`.
        emulate: Run the generated GPU code on the CPU, thread by thread, on arrays in the
            host's memory: slow, and strict with every mistake of synchronisation.

    Raises:
        SepTranError: with file and line of the mistake.
    """
    entry, plan = load_pair(
        logic if logic_file is None else logic_file,
        mapping if mapping_file is None else mapping_file,
        machine,
    )
    passes = own_passes(passes)
    flags = checked_static(entry, table("static", static))
    given_tunables = table("tunables", tunables)
    kinds = _dtypes(entry, dtypes)

    def specialise(
        sizes: MappingOf[str, tuple[int, ...]], types: MappingOf[str, str]
    ) -> Specialisation:
        kinds_now, changed = dict(kinds) | dict(types), dict(given_tunables)
        return Specialisation.of(
            _stages(entry, plan, sizes, kinds_now, changed, flags, passes, emulate)
        )

    backend = plan.machine.backend
    if emulate:
        emulator_for(backend)  # raises where there is none
    device = "cpu" if emulate else _device(backend)
    kernel = Kernel(_signature(entry, flags), specialise, logic=entry, device=device)
    if shapes is not None:
        full, types = complete(entry, extents(entry, shapes, flags), kinds, static=flags)
        stages = kernel.specialise(full, types).stages
        _ = stages.executable if backend in backends() else stages.tile_program  # made now
    return kernel


def produce_stages(
    logic: Logic,
    mapping: Any = None,
    *,
    machine: str | Path | Machine | None = None,
    shapes: Shapes | None = None,
    dtypes: MappingOf[str, str] | str | None = None,
    tunables: MappingOf[str, TunableValue] | None = None,
    static: MappingOf[str, Any] | None = None,
    passes: Sequence[OwnPass] = (),
) -> Stages:
    """The stages of one compilation, each made when it is first looked at.

    Takes what `compile` takes; without `shapes` the operator's own example is used.
    """
    entry, plan = load_pair(logic, mapping, machine)
    passes = own_passes(passes)
    flags, changed = checked_static(entry, table("static", static)), table("tunables", tunables)
    full = extents(entry, shapes_or_example(entry, shapes), flags)
    return _stages(entry, plan, full, _dtypes(entry, dtypes), changed, flags, passes)


def shapes_or_example(entry: Task, shapes: Shapes | None) -> Shapes:
    """The shapes, or the operator's own example of them; raises MissingLogicError."""
    wanted: Shapes | None = (
        shapes if shapes is not None else entry.function.__globals__.get("EXAMPLE")
    )
    if wanted is None:
        raise MissingLogicError(
            f"{entry.name} has no example shapes, so its stages need some",
            entry.location,
            hint="pass shapes={'A': (128, 64), ...} or shapes={'M': 128, ...}",
        )
    return wanted


def _stages(
    entry: Task,
    plan: Mapping,
    shapes: MappingOf[str, tuple[int, ...]],
    dtypes: MappingOf[str, str],
    tunables: MappingOf[str, TunableValue],
    static: MappingOf[str, Any],
    passes: Sequence[OwnPass],
    emulate: bool = False,
) -> Stages:
    """Logic -> task tree -> resolved mapping -> tile program -> TensorIR -> executable."""
    chooser = plan.chooser(tunables=tunables)
    full, types = complete(entry, shapes, dtypes, chooser, static)
    _check_sizes(entry, full)
    backend = plan.machine.backend
    return Stages(
        {
            "task_tree": lambda _: trace(entry, full, types, chooser, static),
            "mapping": lambda s: _reported(resolve(s.task_tree, plan), tunables),
            "tile_program": lambda s: place(s.mapping, passes=passes)[-1].program,
            "tensor_ir": lambda s: target_for(backend).lower(s.tile_program),
            "executable": lambda s: _executable(s, backend, emulate),
        },
        passes,
    )


def _reported(resolved: ResolvedMapping, tunables: MappingOf[str, TunableValue]) -> ResolvedMapping:
    """Say which of the caller's own tunables nothing asked for."""
    asked = {name for task in resolved.tree.tasks() for name, _ in task.tunables}
    unused = tuple(
        Decision(
            "no-effect",
            name,
            f"tunable {name} has no effect: no task of {resolved.tree.name} asks for it",
            nearest(name, asked),
        )
        for name in tunables
        if name not in asked
    )
    return replace(resolved, decisions=resolved.decisions + unused)


def _executable(stages: Stages, backend: str, emulate: bool) -> Any:
    """Built, or loaded from the cache where an equal kernel was built before."""
    target = target_for(backend)
    program, ir = stages.tile_program, stages.tensor_ir
    if emulate:
        return emulator_for(backend).emulated(ir, program)
    key = cache_key(
        tensor_ir=without_notes(ir.text),
        mapping=without_places(str(stages.mapping)),
        machine=repr(replace(program.machine, location=None)),
        target=target.fingerprint(),
    )

    def load(folder: Path) -> Any:  # built from files elsewhere, perhaps
        return target.placed(target.load(folder), ir, program)

    return Cache.default().load_or_build(key, load, lambda: target.build(ir, program))


def load_pair(logic: Logic | None, mapping: Any, machine: Any) -> tuple[Task, Mapping]:
    """The entry task and the mapping, from whatever names them; raises SepTranError."""
    if logic is None:
        raise MissingLogicError("no logic is given", hint="pass a task, an operator or a file")
    if not isinstance(logic, Task | str | Path):
        hint = "pass a task (a function with @task.define), an operator's name, or a logic file"
        raise MissingLogicError(f"{logic!r} is no logic", hint=hint)
    plan = load_mapping(mapping if mapping is not None else (machine or "cpu-x86"), machine)
    if isinstance(logic, Task):
        return logic, plan
    if isinstance(logic, str) and not logic.endswith(".py"):
        return operators.load(logic), plan
    name = None
    if plan.entrypoint is not None:
        variant = plan.instances[plan.entrypoint.value].variant
        name = variant.value if variant is not None else None
    return find_entry(load_logic(logic), name), plan


def extents(entry: Task, shapes: Shapes, static: MappingOf[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of parameters from shapes and named dimensions together; raises CallError."""
    shapes = table("shapes", shapes)
    names = [name for name, _ in entry.tensors]
    tensors = entry.specialised(static)
    dims = {
        n
        for _, kind in tensors
        for d in kind.dims or ()
        for n in re.findall(r"[A-Za-z_]\w*", str(d))
    }
    dims -= {k.name for k in entry.keywords}
    several = {n: e for n, e in shapes.items() if isinstance(e, tuple | list)}
    known = {n: tuple(_whole(n, x) for x in e) for n, e in several.items()}
    sizes = {n: _whole(n, e) for n, e in shapes.items() if n not in several}
    for name, other in entry.function.__globals__.get("SAME", {}).items():
        if other in sizes:
            sizes.setdefault(name, sizes[other])
    for name in (*sizes, *known):
        if name not in dims and name not in names:
            raise MissingLogicError(
                f"{entry.name} has no tensor or dimension {name!r}", entry.location,
                hint=nearest(name, {*names, *(d for d in dims if d.isidentifier())}),
            )  # fmt: skip
    for name, kind in tensors:
        if name not in known and kind.dims:
            with contextlib.suppress(InferenceError):  # it follows from others, or is reported
                known[name] = tuple(extent(d, sizes, static, entry, name) for d in kind.dims)
    return known


def table(name: str, value: Any) -> dict[str, Any]:
    """An argument that is a dictionary, or nothing; raises UnsuitableRequestError."""
    examples = {"shapes": "{'M': 128}", "tunables": "{'block_M': 64}", "static": "{'flag': True}"}
    return given.table(name, value, examples[name], UnsuitableRequestError)


def _whole(name: str, extent: Any) -> int:
    """An extent as an integer that is not negative; raises UnsuitableRequestError."""
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


def _dtypes(entry: Task, dtypes: MappingOf[str, str] | str | None) -> dict[str, str]:
    names = [name for name, _ in entry.tensors]
    if dtypes is None or isinstance(dtypes, MappingOf):
        found = {name: str(dtype).removeprefix("torch.") for name, dtype in (dtypes or {}).items()}
    else:
        dtype, outputs = str(dtypes).removeprefix("torch."), written(entry)
        found = {n: k.dtype or dtype for n, k in entry.tensors if n not in outputs}
    for name, dtype in found.items():
        if name not in names:
            message, hint = f"{entry.name} has no tensor {name!r}", nearest(name, names)
            raise UnknownDtypeError(message, entry.location, hint=hint)
        if dtype not in ALL:
            message = f"unknown element type {dtype!r} of {name}"
            raise UnknownDtypeError(message, entry.location, hint=nearest(dtype, ALL))
    return found


def _signature(entry: Task, static: MappingOf[str, Any]) -> Signature:
    outputs = written(entry, static)
    tensors = tuple(
        TensorParam(
            name, name not in outputs, name in outputs,
            None if kind.dims is None else tuple("" if d is None else str(d) for d in kind.dims),
            kind.dtype,
        )
        for name, kind in entry.specialised(static)
    )  # fmt: skip
    scalars = tuple(ScalarParam(k.name, k.dtype, k.default) for k in entry.keywords if not k.static)
    return Signature(entry.name, tensors, scalars)


def _device(backend: str) -> str:
    return "cuda" if backend == "cuda" else "cpu"

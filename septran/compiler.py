"""The whole compilation on one screen: the stages in order, and `compile` -> Kernel."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.backends import backend_of, with_code
from septran.errors import nearest
from septran.mapping.resolve import resolve
from septran.mapping.resolved import Decision, ResolvedMapping
from septran.request import CompileRequest, Logic, Shapes
from septran.runtime.cache import Cache, cache_key, without_notes, without_places
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Specialisation
from septran.runtime.stages import Stages
from septran.targets.registry import emulator_for, target_for
from septran.task import trace
from septran.task.tree import TunableValue
from septran.tile.pipeline import place

if TYPE_CHECKING:
    from septran.machine.model import Machine
    from septran.tile.user_passes import UserPass


def compile(  # the verb that users expect
    logic: Logic | None = None,
    mapping: Any = None,
    *,
    machine: str | Path | Machine | None = None,
    shapes: Shapes | None = None,
    dtypes: MappingOf[str, str] | str | None = None,
    tunables: MappingOf[str, TunableValue] | None = None,
    static: MappingOf[str, Any] | None = None,
    passes: Sequence[UserPass] = (),
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
    request = CompileRequest.of(
        logic if logic_file is None else logic_file,
        mapping if mapping_file is None else mapping_file,
        machine=machine, shapes=shapes, dtypes=dtypes, tunables=tunables, static=static,
        passes=passes, emulate=emulate,
    )  # fmt: skip
    return compile_request(request)


def produce_stages(
    logic: Logic,
    mapping: Any = None,
    *,
    machine: str | Path | Machine | None = None,
    shapes: Shapes | None = None,
    dtypes: MappingOf[str, str] | str | None = None,
    tunables: MappingOf[str, TunableValue] | None = None,
    static: MappingOf[str, Any] | None = None,
    passes: Sequence[UserPass] = (),
) -> Stages:
    """The stages of one compilation, each made when it is first looked at.

    Takes what `compile` takes; without `shapes` the operator's own example is used.
    """
    request = CompileRequest.of(
        logic, mapping, machine=machine, shapes=shapes, dtypes=dtypes,
        tunables=tunables, static=static, passes=passes,
    )  # fmt: skip
    return stages_of(request.with_example())


def compile_request(request: CompileRequest) -> Kernel:
    """The kernel of a request: built now where its shapes are given, else at the first call."""

    def specialise(
        shapes: MappingOf[str, tuple[int, ...]], dtypes: MappingOf[str, str]
    ) -> Specialisation:
        asked = replace(request, shapes=shapes, dtypes={**request.dtypes, **dtypes})
        return Specialisation.of(stages_of(asked))

    if request.emulate:
        emulator_for(request.backend)  # raises where there is none
    device = "cpu" if request.emulate else backend_of(request.backend).device
    kernel = Kernel(request.signature, specialise, logic=request.entry, device=device)
    if request.shapes is not None:
        full = request.completed()
        stages = kernel.specialise(full.shapes or {}, full.dtypes).stages
        _ = stages.executable if request.backend in with_code() else stages.tile_program  # made now
    return kernel


def stages_of(request: CompileRequest) -> Stages:
    """Logic -> task tree -> resolved mapping -> tile program -> TensorIR -> executable."""
    full = request.completed()
    shapes = full.shapes or {}
    chooser = full.mapping.chooser(tunables=full.tunables)
    return Stages(
        {
            "task_tree": lambda _: trace(full.entry, shapes, full.dtypes, chooser, full.static),
            "mapping": lambda s: _reported(resolve(s.task_tree, full.mapping), full.tunables),
            "tile_program": lambda s: place(s.mapping, passes=full.passes)[-1].program,
            "tensor_ir": lambda s: target_for(full.backend).lower(s.tile_program),
            "executable": lambda s: _executable(s, full),
        },
        full.passes,
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


def _executable(stages: Stages, request: CompileRequest) -> Any:
    """Built, or loaded from the cache where an equal kernel was built before."""
    target = target_for(request.backend)
    program, ir = stages.tile_program, stages.tensor_ir
    if request.emulate:
        return emulator_for(request.backend).emulated(ir, program)
    key = cache_key(
        tensor_ir=without_notes(ir.text),
        mapping=without_places(str(stages.mapping)),
        machine=repr(replace(program.machine, location=None)),
        target=target.fingerprint(),
    )

    def load(folder: Path) -> Any:  # built from files elsewhere, perhaps
        return target.placed(target.load(folder), ir, program)

    return Cache.default().load_or_build(key, load, lambda: target.build(ir, program))

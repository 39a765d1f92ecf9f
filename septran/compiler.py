"""The whole compilation on one screen: the stages in order, and `compile` -> Kernel."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.backends import backend_of, with_code
from septran.dynamic import Dynamic
from septran.errors import MappingError, SepTranError
from septran.fitting import fit
from septran.mapping.effects import unasked
from septran.mapping.loader import load_mapping
from septran.mapping.resolve import resolve
from septran.request import CompileRequest, Dynamics, Logic, Shapes
from septran.runtime.cache import load_or_build
from septran.runtime.kernel import Kernel, Sizes
from septran.runtime.signature import Specialisation
from septran.runtime.stages import Stages, stage
from septran.targets.registry import emulator_for, target_for
from septran.task.tree import TunableValue
from septran.tile.pipeline import place

if TYPE_CHECKING:
    from septran.machine.model import Machine
    from septran.mapping.resolved import ResolvedMapping
    from septran.targets.base import Executable, TensorIR
    from septran.task.tree import TaskTree
    from septran.tile.nodes import TileProgram
    from septran.tile.user_passes import UserPass


class Compilation(Stages):
    """Logic -> task tree -> resolved mapping -> tile program -> TensorIR -> executable."""

    def __init__(self, request: CompileRequest, refusal: SepTranError | None = None) -> None:
        """Keep the request with all shapes inferred; every stage is made when it is first read.

        `refusal` is the error of stages that no tiles fit, where that was found before.
        """
        super().__init__(request.passes)
        self.request = request.completed()
        self.refusal = refusal

    @stage
    def task_tree(self) -> TaskTree:
        """The task tree: the logic traced for the request's shapes, dtypes, tunables and flags."""
        r, chooser = self.request, self.request.chooser()
        tree = r.traced({name: least for name, (least, _) in r.dynamic.items()}, chooser)
        self.sizes = dict(chooser.sizes)
        return tree

    @stage
    def mapping(self) -> ResolvedMapping:
        """The resolved mapping: the processor that runs each task, the memory of each tensor."""
        if isinstance(self.refusal, MappingError):
            raise self.refusal
        resolved = resolve(self.task_tree, self.request.mapping)
        unused = unasked(self.task_tree, self.request.tunables)
        return replace(resolved, decisions=(*resolved.decisions, *unused))

    @stage
    def tile_program(self) -> TileProgram:
        """The tile program after all passes: every copy, wait and computation on tiles."""
        if self.refusal is not None:
            raise self.refusal
        return place(self.mapping, passes=self.passes)[-1].program

    @stage
    def tensor_ir(self) -> TensorIR:
        """The TensorIR module that TVM compiles."""
        return target_for(self.request.backend).lower(self.tile_program)

    @stage
    def executable(self) -> Executable:
        """The executable, built now or loaded from the cache where an equal kernel was built."""
        ir, program, backend = self.tensor_ir, self.tile_program, self.request.backend
        if self.request.emulate:
            self._compiled()
            return emulator_for(backend).emulated(ir, program)
        return load_or_build(target_for(backend), ir, program, self.mapping, self._compiled)

    def _compiled(self) -> None:
        self.compiled_here = True


def fitted(request: CompileRequest) -> Compilation:
    """The compilation of a request whose tiles fit the machine's memories, if any do."""
    return fit(request.dispatched(), Compilation)


def compile_request(request: CompileRequest) -> Kernel:
    """Return the kernel of a request, built now if its shapes are given, else at the first call."""
    dynamic = Dynamic(fitted)

    def specialise(
        shapes: MappingOf[str, tuple[int, ...]], dtypes: MappingOf[str, str]
    ) -> Specialisation:
        asked = replace(request, shapes=shapes, dtypes={**request.dtypes, **dtypes})
        if request.dynamic:
            return dynamic.specialise(asked)
        return Specialisation.of(fitted(asked))

    def sizes(shapes: Shapes, dtypes: Any) -> tuple[Sizes, MappingOf[str, str]]:
        asked = request.for_sizes(shapes, dtypes).completed()
        return asked.shapes, asked.dtypes

    if request.emulate:
        emulator_for(request.backend)  # raises where there is none
    on_host = request.emulate or request.backend not in with_code()  # nothing is launched then
    device = "cpu" if on_host else backend_of(request.backend).device

    def retarget(arch: str) -> Kernel:
        machine = replace(request.mapping.machine, arch=arch)
        plan = load_mapping(request.mapping, machine)
        return compile_request(replace(request, mapping=plan, shapes=None))

    kernel = Kernel(
        request.signature,
        specialise,
        logic=request.entry,
        device=device,
        retarget=retarget,
        sizes=sizes,
    )
    if request.shapes is not None:
        full = request.completed()
        stages = kernel.specialise(full.shapes, full.dtypes).stages
        _ = stages.executable if request.backend in with_code() else stages.tile_program  # made now
    return kernel


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
    dynamic: Dynamics = (),
) -> Kernel:
    """Join a logic and a mapping into a kernel that is called with torch or NumPy arrays.

    Args:
        logic: A task, the name of an operator of the library, or a logic file.
        mapping: A mapping file, its text, or the name of a machine that comes with one;
            cpu-x86 where None. A dispatch file chooses one of several by a call's shapes.
        machine: Goes before the machine that the mapping names.
        shapes: Extents to compile for at once; where None, at the first call.
        dtypes: Element types of parameters by name, or one for all; float32 where None. A tensor
            that is not named, and whose type the logic leaves open, has the one to which the types
            of those named are promoted.
        tunables: Values that go before the mapping's.
        static: Values of the logic's static flags.
        passes: Passes of one's own, made by `septran.tile_pass`.
        logic_file: The same as `logic`.
        mapping_file: The same as `mapping`.
        emulate: Run the generated GPU code on the CPU, thread by thread, on arrays in the
            host's memory: slow, and strict with every mistake of synchronisation.
        dynamic: Named dimensions whose extents a call tells, with the least and the greatest:
            ``{"N": (1, 8192)}``, or names alone; one compilation serves all of them. CPUs only.

    Raises:
        SepTranError: with file and line of the mistake.
    """
    request = CompileRequest.of(
        logic if logic_file is None else logic_file,
        mapping if mapping_file is None else mapping_file,
        machine=machine, shapes=shapes, dtypes=dtypes, tunables=tunables, static=static,
        passes=passes, emulate=emulate, dynamic=dynamic,
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
    """Return the stages of one compilation, each made when it is first read.

    The arguments are those of `compile`; without `shapes` the operator's own example is used.
    Raises SepTranError with file and line of the mistake, MissingLogicError where there are
    neither shapes nor an example.
    """
    request = CompileRequest.of(
        logic, mapping, machine=machine, shapes=shapes, dtypes=dtypes,
        tunables=tunables, static=static, passes=passes,
    )  # fmt: skip
    return fitted(request.with_example())

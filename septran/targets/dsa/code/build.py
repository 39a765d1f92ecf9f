"""From TensorIR to something that runs: C or LLVM records, the simulator carries out."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm

from septran.dtypes import POISON
from septran.machine.as_json import from_json, to_json
from septran.machine.model import Machine
from septran.simulator.commands import CODES, EXTERNS
from septran.simulator.errors import HazardError
from septran.simulator.hazards.control_reads import ControlReads, control_reads, filled
from septran.targets.base import Source, TensorIR
from septran.targets.call_sizes import CallSize, call_sizes
from septran.targets.cpu.run.build import compile_module
from septran.targets.cpu.run.isa import host_arch
from septran.targets.dsa.ascend.build import ENTRY, compile_ascend
from septran.targets.dsa.ascend.printer import generate as generate_ascend
from septran.targets.dsa.code.codegen import Code, LimitError, generate
from septran.targets.dsa.code.edited import compiled, kept_origins
from septran.targets.dsa.code.jit import JitProgram, recording
from septran.targets.dsa.code.native import LIBRARY, CProgram, compile_code
from septran.targets.dsa.code.toolchain import compiler, cpp_compiler
from septran.targets.dsa.code.trust import is_trusted
from septran.targets.dsa.code.vendor import ASCENDC, Vendor
from septran.targets.dsa.steps import core_count, workspaces
from septran.targets.tensor_memory import as_bytes
from septran.tile.analyses.indirect import at_lengths, indirect
from septran.tile.analyses.temporaries import shared_with_buffers
from septran.tile.nodes import TileProgram

if TYPE_CHECKING:
    from septran.simulator import Run
    from septran.targets.dsa.profiles.profile import DsaProfile

Array = np.ndarray[Any, Any]
KERNEL, RECORDING, FACTS = "kernel.c", "recording.json", "kernel.json"


@dataclass(frozen=True)
class DsaExecutable:
    """A kernel for a DSA: its C, and its run on the simulated vendor library."""

    name: str
    machine: Machine
    source: Source
    program: CProgram | JitProgram
    """Gives the records of a core."""
    origins: Mapping[int, str]
    """Why the code of a line of the source is there."""
    cores: int
    tensors: int
    """The number of tensors that a call passes."""
    workspaces: tuple[int, ...]
    """Bytes of each temporary in main memory."""
    symbol: str
    """Its name in C."""
    recording: Any = field(repr=False)
    """The `tvm.IRModule` that records the same stream."""
    temporaries: Mapping[str, int]
    """From which byte on those of vector expressions lie, where buffers are in the memory."""
    tables: tuple[tuple[int, str], ...] = ()
    """Number and dtype of the tensors of indices, which the control program reads: tensors that a
    call passes, or behind them temporaries, which the kernel has written before."""
    sizes: tuple[CallSize, ...] = ()
    """The extents that calls tell, arguments of the control program behind the scalars."""
    outputs: tuple[int, ...] = ()
    """The numbers of the tensors that the kernel writes."""

    @property
    def executor(self) -> str:
        """Who runs it, where the text is in a vendor's language; empty for C."""
        if self.source.language != ASCENDC or not isinstance(self.program, CProgram):
            return ""
        return "SepTran's simulator, by Ascend C that a C++ compiler compiled"

    def __call__(self, *arguments: Any) -> None:
        """Run on tensors in the order of the parameters, then the scalars."""
        self.simulate(*arguments)

    def stream(self, scalars: Sequence[Any] = (), tensors: Sequence[Any] = ()) -> Array:
        """Return what all cores' control programs ask for, one after another.

        `tensors` are those of a call: what is asked for depends on those that hold indices, and
        on the extents that it tells. Where the kernel computes indices, it is simulated. Raises
        ValueError for an extent out of range.
        """
        numbers = [*scalars, *self._lengths(tensors)]
        stream = self._recorded(self.indices(scalars, tensors), numbers)
        check_limits(self.machine, stream, self.origins)
        return stream

    def indices(self, scalars: Sequence[Any] = (), tensors: Sequence[Any] = ()) -> list[Array]:
        """Return what the control program reads itself, in the order of `tables`, for a call.

        Where the kernel computes some of it, it is simulated.
        """
        if self.computed:
            copies = [np.array(as_bytes(np.ascontiguousarray(x))) for x in tensors[: self.tensors]]
            numbers = [*scalars, *self._lengths(tensors)]
            memory: Sequence[Any] = self._simulated(copies, numbers)[2]
        else:
            given = dict(self.tables)
            memory = [as_bytes(x) if n in given else None for n, x in enumerate(tensors)]
        return self._read(memory)

    def _read(self, memory: Sequence[Any]) -> list[Array]:
        return [memory[n].view(dtype) for n, dtype in self.tables]

    @property
    def computed(self) -> tuple[int, ...]:
        """The numbers of the tensors of indices that the kernel itself writes."""
        return tuple(n for n, _ in self.tables if n >= self.tensors or n in self.outputs)

    def _lengths(self, tensors: Sequence[Any]) -> list[int]:
        return [size.of(tensors) for size in self.sizes]

    def _recorded(self, tables: Sequence[Array], numbers: Sequence[Any]) -> Array:
        """What the control programs ask for, which read `tables`."""
        cores = range(self.cores)
        return np.concatenate([self.program(core, numbers, tables) for core in cores])

    def _simulated(
        self, memory: list[Array], numbers: Sequence[Any], adversary: int | None = None
    ) -> tuple[Run, Array, list[Array]]:
        """Run on the bytes of the call's tensors; return what was asked for and all memory, too."""
        from septran.simulator import simulate

        tables, stream = self._settled(memory, numbers, adversary)
        check_limits(self.machine, stream, self.origins)
        reads = [self._control_reads(n, tables, numbers, stream) for n in self.computed]
        held = self._held(memory, POISON)
        run = simulate(
            self.machine, stream, held, origins=self.origins, adversary=adversary,
            temporaries=self.temporaries, reads=reads,
        )  # fmt: skip
        # Indices that nobody writes differ, and may: what is read of them decides.
        if self.computed and not _same([self._recorded(self._read(held), numbers)], [stream]):
            raise self._unsettled()
        return run, stream, held

    def _held(self, memory: Sequence[Array], value: int) -> list[Array]:
        return [*memory, *(np.full(size, value, np.uint8) for size in self.workspaces)]

    def _settled(
        self, memory: Sequence[Array], numbers: Sequence[Any], adversary: int | None
    ) -> tuple[list[Array], Array]:
        """Return what the control program reads, and what it asks for.

        A control program is recorded as a whole before it is simulated. One that reads indices
        which the kernel computes is recorded first with zeros for these, then with those that a
        run has found, until a run finds the same: what comes before their first use does not
        depend on them, so that each run finds at least one more that is final. Until then
        commands may read what no other has written, so nothing is checked. Raises HazardError
        where they never are the same.
        """
        from septran.simulator import simulate

        if not self.computed:
            tables = self._read(memory)
            return tables, self._recorded(tables, numbers)
        start = [np.zeros_like(x) if n in self.computed else x for n, x in enumerate(memory)]
        tables = self._read(self._held(start, 0))
        most = sum(table.size for table in tables) + 1
        seen: set[bytes] = set()
        while len(seen) < most:
            key = hashlib.sha256(b"".join(table.tobytes() for table in tables)).digest()
            if key in seen:
                break
            seen.add(key)
            stream = self._recorded(tables, numbers)
            held = self._held([np.array(x) for x in memory], 0)
            simulate(
                self.machine, stream, held, origins=self.origins, adversary=adversary,
                checks=False, temporaries=self.temporaries,
            )  # fmt: skip
            found = self._read(held)
            if _same(found, tables):
                return tables, stream
            tables = found
        raise self._unsettled()

    def _unsettled(self) -> HazardError:
        return HazardError(
            f"{self.name} reads indices that are others once all of its commands have run",
            self.machine.location,
            hint="an index is read after it has been written, and is not written again",
        )

    def _control_reads(
        self, number: int, tables: Sequence[Array], numbers: Sequence[Any], stream: Array
    ) -> ControlReads:
        """What control cores read of one tensor that the kernel computes."""
        place = [n for n, _ in self.tables].index(number)
        others = [self._recorded(filled(tables, place, v), numbers) for v in (0, 1)]
        return control_reads(number, others, stream)

    def simulate(self, *arguments: Any, adversary: int | None = None) -> Run:
        """Run, and give the cycles and the trace; `adversary` is a seed of random delays."""
        return self._called(arguments, adversary)[0]

    def _called(self, arguments: Sequence[Any], adversary: int | None = None) -> tuple[Run, Array]:
        memory = [as_bytes(x) for x in arguments[: self.tensors]]
        numbers = [*arguments[self.tensors :], *self._lengths(arguments)]
        return self._simulated(memory, numbers, adversary)[:2]

    def profile(self, program: TileProgram | None, *arguments: Any) -> DsaProfile:
        """Run, and return what each command did (`septran.targets.base.SelfProfiling`)."""
        from septran.targets.dsa.profiles.profile import DsaProfile

        run, stream = self._called(arguments)
        if program is not None and self.sizes:
            program = at_lengths(program, [size.of(arguments) for size in self.sizes])
        return DsaProfile(self.name, run, stream, self.origins, program)

    def with_text(self, text: str) -> DsaExecutable:
        """The kernel with its C edited; raises NotCompiledError, CompileError.

        `save` would keep what LLVM records of the C as it was generated, so it is not possible.
        """
        before = self.source.generated or self.source.text
        program = compiled(Vendor(self.machine), self.symbol, text, self.program, before)
        source = replace(self.source, text=text, generated=before)
        origins = kept_origins(self.source.text, self.origins, text)
        return replace(self, source=source, program=program, origins=origins, recording=None)

    def save(self, folder: Path) -> None:
        """The C, its library, TensorIR that records the same anywhere, and the machine."""
        (folder / KERNEL).write_text(self.source.text, encoding="utf-8")
        (folder / RECORDING).write_text(tvm.ir.save_json(self.recording), encoding="utf-8")
        if isinstance(self.program, CProgram):
            (folder / LIBRARY).write_bytes(self.program.path.read_bytes())
        facts = {
            "name": self.name, "language": self.source.language,
            "symbol": self.symbol, "machine": to_json(self.machine),
            "cores": self.cores, "tensors": self.tensors, "workspaces": self.workspaces,
            "scalars": self.program.scalars, "parts": dict(self.source.parts),
            "facts": dict(self.source.facts), "origins": dict(self.origins),
            "temporaries": dict(self.temporaries), "tables": self.tables,
            "sizes": [size.facts for size in self.sizes], "outputs": self.outputs,
        }  # fmt: skip
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def build(ir: TensorIR, program: TileProgram) -> DsaExecutable:
    """The C of a kernel, compiled where there is a compiler, else recorded by LLVM.

    A header that is not trusted is not compiled, either.
    """
    vendor = Vendor(program.machine)
    function = ir.module[ir.name]
    code = _generate(function, vendor, ir.name)
    rooms = workspaces(program)
    extra, places = tuple(size for _, size in rooms), [*program.params, *(n for n, _ in rooms)]
    sizes = call_sizes(program)
    scalars = (*(s.dtype for s in program.scalars), *_last_types(function, len(sizes)))
    buffers = len(program.params) + len(extra)
    module = tvm.IRModule({"record": recording(function, program.machine, code.lines, buffers)})
    recorded: CProgram | JitProgram
    if vendor.language == ASCENDC and cpp_compiler() is not None:
        recorded = compile_ascend(vendor, code.text, buffers, scalars)
    elif compiler() is None or not is_trusted(vendor.header_files) or vendor.language == ASCENDC:
        recorded = compile_recording(module, scalars)
    else:
        recorded = compile_code(vendor, code, buffers, scalars)
    source = Source(
        ir.name,
        vendor.language,
        code.text,
        {"vendor header": vendor.header_text},
        {"lines": code.text.count("\n"), "commands in the text": len(code.lines)},
    )
    symbol = ENTRY if vendor.language == ASCENDC else code.name
    return DsaExecutable(
        ir.name, program.machine, source, recorded, code.origins, core_count(program),
        len(program.params), extra, symbol, module, shared_with_buffers(program),
        tuple((places.index(n), program.buffer(n).dtype) for n in indirect(program.body)),
        sizes, tuple(program.params.index(n) for n in program.outputs),
    )  # fmt: skip


def _generate(function: Any, vendor: Vendor, name: str) -> Code:
    """The text of a kernel, in the language of its machine."""
    if vendor.language == ASCENDC:
        return generate_ascend(function, vendor, name)
    return generate(function, vendor, name)


def _same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _last_types(function: Any, count: int) -> list[str]:
    """The types of the last parameters of a PrimFunc."""
    return [str(param.ty.dtype) for param in function.params[len(function.params) - count :]]


def placed(executable: DsaExecutable, ir: TensorIR, program: TileProgram) -> DsaExecutable:
    """The executable with the origins of `ir`; ValueError where its lines are others."""
    code = _generate(ir.module[ir.name], Vendor(program.machine), ir.name)
    if code.origins.keys() != executable.origins.keys():
        raise ValueError(f"the lines of {ir.name} are not those of the one that was saved")
    source = replace(executable.source, text=code.text)
    return replace(executable, machine=program.machine, source=source, origins=code.origins)


def compile_recording(module: Any, scalars: Sequence[str]) -> JitProgram:
    """The control program by LLVM: no C compiler is needed."""
    return JitProgram(compile_module(module, host_arch())["record"], tuple(scalars))


def load(folder: Path) -> DsaExecutable:
    """Return what `DsaExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    text = (folder / KERNEL).read_text(encoding="utf-8")
    source = Source(facts["name"], facts.get("language", "c"), text, facts["parts"], facts["facts"])
    module = tvm.ir.load_json((folder / RECORDING).read_text(encoding="utf-8"))
    return DsaExecutable(
        facts["name"],
        from_json(facts["machine"]),
        source,
        _loaded(folder, facts, module),
        {int(line): why for line, why in facts["origins"].items()},
        facts["cores"],
        facts["tensors"],
        tuple(facts["workspaces"]),
        facts["symbol"],
        module,
        facts.get("temporaries", {}),
        tuple((number, dtype) for number, dtype in facts.get("tables", ())),
        tuple(CallSize(*size) for size in facts.get("sizes", ())),
        tuple(facts.get("outputs", ())),
    )


def _loaded(folder: Path, facts: Mapping[str, Any], module: Any) -> CProgram | JitProgram:
    """The library, or where there is none that this system can load, LLVM's."""
    buffers = facts["tensors"] + len(facts["workspaces"])
    path = folder / LIBRARY
    if path.exists():
        with contextlib.suppress(OSError):
            return CProgram.of(path, facts["symbol"], buffers, facts["scalars"])
    return compile_recording(module, facts["scalars"])


def check_limits(
    machine: Machine, stream: np.ndarray[Any, Any], origins: Mapping[int, str]
) -> None:
    """Raise LimitError for the first command whose arguments are beyond ``vendor.limits``."""
    limits = Vendor(machine).limits
    if not limits:
        return
    codes = set(np.unique(stream["code"]).tolist())
    for extern, (command, _) in EXTERNS.items():
        if CODES[extern] not in codes:
            continue
        mine = stream[stream["code"] == CODES[extern]]
        for place, argument in enumerate(command.arguments):
            most = limits.get(argument.name)
            if most is None:
                continue
            over = mine[mine["arguments"][:, place] > most]
            if len(over):
                found, line = int(over[0]["arguments"][place]), int(over[0]["line"])
                raise LimitError(
                    f"{extern} on line {line} has {argument.name} {found:,}, and the vendor's "
                    f"limit is {most:,}",
                    machine.location,
                    hint=origins.get(line),
                )

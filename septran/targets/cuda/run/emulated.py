"""Generated CUDA text as something to call on the CPU: the emulator behind `Executable`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from septran.emulator.launch import CudaProgram
from septran.emulator.settings import MODES, EmulatorSettings, current, emulation
from septran.errors import TargetError
from septran.machine.model import Machine
from septran.targets.base import Source
from septran.targets.call_sizes import CallSize, call_sizes
from septran.targets.cuda.run.emulated_profile import EmulatedProfile
from septran.targets.cuda.run.facts import kernel_facts
from septran.targets.cuda.run.launcher import TensorSpec, parameter_specs
from septran.targets.tensor_memory import as_bytes
from septran.tile.nodes import TileProgram

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MODES", "EmulatedExecutable", "NotKeptError", "build_emulated", "emulation"]


class NotKeptError(TargetError):
    """An emulated kernel has no machine code to keep."""

    code = "SEP575"


@dataclass(frozen=True)
class EmulatedExecutable:
    """The kernels of one operator, run by the emulator on arrays in the host's memory."""

    name: str
    program: CudaProgram
    tensors: tuple[TensorSpec, ...]
    machine: Machine
    sizes: tuple[CallSize, ...] = ()
    """The extents that calls tell."""
    language: str = "cuda"
    """What its text is, as `Source` has it."""
    generated: str = ""
    """The text before it was edited; empty where nobody has."""
    profiles: list[EmulatedProfile] = field(default_factory=list, repr=False, compare=False)
    """What the latest call did; empty before the first."""

    def __call__(self, *arguments: Any) -> None:
        """Run on tensors in the order of the parameters, then the scalars."""
        self.emulate(current.get(), *arguments)

    def profile(self, program: TileProgram | None, *arguments: Any) -> EmulatedProfile:
        """Run, and return what happened when (`septran.targets.base.SelfProfiling`)."""
        del program
        return self.emulate(replace(current.get(), trace=True), *arguments)

    def emulate(self, how: EmulatorSettings, *arguments: Any) -> EmulatedProfile:
        """Run as `how` says; raises EmulationError where the kernel does something wrong."""
        from septran.emulator import emulate

        count = len(self.tensors)
        memory = {
            tensor.name: as_bytes(x)
            for tensor, x in zip(self.tensors, arguments[:count], strict=True)
        }
        told = {size.name: size.of(arguments) for size in self.sizes}
        names = (name for name, _ in self.program.scalars)
        scalars = dict(zip(names, (*arguments[count:], *told.values()), strict=True))
        run = emulate(
            self.program.at(told), memory, scalars, mode=how.mode, seed=how.seed,
            machine=self.machine, trace=how.trace,
        )  # fmt: skip
        self.profiles[:] = [EmulatedProfile(self.name, self.machine.name, how.mode, run)]
        return self.profiles[0]

    @property
    def source(self) -> Source:
        """The CUDA text that is emulated; it need not have been compiled for a GPU."""
        facts = kernel_facts(self.program, None, self.machine)
        text = self.program.source
        return Source(self.name, self.language, text, {}, facts, self.generated)

    def with_text(self, text: str) -> EmulatedExecutable:
        """The kernels with their text edited.

        Raises EmulationError and HostCompilerError where it does not compile for the emulator.
        """
        from septran.emulator.emulate import compile_program

        before, program = self.generated or self.program.source, replace(self.program, source=text)
        compile_program(program)
        return replace(self, program=program, generated=before, profiles=[])

    def save(self, folder: Path) -> None:
        """There is nothing to keep; raises NotKeptError."""
        del folder
        raise NotKeptError(
            f"{self.name} is emulated: it has no machine code to save",
            hint="compile it without emulate=True and save or export that",
        )


def build_emulated(program: CudaProgram, tile: TileProgram) -> EmulatedExecutable:
    """Return what runs `program` on the CPU."""
    specs, sizes = parameter_specs(tile), call_sizes(tile)
    return EmulatedExecutable(tile.name, program, specs, tile.machine, sizes)

"""The interface between the compiler and a target: lower, build, load."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from septran.stage import Stage
from septran.tile.nodes import TileProgram

_META_BEGINS, _META_ENDS = 'metadata = tvm.ir.load_json("""', '""")\n'
_META_LEFT_OUT = "\n\n# Metadata omitted. Use show_meta=True in script() method to show it."


@dataclass(frozen=True)
class TensorIR(Stage):
    """The TensorIR stage: a `tvm.IRModule` with one PrimFunc a kernel."""

    name: str
    module: Any
    """The `tvm.IRModule`."""

    @cached_property
    def text(self) -> str:
        """TVMScript."""
        # To print takes a twentieth of a compilation: it is done once, and this is what TVM leaves.
        whole = self.complete_text
        if not whole.startswith(_META_BEGINS):
            return whole
        return whole.partition(_META_ENDS)[2] + _META_LEFT_OUT

    @cached_property
    def complete_text(self) -> str:
        """TVMScript with what `text` leaves out, as functions in LLVM's own words."""
        return str(self.module.script(show_meta=True))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Source(Stage):
    """The source stage: what the target's compiler reads or writes."""

    name: str
    language: str
    """``llvm``, ``asm``, ``cuda``, ``c``: how to highlight it."""
    text: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """Further texts by title, such as the assembly."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Figures by name: vector registers, spills, bytes of code."""
    generated: str = ""
    """The text before somebody edited it (`Kernel.with_source`); empty where nobody has."""

    def __str__(self) -> str:
        return self.text

    def difference(self) -> str:
        """What was edited, as a unified diff; empty where nothing was."""
        before = (self.generated or self.text).splitlines()
        changed = difflib.unified_diff(
            before, self.text.splitlines(), "generated", "edited", lineterm="", n=1
        )
        return "\n".join(changed)


class Executable(Protocol):
    """A built kernel."""

    source: Source

    def __call__(self, *arguments: Any) -> None:
        """Run on DLPack tensors in the order of `TileProgram.params`, then the scalars."""

    def save(self, folder: Path) -> None:
        """Write all that `Target.load` needs into an empty folder."""


class CycleProfile(Protocol):
    """The record of a simulated run, cycle by cycle: a `DsaProfile`."""

    @property
    def cycles(self) -> int:
        """The length of the whole run, in cycles."""

    @property
    def seconds(self) -> float:
        """The length of the whole run in seconds, at the machine's clock."""

    def by_origin(self) -> Any:
        """A `pandas.DataFrame` of an origin and queue a row."""

    def timeline_text(self) -> str:
        """Return what ran when."""

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write the timeline as JSON for Perfetto."""

    def to_dict(self) -> dict[str, Any]:
        """Its figures, as JSON-ready data."""


@runtime_checkable
class SelfProfiling(Protocol):
    """An executable that says itself what a run did, cycle by cycle, instead of being timed."""

    def profile(self, program: TileProgram | None, *arguments: Any) -> Any:
        """Run once on what a call takes; the target's profile of it.

        `program` is None for a kernel that was loaded from a file.
        """


@runtime_checkable
class Editable(Protocol):
    """An executable whose text is compiled here, so that another text can take its place."""

    def with_text(self, text: str) -> Executable:
        """The same with `text` as its source; raises TargetError where it does not compile."""


@runtime_checkable
class Untimed(Protocol):
    """An executable that an emulator runs for another processor: it has results, but no times."""

    emulator: str
    """The program that runs it."""

    def missing(self) -> tuple[str, ...]:
        """Programs without which it cannot be run here."""


@runtime_checkable
class Driven(Protocol):
    """An executable that another's driver compiles and runs, on whatever device that has."""

    @property
    def executor(self) -> str:
        """The driver's name and version."""


@runtime_checkable
class Exporting(Protocol):
    """Code that can be written as files which build without SepTran and TVM."""

    def export(self, folder: Path, roles: Sequence[str]) -> Path:
        """Write into `folder`; the main file's path.

        `roles` says of each tensor whether it is ``input``, ``output`` or ``summed`` into.
        """


@dataclass(frozen=True)
class ReferenceCall:
    """A call of a kernel and what it gives, for an example to compare with."""

    inputs: Mapping[str, Any]
    """NumPy arrays by tensor: those that are read, and what is summed into as it is before."""
    exact: Mapping[str, Any]
    """The outputs, computed in float64."""
    bounds: Mapping[str, Any]
    """The error that rounding allows each element of them; infinite where nothing is promised."""
    scalars: Mapping[str, float | int] = field(default_factory=dict)
    """The scalars of the call by name."""

    def files(self, roles: Iterable[tuple[str, str]]) -> dict[str, bytes]:
        """The inputs as they lie; results and bounds as doubles: ``X``, ``Y.exact``, ``Y.bound``.

        `roles` are the tensors with ``input``, ``output`` or what else they are to the kernel.
        """
        found = {}
        for name, role in roles:
            if role != "output":
                found[name] = np.ascontiguousarray(self.inputs[name]).tobytes()
            if role != "input":
                for word, of in (("exact", self.exact), ("bound", self.bounds)):
                    found[f"{name}.{word}"] = np.ascontiguousarray(of[name], np.float64).tobytes()
        return found


@dataclass(frozen=True)
class LibraryPart:
    """A kernel of a library that other programs call."""

    name: str
    """What the library calls it."""
    summary: str
    """A line on what it computes."""
    versions: Sequence[tuple[TensorIR, TileProgram]]
    """The same for one or several processors."""
    roles: Sequence[str]
    """Of each tensor, whether it is ``input``, ``output`` or ``summed`` into."""
    reference: ReferenceCall | None = None
    """None where it would take too long or too much room."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the logic and the mapping that it was made from."""


@dataclass(frozen=True)
class WrittenLibrary:
    """The folder of a library."""

    header: Path
    """The file that says how it is called."""
    files: tuple[str, ...]
    """All that was written, by its path in the folder."""
    facts: Mapping[str, Any]
    """What JSON keeps of it for `LibraryTarget.open_library`."""


@runtime_checkable
class LibraryTarget(Protocol):
    """A target whose kernels are compiled once more for a library that needs no TVM."""

    def write_library(
        self, parts: Sequence[LibraryPart], folder: Path, name: str | None
    ) -> WrittenLibrary:
        """Write the folder of a library with these kernels.

        Without a name it has that of its only kernel. Raises TargetError.
        """

    def open_library(self, folder: Path, facts: Mapping[str, Any]) -> Mapping[str, Executable]:
        """The kernels of such a folder by name; `facts` are those of `WrittenLibrary`.

        Raises TargetError where the library is another one, or has no code for this host.
        """


@runtime_checkable
class ProgramTarget(Protocol):
    """A target whose code is text for a vendor's compiler and library, a kernel at a time."""

    def write_program(self, part: LibraryPart, executable: Any, folder: Path) -> Path:
        """Write the text of a built kernel with what its build needs; the main file's path.

        Raises TargetError.
        """


@runtime_checkable
class Emulating(Protocol):
    """A target whose generated code can be run on a CPU, as its processor would run it."""

    def emulated(self, ir: TensorIR, program: TileProgram) -> Executable:
        """Return an executable of the generated code on arrays of the host; raises TargetError."""


@dataclass(frozen=True)
class Room:
    """A scratch buffer that whoever runs the code makes room for."""

    name: str
    size: int
    """Bytes, with those behind it that a vector may reach."""
    requested: int
    """The bytes that the code requests, by which it says the buffer's number."""


@dataclass(frozen=True)
class GuardedCode:
    """A kernel that has not been compiled yet, whose scratch buffers are its caller's."""

    name: str
    arch: str
    text: str
    rooms: tuple[Room, ...]
    library: bytes = b""
    """A shared library of functions that it calls; empty where it calls none."""


@runtime_checkable
class Guarding(Protocol):
    """A target whose code can be run with its scratch buffers where its caller wants them."""

    def guarded(self, program: TileProgram) -> GuardedCode:
        """The code of `program`, to be compiled by what runs it."""

    def compile_guarded(self, code: GuardedCode, give: int, take: int) -> Callable[..., Any]:
        """The function; `give` and `take` are addresses of functions as TVM's runtime has.

        ``void *give(int, int, uint64_t bytes, int, int)`` and ``int take(int, int, void *)``.
        """


@runtime_checkable
class Threaded(Protocol):
    """A target whose code runs on threads, whose number can be chosen."""

    def usable_cores(self) -> int:
        """Return how many cores this process may use."""

    def set_threads(self, count: int) -> None:
        """Run parallel loops on `count` threads from now on."""


@runtime_checkable
class Marking(Protocol):
    """A target whose code can be compiled once more, to note when its parts run."""

    def marks(
        self, program: TileProgram, arguments: Sequence[Any], zeros: Callable[[int], Any]
    ) -> Any:
        """Return what was noted in one call; it has a view called ``timeline``.

        `arguments` are as an executable takes them, and what the program writes is written.
        `zeros` makes an array of so many int64 beside them.
        """


class Target(Protocol):
    """A vertical slice: TileProgram -> TensorIR -> source -> module."""

    name: str
    """The `backend` of the machines it serves."""

    def lower(self, program: TileProgram) -> TensorIR:
        """One PrimFunc for `program`; raises TargetError with the node's origin."""

    def build(self, ir: TensorIR, program: TileProgram) -> Executable:
        """Compile for the machine of `program`; raises TargetError."""

    def load(self, folder: Path) -> Executable:
        """Return what `Executable.save` wrote."""

    def placed(self, executable: Any, ir: TensorIR, program: TileProgram) -> Executable:
        """Return a loaded executable with the comments and places of `ir`, else its equal."""

    def fingerprint(self) -> str:
        """Text that changes whenever equal TensorIR may build to something else."""

    def missing(self) -> str | None:
        """Why kernels cannot run here; None when they can."""

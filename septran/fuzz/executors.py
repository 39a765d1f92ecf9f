"""The executors of a case, each compared with the exact result by the error bound."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from septran.backends import backend_of
from septran.compiler import compile
from septran.errors import SepTranError
from septran.fuzz import edits
from septran.fuzz.cases import RandomCase
from septran.machine.loader import NATIVE_IS, load_machine
from septran.runtime.accuracy import WrongResultError, compare, error_bounds
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Specialisation
from septran.runtime.stages import Stages
from septran.simulator.timing.random_delays import VARIABLE
from septran.targets.base import Untimed
from septran.targets.cpu.run.isa import other_width
from septran.targets.registry import has_emulator, target_for
from septran.tile.interpret.interpreter import interpret

DELAY_SEEDS = 2
"""The number of seeds of random delays with which a simulated DSA runs a case, besides none."""


class NotRunHereError(Exception):
    """This host has nobody who could run the code; it was compiled."""


@dataclass(frozen=True)
class CaseFiles:
    """A case in a folder, as files that a person would compile."""

    case: RandomCase
    folder: Path

    @property
    def logic(self) -> str:
        """The path of the logic file."""
        return str(self.folder / "logic.py")

    def mapping(self, machine: str) -> str:
        """Return the path of the mapping file for a machine of this name."""
        return str(self.folder / f"mine-{machine}.mapping.yaml")

    @property
    def machine(self) -> str:
        """The case's machine: the path of its own file if it has one, else its name."""
        if self.case.machine_text is None:
            return self.case.machine
        return str(self.folder / f"{self.case.machine}.yaml")

    @classmethod
    def write(cls, case: RandomCase, folder: Path) -> CaseFiles:
        """Write logic, mappings and machine into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        files = cls(case, folder)
        Path(files.logic).write_text(case.logic, encoding="utf-8")
        for machine, text in case.mappings.items():
            Path(files.mapping(machine)).write_text(text, encoding="utf-8")
        if case.machine_text is not None:
            Path(files.machine).write_text(case.machine_text, encoding="utf-8")
            header = edits.header_of(case.machine)
            if header is not None:
                shutil.copy(header, folder)
        return files


@dataclass(frozen=True)
class ExecutorOptions:
    """The ways to run a case besides those of every case."""

    emulate: bool = False
    """Whether a GPU's code runs in the emulator, which takes seconds each time."""
    guard: bool = False
    """Whether CPU code runs between guard pages, in a process of its own."""


Run = Callable[[CaseFiles], float]
"""Runs a case in one way, and returns the greatest error as a fraction of the error bound.

Raises WrongResultError, or another SepTranError where the case is refused.
"""


def executors(case: RandomCase, options: ExecutorOptions) -> Mapping[str, Run]:
    """Return the executors of `case` by name."""
    found: dict[str, Run] = {
        "cpu": partial(_cpu, guard=options.guard),
        "cpu, other width": partial(_other_width, guard=options.guard),
    }
    if case.machine == "cpu-x86":
        return found | {"interpreter": _interpreter}
    found["interpreter"] = _interpreter
    backend = load_machine(case.machine).backend
    if backend_of(backend).simulated:
        found["simulator"] = _simulator
    elif has_emulator(backend):
        if options.emulate:
            found["emulator"] = _emulator
    elif target_for(backend).missing() is None:
        found["code"] = _code
    return found


def _kernel(
    files: CaseFiles, name: str, machine: str, guard: bool = False, **options: Any
) -> Kernel:
    """Return a kernel compiled for the case's inputs, so that refusals are raised here.

    Between guard pages another function is run, of which the code is made there.
    """
    kernel = _compiled(files, name, machine, **options)
    stages = _specialised(kernel, files.case).stages
    _ = stages.tensor_ir if guard else stages.executable  # made now
    return kernel


def _compiled(files: CaseFiles, name: str, machine: str, **options: Any) -> Kernel:
    """Return the case's kernel; nothing is compiled yet."""
    case = files.case
    return compile(
        files.logic, files.mapping(name), machine=machine, static=case.static,
        tunables=case.tunables, dynamic=case.dynamic, **options,
    )  # fmt: skip


def _specialised(kernel: Kernel, case: RandomCase) -> Specialisation:
    """Return what the kernel is for the case's inputs."""
    shapes = {i.name: i.shape for i in case.inputs}
    return kernel.specialise(shapes, {i.name: i.dtype for i in case.inputs})


def checked(kernel: Kernel, arrays: Mapping[str, Any], guard: bool = False) -> float:
    """Run and compare; an error of a program that was accepted is a wrong result, too."""
    with _accepted():
        check = kernel.check(*arrays.values(), guard=guard)
    if not check.right:
        raise WrongResultError(str(check))
    return max((output.worst for output in check.outputs), default=0.0)


@contextmanager
def _accepted() -> Iterator[None]:
    try:
        yield
    except SepTranError as error:
        raise WrongResultError(f"after it was accepted: {error}") from error


def _cpu(files: CaseFiles, guard: bool) -> float:
    kernel = _kernel(files, "cpu-x86", _cpu_machine(files), guard)
    return checked(kernel, files.case.arrays(), guard)


def _cpu_machine(files: CaseFiles) -> str:
    return files.machine if files.case.machine == "cpu-x86" else "cpu-x86"


def _other_width(files: CaseFiles, guard: bool) -> float:
    with on_other_width():
        return _cpu(files, guard)


@contextmanager
def on_other_width() -> Iterator[None]:
    """Compile for vectors of the width that the host's own do not have."""
    with _environment(NATIVE_IS, other_width()):
        yield


def _interpreter(files: CaseFiles) -> float:
    kernel = _compiled(files, files.case.machine, files.machine)
    return interpreted(
        _specialised(kernel, files.case).stages, files.case.arrays(), files.case.seed
    )


def interpreted(stages: Stages, arrays: Mapping[str, Any], seed: int) -> float:
    """Interpret the tile program under three schedules of its copies."""
    program = stages.tile_program  # verified, as by default
    exact, worst = error_bounds(stages.task_tree, arrays), 0.0
    for order in ("early", "late", seed):
        with _accepted():
            outputs = interpret(program, arrays, order=order)
        for name, found in outputs.items():
            accuracy = compare(name, found, exact[name])
            if not accuracy.right:
                raise WrongResultError(f"interpreted ({order}): {accuracy}")
            worst = max(worst, accuracy.worst)
    return worst


def _simulator(files: CaseFiles) -> float:
    kernel = _kernel(files, files.case.machine, files.machine)
    return simulated(kernel, files.case.arrays(), files.case.seed)


def simulated(kernel: Kernel, arrays: Mapping[str, Any], seed: int) -> float:
    """Run generated C on the simulated machine, with no delays and with random ones."""
    worst = checked(kernel, arrays)
    for delays in range(seed, seed + DELAY_SEEDS):
        with _environment(VARIABLE, str(delays)):
            worst = max(worst, checked(kernel, arrays))
    return worst


def _code(files: CaseFiles) -> float:
    """Run generated code by another's driver or interpreter, where this host has one."""
    kernel = _kernel(files, files.case.machine, files.machine)
    executable = _specialised(kernel, files.case).stages.executable
    if isinstance(executable, Untimed) and executable.missing():
        raise NotRunHereError
    return checked(kernel, files.case.arrays())


def _emulator(files: CaseFiles) -> float:
    kernel = _kernel(files, files.case.machine, files.machine, emulate=True)
    return emulated(kernel, files.case.arrays(), files.case.seed)


def emulated(kernel: Kernel, arrays: Mapping[str, Any], seed: int) -> float:
    """Run generated CUDA on the emulator: asynchronous work at once, late, and at random."""
    from septran.emulator import MODES, emulation

    worst = 0.0
    for mode in MODES:
        with emulation(mode, seed):
            worst = max(worst, checked(kernel, arrays))
    return worst


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before

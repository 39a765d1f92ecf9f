"""The target of each machine: a backend is a folder, found by its name."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping

from septran.backends import backend_of, with_code
from septran.errors import TargetError, nearest
from septran.machine.model import Engine, Instruction, Machine
from septran.mapping.extern.name import EXTERN
from septran.targets.base import Emulating, Guarding, Marking, Target, Threaded


class NoTargetError(TargetError):
    """No code generator for this backend is installed."""

    code = "SEP501"


class NoEmulatorError(TargetError):
    """The generated code of this backend cannot be emulated."""

    code = "SEP502"


class NoGuardsError(TargetError):
    """Code of this backend cannot be run between guard pages."""

    code = "SEP503"


class NoEmitterError(TargetError):
    """A machine file names an instruction or an engine that its backend's code cannot use."""

    code = "SEP504"


def require_emitters(
    machine: Machine, engines: Iterable[str], instructions: Mapping[str, str]
) -> None:
    """Refuse what no emitter is for, where the machine file names it; raises NoEmitterError.

    `instructions` says what each of them computes.
    """
    own = tuple(i for i in machine.instructions if i.primitive != EXTERN)  # not the mapping's
    parts: dict[str, tuple[Engine | Instruction, ...]] = {
        "engine": machine.engines,
        "instruction": own,
    }
    for kind, emitted in (("engine", engines), ("instruction", instructions)):
        known = tuple(emitted)
        for part in parts[kind]:
            if part.name not in known:
                raise NoEmitterError(
                    f"code for {machine.backend} has no {kind} {part.name!r}",
                    part.location,
                    hint=nearest(part.name, known),
                )
    for instruction in own:
        computed = instructions[instruction.name]
        if instruction.primitive != computed:
            raise NoEmitterError(
                f"{instruction.name} computes {computed} in code for {machine.backend}, "
                f"not {instruction.primitive}",
                instruction.location,
                hint=f"write `primitive: {computed}`",
            )


@functools.cache
def target_for(backend: str) -> Target:
    """The target that serves a backend; raises NoTargetError where there is none yet."""
    if backend not in with_code():
        raise NoTargetError(
            f"no code generator for backend {backend!r} in this version",
            hint=f"there is {', '.join(with_code())}; all stages up to the tile program can be "
            "inspected and interpreted on any machine",
        )
    module = importlib.import_module(f"septran.targets.{backend}.target")
    target: Target = module.TARGET
    return target


def has_emulator(backend: str) -> bool:
    """Whether an emulator runs the backend's code on a CPU, where its processor is missing."""
    return backend in with_code() and isinstance(target_for(backend), Emulating)


def _runs(backend: str) -> str:
    """What becomes of the backend's kernels where nobody asks for an emulator."""
    if backend_of(backend).simulated:
        return "its code is simulated"
    return "its code runs by what `septran doctor` finds here"


def emulator_for(backend: str) -> Emulating:
    """The target, where it can emulate; raises NoEmulatorError, NoTargetError."""
    target = target_for(backend)
    if not isinstance(target, Emulating):
        others = [name for name in with_code() if has_emulator(name)]
        raise NoEmulatorError(
            f"there is no emulator for backend {backend!r}",
            hint=f"without --emulate (emulate=True) {_runs(backend)}; `--interpret` runs any tile "
            f"program, and there are emulators for {' and '.join(others)}",
        )
    return target


def marking_for(backend: str) -> Marking | None:
    """The target, where its code can note when its parts run; None elsewhere."""
    target = target_for(backend) if backend in with_code() else None
    return target if isinstance(target, Marking) else None


def threaded_for(backend: str) -> Threaded | None:
    """The target, where its code runs on threads; None elsewhere."""
    target = target_for(backend) if backend in with_code() else None
    return target if isinstance(target, Threaded) else None


def guarding_for(backend: str) -> Guarding:
    """The target, where its code is this processor's; raises NoGuardsError, NoTargetError."""
    target = target_for(backend)
    if not isinstance(target, Guarding):
        raise NoGuardsError(
            f"there are no guard pages for backend {backend!r}",
            hint="they are for machines whose backend is cpu; the verifier and the interpreter "
            "check every access on any machine",
        )
    return target

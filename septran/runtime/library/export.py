"""Kernels as files that build and run without SepTran and TVM: one, or a library of several."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from septran import argument_checks
from septran.argument_checks import WrongArgumentError, write_error
from septran.dtypes import numpy_dtype
from septran.runtime.accuracy import SAFETY, NoBoundError, error_bounds
from septran.runtime.cache import without_places
from septran.runtime.checks import product_rules, sample
from septran.runtime.errors import NotExportableError
from septran.runtime.library.load import FORMAT, KEY, is_library
from septran.runtime.manifest import MANIFEST, intact, write_manifest
from septran.runtime.signature import Specialisation
from septran.runtime.stages import EditedStages
from septran.targets.base import (
    Exporting,
    LibraryPart,
    LibraryTarget,
    ProgramTarget,
    ReferenceCall,
    SelfProfiling,
)
from septran.targets.registry import target_for
from septran.task.errors import CountRangeError, IndexRangeError
from septran.tile.nodes import TileProgram

if TYPE_CHECKING:
    from septran.runtime.kernel import Kernel

MOST_WORK = 2_000_000_000
"""Operations of a call up to which its exact result is computed for an example."""
MOST_BYTES = 16 << 20
"""Bytes of a call's tensors up to which they are written for an example."""


def export(
    kernels: Sequence[Kernel] | Mapping[str, Kernel],
    folder: str | Path,
    *,
    name: str | None = None,
    arch: str | Sequence[str] | None = None,
) -> Path:
    """Write the latest compilations of several kernels as one library, which needs no TVM.

    The folder then holds a C header, a shared and a static library, build files and examples that
    check themselves; docs/export.md describes it. `kernels` are in a list, or by the names that
    the library is to give them. `name` is the library's. `arch` names processors, as a machine
    file or LLVM does: the kernels are compiled for each of them, and the library takes the best
    that a host has. Returns the header's path; raises NotExportableError where a target writes no
    libraries, and TargetError for names that C cannot use.
    """
    named = _named(kernels)
    place = argument_checks.as_path("folder", folder)
    if name is not None:
        argument_checks.require("name", name, str, "pass the library's name, such as 'mylib'")
    if place.exists() and not place.is_dir():
        raise WrongArgumentError(f"{place} is a file", hint="pass a folder to write to")
    if name is None and arch is None and len(named) == 1:
        alone = _alone(*next(iter(named.items())), place)
        if alone is not None:
            return _written(place, alone)
    target = _library_target(named)
    parts = [_part(word, kernel, _archs(arch)) for word, kernel in named.items()]

    def write() -> Path:
        _clear(place)
        made = target.write_library(parts, place, name)
        latest = [_latest(kernel) for kernel in named.values()]
        made_from = zip(parts, named.values(), latest, strict=True)
        entries = {part.name: _entry(part, k, s) for part, k, s in made_from}
        facts = {
            "format": FORMAT, "septran": sys.modules["septran"].__version__,
            "backend": latest[0].stages.tile_program.machine.backend, "library": dict(made.facts),
            "kernels": entries,
        }  # fmt: skip
        write_manifest(place, KEY, made.files, facts)
        return made.header

    return _written(place, write)


def _clear(folder: Path) -> None:
    """Remove what an earlier export has written there, and nothing else."""
    if not is_library(folder) or not intact(folder, KEY):
        return
    for name in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]:
        (folder / name).unlink()


def _entry(part: LibraryPart, kernel: Kernel, latest: Specialisation) -> dict[str, Any]:
    """What a manifest says of a kernel: its arguments, and what it was made from."""
    program = latest.stages.tile_program
    return {
        "summary": part.summary,
        **part.hashes,
        "signature": asdict(kernel.signature),
        "tensors": [asdict(t) for t in latest.tensors],
        "scalars": [asdict(s) for s in latest.scalars],
        "limits": asdict(latest.limits),
        "extents": {t.name: list(map(str, program.buffer(t.name).exists)) for t in latest.tensors},
    }


def _named(kernels: Any) -> dict[str, Kernel]:
    from septran.runtime.kernel import Kernel

    pairs: list[tuple[str | None, Any]]
    if isinstance(kernels, Mapping):
        pairs = [(str(word), kernel) for word, kernel in kernels.items()]
    else:
        listed = kernels if isinstance(kernels, Iterable) else [kernels]
        pairs = [(None, kernel) for kernel in listed]
    if not pairs:
        raise WrongArgumentError("there is no kernel to export", hint="pass septran.compile(...)")
    found: dict[str, Kernel] = {}
    for word, kernel in pairs:
        argument_checks.require("a kernel", kernel, Kernel, "pass what septran.compile returns")
        own = word or kernel.name
        if own in found:
            raise WrongArgumentError(
                f"two kernels are called {own}",
                hint=f"name them: septran.export({{'{own}_small': a, '{own}_large': b}}, ...)",
            )
        found[own] = kernel
    return found


def _archs(arch: Any) -> tuple[str, ...]:
    words = (arch,) if isinstance(arch, str) else tuple(arch or ())
    if not all(isinstance(word, str) and word for word in words):
        hint = "write arch=['avx2', 'avx512']"
        raise WrongArgumentError(f"arch is {arch!r}, and names processors", hint=hint)
    return words


def _written(folder: Path, write: Callable[[], Path]) -> Path:
    try:
        return write()
    except (OSError, ValueError) as error:
        raise write_error(folder, error, "pass a folder that can be written to") from error


def _latest(kernel: Kernel) -> Specialisation:
    stages = kernel.stages  # raises where there is none
    if isinstance(stages, EditedStages):
        stages.refuse("an export")
    return kernel.specialisations[-1]


def _alone(name: str, kernel: Kernel, folder: Path) -> Callable[[], Path] | None:
    """What writes a kernel whose target makes no libraries; None for others."""
    stages = _latest(kernel).stages
    program = stages.tile_program
    if isinstance(program, TileProgram):
        target = target_for(program.machine.backend)
        if isinstance(target, LibraryTarget):
            return None
        if isinstance(target, ProgramTarget):
            part = _part(name, kernel, ())
            return partial(target.write_program, part, stages.executable, folder)
    if isinstance(stages.executable, Exporting):
        return partial(stages.executable.export, folder, _roles(_latest(kernel)))
    return None


def _roles(specialisation: Specialisation) -> tuple[str, ...]:
    return tuple(
        "input" if not t.writes else "summed" if t.reads else "output"
        for t in specialisation.tensors
    )


def _library_target(named: Mapping[str, Kernel]) -> LibraryTarget:
    found = []
    for name, kernel in named.items():
        program = kernel.stages.tile_program
        target = target_for(program.machine.backend) if isinstance(program, TileProgram) else None
        if not isinstance(target, LibraryTarget):
            raise _not_exportable(name, target, kernel.stages.executable)
        found.append(target)
    if any(target is not found[0] for target in found):
        raise NotExportableError(
            "kernels of several targets make no library", hint="export one for each target"
        )
    return found[0]


def _not_exportable(name: str, target: object | None, executable: object) -> NotExportableError:
    """Say why: it was loaded, is emulated, or its target writes nothing or one at a time."""
    if target is None:
        return NotExportableError(
            f"{name} cannot be exported, as it was loaded without its logic",
            hint="export what septran.compile returns",
        )
    word = getattr(target, "name", "its machine")
    if isinstance(target, ProgramTarget) or isinstance(executable, Exporting):
        return NotExportableError(
            f"{name} is for {word}, whose kernels are exported one by one, without name and arch",
            hint="call kernel.export(folder) of each; libraries of several are for CPUs",
        )
    if isinstance(executable, SelfProfiling):
        return NotExportableError(
            f"{name} cannot be exported, as it was compiled to be emulated",
            hint="compile it without emulate=True",
        )
    return NotExportableError(
        f"{name} is for {word}, for which there is no export",
        hint="kernel.save(path) keeps it for septran.load, kernel.stages.source has its text",
    )


def _part(name: str, kernel: Kernel, archs: Sequence[str]) -> LibraryPart:
    latest = _latest(kernel)
    if any(0 in (t.shape or ()) for t in latest.tensors):
        raise NotExportableError(
            f"{name} was compiled for an empty tensor, for which there is no code",
            hint="compile it for extents of at least 1",
        )
    made = [kernel.for_arch(arch) for arch in archs] or [latest]
    for other in made:
        _ = other.stages.tile_program
    stages = latest.stages
    return LibraryPart(
        name,
        _summary(kernel),
        tuple((other.stages.tensor_ir, other.stages.tile_program) for other in made),
        _roles(latest),
        _reference(made),
        {"logic": _digest(stages.task_tree), "mapping": _digest(stages.mapping)},
    )


def _summary(kernel: Kernel) -> str:
    """The first line of the entry task's docstring, else its module's, else the signature."""
    function = getattr(kernel.logic, "function", None)
    module = getattr(function, "__globals__", {}).get("__doc__")
    for text in (module, getattr(function, "__doc__", None)):
        if text and text.strip():
            return str(text.strip().splitlines()[0])
    return str(kernel.signature)


def _digest(stage: object) -> str:
    """SHA-256 of a stage, wherever its files lie."""
    return hashlib.sha256(without_places(str(stage)).encode()).hexdigest()


def _reference(versions: Sequence[Specialisation]) -> ReferenceCall | None:
    """A call on random numbers; its bounds are the greatest of those of all versions."""
    latest, random = versions[0], np.random.default_rng(1)
    room = sum(int(np.prod(t.shape or ())) for t in latest.tensors) * 8
    if room > MOST_BYTES or latest.limits.flops > MOST_WORK:
        return None
    inputs = sample(latest)
    for tensor in latest.tensors:
        if tensor.writes and tensor.reads:
            start = random.integers(-4, 5, tensor.shape or ())
            inputs[tensor.name] = start.astype(numpy_dtype(tensor.dtype or ""))
    numbers = {s.name: 1 if s.default is None else s.default for s in latest.scalars}
    try:
        found = [
            error_bounds(v.stages.task_tree, inputs, numbers, product_rules(v.stages.tile_program))
            for v in versions
        ]
    except (NoBoundError, IndexRangeError, CountRangeError):
        return None  # random numbers may be none from which indices can be computed
    return ReferenceCall(
        inputs,
        {name: bounded.value for name, bounded in found[0].items()},
        {name: SAFETY * np.max([f[name].error for f in found], axis=0) for name in found[0]},
        numbers,
    )

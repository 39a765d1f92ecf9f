"""Kernels as source that others build: what a target's `export` is told of a call."""

from __future__ import annotations

from pathlib import Path

from septran.argument_checks import WrongArgumentError, unwritable
from septran.runtime.errors import NotExportableError
from septran.runtime.signature import Specialisation
from septran.targets.base import Exporting


def export_source(name: str, specialisation: Specialisation, folder: Path) -> Path:
    """Write a compilation as source; raises NotExportableError where its target cannot."""
    executable = specialisation.stages.executable
    if not isinstance(executable, Exporting):
        raise NotExportableError(
            f"{name} cannot be exported: only kernels for NVIDIA GPUs are written as source",
            hint="kernel.save(path) keeps machine code for septran.load",
        )
    roles = tuple(
        "input" if not t.writes else "summed" if t.reads else "output"
        for t in specialisation.tensors
    )
    if folder.exists() and not folder.is_dir():
        raise WrongArgumentError(f"{folder} is a file", hint="pass a folder to write to")
    try:
        return executable.export(folder, roles)
    except (OSError, ValueError) as error:
        raise unwritable(folder, error, "pass a folder that can be written to") from error

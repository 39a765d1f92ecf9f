"""The part of a compilation that another host can do: from the tile program to a kernel's file.

It is what the front end has made, so that neither logic nor mapping files need be on that host.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from septran.backends import backend_of
from septran.runtime.archive import write_archive
from septran.runtime.cache import load_or_build
from septran.runtime.signature import Signature, Specialisation
from septran.runtime.stages import Stages, stage
from septran.targets.registry import target_for

if TYPE_CHECKING:
    from septran.mapping.resolved import ResolvedMapping
    from septran.targets.base import Executable, TensorIR
    from septran.task.tree import TaskTree
    from septran.tile.nodes import TileProgram


@dataclass(frozen=True)
class KernelParts:
    """All that the rest of a compilation depends on."""

    signature: Signature
    task_tree: TaskTree
    mapping: ResolvedMapping
    tile_program: TileProgram

    @staticmethod
    def of(signature: Signature, stages: Stages) -> KernelParts:
        """The parts of a compilation whose tile program is made."""
        return KernelParts(signature, stages.task_tree, stages.mapping, stages.tile_program)

    def to_bytes(self) -> bytes:
        """For `from_bytes`; raises an error of pickle's where something cannot leave here."""
        file = io.BytesIO()
        _Pickler(file).dump(self)
        return file.getvalue()

    @staticmethod
    def from_bytes(content: bytes) -> KernelParts:
        """What `to_bytes` was called on."""
        found = pickle.loads(content)
        assert isinstance(found, KernelParts)
        return found

    def save(self, path: Path) -> None:
        """Compile, and write the kernel to a file."""
        stages = PlacedStages(self)
        device = backend_of(self.tile_program.machine.backend).device
        write_archive(path, self.signature, device, (Specialisation.of(stages),))


class PlacedStages(Stages):
    """The rest of a compilation, from the tile program on."""

    def __init__(self, parts: KernelParts) -> None:
        super().__init__()
        self.parts = parts

    @stage
    def task_tree(self) -> TaskTree:
        """The task tree, as it came."""
        return self.parts.task_tree

    @stage
    def mapping(self) -> ResolvedMapping:
        """The resolved mapping, as it came."""
        return self.parts.mapping

    @stage
    def tile_program(self) -> TileProgram:
        """The tile program, as it came."""
        return self.parts.tile_program

    @stage
    def tensor_ir(self) -> TensorIR:
        """The TensorIR module that TVM compiles."""
        return target_for(self.tile_program.machine.backend).lower(self.tile_program)

    @stage
    def executable(self) -> Executable:
        """The executable, built here or found in this host's cache."""
        target = target_for(self.tile_program.machine.backend)
        return load_or_build(target, self.tensor_ir, self.tile_program, self.mapping, lambda: None)


def _frozen(content: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(content)


def _reduced(found: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _frozen, (dict(found),)


class _Pickler(pickle.Pickler):
    """A pickler that also takes dictionaries which nobody may change."""

    dispatch_table = copyreg.dispatch_table | {MappingProxyType: _reduced}

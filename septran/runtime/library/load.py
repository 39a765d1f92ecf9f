"""A library that `septran.export` wrote, as kernels again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.errors import nearest
from septran.runtime.errors import ArchiveError
from septran.runtime.manifest import MANIFEST, intact
from septran.runtime.roofline import Roofline
from septran.runtime.signature import Signature, Specialisation, TensorParam
from septran.runtime.stages import NAMES, Stages, stage
from septran.targets.base import LibraryTarget
from septran.targets.registry import target_for
from septran.task.tree import ScalarParam

if TYPE_CHECKING:
    from septran.runtime.kernel import Kernel
    from septran.targets.base import Executable

KEY = "septran library"
FORMAT = 1
AGAIN = "export the kernels again with this version"


def is_library(folder: Path) -> bool:
    """Whether `septran.export` wrote a folder, by its manifest."""
    try:
        return bool(_manifest(folder)["key"] == KEY)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _manifest(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def load_library(folder: Path, name: str | None) -> Kernel:
    """Return a kernel of a library; `name` may be left out where it has one only.

    Raises ArchiveError where a file is not as it was exported, TargetError where the library is
    not the one of the manifest, or has no code for this host.
    """
    if not intact(folder, KEY):
        raise ArchiveError(f"{folder} is damaged: a file is not as it was exported")
    data = _manifest(folder)
    if data.get("format") != FORMAT:
        message = f"{folder} has format {data.get('format')}, and this version reads {FORMAT}"
        raise ArchiveError(message, hint=AGAIN)
    try:
        entries, library = dict(data["kernels"]), dict(data["library"])
        backend = str(data["backend"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(
            f"{folder} is no library of this version: {error!r}", hint=AGAIN
        ) from error
    if name is None and len(entries) == 1:
        name = next(iter(entries))
    if name is None or name not in entries:
        raise ArchiveError(
            f"{folder} has {len(entries)} kernels, and none of them is {name}"
            if name is not None
            else f"{folder} has {len(entries)} kernels, and one is loaded at a time",
            hint=f"septran.load(folder, kernel=...): {nearest(name or '', entries)}",
        )
    target = target_for(backend)
    if not isinstance(target, LibraryTarget):
        raise ArchiveError(f"{folder} is for {backend}, which has no libraries here", hint=AGAIN)
    return _kernel(folder, entries[name], target.open_library(folder, library)[name], backend)


def _missing(name: str) -> Any:
    def text(stages: _OpenedStages) -> Any:
        from septran.runtime.archive import SavedStage

        return SavedStage(name, "a library keeps no stage before its code", stages.backend)

    return stage(text)


class _OpenedStages(Stages):
    """An executable alone: a library keeps no earlier stage."""

    def __init__(self, executable: Executable, backend: str) -> None:
        super().__init__()
        self.opened, self.backend = executable, backend

    @stage
    def executable(self) -> Executable:
        return self.opened

    task_tree, mapping, tile_program, tensor_ir = map(_missing, NAMES[:-1])


@dataclass(frozen=True)
class _Entry:
    """What the manifest says of a kernel."""

    specialisation: Specialisation
    extents: Mapping[str, tuple[str, ...]]
    """Of each tensor in words, where calls tell some."""

    def at(self, shapes: Mapping[str, tuple[int, ...]]) -> Specialisation | None:
        """The specialisation for a call's shapes; None where there is none."""
        found: dict[str, int] = {}
        for tensor in self.specialisation.tensors:
            words = self.extents.get(tensor.name) or tuple(map(str, tensor.shape or ()))
            given = shapes.get(tensor.name)
            for word, extent in zip(words, given or (), strict=False):
                if (
                    int(word) != extent
                    if word.isdigit()
                    else found.setdefault(word, extent) != extent
                ):
                    return None
            if given is not None and len(given) != len(words):
                return None
        try:
            tensors = [replace(t, shape=self._shape(t, found)) for t in self.specialisation.tensors]
        except KeyError:
            return None
        return replace(self.specialisation, tensors=tuple(tensors))

    def _shape(self, tensor: TensorParam, found: Mapping[str, int]) -> tuple[int, ...]:
        words = self.extents.get(tensor.name)
        if not words:
            return tensor.shape or ()
        return tuple(int(w) if w.isdigit() else found[w] for w in words)


def _kernel(folder: Path, data: Mapping[str, Any], executable: Executable, backend: str) -> Kernel:
    from septran.runtime.archive import read_signature, read_tensor
    from septran.runtime.kernel import Kernel  # late: a kernel can be exported

    try:
        signature: Signature = read_signature(data["signature"])
        tensors = tuple(map(read_tensor, data["tensors"]))
        scalars = tuple(ScalarParam(**s) for s in data["scalars"])
        made = Specialisation(
            tensors, scalars, _OpenedStages(executable, backend), Roofline(**data["limits"])
        )
        entry = _Entry(made, {n: tuple(words) for n, words in data["extents"].items()})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArchiveError(
            f"{folder} is no library of this version: {error!r}", hint=AGAIN
        ) from error

    def specialise(
        shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str]
    ) -> Specialisation:
        found = entry.at(shapes)
        if found is None or not found.accepts({}, dtypes):
            known = ", ".join(f"{t.name} {t.dtype}{_words(entry, t)}" for t in tensors)
            raise ArchiveError(
                f"{signature.name} of the library cannot be called with these arrays",
                hint=f"it is for {known}",
            )
        return found

    return Kernel(signature, specialise, device="cpu", compiled=(made,))


def _words(entry: _Entry, tensor: TensorParam) -> str:
    words = entry.extents.get(tensor.name) or tuple(map(str, tensor.shape or ()))
    return f"[{', '.join(words)}]"

"""Kernels in a file or folder, as `Kernel.save` writes and `septran.load` reads them.

    archive.json          signature, shapes and dtypes, the host it was made on
    manifest.json         SHA-256 of every file
    <n>/                  what the target saved for compilation n
    <n>/stages/<name>.txt the stages as text

Nothing is unpickled. A saved kernel is machine code: load only what you trust. The
hashes find damage; they do not prove who wrote it.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from septran.errors import SepTranError
from septran.runtime.cache import reason_not_saved
from septran.runtime.errors import ArchiveError
from septran.runtime.library.load import is_library, load_library
from septran.runtime.manifest import intact, write_manifest
from septran.runtime.roofline import Roofline
from septran.runtime.signature import Signature, Specialisation, TensorParam
from septran.runtime.stages import NAMES, EditedStages, Stages, stage
from septran.stage import Stage
from septran.targets.registry import target_for
from septran.task.tree import ScalarParam
from septran.temporary import TemporaryFolder
from septran.tile.nodes import TileProgram

if TYPE_CHECKING:
    from septran.runtime.kernel import Kernel
    from septran.targets.base import Executable

FORMAT = 1
KEY = "septran kernel"
ARCHIVE = "archive.json"
AGAIN = "save the kernel again with this version"
_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class SavedStage(Stage):
    """The text of a stage of a loaded kernel."""

    name: str
    text: str
    backend: str
    """The target of the machine that the kernel was compiled for."""

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return plain text only."""
        return {"text/plain": self.text}

    def to_dict(self) -> dict[str, Any]:
        """Return the stage's name, text and backend."""
        return asdict(self)


def write_archive(
    path: Path, signature: Signature, device: str, compiled: tuple[Specialisation, ...]
) -> None:
    """Write a folder, or one file where `path` ends in ``.zip``; raises ArchiveError."""
    try:
        _write(path, signature, device, compiled)
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{str(path)[:200]!r} cannot be written: {error}"[:400]) from error


def _write(
    path: Path, signature: Signature, device: str, compiled: tuple[Specialisation, ...]
) -> None:
    with TemporaryFolder("archive") as temporary:
        staging = temporary / "archive"
        staging.mkdir()
        _fill(staging, signature, device, compiled)
        write_manifest(staging, KEY)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".zip":
            _zip(staging, path)
            return
        if path.exists():
            if not (path / ARCHIVE).exists() and any(path.iterdir()):
                raise ArchiveError(f"{path} is a folder with other things in it")
            shutil.rmtree(path)
        shutil.copytree(staging, path)


def load(path: str | Path, *, kernel: str | None = None) -> Kernel:
    """Return the kernel that `Kernel.save` wrote: it runs, and shows its stages as text.

    Of a folder that `septran.export` wrote for a CPU it is the kernel named `kernel`, the only one
    where None: it runs the library's code. Every file is compared with its hash before any machine
    code is loaded. Load only what you trust: a saved kernel is code.

    Raises:
        ArchiveError: where it is damaged, or made for another kind of machine.
        TargetError: where a library is not the one of its manifest, or has no code for this host.
    """
    from septran.runtime.kernel import Kernel  # late: a kernel can save itself

    if not isinstance(path, str | Path):
        raise ArchiveError(f"{path!r} is no path of a saved kernel")
    if is_library(Path(path)):
        return load_library(Path(path), kernel)
    place = _unpacked(Path(path))
    data = _verified(Path(path), place.folder)
    try:
        signature = read_signature(data["signature"])
        compiled = tuple(_specialisation(place, n, e) for n, e in enumerate(data["compiled"]))
        device = str(data["device"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"{path} is no kernel of this version: {error!r}"
        raise ArchiveError(message, hint=AGAIN) from error

    def specialise(*_: Any) -> Specialisation:
        raise _unknown_shapes(signature, compiled)

    return Kernel(signature, specialise, device=device, compiled=compiled)


@dataclass(frozen=True)
class _Place:
    """The place of a saved kernel's files."""

    folder: Path
    temporary: TemporaryFolder | None = None
    """The folder that is removed with this object, where the files were unpacked."""


def _unpacked(path: Path) -> _Place:
    if not path.is_file():
        return _Place(path)
    temporary = TemporaryFolder("archive")
    place = _Place(temporary.path / "archive", temporary)
    place.folder.mkdir()
    _unzip(path, place.folder)
    return place


def _unknown_shapes(signature: Signature, compiled: tuple[Specialisation, ...]) -> ArchiveError:
    """Return the error for a loaded kernel called with shapes it was not compiled for."""
    known = "; ".join(
        ", ".join(f"{t.name} {t.dtype}{list(t.shape or ())}" for t in s.tensors if not t.writes)
        for s in compiled
    )
    return ArchiveError(
        f"{signature.name} was saved without its logic and cannot be compiled for these arrays",
        hint=f"it was saved for {known}",
    )


def _fill(
    folder: Path, signature: Signature, device: str, compiled: tuple[Specialisation, ...]
) -> None:
    entries = []
    for number, specialisation in enumerate(compiled):
        stages, inside = specialisation.stages, folder / str(number)
        if isinstance(stages, EditedStages):
            stages.refuse("kernel.save")
        (inside / "stages").mkdir(parents=True)
        (inside / "target").mkdir()
        _save(signature.name, stages.executable, inside / "target")
        for name, made in stages.items():
            (inside / "stages" / f"{name}.txt").write_text(str(made), encoding="utf-8")
        entries.append(
            {
                "backend": _backend(stages.tile_program),
                "tensors": [asdict(t) for t in specialisation.tensors],
                "scalars": [asdict(s) for s in specialisation.scalars],
                "limits": asdict(specialisation.limits),
            }
        )
    data = {
        "format": FORMAT,
        "device": device,
        "host": _host(),
        "signature": asdict(signature),
        "compiled": entries,
    }
    (folder / ARCHIVE).write_text(json.dumps(data, indent=1, sort_keys=True), encoding="utf-8")


def _backend(program: TileProgram | SavedStage) -> str:
    return program.backend if isinstance(program, SavedStage) else program.machine.backend


def _save(name: str, executable: Executable, folder: Path) -> None:
    try:
        executable.save(folder)
    except (SepTranError, OSError):
        raise
    except Exception as error:  # whatever TVM raises where it cannot link
        raise ArchiveError(f"{name} cannot be saved: {reason_not_saved(error)}") from error


def _verified(path: Path, folder: Path) -> dict[str, Any]:
    """Return the content of ``archive.json``, once all hashes are right; raises ArchiveError."""
    if not (folder / ARCHIVE).is_file():
        raise ArchiveError(f"{path} is no saved kernel", hint="Kernel.save writes one")
    if not intact(folder, KEY):
        raise ArchiveError(f"{path} is damaged: a file is not as it was saved")
    try:
        data = json.loads((folder / ARCHIVE).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{path} is no kernel of this version: {error}", hint=AGAIN) from error
    if not isinstance(data, dict):
        raise ArchiveError(f"{path} is no kernel of this version", hint=AGAIN)
    if data.get("format") != FORMAT:
        message = f"{path} has format {data.get('format')}, and this version reads {FORMAT}"
        raise ArchiveError(message, hint=AGAIN)
    here, host = _host(), data.get("host")
    if host != here:
        host = host if isinstance(host, dict) else {}
        made, now = (f"{h.get('processor')} on {h.get('system')}" for h in (host, here))
        raise ArchiveError(f"{path} was made for {made}, and this is {now}")
    return data


def _host() -> dict[str, str]:
    return {"system": sys.platform, "processor": platform.machine()}


def read_signature(data: Mapping[str, Any]) -> Signature:
    """Return the signature that JSON has kept."""
    return Signature(
        str(data["name"]),
        tuple(map(read_tensor, data["tensors"])),
        tuple(ScalarParam(**s) for s in data["scalars"]),
        tuple((str(name), int(extent)) for name, extent in data["sizes"]),
    )


def read_tensor(data: Mapping[str, Any]) -> TensorParam:
    """Return the parameter that JSON has kept."""
    found = {n: data.get(n) for n in ("dims", "shape", "span")}
    lists = {n: None if x is None else tuple(x) for n, x in found.items()}
    return TensorParam(**{**data, **lists, "told": tuple(data.get("told", ()))})


def _text(name: str) -> Any:
    def read(stages: _SavedStages) -> SavedStage:
        file = stages.folder / "stages" / f"{name}.txt"
        return SavedStage(name, file.read_text(encoding="utf-8"), stages.backend)

    return stage(read)


class _SavedStages(Stages):
    """The texts of the stages, and the executable, each read when it is first used."""

    def __init__(self, place: _Place, number: int, backend: str) -> None:
        super().__init__()
        self._place = place  # which the files go with
        self.folder, self.backend = place.folder / str(number), backend

    @stage
    def executable(self) -> Executable:
        return target_for(self.backend).load(self.folder / "target")

    task_tree, mapping, tile_program, tensor_ir = map(_text, NAMES[:-1])


def _specialisation(place: _Place, number: int, entry: dict[str, Any]) -> Specialisation:
    return Specialisation(
        tuple(map(read_tensor, entry["tensors"])),
        tuple(ScalarParam(**s) for s in entry["scalars"]),
        _SavedStages(place, number, str(entry["backend"])),
        Roofline(**entry["limits"]),
    )


def _zip(folder: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(f for f in folder.rglob("*") if f.is_file()):
            # A fixed date, so that equal kernels give equal files.
            info = zipfile.ZipInfo(file.relative_to(folder).as_posix())
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())


def _unzip(path: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [e for e in archive.infolist() if not e.is_dir()]
            # A few bytes of an archive can claim to unpack to any size.
            if sum(e.file_size for e in entries) > _LIMIT_BYTES:
                raise ArchiveError(f"{path} unpacks to more than {_LIMIT_BYTES >> 20} MiB")
            for entry in entries:
                name = PurePosixPath(entry.filename)
                # A name in an archive may lead out of the folder that it is unpacked into.
                if name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
                    raise ArchiveError(f"{path} holds a file outside of itself: {entry.filename}")
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(entry))
    except ArchiveError:
        raise
    except Exception as error:  # zipfile raises a dozen kinds on damaged files
        raise ArchiveError(f"{path} is no saved kernel: {error}") from error

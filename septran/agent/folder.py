"""The one folder whose files a client may name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from septran.errors import CallError

SUFFIXES = (".py", ".yaml", ".yml")


class OutsideFolderError(CallError):
    """A client of the server named a file that is not in the server's folder."""

    code = "SEP698"


@dataclass(frozen=True)
class Folder:
    """A folder, links followed; what lies outside of it has no name."""

    root: Path

    @staticmethod
    def of(path: str | Path) -> Folder:
        """Return the folder at a path; raises OutsideFolderError where there is none."""
        root = Path(path).resolve()
        if not root.is_dir():
            raise OutsideFolderError(f"{path} is no folder", hint="make it, or name another one")
        return Folder(root)

    def file(self, name: str) -> str:
        """Return the path of a file in the folder; raises OutsideFolderError."""
        part = Path(name)
        if "\0" in name or "\\" in name or part.is_absolute() or ".." in part.parts:
            self._refuse(name, "it leads out of it")
        if part.suffix not in SUFFIXES:
            self._refuse(name, f"its name does not end in {', '.join(SUFFIXES)}")
        try:
            found = (self.root / part).resolve()
        except (OSError, RuntimeError):  # links that lead to each other
            self._refuse(name, "it is a link that leads nowhere")
        if not found.is_relative_to(self.root):
            self._refuse(name, "it is a link that leads out of it")
        if not found.is_file():
            self._refuse(name, "there is none")
        return str(found)

    def _refuse(self, name: str, why: str) -> None:
        raise OutsideFolderError(
            f"{name[:100]!r} is no file of the server's folder: {why}",
            hint="name a .py or .yaml file in it, or pass the text of a mapping",
        )

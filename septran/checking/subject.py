"""What is checked: a logic and a mapping by name or file, with what the user has fixed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile
from septran.request import CompileRequest, load_pair
from septran.task.frontend.definition import Task

TEXT = "this.mapping.yaml"
"""The name that a command gives a mapping that is a text."""
Sizes = Mapping[str, int | tuple[int, ...]]


@dataclass(frozen=True)
class CheckCase:
    """One set of sizes, types and flags to compile and run."""

    why: str
    """Why it is tried, in a few words."""
    sizes: Sizes
    """Extents of named dimensions, or shapes of tensors."""
    dtypes: Mapping[str, str] | str | None = None
    static: Mapping[str, Any] = field(default_factory=dict)
    dynamic: Mapping[str, int] = field(default_factory=dict)
    """The dimensions whose extents the call tells, each with the greatest that is compiled for."""
    seed: int = 0
    """Of the random inputs and of the random delays."""
    special: bool = False
    """Whether a few elements of each input are NaN or infinite."""

    def __str__(self) -> str:
        words = [f"{name}={_size(extent)}" for name, extent in self.sizes.items()]
        words += [f"{name}={value}" for name, value in self.static.items()]
        if self.dtypes:
            words.append(", ".join(_dtypes(self.dtypes)))
        if self.dynamic:
            words.append(f"compiled for any {', '.join(self.dynamic)}")
        words += ["with NaN and infinities"] if self.special else []
        return " ".join(words)

    def options(self) -> Iterator[str]:
        """Yield the options of the command line that give this case and no other."""
        for name, extent in self.sizes.items():
            yield from ("-s", f"{name}={_size(extent)}")
        for dtype in _dtypes(self.dtypes):
            yield from ("--dtype", dtype)
        for name, value in self.static.items():
            yield from ("--static", f"{name}={_value(value)}")
        for name, most in self.dynamic.items():
            yield from ("--dynamic", f"{name}={most}")
        if self.special:
            yield "--special"
        if self.seed:
            yield from ("--seed", str(self.seed))

    def to_dict(self) -> dict[str, Any]:
        """Return the case as plain data, from which `from_dict` makes it again."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> CheckCase:
        """Return the case that `to_dict` wrote, perhaps through JSON."""
        sizes = {n: tuple(e) if isinstance(e, list) else e for n, e in data["sizes"].items()}
        static = {n: tuple(v) if isinstance(v, list) else v for n, v in data["static"].items()}
        return CheckCase(**{**data, "sizes": sizes, "static": static})


@dataclass(frozen=True)
class Subject:
    """The logic and the mapping whose agreement is checked."""

    logic: str | Task
    """An operator of the library, a logic file, or a task."""
    mapping: str | None = None
    """A mapping file, or its text; the machine's own where None."""
    machine: str | None = None
    """A machine, by name or file; that of the mapping where None."""
    tunables: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None
    """Where a text's `extends` are searched."""

    def pair(self) -> tuple[Task, MappingFile]:
        """Return logic and mapping, read again; raises SepTranError."""
        if self.mapping is None or self.folder is None:
            return load_pair(self.logic, self.mapping, self.machine)
        plan = load_mapping(self.mapping, self.machine, folder=Path(self.folder))
        return load_pair(self.logic, plan, None)

    def request(self, case: CheckCase) -> CompileRequest:
        """Return the request to compile one case; raises SepTranError."""
        task, plan = self.pair()
        return CompileRequest.of(
            task, plan, shapes=case.sizes, dtypes=case.dtypes, tunables=self.tunables,
            static=case.static,
        )  # fmt: skip

    def command(self, case: CheckCase, way: str) -> str:
        """Return the command that repeats one case alone."""
        name = self.logic if isinstance(self.logic, str) else self.logic.name
        words = ["septran", "check", name]
        plan = TEXT if self.mapping and "\n" in self.mapping else self.mapping
        for option, value in (("--on", self.machine), ("-m", plan)):
            words += [option, value] if value is not None else []
        for tunable, value in self.tunables.items():
            words += ["-t", f"{tunable}={_value(value)}"]
        chosen = ["--way", way] if way else []
        return shlex.join([*words, *case.options(), *chosen, "--one"])


def _size(extent: int | tuple[int, ...]) -> str:
    if isinstance(extent, int):
        return str(extent)
    return "x".join(map(str, extent)) + ("," if len(extent) == 1 else "")


def _dtypes(dtypes: Mapping[str, str] | str | None) -> list[str]:
    if dtypes is None or isinstance(dtypes, str):
        return [dtypes] if dtypes else []
    return [f"{name}={dtype}" for name, dtype in dtypes.items()]


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)

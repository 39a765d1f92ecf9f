"""The `vendor` section of a machine file: the C functions that carry commands out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from septran.errors import TargetError, nearest
from septran.machine.model import Machine
from septran.targets.dsa.commands import COMMANDS, DTYPES, EXTERNS, Command


class VendorError(TargetError):
    """The machine file's `vendor` section does not say what the generated C needs."""

    code = "SEP540"


_PROTOTYPE = re.compile(r"\s*(?P<result>[\w\s]*?[\s*])(?P<name>[\w{}]+)\s*\((?P<rest>.*)\)\s*;?\s*")
_PARAMETER = re.compile(r"\s*(?P<type>.*?[\s*])(?P<name>\w+)\s*")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a vendor function: its C type, and which of our arguments it is."""

    type: str
    name: str


@dataclass(frozen=True)
class Function:
    """A vendor function, or a family of them: ``{function}`` and ``{type}`` in the name."""

    result: str
    name: str
    parameters: tuple[Parameter, ...]

    def named(self, function: str, dtype: str = "") -> str:
        """The name of one member."""
        return self.name.replace("{function}", function).replace("{type}", dtype)

    @property
    def typed(self) -> bool:
        """Whether there is one for each dtype."""
        return "{type}" in self.name


def parse_prototype(text: str) -> Function:
    """From C as in the vendor's header; ValueError says what is wrong."""
    match = _PROTOTYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a C prototype: result name(type name, ...)")
    parameters = []
    inside = match["rest"].strip()
    for part in inside.split(",") if inside not in ("", "void") else ():
        one = _PARAMETER.fullmatch(part)
        if one is None:
            raise ValueError(f"{part.strip()!r} in {text!r} is not a type and a name")
        parameters.append(Parameter(one["type"].strip(), one["name"]))
    return Function(match["result"].strip(), match["name"], tuple(parameters))


@dataclass(frozen=True)
class Vendor:
    """What the machine file says of the vendor's library."""

    machine: Machine

    @property
    def header(self) -> str:
        """Name of the header that the generated C includes."""
        return str(self.machine.vendor.get("header", f"{self.machine.name}.h"))

    @cached_property
    def header_path(self) -> Path:
        """The header beside the machine file; raises VendorError where there is none."""
        where = self.machine.location
        folder = Path(where.file).parent if where else Path()
        path = folder / self.header
        if not path.is_file():
            raise VendorError(
                f"no header {self.header} beside the machine file of {self.machine.name}",
                where,
                hint=f"put the vendor's header at {path}",
            )
        return path

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """By command; raises VendorError for entries that are none."""
        given: Mapping[str, Any] = self.machine.vendor.get("functions") or {}
        found = {}
        for name, text in given.items():
            if name != "pointer" and name not in COMMANDS:
                self._fail(f"vendor.functions has {name!r}, which is no command", name)
            try:
                found[name] = parse_prototype(str(text))
            except ValueError as error:
                raise VendorError(
                    f"vendor.functions.{name}: {error}", self.machine.location
                ) from None
            self._check(name, found[name])
        return found

    def _fail(self, message: str, name: str) -> None:
        raise VendorError(
            message, self.machine.location, hint=nearest(name, ("pointer", *COMMANDS))
        )

    def _check(self, name: str, function: Function) -> None:
        known = {"offset"} if name == "pointer" else {a.name for a in COMMANDS[name].arguments}
        for parameter in function.parameters:
            if parameter.name not in known:
                raise VendorError(
                    f"{function.name} has a parameter {parameter.name!r}, which {name} has not",
                    self.machine.location,
                    hint=nearest(parameter.name, known),
                )
        family = name in COMMANDS and len(COMMANDS[name].functions) > 1
        if family and "{function}" not in function.name:
            raise VendorError(
                f"{function.name} is for all of {name}, so its name needs {{function}}",
                self.machine.location,
            )
        if name == "pointer" and "{memory}" not in function.name:
            raise VendorError(
                f"{function.name} is for every memory, so its name needs {{memory}}",
                self.machine.location,
            )

    def function(self, command: str) -> Function:
        """The function of a command; raises VendorError where the vendor has none."""
        if command not in self.functions:
            names = ", ".join(a.name for a in COMMANDS[command].arguments)
            raise VendorError(
                f"{self.machine.name} has no function for {command}, which the kernel needs",
                self.machine.location,
                hint=f"add vendor.functions.{command}: a prototype with parameters of {names}",
            )
        return self.functions[command]

    def call(self, extern: str, arguments: Mapping[str, str], dtype: str) -> str:
        """The C call of one command, its arguments given as C texts."""
        command, function = EXTERNS[extern]
        mine = self.function(command.name)
        given = ", ".join(arguments[p.name] for p in mine.parameters)
        return f"{mine.named(short(function), dtype)}({given})"

    def pointer(self, memory: str, offset: int) -> str:
        """The C call that gives the address of a byte of a memory."""
        if "pointer" not in self.functions:
            raise VendorError(
                f"{self.machine.name} does not say how its memories are addressed",
                self.machine.location,
                hint='add vendor.functions.pointer: "void *name_{memory}(int64_t offset)"',
            )
        name = self.functions["pointer"].name.replace("{memory}", memory.lower())
        return f"{name}({offset})"

    def check_limits(self, extern: str, arguments: Mapping[str, int | None]) -> str | None:
        """Why a command's constant arguments are beyond the vendor's limits; None if not."""
        limits: Mapping[str, Any] = self.machine.vendor.get("limits") or {}
        for name, value in arguments.items():
            most = limits.get(f"max_{name}")
            if value is not None and most is not None and value > int(most):
                return f"{extern} has {name} {value:,}, and the vendor's limit is {int(most):,}"
        flags = self.machine.vendor.get("flags")
        flag = arguments.get("flag")
        if flag is not None and flags is not None and flag >= int(flags):
            return f"flag {flag} is needed between two queues, and {self.machine.name} has {flags}"
        return None


def short(function: str) -> str:
    """The family member's name in C: ``reduce_sum`` is ``sum``, ``add_imm`` is ``add``."""
    return function.removeprefix("reduce_").removesuffix("_imm")


def members(command: Command, function: Function) -> list[tuple[str, str, str]]:
    """All externs that a vendor function stands for: extern, name in C, dtype or empty."""
    dtypes = DTYPES if function.typed else ("",)
    return [
        (extern, function.named(short(member), dtype), dtype)
        for extern, member in zip(command.externs, command.functions or ("",), strict=True)
        for dtype in dtypes
    ]

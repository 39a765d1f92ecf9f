"""The `vendor` section of a machine file: the C functions that carry commands out."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from septran.errors import TargetError, nearest
from septran.location import Location
from septran.machine.model import Machine
from septran.machine.positions import Node, parse
from septran.simulator.commands import COMMANDS, DTYPES, EXTERNS, INTEGER, VALUE, Command
from septran.simulator.queues import Queues
from septran.targets.dsa.code.header_files import HeaderFiles


class VendorError(TargetError):
    """The machine file's `vendor` section does not say what the generated C needs."""

    code = "SEP540"


POINTER = "pointer"
"""The key of `functions` for the addresses of memories."""
INTEGERS = "_integer"
"""Behind a command's name: its function where it computes in integers, whose values a double
cannot hold."""
KEYS: Mapping[str, Command] = {
    POINTER: Command(POINTER, (), "the address of a byte of a memory"),
    **COMMANDS,
    **{
        f"{name}{INTEGERS}": command
        for name, command in COMMANDS.items()
        if any(a.kind == VALUE for a in command.arguments)
    },
}
"""What `functions` may have."""
OF = "."
"""Between a command and an instruction: ``mma.gemv`` is the function of that one alone."""
_PROTOTYPE = re.compile(
    r"\s*(?P<result>[A-Za-z_][\w\s*]*?[\s*])(?P<name>(?:\w|\{\w+\})+)\s*\((?P<rest>[\w\s*,]*)\)\s*;?\s*",
    re.ASCII,
)
_PARAMETER = re.compile(r"\s*(?P<type>[A-Za-z_][\w\s*]*?[\s*])(?P<name>[A-Za-z_]\w*)\s*", re.ASCII)
"""Types are words and stars, so that they stay types wherever they are put into C: without a
bracket, a brace, a quote or a semicolon a prototype cannot end and something else begin."""
PLACEHOLDERS = frozenset(("function", "type", "memory"))
"""What may be in braces in a function's name."""
TABLES = ("functions", "queues", "limits", "pipes")
"""What of the section is a table."""
ASCENDC = "ascendc"
"""``language`` of a machine whose kernels are in Ascend C, not in C for a vendor's functions."""
ASCEND_HEADER = Path(__file__).parents[1] / "ascend" / "include" / "kernel_operator.h"
"""What stands here for the vendor's header of that language."""
PIPES = ("AIC_MTE1", "AIC_MTE2", "AIC_M", "AIC_FIX", "AIV_MTE2", "AIV_MTE3", "AIV_V")
"""The pipes of its two cores that have a queue."""
LIMIT = "max_"
"""Before an argument's name: the greatest value that the vendor's functions take."""
COUNTED = frozenset(a.name for c in COMMANDS.values() for a in c.arguments if a.kind == INTEGER)
"""The arguments that `limits` can be of."""


@dataclass(frozen=True)
class VendorParameter:
    """One parameter of a vendor function: its C type, and which of our arguments it is."""

    type: str
    name: str


@dataclass(frozen=True)
class Function:
    """A vendor function, or a family of them: ``{function}`` and ``{type}`` in the name."""

    result: str
    name: str
    parameters: tuple[VendorParameter, ...]

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
    for word in re.findall(r"\{(\w+)\}", match["name"]):
        if word not in PLACEHOLDERS:
            raise ValueError(
                f"{{{word}}} in {text!r} is not a placeholder: {', '.join(sorted(PLACEHOLDERS))}"
            )
    parameters = []
    inside = match["rest"].strip()
    for part in inside.split(",") if inside not in ("", "void") else ():
        one = _PARAMETER.fullmatch(part)
        if one is None:
            raise ValueError(f"{part.strip()!r} in {text!r} is not a type and a name")
        parameters.append(VendorParameter(one["type"].strip(), one["name"]))
    return Function(match["result"].strip(), match["name"], tuple(parameters))


@dataclass(frozen=True)
class Vendor:
    """The section of the machine file on the vendor's library."""

    machine: Machine

    @property
    def language(self) -> str:
        """What kernels are written in: ``c``, or `ASCENDC`."""
        return str(self.machine.vendor.get("language", "c"))

    @cached_property
    def pipes(self) -> Mapping[str, str]:
        """The pipe of `PIPES` that each queue is, where kernels are in Ascend C."""
        return {str(k): str(v) for k, v in (self.machine.vendor.get("pipes") or {}).items()}

    @property
    def header(self) -> str:
        """Name of the header that the generated C includes."""
        if self.language == ASCENDC:
            return ASCEND_HEADER.name
        return str(self.machine.vendor.get("header", f"{self.machine.name}.h"))

    @cached_property
    def header_path(self) -> Path:
        """The header beside the machine file; raises VendorError where there is none."""
        if self.language == ASCENDC:
            return ASCEND_HEADER
        where = self.machine.location
        folder = Path(where.file).parent if where else Path()
        path = folder / self.header
        if not path.is_file():
            raise VendorError(
                f"no header {self.header} beside the machine file of {self.machine.name}",
                self.where("header"),
                hint=f"put the vendor's header at {path}",
            )
        return path

    @property
    def header_text(self) -> str:
        """The header; of Ascend C's, which includes its parts, with these."""
        if self.language != ASCENDC:
            return self.header_path.read_text(encoding="utf-8")
        return "\n".join(x.decode() for x in self.header_files.contents.values())

    @cached_property
    def header_files(self) -> HeaderFiles:
        """The header, and what it includes from beside it, as they are when first looked at."""
        return HeaderFiles.of(self.header_path)

    @property
    def header_digest(self) -> str | None:
        """The digest of the header's content; None where there is no header."""
        try:
            return f"{self.header} {self.header_files.digest[:12]}"
        except (VendorError, OSError):
            return None

    def where(self, key: str) -> Location | None:
        """Return where the section says something, or the section, or the machine file."""
        place = self.machine.location
        node = None if place is None else _section(place.file)
        if node is None:
            return place
        for table in (*(node.items.get(name) for name in TABLES), node):
            if table is not None and key in table.keys:
                return table.keys[key]
        return node.where

    def check(self) -> None:
        """Refuse what the section says in vain, whatever a kernel needs; raises VendorError."""
        for name, table in self.machine.vendor.items():
            if isinstance(table, Mapping) and name not in TABLES:
                message = f"the vendor section has {name!r}, which is none of its tables"
                raise VendorError(message, self.where(name), hint=nearest(name, TABLES))
        _ = self.functions, self.limits
        self._check_queues()
        self._check_language()

    def _check_language(self) -> None:
        """Whether the language is known, and its pipes are those of queues."""
        languages = ("c", ASCENDC)
        if self.language not in languages:
            message = f"vendor.language is {self.language!r}, and there are {', '.join(languages)}"
            raise VendorError(message, self.where("language"))
        queues = Queues(self.machine).known
        for name, pipe in self.pipes.items():
            if name not in queues:
                message = f"vendor.pipes has {name!r}, and there is no such queue"
                raise VendorError(message, self.where(name), hint=nearest(name, queues))
            if pipe not in PIPES:
                message = f"vendor.pipes has {pipe!r} for {name}, which is no pipe"
                raise VendorError(message, self.where(name), hint=nearest(pipe, PIPES))
        missing = [q for q in queues if q not in self.pipes] if self.language == ASCENDC else []
        if missing:
            raise VendorError(
                f"vendor.pipes does not say which pipe {missing[0]} is",
                self.where("pipes"),
                hint=f"one of {', '.join(PIPES)}",
            )

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """The greatest value of an argument, by its name; raises VendorError for other names."""
        given: Mapping[str, Any] = self.machine.vendor.get("limits") or {}
        known = {f"{LIMIT}{name}": name for name in sorted(COUNTED)}
        for key in given:
            if key not in known:
                message = f"vendor.limits has {key!r}, which limits no argument of a command"
                raise VendorError(message, self.where(key), hint=nearest(key, known))
        return {known[key]: int(most) for key, most in given.items()}

    def _check_queues(self) -> None:
        """Whether `queues` sends queues that there are to others that there are."""
        folded: Mapping[str, Any] = self.machine.vendor.get("queues") or {}
        names = Queues(self.machine).known
        for name, other in folded.items():
            target = Queues(self.machine).target(str(other)) if isinstance(other, str) else name
            for word, queue in ((name, name), (other, target)):
                if queue not in names:
                    message = f"vendor.queues has {word!r}, and there is no such queue"
                    raise VendorError(message, self.where(name), hint=nearest(str(word), names))
            # `Queues.numbers` takes one step only, to a queue with a number.
            if target != name and isinstance(folded.get(target), str):
                message = f"vendor.queues sends {name!r} to {other!r}, which is sent on itself"
                hint = f"send {name!r} to {folded[target]!r}"
                raise VendorError(message, self.where(name), hint=hint)
            if target == name and isinstance(other, str):
                message = f"vendor.queues sends {name!r} to itself"
                hint = f"leave {name!r} out: it has a queue of its own anyway"
                raise VendorError(message, self.where(name), hint=hint)

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The vendor's functions by command; raises VendorError for an entry that is no command."""
        given: Mapping[str, Any] = self.machine.vendor.get("functions") or {}
        found = {}
        for name, text in given.items():
            if base(name) not in KEYS or name.startswith(POINTER + OF):
                message = f"vendor.functions has {name!r}, which is no command"
                raise VendorError(message, self.where(name), hint=nearest(base(name), KEYS))
            self._check_instruction(name)
            try:
                found[name] = parse_prototype(str(text))
            except ValueError as error:
                message = f"vendor.functions.{name}: {error}"
                raise VendorError(message, self.where(name)) from None
            self._check(name, found[name])
        self._check_distinct(found)
        return found

    def _check_instruction(self, key: str) -> None:
        """Whether the queue distinguishes a function of one instruction from those of others."""
        word = key.partition(OF)[2]
        if OF not in key:
            return
        names = [i.name for i in self.machine.instructions]
        if word not in names:
            message = f"vendor.functions has {key!r}, and there is no instruction {word!r}"
            raise VendorError(message, self.where(key), hint=nearest(word, names))
        own = self.machine.instruction(word)
        for other in self.machine.instructions:
            # A command names a queue and no instruction.
            alike = other.primitive == own.primitive and other.queue == own.queue
            if alike and other != own:
                raise VendorError(
                    f"{word} has a function of its own, and shares its queue with {other.name}",
                    self.where(key),
                    hint=f"give {word} a queue of its own: options: {{queue: {word.upper()}}}",
                )

    def queue_of(self, key: str) -> int | None:
        """Number of the queue that a function's commands go to, where it is of one alone."""
        word = key.partition(OF)[2]
        if not word:
            return None
        return Queues(self.machine).numbers[self.machine.instruction(word).queue]

    def _check(self, name: str, function: Function) -> None:
        command = KEYS[base(name)]
        known = {"offset"} if name == POINTER else {a.name for a in command.arguments}
        for parameter in function.parameters:
            if parameter.name not in known:
                raise VendorError(
                    f"{function.name} has a parameter {parameter.name!r}, which {name} has not",
                    self.where(name),
                    hint=nearest(parameter.name, known),
                )
        names = [p.name for p in function.parameters]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice:
            raise VendorError(f"{function.name} has {twice!r} twice", self.where(name))
        family = name != POINTER and len(command.functions) > 1
        needed = "{memory}" if name == POINTER else "{function}" if family else ""
        if needed not in function.name:
            message = f"{function.name} is for all of {name}, so its name needs {needed}"
            raise VendorError(message, self.where(name))

    def _check_distinct(self, functions: Mapping[str, Function]) -> None:
        """Each C function stands for one command."""
        owner: dict[str, str] = {}
        for key, function in functions.items():
            for _, name, _ in members(key, function) if key != POINTER else ():
                if owner.setdefault(name, key) != key:
                    message = f"{name} is for {key} and for {owner[name]}"
                    raise VendorError(message, self.where(key), hint="give one another name")

    def key(self, command: Command, dtype: str, queue: int | None = None) -> str:
        """Return the key of `functions` for a command that computes in a dtype on a queue."""
        # A function of integers goes first; of each kind, one instruction's own before all others'.
        exact = f"{command.name}{INTEGERS}"
        whole = not floating(dtype or "float32")
        for wish in (exact, command.name) if whole else (command.name,):
            own = self._own.get((wish, queue))
            if own is not None or wish in self.functions:
                return own or wish
        return command.name

    @cached_property
    def _own(self) -> Mapping[tuple[str, int | None], str]:
        """The functions of single instructions, by command and queue."""
        return {(base(key), self.queue_of(key)): key for key in self.functions if OF in key}

    def function(self, key: str) -> Function:
        """The function of a command; raises VendorError where the vendor has none."""
        if key not in self.functions:
            names = ", ".join(a.name for a in KEYS[key].arguments) or "void"
            raise VendorError(
                f"{self.machine.name} has no function for {key}, which the kernel needs",
                self.where("functions"),
                hint=f"add vendor.functions.{key}: a prototype with parameters of {names}",
            )
        return self.functions[key]

    def call(
        self, extern: str, arguments: Mapping[str, str], dtype: str, queue: int | None = None
    ) -> str:
        """The C call of one command to a queue, its arguments given as C texts."""
        command, function = EXTERNS[extern]
        mine = self.function(self.key(command, dtype, queue))
        given = ", ".join(arguments[p.name] for p in mine.parameters)
        return f"{mine.named(short(function), dtype)}({given})"

    def pointer(self, memory: str, offset: int) -> str:
        """The C call that gives the address of a byte of a memory."""
        if POINTER not in self.functions:
            raise VendorError(
                f"{self.machine.name} does not say how its memories are addressed",
                self.where("functions"),
                hint='add vendor.functions.pointer: "void *name_{memory}(int64_t offset)"',
            )
        name = self.functions[POINTER].name.replace("{memory}", memory.lower())
        return f"{name}({offset})"

    def problem(
        self, extern: str, constants: Mapping[str, int | None], dtype: str, exact: bool = True
    ) -> str | None:
        """Why the vendor's function cannot do a command; None where it can.

        `constants` are the numbers among its arguments, None where one is computed; `exact`
        says that its value is one of a double.
        """
        command, _ = EXTERNS[extern]
        key = self.key(command, dtype, constants.get("queue"))
        mine = self.function(key)
        passed = {p.name: p.type for p in mine.parameters}
        for argument in command.arguments:
            # A name can say the type, and a function of one instruction says the queue.
            known = (argument.name == "type" and mine.typed) or (
                argument.name == "queue" and OF in key
            )
            # What has no parameter is recorded as 0, so nothing else may be meant.
            if argument.name not in passed and not known and constants.get(argument.name) != 0:
                value = constants.get(argument.name)
                what = "computed" if value is None else f"{value:,}"
                return f"{mine.name} has no parameter for {argument.name}, which is {what} here"
            short_type = passed.get(argument.name) in ("double", "float")
            if argument.kind == VALUE and short_type and not exact:
                return f"{mine.name} takes a double, which cannot hold every {dtype}"
        return self._beyond(extern, constants)

    def _beyond(self, extern: str, constants: Mapping[str, int | None]) -> str | None:
        queues = Queues(self.machine)
        for name, value in constants.items():
            if value is None:
                continue
            most = self.limits.get(name)
            if most is not None and value > most:
                return f"{extern} has {name} {value:,}, and the vendor's limit is {most:,}"
            # `src` and `dst` are queues of the commands with a flag, and addresses of others.
            names_queue = name in (("src", "dst") if "flag" in constants else ("queue",))
            if names_queue and value not in queues.names:
                known = ", ".join(f"{n} {queues.names[n]}" for n in sorted(queues.names))
                return f"{extern} is for queue {value}, and there are {known}"
            if name == "flag" and queues.flags is not None and not 0 <= value < queues.flags:
                return (
                    f"flag {value} is needed between two queues, and {self.machine.name} has "
                    f"{queues.flags}"
                )
        return None


@functools.lru_cache(maxsize=8)
def _section(file: str) -> Node | None:
    """The vendor section of a machine file with places; None where it cannot be read."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
        return parse(text, file, VendorError).items.get("vendor")
    except (OSError, ValueError, VendorError):
        return None


def floating(dtype: str) -> bool:
    """Whether a number of a command's dtype is a float."""
    return "float" in dtype


def base(key: str) -> str:
    """The command of a key of `functions`, without the instruction."""
    return key.partition(OF)[0]


def short(function: str) -> str:
    """The family member's name in C: ``reduce_sum`` is ``sum``, ``add_imm`` is ``add``."""
    return function.removeprefix("reduce_").removesuffix("_imm")


def members(key: str, function: Function) -> list[tuple[str, str, str]]:
    """All externs that a vendor function stands for: extern, name in C, dtype or empty."""
    command = KEYS[base(key)]
    integers = base(key).endswith(INTEGERS)
    dtypes = [d for d in DTYPES if not (integers and floating(d))] if function.typed else [""]
    return [
        (extern, function.named(short(member), dtype), dtype)
        for extern, member in zip(command.externs, command.functions or ("",), strict=True)
        for dtype in dtypes
    ]

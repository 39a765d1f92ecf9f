"""A PTX function while it is translated: what its names mean in C++.

It is the `BasicBlock` of the instructions' emitters, which inline assembly has, too: registers,
parameters, variables of all state spaces, and labels, each in the scope it is declared in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from septran.emulator.ptx.instructions import TYPES, BasicBlock, PtxInstruction, size_of
from septran.emulator.ptx.parse import PtxFunction, PtxStatement, Variable


@dataclass(frozen=True)
class PtxSymbol:
    """A variable's address."""

    type: str
    """uint32_t of shared memory, whose addresses are its window's; else uint64_t."""
    text: str


def identifier(name: str) -> str:
    """A PTX name as part of a C++ one; two names never become one."""
    return re.sub(r"[^A-Za-z0-9]", lambda m: f"_{ord(m[0]):x}_", name.lstrip("%"))


@dataclass
class PtxScope:
    """The declarations between two brackets."""

    number: int
    registers: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, PtxSymbol] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()


class FunctionScope(BasicBlock):
    """The names of one function; `outer` are the module's variables."""

    def __init__(self, function: PtxFunction, outer: Mapping[str, PtxSymbol]) -> None:
        super().__init__((), 0)
        self.function = function
        self.outer = outer
        self.scopes = [PtxScope(0)]
        self.places: dict[str, str] = {}
        """C++ of registers that lie in arrays: accumulators of wgmma."""
        self._next = 1

    # -------------------------------------------------------------- scopes
    def open(self, labels: frozenset[str]) -> None:
        """A bracket opens; `labels` are those between it and its own end."""
        self.scopes.append(PtxScope(self._next, labels=labels))
        self._next += 1

    def close(self) -> None:
        """A bracket closes."""
        self.scopes.pop()

    def label(self, name: str, where: PtxInstruction) -> str:
        """The C++ label that `name` means here."""
        for scope in reversed(self.scopes):
            if name in scope.labels:
                return f"L{scope.number}_{identifier(name)}"
        raise where.fail(f"no label {name!r} is here")

    @property
    def innermost(self) -> dict[str, str]:
        """The registers of the innermost scope."""
        return self.scopes[-1].registers

    def symbol(self, name: str) -> PtxSymbol | None:
        """The variable of that name."""
        for scope in reversed(self.scopes):
            if name in scope.symbols:
                return scope.symbols[name]
        return self.outer.get(name)

    # -------------------------------------------------------------- what the emitters ask
    def reference(self, text: str) -> int | None:
        """Nothing is an operand of inline assembly here."""
        return None

    def variable(self, text: str) -> str:
        """The C++ variable of a register."""
        return self.places.get(text) or f"r_{identifier(text)}"

    def _register(self, text: str) -> str | None:
        for scope in reversed(self.scopes):
            if text in scope.registers:
                return scope.registers[text]
        return None

    def type_of(self, text: str, where: PtxInstruction) -> str:
        """The C++ type of a register, a variable's address, or a number."""
        if type_ := self._register(text.lstrip("!")):
            return type_
        if found := self.symbol(text):
            return found.type
        return super().type_of(text, where)

    def value(self, text: str, type_: str, where: PtxInstruction) -> str:
        """As `BasicBlock.value`; of a variable its address, with what is added to it."""
        base, plus, offset = text.partition("+")
        if not self._register(text.lstrip("!")) and (found := self.symbol(base.strip())):
            return f"({type_})({found.text}{f' + ({offset.strip()})' if plus else ''})"
        return super().value(text, type_, where)

    def assign(self, text: str, value: str, where: PtxInstruction) -> str:
        """As `BasicBlock.assign`, but a fence need not follow moves into accumulators."""
        if text in self.places and where.opcode.startswith("mov."):
            return f"emu::move_to({self.place(text, where)}, {value});"
        return super().assign(text, value, where)


def accumulators(body: Sequence[PtxStatement]) -> list[list[str]]:
    """The registers of each wgmma's result, where two instructions share all or none of them."""
    groups: list[list[str]] = []
    owner: dict[str, int] = {}
    for statement in body:
        if "wgmma.mma_async" not in statement.text:
            continue
        found = re.search(r"\{([^}]*)\}", statement.text)
        names = [n.strip() for n in found[1].split(",")] if found else []
        if names in groups or not names:
            continue
        if any(n in owner for n in names):
            continue  # it stays where it is, register by register
        owner |= dict.fromkeys(names, len(groups))
        groups.append(names)
    return groups


def addresses(
    variables: Sequence[Variable], first: int
) -> tuple[dict[str, PtxSymbol], list[str], list[str]]:
    """The module's variables by name, the C++ that defines them, and that of shared ones.

    The latter belongs into each function: where shared memory is depends on the block.
    """
    symbols: dict[str, PtxSymbol] = {}
    outside, inside = [], []
    for number, v in enumerate(variables, first):
        name = f"v_{identifier(v.name)}"
        if v.space == "shared":
            symbols[v.name] = PtxSymbol("uint32_t", name)
            call = f"emu::static_shared({number}, {v.bytes}, {v.align})"
            if not v.bytes:
                # An array without an extent starts where dynamic shared memory does: after the
                # 1024 bytes that the system keeps on sm_90, and so at a multiple of 1024, however
                # it is declared. Kernels that are known to be right count on it.
                call = f"emu::dynamic_shared({max(v.align, 1024)})"
            inside.append(f"const uint32_t {name} = emu::shared_address({call});")
        else:
            symbols[v.name] = PtxSymbol("uint64_t", f"(uint64_t){name}")
            outside.append(_array(v, name))
    return symbols, outside, inside


def _array(v: Variable, name: str) -> str:
    """A variable outside shared memory, as bytes with the declared alignment."""
    if not v.initial:
        return f"alignas({max(v.align, 16)}) static uint8_t {name}[{max(1, v.bytes)}];"
    type_ = TYPES[v.type]
    elements = ", ".join(_element(e, type_) for e in v.initial)
    count = v.bytes // size_of(type_)
    return f"alignas({max(v.align, 16)}) static {type_} {name}[{count}] = {{{elements}}};"


def _element(text: str, type_: str) -> str:
    bits = re.match(r"0[fFdD]([0-9a-fA-F]+)$", text)
    if bits:
        return f"emu::bit_cast<{type_}>(0x{bits[1]}{'u' if len(bits[1]) == 8 else 'ull'})"
    return f"({type_})({text})"

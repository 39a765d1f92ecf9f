"""A PTX instruction and its operands as C++: registers become variables of their block."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from septran.emulator.errors import UnknownInstructionError
from septran.emulator.inline_asm import AsmOperand, split

# Floats of 16 bits are held as their bits: only the operations of `floats` convert them.
TYPES = {
    "pred": "bool", "b8": "uint8_t", "u8": "uint8_t", "s8": "int8_t", "b16": "uint16_t",
    "u16": "uint16_t", "s16": "int16_t", "f16": "uint16_t", "bf16": "uint16_t",
    "b32": "uint32_t", "u32": "uint32_t", "s32": "int32_t", "f32": "float", "f16x2": "uint32_t",
    "bf16x2": "uint32_t", "b64": "uint64_t", "u64": "uint64_t", "s64": "int64_t", "f64": "double",
    "b128": "unsigned __int128",
}  # fmt: skip
"""C++ types of PTX types."""
KINDS = {"r": "uint32_t", "l": "uint64_t", "f": "float", "d": "double", "h": "uint16_t",
          "n": "int64_t", "c": "uint8_t"}  # fmt: skip
_SIZES = {"float": 4, "double": 8, "bool": 1, "unsigned __int128": 16}
_RANGE = re.compile(r"(.+?)<(\d+)>$")
"""Registers that are numbered: ``%r<4>`` declares ``%r0`` to ``%r3``."""
_REFERENCE = re.compile(r"%(\d+|\[\w+\])$")
_NUMBER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_BITS = re.compile(r"0[fFdD]([0-9a-fA-F]{8}|[0-9a-fA-F]{16})$")
"""A floating-point number by its bits: ``0f3F800000``."""


_PLACES = {
    f"%{name}.{axis}": ("uint32_t", f"emu::{call}().{axis}")
    for axis in "xyz"
    for name, call in (
        ("tid", "thread_index"), ("ctaid", "block_index"), ("ntid", "block_size"),
        ("nctaid", "grid_size"))
}  # fmt: skip
_LANES = {
    "%lanemask_eq": "1u << {}", "%lanemask_lt": "(1u << {}) - 1", "%lanemask_le": "(2u << {}) - 1",
    "%lanemask_gt": "-(2u << {})", "%lanemask_ge": "-(1u << {})",
}  # fmt: skip
_LANE = "emu::special(emu::Special::lane)"
_RUNTIME = {
    "%laneid": "lane", "%warpid": "warp", "%nwarpid": "warps", "%cluster_ctarank": "block_rank",
    "%cluster_ctaid.x": "block_rank", "%cluster_nctarank": "cluster_blocks",
    "%cluster_nctaid.x": "cluster_blocks", "%clusterid.x": "cluster",
    "%nclusterid.x": "clusters", "%smid": "sm", "%dynamic_smem_size": "shared_bytes",
}  # fmt: skip
# Clusters lie along x, so that y and z are those of blocks. An H200 has 132 multiprocessors, and
# the system keeps 1024 bytes of shared memory.
_CONSTANTS = {
    "%cluster_ctaid.y": "0u", "%cluster_ctaid.z": "0u", "%cluster_nctaid.y": "1u",
    "%cluster_nctaid.z": "1u", "%clusterid.y": "emu::block_index().y",
    "%clusterid.z": "emu::block_index().z", "%nclusterid.y": "emu::grid_size().y",
    "%nclusterid.z": "emu::grid_size().z",
    "%is_explicit_cluster": "(emu::special(emu::Special::cluster_blocks) > 1)",
    "%nsmid": "132u", "%clock": "uint32_t(emu::clock())", "%clock_hi": "0u",
    "%globaltimer_lo": "uint32_t(emu::clock())", "%globaltimer_hi": "0u",
    "%reserved_smem_offset_0": "0u", "%reserved_smem_offset_1": "1024u", "WARP_SZ": "32u",
}  # fmt: skip
_WIDE = {"%clock64": "emu::clock()", "%globaltimer": "emu::clock()", "%gridid": "uint64_t(1)"}
SPECIAL: dict[str, tuple[str, str]] = {
    **_PLACES,
    **{name: ("uint32_t", f"({text.format(_LANE)})") for name, text in _LANES.items()},
    **{name: ("uint32_t", f"emu::special(emu::Special::{x})") for name, x in _RUNTIME.items()},
    **{name: ("uint32_t", text) for name, text in _CONSTANTS.items()},
    **{name: ("uint64_t", text) for name, text in _WIDE.items()},
}
"""Special registers by name, ``%tid.x``: the C++ type, and what the runtime says they hold.

PTX ISA, "Special Registers". One that is not here is unknown, never zero.
"""


def size_of(type_: str) -> int:
    """Bytes of a C++ type of `TYPES`."""
    if type_ in _SIZES:
        return _SIZES[type_]
    return int(re.sub(r"\D", "", type_)) // 8


@dataclass(frozen=True)
class PtxInstruction:
    """One PTX instruction: its opcode, and its operands as C++."""

    opcode: str
    operands: tuple[str, ...]
    block: BasicBlock = field(repr=False)

    def has(self, *qualifiers: str) -> bool:
        """Whether the opcode has any of the qualifiers."""
        words = self.opcode.split(".")
        return any(q in words for q in qualifiers)

    def fail(self, why: str = "") -> UnknownInstructionError:
        """Return the error that the emulator does not know an instruction."""
        said = f"{self.opcode} {', '.join(self.operands)}"[:160]
        return UnknownInstructionError(f"unknown instruction {said!r}{f': {why}' if why else ''}")

    def value(self, number: int, type_: str) -> str:
        """Operand `number` as a C++ value, its bits taken as `type_`."""
        return self.block.value(self.operands[number], type_, self)

    def u32(self, number: int) -> str:
        """Operand `number` as 32 bits."""
        return self.value(number, "uint32_t")

    def group(self, number: int) -> list[str]:
        """The members of an operand in braces."""
        return [o.strip() for o in split(self.operands[number].strip("{} "), ",")]

    def values(self, members: list[str]) -> str:
        """Members of a group as an array of 32-bit values."""
        return "{" + ", ".join(self.block.value(m, "uint32_t", self) for m in members) + "}"

    def pointers(self, members: list[str]) -> str:
        """Members of a group as an array of pointers to 32 bits."""
        return "{" + ", ".join(f"(uint32_t*)&({self.block.place(m, self)})" for m in members) + "}"

    def set(self, number: int, value: str) -> str:
        """A statement that writes operand `number`; nothing for ``_``."""
        return self.block.assign(self.operands[number], value, self)

    def set_to(self, name: str, value: str) -> str:
        """A statement that writes a register by its name; nothing for ``_``."""
        return self.block.assign(name, value, self)

    def address(self, number: int) -> str:
        """Operand ``[a]`` or ``[a+4]`` as a 64-bit or 32-bit sum."""
        inside = self.operands[number].strip()[1:-1].strip()
        base, _, offset = inside.partition("+")
        type_ = self.block.type_of(base.strip(), self)
        wide = "uint64_t" if size_of(type_) == 8 else "uint32_t"
        text = self.block.value(base.strip(), wide, self)
        return f"({text} + ({offset.strip()}))" if offset else text

    def shared(self, number: int) -> str:
        """Operand ``[a]`` as a shared address; where no space is named a pointer is generic."""
        base = self.operands[number].strip()[1:-1].partition("+")[0].strip()
        text = self.address(number)
        if size_of(self.block.type_of(base, self)) != 8:
            return text
        if any(q.startswith("shared") for q in self.opcode.split(".")):
            return f"(uint32_t)({text})"
        return f"emu::shared_address((const void*)({text}))"


Emitter = Callable[[PtxInstruction], str]


class Instructions(list[tuple[re.Pattern[str], Emitter]]):
    """Opcode patterns and what emits them: one table for each group of instructions."""

    def __call__(self, pattern: str) -> Callable[[Emitter], Emitter]:
        """The decorated function emits the opcodes that `pattern` fits as a whole."""

        def add(emit: Emitter) -> Emitter:
            self.append((re.compile(pattern), emit))
            return emit

        return add


@dataclass
class BasicBlock:
    """The PTX of one ``asm`` statement while it is translated."""

    operands: tuple[AsmOperand, ...]
    number: int
    """Of the statement, which makes its labels unique."""
    registers: dict[str, str] = field(default_factory=dict)
    """C++ types of the registers it declares."""

    def declare(self, text: str) -> list[tuple[str, str]]:
        """The registers of ``.reg .b32 %r<4>, a``, as names and C++ types."""
        _, kind, names = (*text.split(None, 2), "", "")[:3]
        type_ = TYPES.get(kind.lstrip("."))
        if type_ is None or not names:
            raise PtxInstruction(text, (), self).fail(f"registers of type {kind.lstrip('.')!r}")
        found: list[tuple[str, str]] = []
        for name in (n.strip() for n in split(names, ",")):
            many = _RANGE.match(name)
            numbered = [f"{many[1]}{k}" for k in range(int(many[2]))] if many else [name]
            found += [(n, type_) for n in numbered]
        self.innermost.update(found)
        return found

    @property
    def innermost(self) -> dict[str, str]:
        """Where registers are declared now, by name."""
        return self.registers

    def instruction(self, text: str) -> PtxInstruction:
        """An instruction without its predicate, taken apart."""
        opcode, _, rest = text.partition(" ")
        operands = tuple(o.strip() for o in split(rest, ",")) if rest.strip() else ()
        return PtxInstruction(opcode, operands, self)

    def guarded(self, text: str) -> tuple[str, PtxInstruction]:
        """Its predicate as the head of an ``if``, empty without one, and the instruction."""
        guard = ""
        if text.startswith("@"):
            predicate, _, text = text[1:].partition(" ")
            guard = f"if ({self.value(predicate, 'bool', self.instruction(text))}) "
        return guard, self.instruction(text.strip())

    def reference(self, text: str) -> int | None:
        """The number of the operand that ``%3`` or ``%[name]`` means."""
        found = _REFERENCE.match(text)
        if not found:
            return None
        if found[1][0] == "[":
            names = [o.name for o in self.operands]
            return names.index(found[1][1:-1])
        return int(found[1])

    def variable(self, text: str) -> str:
        """The C++ variable of a register."""
        return "r_" + re.sub(r"\W", "_", text.lstrip("%"))

    def type_of(self, text: str, where: PtxInstruction) -> str:
        """The C++ type of a register, an operand or a number."""
        number = self.reference(text)
        if number is not None:
            return KINDS[self.operands[number].kind]
        if text.lstrip("!") in self.registers:
            return self.registers[text.lstrip("!")]
        if text in SPECIAL:
            return SPECIAL[text][0]
        if _NUMBER.match(text):
            return "uint32_t"
        if found := _BITS.match(text):
            return "float" if len(found[1]) == 8 else "double"
        raise where.fail(f"{text!r} is neither a register nor a number")

    def place(self, text: str, where: PtxInstruction) -> str:
        """Return what is written: an expression of the asm statement, or a register."""
        number = self.reference(text)
        if number is not None:
            if not self.operands[number].written:
                raise where.fail(f"{text!r} is an input")
            return self.operands[number].expression
        self.type_of(text, where)
        return self.variable(text)

    def value(self, text: str, type_: str, where: PtxInstruction) -> str:
        """Return what is read, its bits as `type_`; integers are cut or widened."""
        if text in SPECIAL:
            return f"({type_})({SPECIAL[text][1]})"
        if _NUMBER.match(text):
            return _number(text, type_)
        have = self.type_of(text, where)
        number = self.reference(text)
        if bits := _BITS.match(text):
            found = f"emu::bit_cast<{have}>(0x{bits[1]}{'u' if have == 'float' else 'ull'})"
        elif number is None:
            found = self.variable(text.lstrip("!"))
            found = f"(!{found})" if text.startswith("!") else found
        elif self.operands[number].written:
            found = f"({have})({self.operands[number].expression})"
        else:
            # Inputs were all read before the first instruction, which may write what one is made
            # of.
            found = f"in_{number}"
        floats = {"float", "double"}
        if have != type_ and (have in floats or type_ in floats):
            if size_of(have) != size_of(type_):
                raise where.fail(f"{text!r} has {size_of(have)} bytes")
            return f"emu::bit_cast<{type_}>({found})"
        return f"({type_})({found})"

    def assign(self, text: str, value: str, where: PtxInstruction) -> str:
        """A statement that writes `value`, whose type is of the right size."""
        if text == "_":
            return f"(void)({value});"
        return f"emu::put({self.place(text, where)}, {value});"


def _number(text: str, type_: str) -> str:
    """A number as a C++ value: of integers its bits, of floats its value."""
    digits = text.rstrip("U")
    # A decimal as PTX means it: of 64 bits, and with 0 in front octal, as in C++.
    suffix = "ull" if digits.lstrip("-+")[:2].lower() in ("0x", "0b") else "ll"
    if digits.lstrip("-+").isdigit() and int(digits) > 0x7FFFFFFFFFFFFFFF:
        suffix = "ull"
    return f"({type_})({digits}{suffix})"

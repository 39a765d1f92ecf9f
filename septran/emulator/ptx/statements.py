"""PTX as C++: statements of inline assembly, each instruction by the emitter of its opcode.

An instruction is looked up in `TABLE`, to which a module for each group of instructions
contributes. One that is not there is an error, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from septran.emulator.inline_asm import AsmStatement
from septran.emulator.ptx import barriers, copies, floats, integers, moves, tensor_cores
from septran.emulator.ptx.instructions import KINDS, BasicBlock, Emitter, PtxInstruction

TABLE: tuple[tuple[re.Pattern[str], Emitter], ...] = (
    *barriers.INSTRUCTIONS,
    *copies.INSTRUCTIONS,
    *floats.INSTRUCTIONS,
    *integers.INSTRUCTIONS,
    *moves.INSTRUCTIONS,
    *tensor_cores.INSTRUCTIONS,
)
"""Opcode patterns and what they become; the first that fits is taken."""
_LABEL = re.compile(r"([$\w]+)\s*:(?!:)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def translate(statement: AsmStatement, number: int) -> str:
    """C++ that does what the PTX of `statement` does."""
    block = BasicBlock(statement.operands, number)
    lines = [
        f"[[maybe_unused]] const {KINDS[o.kind]} in_{n} = ({KINDS[o.kind]})({o.expression});"
        for n, o in enumerate(statement.operands)
        if not o.written
    ]
    if re.search(r"\.cc\b|\b(addc|subc|madc)\b", statement.body):
        lines.append("uint32_t carry_ = 0;")
    # In inline assembly with operands `%%` stands for a single %.
    for kind, text in _pieces(_COMMENT.sub("", statement.body).replace("%%", "%")):
        if kind == "label":
            lines.append(f"{text}_{number}:;")
        elif kind == "scope":
            lines.append(text)
        elif text.startswith(".reg"):
            lines.append(_declaration(block, text))
        else:
            lines.append(_guarded(block, text))
    return "{ " + " ".join(lines) + " }"


def _pieces(body: str) -> Iterator[tuple[str, str]]:
    """Scopes, labels and instructions, in order."""
    rest = body.strip()
    while rest:
        if rest[0] in "{};":
            if rest[0] != ";":
                yield "scope", rest[0]
            rest = rest[1:].lstrip()
        elif found := _LABEL.match(rest):
            yield "label", found[1]
            rest = rest[found.end() :].lstrip()
        else:
            text, _, rest = rest.partition(";")
            yield "instruction", " ".join(text.split())
            rest = rest.lstrip()


def _declaration(block: BasicBlock, text: str) -> str:
    return " ".join(f"{type_} {block.variable(name)};" for name, type_ in block.declare(text))


def _guarded(block: BasicBlock, text: str) -> str:
    guard, found = block.guarded(text)
    if found.opcode.split(".")[0] == "bra":
        return f"{guard}goto {found.operands[0]}_{block.number};"
    return f"{guard}{{ {emit(found)} }}"


def emit(found: PtxInstruction) -> str:
    """C++ of one instruction; raises UnknownInstructionError."""
    for pattern, emitter in TABLE:
        if pattern.fullmatch(found.opcode):
            return emitter(found)
    raise found.fail()

"""A PTX module as C++: each function one C++ function, each PTX line the same line of it.

Registers become local variables, labels labels, and instructions what the table of
`septran.emulator.ptx.statements` says, which inline assembly goes by, too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from septran.emulator.errors import UnknownInstructionError
from septran.emulator.inline_asm import split
from septran.emulator.ptx.function import (
    FunctionScope,
    PtxSymbol,
    accumulators,
    addresses,
    identifier,
)
from septran.emulator.ptx.instructions import PtxInstruction
from septran.emulator.ptx.parse import (
    Module,
    PtxFunction,
    PtxStatement,
    Variable,
    failure,
    parse,
    variable_of,
)
from septran.emulator.ptx.statements import emit
from septran.emulator.translation import Translation

_BYTES = "uint8_t* const"
_KNOWN = {
    "vprintf": "",
    "__assertfail": "emu::trap();",
}
"""What becomes of calls of the system's functions."""


def to_cpp(source: str) -> Translation:
    """`source` as C++; raises UnknownInstructionError with the line."""
    module = parse(source)
    output = [""] * (source.count("\n") + 2)
    symbols, outside, inside = addresses(module.variables, 0)
    output[0] += " ".join([*outside, *(f"{_signature(f)};" for f in module.functions if f.body)])
    for function in module.functions:
        if function.body is not None:
            _Writer(module, function, symbols, inside, output).write()
    kernels = tuple(f.name for f in module.kernels)
    head = f"#define EMU_PTX {re.sub(r'[^0-9]', '', module.target)}\n"
    entries = "".join(_entry(f) for f in module.kernels)
    text = "\n".join(output)
    return Translation(f"{head}{text}\n{entries}", kernels, head.count("\n"))


def _signature(function: PtxFunction) -> str:
    names = [f"{_BYTES} p_{identifier(v.name)}" for v in (*function.results, *function.parameters)]
    return (
        f"__attribute__((noinline)) static void f_{identifier(function.name)}({', '.join(names)})"
    )


def _entry(function: PtxFunction) -> str:
    """Return what the runtime calls; it passes where each argument is."""
    values = ", ".join(f"(uint8_t*)a[{n}]" for n in range(len(function.parameters)))
    return (
        f'\nextern "C" __attribute__((no_sanitize("thread"))) void emu_entry_{function.name}'
        f"(void** a) {{ f_{identifier(function.name)}({values}); }}"
    )


class _Writer:
    """Writes one function into the lines of the output."""

    def __init__(
        self, module: Module, function: PtxFunction, symbols: dict[str, PtxSymbol],
        shared: Sequence[str], output: list[str],
    ) -> None:  # fmt: skip
        self.module, self.function, self.output = module, function, output
        self.shared = shared
        self.block = FunctionScope(function, symbols)
        self.line = function.opens
        self.statics = len(module.variables)

    def write(self) -> None:
        """The whole function."""
        body = self.function.body
        assert body is not None
        block = self.block
        # All labels of a scope first: branches go forwards, too.
        block.scopes[0].labels = _labels(body, 0)
        for v in (*self.function.results, *self.function.parameters):
            where = f"(uint64_t)p_{identifier(v.name)}"
            block.scopes[0].symbols[v.name] = PtxSymbol("uint64_t", where)
        self.put(f"{_signature(self.function)} {{ uint32_t carry_ = 0;")
        used = " ".join(s.text for s in body)
        for v, text in zip(
            (v for v in self.module.variables if v.space == "shared"), self.shared, strict=True
        ):
            if re.search(rf"(?<![$%\w]){re.escape(v.name)}(?![$%\w])", used):
                self.put(text)
        self.groups = accumulators(body)
        for n, names in enumerate(self.groups):
            block.places |= {name: f"acc_{n}[{k}]" for k, name in enumerate(names)}
        for at, statement in enumerate(body):
            self.line = statement.line
            try:
                self.put(self.statement(statement, body, at))
            except UnknownInstructionError as error:
                raise failure(error.message, self.module.text, statement.line) from None
        self.put("}")

    def put(self, text: str) -> None:
        """More C++ at the current line."""
        if text:
            self.output[self.line - 1] += f" {text}"

    # -------------------------------------------------------------- statements
    def statement(self, s: PtxStatement, body: Sequence[PtxStatement], at: int) -> str:
        """The C++ of one statement."""
        if s.kind == "{":
            self.block.open(_labels(body, at + 1))
            return "{"
        if s.kind == "}":
            self.block.close()
            return "}"
        if s.kind == "label":
            return f"{self.block.label(s.text, self.block.instruction(s.text))}:;"
        if s.kind == "directive":
            return self.directive(s)
        return self.guarded(s.text)

    def directive(self, s: PtxStatement) -> str:
        """A declaration; what is for debuggers and optimisers is nothing."""
        word = s.text.split(None, 1)[0]
        if word in (".loc", ".file", ".pragma", ".branchtargets", ".callprototype"):
            return ""
        if word == ".reg":
            return self.registers(s.text)
        variable = variable_of(s.text, s.line)
        if variable is None:
            raise failure(f"unknown directive {s.text[:80]!r}", self.module.text, s.line)
        return self.local(variable)

    def registers(self, text: str) -> str:
        """Registers as local variables; accumulators of one wgmma as one array."""
        by_type: dict[str, list[str]] = {}
        found = dict(self.block.declare(text))
        for name, type_ in found.items():
            if name not in self.block.places:
                by_type.setdefault(type_, []).append(self.block.variable(name))
        lines = [f"{type_} {', '.join(names)};" for type_, names in by_type.items()]
        for n, names in enumerate(self.groups):
            if names[0] in found:
                lines.append(f"{found[names[0]]} acc_{n}[{len(names)}];")
        return " ".join(lines)

    def local(self, v: Variable) -> str:
        """A variable that is declared in a function."""
        scope = self.block.scopes[-1]
        name = f"v{scope.number}_{identifier(v.name)}"
        if v.space == "shared":
            self.statics += 1
            # Not the number of another function's variable: headers stand on lines of their own.
            number = 1000 * (self.function.line + 1) + self.statics
            scope.symbols[v.name] = PtxSymbol("uint32_t", name)
            call = f"emu::static_shared({number}, {v.bytes}, {v.align})"
            # Not a const with a value: jumps may pass its declaration.
            return f"uint32_t {name}; {name} = emu::shared_address({call});"
        scope.symbols[v.name] = PtxSymbol("uint64_t", f"(uint64_t){name}")
        return f"alignas({max(16, v.align)}) uint8_t {name}[{max(1, v.bytes)}];"

    # -------------------------------------------------------------- instructions
    def guarded(self, text: str) -> str:
        """An instruction with its predicate."""
        guard, found = self.block.guarded(text)
        control = _CONTROL.get(found.opcode.split(".")[0])
        return f"{guard}{{ {control(self, found) if control else emit(found)} }}"

    def branch(self, i: PtxInstruction) -> str:
        return f"goto {self.block.label(i.operands[0], i)};"

    def branch_by_table(self, i: PtxInstruction) -> str:
        """PTX ISA, "brx.idx": beyond the list of labels the behaviour is undefined."""
        assert self.function.body is not None
        body = self.function.body
        listed = next(
            (after.text for s, after in itertools.pairwise(body)
             if s.kind == "label" and s.text == i.operands[1]), "")  # fmt: skip
        names = [n.strip() for n in listed.removeprefix(".branchtargets").split(",")]
        cases = "".join(
            f"case {n}: goto {self.block.label(name, i)}; " for n, name in enumerate(names)
        )
        return f"switch ({i.u32(0)}) {{ {cases} default: emu::trap(); }}"

    def leave(self, i: PtxInstruction) -> str:
        if i.opcode.startswith("exit") and not self.function.kernel:
            raise i.fail("in a function that is no kernel")
        return "return;"

    def call(self, i: PtxInstruction) -> str:
        """``call (results), name, (parameters);``: each is where its bytes are."""
        groups = [o for o in i.operands if o.startswith("(")]
        name = next(o for o in i.operands if not o.startswith("("))
        results = groups.pop(0) if i.operands[0].startswith("(") else "()"
        values = [
            f"(uint8_t*)({self.block.value(n.strip(), 'uint64_t', i)})"
            for group in (results, *groups)
            for n in split(group[1:-1], ",")
            if n.strip()
        ]
        callee = next((f for f in self.module.functions if f.name == name), None)
        if name in _KNOWN:
            return _KNOWN[name]
        if callee is None or callee.body is None:
            raise i.fail("a call of a function that is not in the file")
        return f"f_{identifier(name)}({', '.join(values)});"


_CONTROL: dict[str, Callable[[_Writer, PtxInstruction], str]] = {
    "bra": _Writer.branch, "brx": _Writer.branch_by_table, "ret": _Writer.leave,
    "exit": _Writer.leave, "call": _Writer.call,
}  # fmt: skip


def _labels(body: Sequence[PtxStatement], at: int) -> frozenset[str]:
    """Labels from `at` on that are in the same scope."""
    depth, found = 0, []
    for s in body[at:]:
        if s.kind == "{":
            depth += 1
        elif s.kind == "}":
            depth -= 1
            if depth < 0:
                break
        elif s.kind == "label" and not depth:
            found.append(s.text)
    return frozenset(found)

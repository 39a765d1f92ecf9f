"""CodeGenDSA: TensorIR with ``dsa.*`` externs to C that calls the vendor's library.

TVM's own C generator buries a kernel of thirty lines in checks of its calling convention;
this one prints the loops and the calls, with the origin of each as a comment. It knows the
nodes that lowering emits, and refuses all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from septran.errors import TargetError
from septran.targets.dsa.commands import ADDRESS, DTYPES, EXTERNS, VALUE
from septran.targets.dsa.vendor import Vendor

C_TYPES: Mapping[str, str] = {
    "bool": "uint8_t", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
    "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double",
}  # fmt: skip
"""C types of elements; 16-bit floats are their bits."""
BINARY: Mapping[str, tuple[str, int]] = {
    "Mul": ("*", 12), "Div": ("/", 12), "Mod": ("%", 12), "Add": ("+", 11), "Sub": ("-", 11),
    "LT": ("<", 9), "LE": ("<=", 9), "GT": (">", 9), "GE": (">=", 9), "EQ": ("==", 8),
    "NE": ("!=", 8), "And": ("&&", 4), "Or": ("||", 3),
}  # fmt: skip
"""C operators and how tightly they bind."""
CALLS: Mapping[str, str] = {"tirx.truncmod": "Mod", "tirx.truncdiv": "Div"}
HELPERS: Mapping[str, str] = {
    "Min": "static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }",
    "Max": "static inline int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }",
    "FloorDiv": (
        "static inline int64_t floor_div(int64_t a, int64_t b) "
        "{ return a / b - (a % b != 0 && (a < 0) != (b < 0)); }"
    ),
    "FloorMod": "static inline int64_t floor_mod(int64_t a, int64_t b) "
    "{ return a - floor_div(a, b) * b; }",
}
"""Functions that C lacks, written into the file where they are used."""
NAMES = {"Min": "least", "Max": "greatest", "FloorDiv": "floor_div", "FloorMod": "floor_mod"}


class UnknownNodeError(TargetError):
    """A node of TensorIR that CodeGenDSA cannot print: a mistake of a lowering."""

    code = "SEP541"


class LimitError(TargetError):
    """A command is beyond a limit of the vendor's library."""

    code = "SEP542"


@dataclass(frozen=True)
class Code:
    """The C of one kernel."""

    name: str
    text: str
    origins: Mapping[int, str]
    """Why the code of a line is there, by line number from 1."""
    lines: tuple[int, ...]
    """The line of each command, in the order of TensorIR."""


def generate(function: Any, vendor: Vendor, name: str) -> Code:
    """The C of a PrimFunc; raises UnknownNodeError, VendorError, LimitError."""
    return _Printer(vendor).function(function, name)


def is_buffer(param: Any) -> bool:
    """Whether a parameter of a PrimFunc is a buffer rather than a number."""
    return type(param.ty).__name__ == "BufferType"


@dataclass
class _Printer:
    vendor: Vendor
    out: list[str] = field(default_factory=list)
    depth: int = 1
    names: dict[Any, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    helpers: dict[str, None] = field(default_factory=dict)
    origin: str = ""
    said: str = ""
    at: list[tuple[int, str]] = field(default_factory=list)
    """Position in `out` and origin of each command."""

    def function(self, function: Any, name: str) -> Code:
        params = []
        for param in function.params:
            star = "*" if is_buffer(param) else ""
            params.append(f"{self._type(param.ty.dtype)} {star}{self._name(param, param.name)}")
        self.statement(function.body)
        head = [f"/* {name} for {self.vendor.machine.name}: the control program of one core. */"]
        head += [f'#include "{self.vendor.header}"', ""]
        if "FloorMod" in self.helpers:
            self.helpers.setdefault("FloorDiv")
        chosen = [HELPERS[h] for h in HELPERS if h in self.helpers]
        head += [*chosen, ""] if chosen else []
        head += [f"void {name}({', '.join(params)})", "{"]
        unused = [n for n in self.names.values() if not self._used(n)]
        head += [f"    (void){n};" for n in unused]
        shift = len(head) + 1
        lines = tuple(position + shift for position, _ in self.at)
        origins = {p + shift: why for p, why in self.at if why}
        return Code(name, "\n".join([*head, *self.out, "}", ""]), origins, lines)

    def _used(self, name: str) -> bool:
        import re

        word = re.compile(rf"\b{re.escape(name)}\b")
        return any(word.search(line) for line in self.out)

    # ---- names and types

    def _name(self, thing: Any, wish: str) -> str:
        if thing not in self.names:
            base = "".join(c if c.isalnum() else "_" for c in str(wish))
            name, number = base, 0
            while name in self.taken or name in NAMES.values():
                number += 1
                name = f"{base}_{number}"
            self.taken.add(name)
            self.names[thing] = name
        return self.names[thing]

    def _type(self, dtype: Any) -> str:
        text = str(dtype)
        if text not in C_TYPES:
            raise UnknownNodeError(f"C has no type for {text}", None)
        return C_TYPES[text]

    def _emit(self, text: str) -> None:
        self.out.append("    " * self.depth + text)

    # ---- statements

    def statement(self, node: Any) -> None:
        kind = type(node).__name__
        printer: Callable[[Any], None] | None = getattr(self, f"_s_{kind.lower()}", None)
        if printer is None:
            raise UnknownNodeError(
                f"CodeGenDSA does not know the statement {kind}",
                None,
                hint="this is a mistake of SepTran, not of your files; please report it",
            )
        printer(node)

    def _s_seqstmt(self, node: Any) -> None:
        for child in node.seq:
            self.statement(child)

    def _s_attrstmt(self, node: Any) -> None:
        before, self.origin = self.origin, str(getattr(node.value, "value", node.value))
        self.statement(node.body)
        self.origin = before

    def _s_for(self, node: Any) -> None:
        name = self._name(node.loop_var, node.loop_var.name)
        first, last = self.expr(node.min), self.expr(node.min + node.extent)
        kind = self._type(node.loop_var.ty.dtype)
        self._emit(f"for ({kind} {name} = {first}; {name} < {last}; ++{name}) {{")
        self._inside(node.body)
        self._emit("}")

    def _inside(self, body: Any) -> None:
        self.depth += 1
        self.said = ""
        self.statement(body)
        self.depth -= 1
        self.said = ""

    def _s_ifthenelse(self, node: Any) -> None:
        self._why()
        self._emit(f"if ({self.expr(node.condition)}) {{")
        said = self.said
        self.depth += 1
        self.statement(node.then_case)
        self.depth -= 1
        self.said = said
        if node.else_case is not None:
            self._emit("} else {")
            self._inside(node.else_case)
        self._emit("}")

    def _s_bind(self, node: Any) -> None:
        value = self.expr(node.value)
        name = self._name(node.var, node.var.name)
        self._emit(f"const {self._type(node.var.ty.dtype)} {name} = {value};")

    def _s_declbuffer(self, node: Any) -> None:
        buffer, kind = node.buffer, self._type(node.buffer.ty.dtype)
        if node.data.op.name == "tirx.buffer_data":  # a flat view of a parameter
            self.names[buffer] = self.names[node.data.args[0]]
            return
        memory, offset = node.data.args[1].value, int(node.data.args[2])
        pointer = self.vendor.pointer(memory, offset)
        name = self._name(buffer, buffer.name)
        self._emit(f"{kind} *{name} = ({kind} *){pointer};")

    def _s_evaluate(self, node: Any) -> None:
        value = node.value
        if isinstance(value, tirx.IntImm):  # nothing
            return
        op = getattr(getattr(value, "op", None), "name", "")
        if op != "tirx.call_extern" or value.args[0].value not in EXTERNS:
            raise UnknownNodeError(f"CodeGenDSA does not know the call {value}", None)
        self._why()
        self.at.append((len(self.out), self.origin))
        self._emit(f"{self._command(value.args[0].value, list(value.args[1:]))};")

    def _why(self) -> None:
        """The origin as a comment, once for what has the same."""
        if self.origin and self.origin != self.said:
            text = self.origin.replace("*/", "* /")
            self._emit(f"/* {text} */")
        self.said = self.origin

    def _command(self, extern: str, values: list[Any]) -> str:
        command, _ = EXTERNS[extern]
        texts: dict[str, str] = {}
        constants: dict[str, int | None] = {}
        for argument, value in zip(command.arguments, values, strict=True):
            if argument.kind == ADDRESS:
                texts[argument.name] = self._address(value)
            else:
                texts[argument.name] = self.expr(value)
                constants[argument.name] = self._greatest(value) if argument.kind != VALUE else None
        problem = self.vendor.check_limits(extern, constants)
        if problem:
            raise LimitError(problem, self.vendor.machine.location, notes=(), hint=self.origin)
        kind = constants.get("type")
        dtype = DTYPES[kind] if kind is not None else ""
        return self.vendor.call(extern, texts, dtype)

    def _greatest(self, value: Any) -> int | None:
        return int(value) if isinstance(value, tirx.IntImm) else None

    def _address(self, value: Any) -> str:
        if getattr(getattr(value, "op", None), "name", "") != "tirx.address_of":
            raise UnknownNodeError(f"CodeGenDSA does not know the address {value}", None)
        load = value.args[0]
        name = self.names[load.source]
        (index,) = load.indices
        text = self.expr(index, 11)
        return name if text == "0" else f"{name} + {text}"

    # ---- expressions

    def expr(self, node: Any, around: int = 0) -> str:
        """C of an expression, in parentheses where what is around binds tighter."""
        kind = type(node).__name__
        if kind == "Call" and node.op.name in CALLS:
            operator, bind = BINARY[CALLS[node.op.name]]
            text = f"{self.expr(node.args[0], bind)} {operator} {self.expr(node.args[1], bind + 1)}"
            return f"({text})" if bind < around else text
        if kind in BINARY:
            operator, bind = BINARY[kind]
            text = f"{self.expr(node.a, bind)} {operator} {self.expr(node.b, bind + 1)}"
            return f"({text})" if bind < around else text
        if kind in NAMES:
            self.helpers.setdefault(kind)
            return f"{NAMES[kind]}({self.expr(node.a)}, {self.expr(node.b)})"
        printer: Callable[[Any], str] | None = getattr(self, f"_e_{kind.lower()}", None)
        if printer is None:
            raise UnknownNodeError(f"CodeGenDSA does not know the expression {kind}: {node}", None)
        return printer(node)

    def _e_intimm(self, node: Any) -> str:
        value = int(node.value)
        text = f"{value}" if -(2**31) < value < 2**31 else f"INT64_C({value})"
        return f"({text})" if value < 0 else text

    def _e_floatimm(self, node: Any) -> str:
        value = float(node.value)
        if value != value:
            return "(0.0 / 0.0)"
        if value in (float("inf"), float("-inf")):
            return "(1.0 / 0.0)" if value > 0 else "(-1.0 / 0.0)"
        return repr(value) if value >= 0 else f"({value!r})"

    def _e_var(self, node: Any) -> str:
        return self._name(node, node.name)

    def _e_cast(self, node: Any) -> str:
        return f"({self._type(node.ty.dtype)}){self.expr(node.value, 13)}"

    def _e_not(self, node: Any) -> str:
        return f"!{self.expr(node.a, 13)}"

    def _e_select(self, node: Any) -> str:
        parts = (node.condition, node.true_value, node.false_value)
        yes, no = (self.expr(p, 3) for p in parts[1:])
        return f"({self.expr(parts[0], 3)} ? {yes} : {no})"

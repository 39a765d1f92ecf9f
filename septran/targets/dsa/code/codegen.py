"""CodeGenDSA: TensorIR with ``dsa.*`` externs to C that calls the vendor's library.

TVM's own C generator buries a kernel of thirty lines in checks of its calling convention;
this one prints the loops and the calls, with the origin of each as a comment. It knows the
nodes that lowering emits, and refuses all others.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import tirx

from septran.dtypes import C_TYPES
from septran.errors import TargetError
from septran.simulator.commands import ADDRESS, DTYPES, EXTERNS, VALUE
from septran.targets.dsa.code.vendor import POINTER, Vendor, floating, members

_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm typeof bool true false nullptr alignas alignof constexpr
    NULL NAN INFINITY HUGE_VAL EOF errno linux unix least greatest
"""
_FUNCTIONS = """
    main abort abs acos acosh asin asinh atan atan2 atanh atexit atof atoi bsearch cabs calloc cbrt
    ceil copysign cos cosh div erf erfc exit exp exp2 expm1 fabs fdim floor fma fmax fmin fmod free
    frexp gamma getenv hypot ilogb index isdigit j0 j1 jn labs ldexp ldiv lgamma log log10 log1p
    log2 logb lrint lround malloc memchr memcmp memcpy memmove memset mktemp modf nan nearbyint
    nextafter pow printf putchar puts qsort raise rand random realloc remainder remquo rindex rint
    round scalbln scalbn select signal sin sinh sqrt srand strcat strchr strcmp strcpy strlen strtod
    strtol system tan tanh tgamma time trunc y0 y1 yn
"""
_TYPES = ("size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "intmax_t", "uintmax_t")
_SIZED = (f"{sign}int{kind}{bits}_t" for sign in ("", "u") for kind in ("", "_least", "_fast")
          for bits in (8, 16, 32, 64))  # fmt: skip
KEYWORDS = frozenset((*_KEYWORDS.split(), *_TYPES, *_SIZED))
"""Of C11 and C23, macros and types of common headers, and the functions of generated code."""
FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Of C's library: a kernel of such a name gets another, a variable may have it."""


def reserved(vendor: Vendor) -> frozenset[str]:
    """The names that nothing in the C for a vendor may have."""
    own = {
        name
        for key, function in vendor.functions.items()
        if key != POINTER
        for _, name, _ in members(key, function)
    }
    text = vendor.header_path.read_text(encoding="utf-8", errors="replace")
    macros = re.findall(r"^\s*#\s*define\s+(\w+)", text, re.MULTILINE)
    called = re.findall(r"\b([A-Za-z_]\w*)\s*\(", text)
    return frozenset((*KEYWORDS, *own, *macros, *called))


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
}
"""Functions that C lacks, written into the file where they are used."""
NAMES = {"Min": "least", "Max": "greatest"}
COMPARISONS = ("LT", "LE", "GT", "GE", "EQ", "NE")
SHORT_FLOATS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
"""C has no arithmetic for them: a scalar of such a type is passed as a float."""


class UnknownNodeError(TargetError):
    """A node of TensorIR that CodeGenDSA cannot print: a mistake of a lowering."""

    code = "SEP541"


class LimitError(TargetError):
    """A command is beyond what the vendor's library can do."""

    code = "SEP542"


@dataclass(frozen=True)
class Code:
    """The C of one kernel."""

    name: str
    """The C function's: the kernel's own where C allows it."""
    text: str
    origins: Mapping[int, str]
    """Why the code of a line is there, by line number from 1."""
    lines: tuple[int, ...]
    """The line of each command, in the order of TensorIR."""


def generate(function: Any, vendor: Vendor, name: str) -> Code:
    """The C of a PrimFunc; raises UnknownNodeError, VendorError, LimitError."""
    return Printer(vendor, taken=set(reserved(vendor))).function(function, name)


def is_buffer(param: Any) -> bool:
    """Whether a parameter of a PrimFunc is a buffer rather than a number."""
    return type(param.ty).__name__ == "BufferType"


@dataclass
class Printer:
    """Prints statements and expressions; a vendor's language overrides what differs."""

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
    uses: Counter[str] = field(default_factory=Counter)
    """The number of times that each name is read."""
    locals: list[tuple[int, str, Counter[str]]] = field(default_factory=list)
    """Position in `out` of what declares a name, and the names that it reads."""

    def function(self, function: Any, name: str) -> Code:
        """All of the file."""
        own = f"{name}_kernel" if name in FUNCTIONS else name
        own = self._fresh(own)
        params = []
        for param in function.params:
            kind, star = self._type(param.ty.dtype), "*" if is_buffer(param) else ""
            if not star and str(param.ty.dtype) in SHORT_FLOATS:
                kind = "float"
            params.append(f"{kind} {star}{self._name(param, param.name)}")
        self.statement(function.body)
        dropped = self._drop_unused()
        head = [f"/* {name} for {self.vendor.machine.name}: the control program of one core. */"]
        # Infinity and NaN are all that a vendor's header need not declare.
        if any(word in line for line in self.out for word in ("INFINITY", "NAN")):
            head.append("#include <math.h>")
        head += [f'#include "{self.vendor.header}"', ""]
        chosen = [HELPERS[h] for h in HELPERS if h in self.helpers]
        head += [*chosen, ""] if chosen else []
        head += [f"void {own}({', '.join(params)})", "{"]
        unused = [self.names[p] for p in function.params if not self.uses[self.names[p]]]
        head += [f"    (void){n};" for n in unused]
        # Lines count from 1, behind the head, without the declarations that were taken out above.
        places = [(p - bisect.bisect(dropped, p) + len(head) + 1, why) for p, why in self.at]
        origins = {line: why for line, why in places if why}
        text = "\n".join([*head, *self.out, "}", ""])
        return Code(own, text, origins, tuple(line for line, _ in places))

    def _drop_unused(self) -> list[int]:
        """Take declarations out that nothing reads; their places, in order."""
        dropped = []
        # Backwards: what goes reads nothing any more of what was declared before it.
        for place, name, read in reversed(self.locals):
            if not self.uses[name]:
                self.uses -= read
                dropped.append(place)
                del self.out[place]
        return sorted(dropped)

    # ---- names and types

    def _fresh(self, wish: str) -> str:
        base = "".join(c if c.isascii() and c.isalnum() else "_" for c in str(wish))
        name, number = base, 0
        # The recorder's own names begin so.
        while name in self.taken or name.startswith("septran_"):
            number += 1
            name = f"{base.removeprefix('septran_')}_{number}"
        self.taken.add(name)
        return name

    def _name(self, thing: Any, wish: str) -> str:
        if thing not in self.names:
            self.names[thing] = self._fresh(wish)
        return self.names[thing]

    def _read(self, thing: Any) -> str:
        """The name of something that was declared."""
        if thing not in self.names:
            raise unknown(f"the variable {thing.name}, which nothing declares")
        name = self.names[thing]
        self.uses[name] += 1
        return name

    def _declare(self, thing: Any, text: str, before: Counter[str]) -> None:
        """A line that declares a name; `before` are the uses before its value was printed."""
        name = self._name(thing, thing.name)
        self.locals.append((len(self.out), name, self.uses - before))
        self._emit(text.format(name=name))

    def _type(self, dtype: Any) -> str:
        text = str(dtype)
        if text not in C_TYPES:
            raise unknown(f"the type {text}")
        return C_TYPES[text]

    def _emit(self, text: str) -> None:
        self.out.append("    " * self.depth + text)

    # ---- statements

    def statement(self, node: Any) -> None:
        """A statement of TensorIR."""
        kind = type(node).__name__
        printer: Callable[[Any], None] | None = getattr(self, f"_s_{kind.lower()}", None)
        if printer is None:
            raise unknown(f"the statement {kind}")
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
        if node.step is not None and not (isinstance(node.step, tirx.IntImm) and node.step == 1):
            raise unknown(f"the loop step {node.step}")
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
        before = Counter(self.uses)
        value = self.expr(node.value)
        kind = self._type(node.var.ty.dtype)
        self._declare(node.var, f"const {kind} {{name}} = {value};", before)

    def _s_declbuffer(self, node: Any) -> None:
        buffer, kind = node.buffer, self._type(node.buffer.ty.dtype)
        if node.data.op.name == "tirx.buffer_data":  # a flat view of a parameter
            self.names[buffer] = self.names[node.data.args[0]]
            return
        call = node.data
        if call.op.name != "tirx.call_extern" or call.args[0].value != "dsa.pointer":
            raise unknown(f"the buffer {node.buffer.name} at {call}")
        pointer = self.vendor.pointer(call.args[1].value, int(call.args[2]))
        self._declare(buffer, f"{kind} *{{name}} = ({kind} *){pointer};", Counter(self.uses))

    def _s_evaluate(self, node: Any) -> None:
        value = node.value
        if isinstance(value, tirx.IntImm):  # nothing
            return
        op = getattr(getattr(value, "op", None), "name", "")
        if op != "tirx.call_extern" or value.args[0].value not in EXTERNS:
            raise unknown(f"the call {value}")
        self._why()
        self.at.append((len(self.out), self.origin))
        self._emit(f"{self._command(value.args[0].value, list(value.args[1:]))};")

    def _why(self) -> None:
        """The origin as a comment, once for what has the same."""
        if self.origin and self.origin != self.said:
            text = " ".join(self.origin.replace("*/", "* /").replace("/*", "/ *").split())
            self._emit(f"/* {text} */")
        self.said = self.origin

    def _command(self, extern: str, values: list[Any]) -> str:
        command, _ = EXTERNS[extern]
        texts: dict[str, str] = {}
        constants: dict[str, int | None] = {}
        exact = True
        if len(values) != len(command.arguments):
            raise unknown(f"{extern} with {len(values)} arguments")
        for argument, value in zip(command.arguments, values, strict=True):
            if argument.kind == ADDRESS:
                texts[argument.name] = self._address(value)
            else:
                texts[argument.name] = self.expr(value)
                known = isinstance(value, tirx.IntImm)
                constants[argument.name] = int(value) if known else None
                exact &= argument.kind != VALUE or _fits_double(value)
        kind = constants.get("type")
        dtype = DTYPES[kind] if kind is not None else ""
        problem = self.vendor.problem(extern, constants, dtype, exact)
        if problem:
            raise LimitError(problem, self.vendor.where(command.name), hint=self.origin or None)
        return self.vendor.call(extern, texts, dtype, constants.get("queue"))

    def _address(self, value: Any) -> str:
        if getattr(getattr(value, "op", None), "name", "") != "tirx.address_of":
            raise unknown(f"the address {value}")
        load = value.args[0]
        name = self._read(load.source)
        (index,) = load.indices
        text = self.expr(index, 11)
        return name if text == "0" else f"{name} + {text}"

    # ---- expressions

    def expr(self, node: Any, around: int = 0) -> str:
        """C of an expression, in parentheses where what is around binds tighter."""
        kind = type(node).__name__
        if kind == "Call" and node.op.name in CALLS:
            left, right = node.args
            return self._operation(CALLS[node.op.name], left, right, around)
        if kind in BINARY:
            return self._operation(kind, node.a, node.b, around)
        if kind in NAMES:
            return self._extreme(kind, node)
        printer: Callable[[Any], str] | None = getattr(self, f"_e_{kind.lower()}", None)
        if printer is None:
            raise unknown(f"the expression {kind}: {node}")
        return printer(node)

    def _operation(self, kind: str, a: Any, b: Any, around: int) -> str:
        if str(a.ty.dtype) in SHORT_FLOATS:
            raise unknown(f"arithmetic in {a.ty.dtype}")
        operator, bind = BINARY[kind]
        # Compilers warn of && within ||, and of comparisons of comparisons, without parentheses.
        inside = 5 if kind == "Or" else 10 if kind in COMPARISONS else bind
        # C's operators group to the left: on the right an equally tight one needs parentheses.
        text = f"{self.expr(a, inside)} {operator} {self.expr(b, max(inside, bind + 1))}"
        return f"({text})" if bind < around else text

    def _extreme(self, kind: str, node: Any) -> str:
        if not floating(str(node.ty.dtype)):
            self.helpers.setdefault(kind)
            return f"{NAMES[kind]}({self.expr(node.a)}, {self.expr(node.b)})"
        a, b, sign = self.expr(node.a, 13), self.expr(node.b, 13), "<" if kind == "Min" else ">"
        return f"({a} {sign} {b} ? {a} : {b})"

    def _e_intimm(self, node: Any) -> str:
        value = int(node.value)
        # C has no negative literals, and 2**63 is none of an int64_t.
        if value == -(2**63):
            return "INT64_MIN"
        text = f"{value}" if -(2**31) < value < 2**31 else f"INT64_C({value})"
        return f"({text})" if value < 0 else text

    def _e_floatimm(self, node: Any) -> str:
        value, single = float(node.value), str(node.ty.dtype) == "float32"
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "(-INFINITY)"
        # `repr` of the float32 as a double has digits enough to be read as the same float32.
        text = f"{float(np.float32(value))!r}f" if single else repr(value)
        return f"({text})" if text.startswith("-") else text

    def _e_var(self, node: Any) -> str:
        return self._read(node)

    def _e_tensorload(self, node: Any) -> str:
        """An element of a tensor of indices: nothing else is read by a control program."""
        (index,) = node.indices
        return f"{self._read(node.source)}[{self.expr(index)}]"

    def _e_cast(self, node: Any) -> str:
        if str(node.ty.dtype) == "bool":
            # A bool is a uint8_t here, to which C would convert 0.5 as 0 and 256 as 0.
            return f"({self.expr(node.value, 9)} != 0)"
        return f"({self._type(node.ty.dtype)}){self.expr(node.value, 13)}"

    def _e_not(self, node: Any) -> str:
        return f"!{self.expr(node.a, 13)}"

    def _e_select(self, node: Any) -> str:
        parts = (node.condition, node.true_value, node.false_value)
        yes, no = (self.expr(p, 3) for p in parts[1:])
        return f"({self.expr(parts[0], 3)} ? {yes} : {no})"


def _fits_double(value: Any) -> bool:
    """Whether a number surely is one of a double."""
    if isinstance(value, tirx.IntImm):
        return int(float(int(value))) == int(value)
    inner = value.value if isinstance(value, tirx.Cast) else value
    return str(inner.ty.dtype) not in ("int64", "uint64")


def unknown(what: str) -> UnknownNodeError:
    """The error for a node that is not printed."""
    hint = "this is a mistake of SepTran, not of your files; please report it"
    return UnknownNodeError(f"CodeGenDSA does not know {what}", hint=hint)

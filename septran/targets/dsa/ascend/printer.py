"""A core's control program as a kernel in Ascend C.

Loops, conditions and indices are those of the C for other DSAs (`code/codegen.py`). A command is
a call of Ascend C, or of one of the functions of `prelude.py`. A kernel that uses both cores of an
AI core is one text for the two: what is for one of them is in ``if ASCEND_IS_AIC`` or
``if ASCEND_IS_AIV``.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from septran.dtypes import itemsize
from septran.simulator.commands import DTYPES, EXTERNS
from septran.simulator.queues import Queues
from septran.targets.dsa.ascend import prelude
from septran.targets.dsa.ascend.vectors import (
    BLOCK,
    POSITIONS,
    TYPES,
    VectorPrinter,
    is_number,
    multiple,
)
from septran.targets.dsa.code.codegen import (
    FUNCTIONS,
    HELPERS,
    KEYWORDS,
    SHORT_FLOATS,
    Code,
    is_buffer,
    unknown,
)
from septran.targets.dsa.code.vendor import Vendor, VendorError

EVENTS = 8
"""For each pair of pipes of one core."""
CROSS_FLAGS = 11
"""Between the two cores; the others are the vendor's own."""
CUBE, VECTOR = "AIC", "AIV"
WORDS = frozenset(
    """
    alignas and and_eq asm bitand bitor bool catch class compl concept const_cast constexpr
    decltype delete dynamic_cast explicit export false friend mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public reinterpret_cast requires static_cast
    template this throw true try typeid typename using virtual wchar_t xor xor_eq
    half bfloat16_t pipe pipe_t l1 l0a l0b l0c ub
    """.split()  # noqa: SIM905
)
"""Of C++, and what the opening of a kernel declares."""


def generate(function: Any, vendor: Vendor, name: str) -> Code:
    """The Ascend C of a PrimFunc; raises LimitError for what it cannot say."""
    header = vendor.header_text
    # Single letters are parameters of its templates, which hide nothing.
    api = re.findall(r"\b[A-Z]\w\w+", header)
    taken = {*KEYWORDS, *WORDS, *prelude.FUNCTIONS, *api}
    first = _AscendPrinter(vendor, taken=set(taken))
    code = first.function(function, name)
    if len(first.sides) == 2:
        return code
    # All of it is for one kind of core, and needs no blocks that say for which.
    return _AscendPrinter(vendor, taken=taken, guarded=False).function(function, name)


@dataclass
class _AscendPrinter(VectorPrinter):
    guarded: bool = True
    sides: set[str] = field(default_factory=set)
    side: str = ""
    """The core that the open block is for; empty where there is none."""
    turned: dict[Any, bool] = field(default_factory=dict)
    """By operand buffer of the cube: whether its products read it transposed."""
    crossing: dict[tuple[int, int], int] = field(default_factory=dict)
    """The first flag between the cores, by the queues of both ends."""
    calls: list[tuple[int, str]] = field(default_factory=list)
    """Position in `out` and origin of each call: a command may be several."""

    # ---- the whole

    def function(self, function: Any, name: str) -> Code:
        """All of the file."""
        self._look_through(function.body)
        own = self._fresh(f"{name}_kernel" if name in FUNCTIONS else name)
        params, opening = self._parameters(function)
        self.statement(function.body)
        self._leave()
        dropped = self._drop_unused()
        head = [
            f"// {name} for {self.vendor.machine.name}, as Ascend C.",
            '#include "kernel_operator.h"',
            "using namespace AscendC;",
            "",
        ]
        head += [
            HELPERS[h].replace("inline", "__aicore__ inline") for h in HELPERS if h in self.helpers
        ]
        body = "\n".join(self.out)
        head += [prelude.prelude(body)] if prelude.prelude(body) else []
        head += [f'extern "C" __global__ __aicore__ void {own}({", ".join(params)})', "{"]
        head += [f"    {line}" for line in [*self._opening(), *opening]]
        lines = "\n".join(head).split("\n")

        def line_of(place: int) -> int:
            return place - bisect.bisect(dropped, place) + len(lines) + 1

        calls = [(line_of(place), why) for place, why in self.calls]
        origins = {line: why for line, why in calls if why}
        last = tuple(line_of(place) for place, _ in self.at)
        text = "\n".join([*lines, *self.out, "}", ""])
        return Code(own, text, origins, last)

    def _parameters(self, function: Any) -> tuple[list[str], list[str]]:
        """What the kernel is called with, and what it makes of that first."""
        params, opening = [], []
        core, *rest = function.params
        kind = TYPES[str(core.ty.dtype)]
        opening.append(f"const {kind} {self._name(core, core.name)} = GetBlockIdx();")
        for param in rest:
            if not is_buffer(param):
                kind = (
                    "float" if str(param.ty.dtype) in SHORT_FLOATS else self._type(param.ty.dtype)
                )
                params.append(f"{kind} {self._name(param, param.name)}")
                continue
            name = self._name(param, param.name)
            address, kind = self._fresh(f"{name}_gm"), self._element(param.ty.dtype)
            params.append(f"GM_ADDR {address}")
            opening += [
                f"GlobalTensor<{kind}> {name};",
                f"{name}.SetGlobalBuffer(reinterpret_cast<__gm__ {kind} *>({address}));",
            ]
        return params, opening

    def _opening(self) -> list[str]:
        """The kind of kernel, and a buffer for all of each memory."""
        kinds: dict[tuple[str, ...], str] = {(CUBE,): "AIC_ONLY", (VECTOR,): "AIV_ONLY"}
        kind = kinds.get(tuple(sorted(self.sides)), "MIX_AIC_1_1")
        lines = [f"KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});", "TPipe pipe;"]
        for memory, (position, name, size) in POSITIONS.items():
            if memory in self.used:
                lines.append(f"TBuf<TPosition::{position}> {name};")
                lines.append(f"pipe.InitBuffer({name}, {size});")
        # Its own events are given back: those below are this kernel's.
        return [*lines, "pipe.Destroy();"]

    def _look_through(self, body: Any) -> None:
        """Note how products read each operand, and which flags go from one core to the other."""
        flags: dict[tuple[int, int], int] = {}
        for extern, values in _calls(body):
            command, _ = EXTERNS[extern]
            given = dict(zip((a.name for a in command.arguments), values, strict=True))
            if command.name == "mma":
                for operand in ("a", "b"):
                    buffer = given[operand].args[0].source
                    turned = bool(int(given[f"{operand}_transposed"]))
                    if self.turned.setdefault(buffer, turned) != turned:
                        raise self._limit(f"{buffer.name} is read as it is, and transposed")
            elif command.name == "set_flag":
                pair = int(given["src"]), int(given["dst"])
                if self._pipe(pair[0])[0] != self._pipe(pair[1])[0]:
                    flags[pair] = max(flags.get(pair, 0), _most(given["flag"]) + 1)
        count = 0
        for pair, needed in sorted(flags.items()):
            self.crossing[pair] = count
            count += needed
        if count > CROSS_FLAGS:
            raise self._limit(
                f"{count} flags are needed between the cube and the vector core, and there are "
                f"{CROSS_FLAGS}"
            )

    # ---- cores and blocks

    def _pipe(self, queue: int) -> tuple[str, str]:
        """The core and the pipe of a queue."""
        pipes = self.vendor.pipes
        name = Queues(self.vendor.machine).names[queue]
        if name not in pipes:
            raise VendorError(
                f"vendor.pipes does not say which pipe {name} is", self.vendor.where("pipes")
            )
        side, _, pipe = pipes[name].partition("_")
        return side, pipe

    def _enter(self, side: str) -> None:
        """Open a block for a core, unless it is open."""
        self.sides.add(side)
        if self.side == side or not self.guarded:
            return
        self._leave()
        self._emit(f"if ASCEND_IS_{side} {{")
        self.depth += 1
        self.side = side

    def _leave(self) -> None:
        if self.side:
            self.side = ""
            self.depth -= 1
            self._emit("}")
            self.said = ""

    def _s_for(self, node: Any) -> None:
        self._leave()
        super()._s_for(node)

    def _s_ifthenelse(self, node: Any) -> None:
        self._leave()
        condition = self.expr(node.condition)
        self._emit(f"if ({condition}) {{")
        self._inside(node.then_case)
        if node.else_case is not None:
            self._emit("} else {")
            self._inside(node.else_case)
        self._emit("}")

    def _inside(self, body: Any) -> None:
        self.depth += 1
        self.said = ""
        self.statement(body)
        self._leave()
        self.depth -= 1
        self.said = ""

    def _s_bind(self, node: Any) -> None:
        self._leave()
        super()._s_bind(node)

    def _s_declbuffer(self, node: Any) -> None:
        buffer = node.buffer
        if node.data.op.name == "tirx.buffer_data":
            self.names[buffer] = self.names[node.data.args[0]]
            return
        memory, offset = node.data.args[1].value, int(node.data.args[2])
        _, held, _ = POSITIONS[memory]
        self.memory[buffer] = memory
        self.used.add(memory)
        kind, size = self._element(buffer.ty.dtype), int(buffer.ty.shape[0])
        text = f"LocalTensor<{kind}> {{name}} = {held}.GetWithOffset<{kind}>({size}, {offset});"
        self._declare(buffer, text, Counter(self.uses))

    def _element(self, dtype: Any) -> str:
        text = str(dtype)
        if text not in TYPES:
            raise self._limit(f"Ascend C has no elements of {text}")
        return TYPES[text]

    # ---- commands

    def _s_evaluate(self, node: Any) -> None:
        value = node.value
        if isinstance(value, tirx.IntImm):
            return
        op = getattr(getattr(value, "op", None), "name", "")
        if op != "tirx.call_extern" or value.args[0].value not in EXTERNS:
            raise unknown(f"the call {value}")
        extern = value.args[0].value
        command, function = EXTERNS[extern]
        given = dict(zip((a.name for a in command.arguments), value.args[1:], strict=True))
        for line in self._lines(command.name, function, given):
            self._why()
            self.calls.append((len(self.out), self.origin))
            self._emit(line)
        self.at.append((len(self.out) - 1, self.origin))

    def _lines(self, command: str, function: str, given: dict[str, Any]) -> list[str]:
        if command in ("set_flag", "wait_flag"):
            return [self._flag(command, given)]
        if command in ("sync", "barrier"):
            return self._meet(command)
        side, _ = self._pipe(int(given["queue"]))
        self._enter(side)
        if command.startswith("vec"):
            return self.vector(command, function, given)
        lines: list[str] = getattr(self, f"_{command}")(given)
        return lines

    def _flag(self, command: str, given: dict[str, Any]) -> str:
        pair = int(given["src"]), int(given["dst"])
        (side, source), (other, target) = map(self._pipe, pair)
        number = self.expr(given["flag"], 11)
        if side == other:
            self._enter(side)
            if isinstance(given["flag"], tirx.IntImm) and int(given["flag"]) >= EVENTS:
                raise self._limit(f"event {int(given['flag'])}, where a pair of pipes has {EVENTS}")
            word = "Set" if command == "set_flag" else "Wait"
            return f"{word}Flag<HardEvent::{source}_{target}>({number});"
        first = self.crossing[pair]
        number = number if not first else f"{first}" if number == "0" else f"{number} + {first}"
        if command == "set_flag":
            self._enter(side)
            return f"CrossCoreSetFlag<0x2, PIPE_{source}>({number});"
        self._enter(other)
        return f"CrossCoreWaitFlag({number});"

    def _meet(self, command: str) -> list[str]:
        if command == "sync":
            raise self._limit(
                "the two cores of an AI core do not wait for all of each other's pipes"
            )
        self._leave()
        self.sides |= {CUBE, VECTOR} if self.guarded else set()
        return ["PipeBarrier<PIPE_ALL>();", "SyncAll<false>();"]

    # ---- copies and products

    def _dma_copy(self, given: dict[str, Any]) -> list[str]:
        (target, to), (source, of) = self._place(given["dst"]), self._place(given["src"])
        item = itemsize(str(to.ty.dtype))
        rows, size = self.expr(given["rows"]), self.expr(given["row_bytes"])
        strides = self.expr(given["dst_stride"]), self.expr(given["src_stride"])
        memory, other = self.memory.get(to, "GM"), self.memory.get(of, "GM")
        if "GM" in (other, memory) and "UB" in (other, memory):
            unified = "dst" if memory == "UB" else "src"
            self._check_start(given[unified])
            one = is_number(given["rows"], 1) or strides == (size, size)
            if not one and multiple(given[f"{unified}_stride"]) % BLOCK:
                pitch = strides[0] if memory == "UB" else strides[1]
                raise self._limit(
                    f"rows that are {pitch} bytes apart in UB, where one begins at a multiple of "
                    f"{BLOCK} bytes"
                )
        if (other, memory) == ("GM", "UB"):
            return [f"rows_in({target}, {strides[0]}, {source}, {strides[1]}, {rows}, {size});"]
        if (other, memory) == ("UB", "GM"):
            return [f"rows_out({target}, {strides[0]}, {source}, {strides[1]}, {rows}, {size});"]
        if other != "L1" or memory not in ("L0A", "L0B"):
            raise self._limit(f"rows of bytes do not go from {other} to {memory}")
        if to not in self.turned:
            raise self._limit(f"no product reads {to.name}, so that nobody says how it lies")
        # L1 holds a left operand's rows as L0A does, and a right operand's turned.
        word = "left" if memory == "L0A" else "right"
        turned = self.turned[to] == (memory == "L0A")
        pitch = self._elements(given["src_stride"], item)
        blocks = self._elements(given["row_bytes"], 512)
        if turned and isinstance(given["src_stride"], tirx.IntImm) and int(pitch) % 256:
            raise self._limit("a row of fractals in L1 is of no whole squares of 16 x 16")
        name = f"{word}_turned_in" if turned else f"{word}_in"
        return [f"{name}({target}, {source}, {pitch}, {rows}, {blocks});"]

    def _dma_block(self, given: dict[str, Any]) -> list[str]:
        (target, to), (source, of) = self._place(given["dst"]), self._place(given["src"])
        item = int(given["item_bytes"])
        if self.memory.get(of, "GM") != "GM" or self.memory.get(to) != "L1":
            raise self._limit("rows become fractals on the way from main memory to L1 only")
        if (int(given["block_rows"]), int(given["block_cols"])) != (16, 32 // item):
            raise self._limit(f"a fractal of elements of {item} bytes is 16 x {32 // item}")
        pitches = [self._elements(given[f"{side}_stride"], item) for side in ("dst", "src")]
        if pitches[1].isdigit() and int(pitches[1]) > 65535:
            raise self._limit(f"Nd2NzParams holds no row of {int(pitches[1]):,} elements")
        rows, cols = self.expr(given["rows"]), self.expr(given["cols"])
        return [f"fractals_in({target}, {pitches[0]}, {source}, {pitches[1]}, {rows}, {cols});"]

    def _dma_unblock(self, given: dict[str, Any]) -> list[str]:
        (target, _), (source, of) = self._place(given["dst"]), self._place(given["src"])
        if self.memory.get(of) != "L0C":
            raise self._limit("fractals become rows on the way from L0C to main memory only")
        pitch = self._elements(given["dst_stride"], int(given["item_bytes"]))
        rows, cols = self.expr(given["rows"]), self.expr(given["cols"])
        return [f"sums_out({target}, {pitch}, {source}, {rows}, {cols});"]

    def _dma_zero(self, given: dict[str, Any]) -> list[str]:
        target, to = self._place(given["dst"])
        if self.memory.get(to) != "L1":
            raise self._limit(f"no copy writes zeros to {self.memory.get(to, 'main memory')}")
        sizes = ", ".join(self.expr(given[name]) for name in ("dst_stride", "rows", "row_bytes"))
        return [f"zeros_in({target}, {sizes});"]

    def _mma(self, given: dict[str, Any]) -> list[str]:
        operands = [self._place(given[name])[0] for name in "cab"]
        sizes = [self.expr(given[name]) for name in "mnk"]
        adds = given["accumulate"]
        text = (
            ("true" if int(adds) else "false") if isinstance(adds, tirx.IntImm) else self.expr(adds)
        )
        wide = itemsize(DTYPES[int(given["type"])]) > 2
        odd = isinstance(given["k"], tirx.IntImm) and (int(given["k"]) - 1) % 16 < 8
        if int(given["a_transposed"]) and wide and odd:
            raise self._limit(
                f"squares of a turned left operand, where {sizes[2]} products are summed"
            )
        return [f"multiply({', '.join([*operands, *sizes, text])});"]

    def _e_floatimm(self, node: Any) -> str:
        text = super()._e_floatimm(node)
        return text.replace("INFINITY", "__builtin_inff()").replace("NAN", '__builtin_nanf("")')

    def _e_tensorload(self, node: Any) -> str:
        (index,) = node.indices
        return f"{self._read(node.source)}.GetValue({self.expr(index)})"


def _calls(node: Any) -> Iterator[tuple[str, list[Any]]]:
    """The commands of a statement, with their arguments."""
    match type(node).__name__:
        case "SeqStmt":
            for child in node.seq:
                yield from _calls(child)
        case "AttrStmt" | "For":
            yield from _calls(node.body)
        case "IfThenElse":
            yield from _calls(node.then_case)
            if node.else_case is not None:
                yield from _calls(node.else_case)
        case "Evaluate" if (
            getattr(getattr(node.value, "op", None), "name", "") == "tirx.call_extern"
        ):
            yield node.value.args[0].value, list(node.value.args[1:])


def _most(flag: Any) -> int:
    """The greatest number of a flag: a constant, or ``slot % stages`` and a constant more."""
    kind = type(flag).__name__
    if isinstance(flag, tirx.IntImm):
        return int(flag)
    if kind == "Add":
        return _most(flag.a) + _most(flag.b)
    if kind == "Cast":
        return _most(flag.value)
    if kind in ("Mod", "FloorMod"):
        return int(flag.b) - 1
    if kind == "Call" and flag.op.name == "tirx.truncmod":
        return int(flag.args[1]) - 1
    return EVENTS - 1

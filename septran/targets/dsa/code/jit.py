"""The same stream without a C compiler: TensorIR that writes its own records, by LLVM.

Each extern becomes stores into an array of records. Where it is too small the rest is only
counted, and the run is repeated with room for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from septran.dtypes import itemsize, numpy_dtype
from septran.ir.numerics import convert
from septran.machine.model import Machine
from septran.simulator.commands import (
    ADDRESS,
    ARGUMENTS,
    CODES,
    EXTERNS,
    RECORD,
    VALUE,
    memory_address,
    parameter_address,
)
from septran.targets.dsa.code.codegen import SHORT_FLOATS, UnknownNodeError, is_buffer

WORDS = RECORD.itemsize // 8
"""Int64 numbers a record: code and core, line, then the arguments."""
ROOM = 1 << 14
"""Records of the first attempt."""


def recording(
    function: Any, machine: Machine, lines: Sequence[int], buffers: int | None = None
) -> Any:
    """The PrimFunc `(stream, count, core, tables, scalars)` that records what `function` does.

    The first `buffers` of its buffers, all where None, are recorded by address; those after them
    are read.
    """
    return _Recording(machine, iter(lines), buffers).function(function)


@dataclass
class _Recording:
    machine: Machine
    lines: Iterator[int]
    buffers: int | None
    bases: dict[Any, int] = field(default_factory=dict)
    """Address of each buffer's first byte."""

    def function(self, function: Any) -> Any:
        """A new function with the same loops."""
        self.room = tirx.Var("room", "int64")
        self.stream = tirx.decl_buffer((self.room,), "int64", "stream", layout=None)
        self.count = tirx.decl_buffer((1,), "int64", "count", layout=None)
        kept: list[Any] = [self.stream, self.count]
        position = 0
        wide: dict[Any, Any] = {}
        for param in function.params:
            if is_buffer(param) and position == self.buffers:
                kept.append(param)
                continue
            if is_buffer(param):
                self.bases[param] = parameter_address(position)
                position += 1
                continue
            if str(param.ty.dtype) == "bfloat16":  # no caller can pass one: a rounded float is it
                wide[param] = tirx.Var(param.name, "float32")
            kept.append(wide.get(param, param))
            # The first number of the parameters is that of the core.
            self.core = getattr(self, "core", param)
        body = function.body
        if wide:
            rule = (tirx.Var, lambda v: wide.get(v, v))
            body = tvm_ffi.structural_map(body, [rule], order="post")
        attributes = tvm.ir.make_node("ir.DictAttrs", **{"global_symbol": "record"})
        return tirx.PrimFunc(kept, self.statement(body), attrs=attributes)

    def statement(self, node: Any) -> Any:
        match type(node).__name__:
            case "SeqStmt":
                return _sequence([self.statement(child) for child in node.seq])
            case "AttrStmt":
                return self.statement(node.body)
            case "For":
                body = self.statement(node.body)
                return tirx.For(node.loop_var, node.min, node.extent, tirx.ForKind.SERIAL, body)
            case "IfThenElse":
                other = None if node.else_case is None else self.statement(node.else_case)
                return tirx.IfThenElse(node.condition, self.statement(node.then_case), other)
            case "Bind":
                return node
            case "DeclBuffer":
                self.bases[node.buffer] = self._base(node.data)
                return tirx.Evaluate(0)
            case "Evaluate" if isinstance(node.value, tirx.IntImm):
                return node
            case "Evaluate" if node.value.op.name == "tirx.call_extern":
                return self._record(node.value.args[0].value, list(node.value.args[1:]))
        raise UnknownNodeError(f"the recorder does not know the statement {node}", None)

    def _base(self, data: Any) -> int:
        if data.op.name == "tirx.buffer_data":
            return self.bases[data.args[0]]
        names = [m.name for m in self.machine.memories]
        return memory_address(names.index(data.args[1].value)) + int(data.args[2])

    def _record(self, extern: str, values: list[Any]) -> Any:
        """``if (count < room) stream[count] = ...; count += 1``."""
        command, _ = EXTERNS[extern]
        # A record begins with four int32: code, core, line, and nothing.
        core = tirx.Cast("int64", self.core)
        words = [core * _number(1 << 32) + CODES[extern], _number(next(self.lines))]
        for argument, value in zip(command.arguments, values, strict=True):
            words.append(self._word(argument.kind, value))
        words += [_number(0)] * (2 + ARGUMENTS - len(words))
        at = tirx.BufferLoad(self.count, [_number(0)])
        stores = [
            tirx.BufferStore(self.stream, word, [at * WORDS + n]) for n, word in enumerate(words)
        ]
        fits = tirx.IfThenElse(at * WORDS < self.room, _sequence(stores), None)
        step = tirx.BufferStore(self.count, at + 1, [_number(0)])
        return _sequence([fits, step])

    def _word(self, kind: str, value: Any) -> Any:
        if kind == ADDRESS:
            load = value.args[0]
            item = itemsize(str(load.source.ty.dtype))
            return _number(self.bases[load.source]) + tirx.Cast("int64", load.indices[0]) * item
        if kind == VALUE:
            return value if str(value.ty.dtype) == "int64" else tirx.reinterpret("int64", value)
        return tirx.Cast("int64", value)


def rounded(dtype: str, value: Any) -> Any:
    """A scalar as a number of its own type, where callers pass a wider one."""
    if dtype in SHORT_FLOATS:
        return float(convert(np.float64(value), numpy_dtype(dtype)))
    return value


def _number(value: int) -> Any:
    return tirx.const(value, "int64")


def _sequence(statements: list[Any]) -> Any:
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


@dataclass(frozen=True)
class JitProgram:
    """A control program that LLVM compiled."""

    function: Any
    scalars: tuple[str, ...]
    """Their dtypes."""

    def __call__(
        self, core: int, scalars: Sequence[Any], tables: Sequence[Any] = ()
    ) -> np.ndarray[Any, Any]:
        """The records of one core; `tables` are the flat arrays of indices that it reads."""
        numbers = [rounded(t, v) for t, v in zip(self.scalars, scalars, strict=True)]
        room = ROOM
        while True:
            stream = np.zeros(room * WORDS, np.int64)
            count = np.zeros(1, np.int64)
            self.function(stream, count, core, *tables, *numbers)
            if count[0] <= room:
                return stream[: count[0] * WORDS].view(RECORD)
            room = int(count[0])

"""Writes TensorIR statement by statement, in program order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import StringImm
from tvm.ir.expr import TensorLoad

Expr = Any
"""A TensorIR expression, or an int that becomes one."""

LARGEST_ON_STACK = 1024
"""Bytes below which TVM keeps an allocation on the stack (and LLVM in registers)."""


class Writer:
    """A stack of statement lists: the innermost open body is the last."""

    def __init__(self, index_dtype: str = "int32") -> None:
        self.index_dtype = index_dtype
        self._bodies: list[list[Any]] = [[]]
        self._counts: dict[str, int] = {}
        self._spots: set[str] = set()
        """Buffers that hold one number each, written once."""
        self.functions: dict[str, str] = {}
        """LLVM's text of functions that are called, by name."""

    def name(self, stem: str) -> str:
        """A name that no other variable of the function has."""
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return stem if count == 0 else f"{stem}_{count}"

    def index(self, value: int) -> Expr:
        """An integer constant of the index type."""
        return tirx.const(value, self.index_dtype)

    def emit(self, statement: Any) -> None:
        """Append a statement."""
        self._bodies[-1].append(statement)

    def evaluate(self, value: Expr) -> None:
        """Append an expression that is there for its effect."""
        self.emit(tirx.Evaluate(value))

    def bind(self, stem: str, value: Expr) -> Expr:
        """`value`, computed here once; what is constant or has a name stays itself.

        Indices get a variable. Numbers go through a spot on the stack, which LLVM makes a
        register: TVM would put the value of each variable into those of all that follow.
        """
        if isinstance(value, int | tirx.IntImm | tirx.FloatImm | tirx.Var | tirx.Broadcast):
            return value
        if isinstance(value, TensorLoad) and value.source.name in self._spots:
            return value
        dtype, _, lanes = str(value.ty.dtype).partition("x")
        if isinstance(value, TensorLoad) or (dtype == self.index_dtype and not lanes):
            variable = tirx.Var(self.name(stem), value.ty)
            self.emit(tirx.Bind(variable, value))
            return variable
        spot = self.allocate(stem, int(lanes or 1), dtype)
        self._spots.add(spot.name)
        zero = self.index(0)
        where = tirx.Ramp(zero, self.index(1), int(lanes)) if lanes else zero
        self.emit(tirx.BufferStore(spot, value, [where]))
        return tirx.BufferLoad(spot, [where])

    def allocate(self, stem: str, elements: int, dtype: str) -> Any:
        """A flat buffer that lives to the end of the body, on the stack when it is small."""
        buffer = flat_buffer(self.name(stem), max(1, elements), dtype)
        self.emit(tirx.AllocBuffer(buffer))
        return buffer

    def scratch(self, stem: str, elements: int, dtype: str) -> Any:
        """As `allocate`, for a buffer that is indexed by what is only known in a run."""
        return self.allocate(stem, elements, dtype)

    @contextmanager
    def body(self) -> Iterator[list[Any]]:
        """Collect what is written inside instead of appending it."""
        collected: list[Any] = []
        self._bodies.append(collected)
        yield collected
        self._bodies.pop()

    @contextmanager
    def loop(
        self, stem: str, extent: Expr, parallel: bool = False, unrolled: bool = False
    ) -> Iterator[Expr]:
        """``for stem in range(extent)``; a single iteration is written without a loop."""
        if _constant(extent) == 1:
            yield self.index(0)
            return
        variable = tirx.Var(self.name(stem), self.index_dtype)
        with self.body() as inside:
            yield variable
        plain = tirx.ForKind.UNROLLED if unrolled else tirx.ForKind.SERIAL
        kind = tirx.ForKind.PARALLEL if parallel else plain
        if inside and _constant(extent) != 0:
            low, top = self.index(0), extent
            top = self.index(top) if isinstance(top, int) else top
            self.emit(tirx.For(variable, low, top, kind, sequence(inside)))

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """Run what is written inside only under `condition` (a Python bool decides now)."""
        with self.body() as inside:
            yield
        if condition is True:
            for statement in inside:
                self.emit(statement)
        elif condition is not False and inside:
            self.emit(tirx.IfThenElse(condition, sequence(inside), None))

    def choose(self, condition: Expr, yes: Sequence[Any], no: Sequence[Any]) -> None:
        """`yes` under `condition`, else `no`; both were collected by `body`."""
        if isinstance(condition, bool):
            for statement in yes if condition else no:
                self.emit(statement)
            return
        other = sequence(no) if no else None
        self.emit(tirx.IfThenElse(condition, sequence(yes), other))

    @contextmanager
    def note(self, origin: str) -> Iterator[None]:
        """Say in the printed TensorIR where the statements inside come from."""
        with self.body() as inside:
            yield
        if inside:
            text = StringImm(origin.replace('"', "'"))
            self.emit(tirx.AttrStmt(0, "origin", text, sequence(inside)))

    def function(self, name: str, params: Sequence[Any]) -> Any:
        """The PrimFunc of all that was written."""
        attributes = tvm.ir.make_node(
            "ir.DictAttrs", **{"global_symbol": name, "tirx.noalias": True}
        )
        body = sequence(self._bodies[0] or [tirx.Evaluate(0)])
        if self.functions:
            text = StringImm("\n".join(self.functions.values()))
            body = tirx.AttrStmt(0, "pragma_import_llvm", text, body)
        return tirx.PrimFunc(list(params), body, attrs=attributes)


def flat_buffer(name: str, elements: int, dtype: str, alignment: int = 64) -> Any:
    """A one-dimensional buffer that starts at a multiple of `alignment` bytes."""
    return tirx.decl_buffer((elements,), dtype, name, data_alignment=alignment, layout=None)


def sequence(statements: Sequence[Any]) -> Any:
    """One statement that runs all in order."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def _constant(extent: Expr) -> int | None:
    if isinstance(extent, int):
        return extent
    return int(extent.value) if isinstance(extent, tirx.IntImm) else None

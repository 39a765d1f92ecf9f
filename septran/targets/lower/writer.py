"""Writes TensorIR statement by statement, in program order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import StringImm

Expr = Any
"""A TensorIR expression, or an int that becomes one."""


class Writer:
    """A stack of statement lists: the innermost open body is the last.

    A target overrides `bind` and `allocate` where its numbers live elsewhere.
    """

    def __init__(self, index_dtype: str = "int32") -> None:
        self.index_dtype = index_dtype
        self._bodies: list[list[Any]] = [[]]
        self._counts: dict[str, int] = {}
        self.functions: dict[str, str] = {}
        """LLVM's text of functions that are called, by name."""

    def name(self, stem: str) -> str:
        """A name that no other variable of the function has."""
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return stem if count == 0 else f"{stem}_{count}"

    def index(self, value: int) -> Expr:
        """An integer constant of the index type."""
        return tirx.IntImm(self.index_dtype, value)

    def emit(self, statement: Any) -> None:
        """Append a statement."""
        self._bodies[-1].append(statement)

    def evaluate(self, value: Expr) -> None:
        """Append an expression that is there for its effect."""
        self.emit(tirx.Evaluate(value))

    def bind(self, stem: str, value: Expr) -> Expr:
        """`value`, computed here once; what is constant or has a name stays itself."""
        if isinstance(value, int | tirx.IntImm | tirx.FloatImm | tirx.Var):
            return value
        variable = tirx.Var(self.name(stem), value.ty)
        self.emit(tirx.Bind(variable, value))
        return variable

    def allocate(self, stem: str, elements: int, dtype: str) -> Any:
        """A flat buffer that lives to the end of the body, on the stack when it is small."""
        buffer = flat_buffer(self.name(stem), max(1, elements), dtype)
        self.emit(tirx.AllocBuffer(buffer))
        return buffer

    def load(self, buffer: Any, index: Expr, lanes: int = 1) -> Expr:
        """One element, or `lanes` from `index` on."""
        return tirx.BufferLoad(buffer, [self._spot(index, lanes)])

    def store(self, buffer: Any, index: Expr, value: Expr, lanes: int = 1) -> None:
        """Store one element, or `lanes` from `index` on."""
        self.emit(tirx.BufferStore(buffer, value, [self._spot(index, lanes)]))

    def _spot(self, index: Expr, lanes: int) -> Expr:
        at = self.index(index) if isinstance(index, int) else index
        return at if lanes == 1 else tirx.Ramp(at, self.index(1), lanes)

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
            top = self.index(extent) if isinstance(extent, int) else extent
            self.emit(tirx.For(variable, self.index(0), top, kind, sequence(inside)))

    @contextmanager
    def when(self, condition: Expr | bool | None) -> Iterator[None]:
        """Run what is written inside only under `condition`; always where it is None."""
        if condition is None or condition is True:
            yield
            return
        with self.body() as inside:
            yield
        if condition is not False and inside:
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
    def origin(self, text: str) -> Iterator[None]:
        """Say in the printed TensorIR where the statements inside come from."""
        with self.body() as inside:
            yield
        if inside:
            value = StringImm(text.replace('"', "'"))
            self.emit(tirx.AttrStmt(0, "origin", value, sequence(inside)))

    @property
    def written(self) -> list[Any]:
        """The statements of the outermost body."""
        return self._bodies[0]

    def function(self, name: str, params: Sequence[Any]) -> Any:
        """The PrimFunc of all that was written."""
        # Callers check that no output shares memory with another tensor (runtime/arguments.py).
        attributes = tvm.ir.make_node(
            "ir.DictAttrs", **{"global_symbol": name, "tirx.noalias": True}
        )
        body = sequence(self.written or [tirx.Evaluate(0)])
        if self.functions:
            text = StringImm(_declared_once("\n".join(self.functions.values())))
            body = tirx.AttrStmt(0, "pragma_import_llvm", text, body)
        return tirx.PrimFunc(list(params), body, attrs=attributes)


def flat_buffer(
    name: str, elements: int, dtype: str, alignment: int = 64, scope: str = "global"
) -> Any:
    """A one-dimensional buffer that starts at a multiple of `alignment` bytes."""
    return tirx.decl_buffer(
        (elements,), dtype, name, scope=scope, data_alignment=alignment, layout=None
    )


def sequence(statements: Sequence[Any]) -> Any:
    """One statement that runs all in order."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def both(*conditions: Expr | None) -> Expr | None:
    """All conditions at once; None stands for one that always holds."""
    total: Expr | None = None
    for condition in conditions:
        if condition is not None:
            total = condition if total is None else tirx.And(total, condition)
    return total


def _declared_once(text: str) -> str:
    """The text without a declaration that it has had before, which LLVM refuses."""
    seen: set[str] = set()
    lines = []
    for line in text.splitlines():
        if line not in seen:
            lines.append(line)
        if line.startswith("declare "):
            seen.add(line)
    return "\n".join(lines)


def _constant(extent: Expr) -> int | None:
    if isinstance(extent, int):
        return extent
    return int(extent.value) if isinstance(extent, tirx.IntImm) else None

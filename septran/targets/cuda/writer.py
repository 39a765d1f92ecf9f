"""Writes the TensorIR of a kernel statement by statement, in program order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.ir import StringImm

Expr = Any
"""A TensorIR expression, or an int that becomes one."""
NOTE = "septran_note"
"""The call that stands for a comment line until the text is printed."""
ROLLED = "#pragma unroll 1"
"""A note that becomes this line: the loop after it stays one."""


class Writer:
    """A stack of statement lists: the innermost open body is the last."""

    def __init__(self, index_dtype: str = "int32", nan_extremes: bool = False) -> None:
        self.index_dtype = index_dtype
        self.nan_extremes = nan_extremes
        """Whether the machine has instructions for the greater of two floats, or NaN."""
        self._bodies: list[list[Any]] = [[]]
        self._counts: dict[str, int] = {}

    def name(self, stem: str) -> str:
        """A name that no other variable of the kernel has."""
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

    def note(self, text: str) -> None:
        """A comment line in the CUDA text: where the next statements come from."""
        call = tirx.call_extern("void", NOTE, StringImm(text.replace("\n", " ")))
        self.evaluate(call)

    def bind(self, stem: str, value: Expr) -> Expr:
        """`value`, computed here once; what is constant or has a name stays itself."""
        if isinstance(value, int | tirx.IntImm | tirx.FloatImm | tirx.Var):
            return value
        variable = tirx.Var(self.name(stem), value.ty)
        self.emit(tirx.Bind(variable, value))
        return variable

    def allocate(self, stem: str, elements: int, dtype: str) -> Any:
        """A flat array of each thread's own, which the compiler keeps in registers."""
        buffer = flat_buffer(self.name(stem), max(1, elements), dtype, scope="local")
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
    def loop(self, stem: str, extent: Expr, unrolled: bool = False) -> Iterator[Expr]:
        """``for stem in range(extent)``; a single iteration is written without a loop."""
        if _constant(extent) == 1:
            yield self.index(0)
            return
        variable = tirx.Var(self.name(stem), self.index_dtype)
        with self.body() as inside:
            yield variable
        kind = tirx.ForKind.UNROLLED if unrolled else tirx.ForKind.SERIAL
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
        self.emit(tirx.IfThenElse(condition, sequence(yes), sequence(no) if no else None))

    @property
    def written(self) -> list[Any]:
        """The statements of the outermost body."""
        return self._bodies[0]


def flat_buffer(
    name: str, elements: int, dtype: str, scope: str = "global", alignment: int = 16
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


def _constant(extent: Expr) -> int | None:
    if isinstance(extent, int):
        return extent
    return int(extent.value) if isinstance(extent, tirx.IntImm) else None

"""Tensor expressions as TileLang's: loops over elements, with reductions before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from septran.dtypes import compute_dtype, is_float, numpy_dtype, promote
from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.ir.numerics import identity
from septran.targets.cuda.fragment.fragments import power_of_two
from septran.targets.lower.python_writer import bracket
from septran.targets.tilelang.context import At, TileLangContext, all_of, number
from septran.targets.tilelang.unsupported import unsupported
from septran.tile.nodes import Origin, Region

_CALLS: Mapping[str, str] = {
    "abs": "T.abs", "exp": "T.exp", "exp2": "T.exp2", "log": "T.log", "log2": "T.log2",
    "sqrt": "T.sqrt", "rsqrt": "T.rsqrt", "tanh": "T.tanh", "sigmoid": "T.sigmoid",
    "erf": "T.erf", "sin": "T.sin", "cos": "T.cos", "floor": "T.floor", "ceil": "T.ceil",
    "round": "T.nearbyint", "maximum": "T.max", "minimum": "T.min", "power": "T.pow",
}  # fmt: skip
_INFIX: Mapping[str, str] = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "left_shift": "<<",
    "right_shift": ">>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "equal": "==", "not_equal": "!=", "floor_divide": "//", "remainder": "%",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_LOGICAL: Mapping[str, str] = {"and": "T.And", "or": "T.Or"}
POSITIONS = "int32"
"""The type of indices and positions."""


@dataclass
class TileLangElements:
    """The value of one node's expression, element by element."""

    context: TileLangContext
    origin: Origin

    def without_reductions(self, expr: ex.Expr) -> ex.Expr:
        """The expression with the results of reductions, which are computed before it."""
        expr = ex.map_children(expr, self.without_reductions)
        if not isinstance(expr, ex.Reduce):
            return expr
        shape = expr.shape or (1,)
        memory = "REGISTER" if self.context.fragments else "SHARED"
        target = self.context.scratch(f"{expr.function}_of", memory, shape, expr.dtype)
        self.reduce(expr, target)
        if not expr.shape:
            target = target.without(0, 0)
        return ex.Load(replace(target, valid=expr.valid), expr.dtype)

    def reduce(self, expr: ex.Reduce, target: Region) -> None:
        """Write a reduction, whose operand has none, to all of a buffer."""
        context, along = self.context, expr.axis
        if expr.dtype == "bool":
            raise unsupported(self.origin, "TileLang reduces no booleans")
        source = self._whole_fragment(expr.operand, expr.dtype)
        if source is None or not self._all_exist(expr):
            # Threads meet pairwise: their number along the axis is a power of two.
            shape = [power_of_two(n) for n in expr.operand.shape]
            if context.in_registers(target):
                shape = [s if n == along else e for n, (s, e) in
                         enumerate(zip(shape, expr.operand.shape, strict=True))]  # fmt: skip
            source = context.scratch("part", "REGISTER", tuple(shape), expr.dtype)
            self._store_part(source, expr)
        rest = (*source.shape[:along], *source.shape[along + 1 :]) or (1,)
        fits = context.in_registers(target) and target.shape == rest
        into = target if fits else context.scratch(expr.function, "REGISTER", rest, expr.dtype)
        names = context.names[source.buffer], context.names[into.buffer]
        context.writer.line(f"T.reduce_{expr.function}({names[0]}, {names[1]}, dim={along})")
        if not fits:
            self._cut(target, into)

    def _cut(self, target: Region, source: Region) -> None:
        """Write what a smaller buffer takes of a fragment, by a loop over all of the fragment."""
        context = self.context
        with context.elements(source.shape) as at:
            line = f"{context.element(target, at)} = {context.element(source, at)}"
            where = context.exists(source.shape, tuple(map(Index.of, target.shape)), at)
            with context.guarded(where):
                context.writer.line(line)

    def _all_exist(self, expr: ex.Reduce) -> bool:
        """Whether all elements along the axis of a reduction exist, a power of two of them."""
        extent = expr.operand.shape[expr.axis]
        valid = self.context.indices.simple(expr.operand.valid[expr.axis])
        return valid == Index.of(extent) and extent == power_of_two(extent)

    def _store_part(self, source: Region, expr: ex.Reduce) -> None:
        """Write what is reduced; what does not exist changes no result."""
        context, operand, along = self.context, expr.operand, expr.axis
        with context.elements(source.shape) as at:
            value = self.typed(operand, at, expr.dtype)
            limits = [
                v if n == along else Index.of(e)
                for n, (v, e) in enumerate(zip(operand.valid, operand.shape, strict=True))
            ]
            where = context.exists(source.shape, limits, at)
            if where:
                neutral = _neutral(expr.function, expr.dtype)
                value = f"T.if_then_else({all_of(where)}, {value}, {neutral})"
            context.writer.line(f"{context.element(source, at)} = {value}")

    def _whole_fragment(self, expr: ex.Expr, dtype: str) -> Region | None:
        """The fragment whose elements an expression is, all of them; None where it is no such."""
        if not isinstance(expr, ex.Load):
            return None
        view = expr.view
        assert isinstance(view, Region)
        context = self.context
        whole = context.in_registers(view) and context.is_all(view)
        return view if whole and context.buffer(view.buffer).dtype == dtype else None

    def store_map(self, target: Region, expr: ex.Expr) -> None:
        """Write any expression to a region."""
        expr = ex.map_children(expr, self.without_reductions)
        if isinstance(expr, ex.Reduce):
            held = self.context.buffer(target.buffer).dtype
            if expr.shape and self.context.is_all(target) and held == expr.dtype:
                self.reduce(expr, target)
                return
            expr = self.without_reductions(expr)
        self.store(target, expr)

    def store(self, target: Region, expr: ex.Expr) -> None:
        """Write an expression without reductions to a region: where it exists, unless it is a tile.

        What lies behind the end of a whole buffer of the block nobody takes.
        """
        context = self.context
        held = context.buffer(target.buffer).dtype
        with context.elements(target.shape) as at:
            place, value = context.element(target, at), self.typed(expr, at, held)
            where = context.exists(target.shape, target.valid, at)
            with context.guarded([] if context.is_tile(target) else where):
                context.writer.line(f"{place} = {value}")

    # ---- values ---------------------------------------------------------------------------

    def typed(self, expr: ex.Expr, at: At, dtype: str) -> str:
        """The element of `expr` at a place of the result, as a number of a type."""
        if isinstance(expr, ex.Constant):
            value = expr.value
            exact = is_float(dtype) or not is_float(expr.dtype)
            return number(value if exact else int(value), dtype, typed=True)
        text, own = self.value(expr, at), _held(expr)
        if own == dtype:
            return text
        if dtype == "bool":
            return f"{bracket(text)} != 0"
        return f'T.Cast("{dtype}", {text})'

    def value(self, expr: ex.Expr, at: At) -> str:
        """The element of `expr` at a place of the result that it is broadcast to."""
        own = _own(expr, at)
        match expr:
            case ex.Load():
                return self._load(expr, own)
            case ex.Constant():
                return number(expr.value, expr.dtype)
            case ex.Scalar():
                return self.context.names[expr.name]
            case ex.IndexValue():
                return bracket(self.context.indices.text(expr.index))
            case ex.Position():
                return self._position(expr, own)
            case ex.Unary():
                return self._unary(expr, own)
            case ex.Binary():
                return self._binary(expr, own)
            case ex.Select():
                condition = self.typed(expr.condition, own, "bool")
                yes, no = (self.typed(e, own, expr.dtype) for e in (expr.yes, expr.no))
                return f"T.if_then_else({condition}, {yes}, {no})"
            case ex.Cast():
                return self.typed(expr.operand, own, expr.dtype)
            case ex.Expand():
                kept = tuple(p for n, p in enumerate(own) if n not in expr.axes)
                return self.value(expr.operand, kept)
            case ex.Reduce():
                raise TypeError("a reduction is computed before the elements")

    def _load(self, expr: ex.Load, at: At) -> str:
        assert isinstance(expr.view, Region)
        context, view = self.context, expr.view
        text = context.element(view, at)
        conditions = context.inside(view, at)
        if context.in_main(view):
            conditions += context.exists(view.shape, view.valid, at)
        if not conditions:
            return text
        zero = number(0, expr.dtype, typed=True)
        return f"T.if_then_else({all_of(conditions)}, {text}, {zero})"

    def _position(self, expr: ex.Position, at: At) -> str:
        own = axis(expr.axis)
        entry = next((e for e in expr.view.index if own in e.variables()), Index())
        values = {axis(n): Index() for n in range(expr.view.rank)}
        return bracket(self.context.indices.text(entry.substitute({**values, own: at[0]})))

    def _unary(self, expr: ex.Unary, at: At) -> str:
        if expr.function == "not":
            return f"{bracket(self.value(expr.operand, at))} == 0"
        operand = self.typed(expr.operand, at, expr.dtype)
        match expr.function:
            case "neg":
                return f"-{bracket(operand)}"
            case "invert":
                return f"T.bitwise_not({operand})"
            case "floor" | "ceil" | "round" if not is_float(expr.dtype):
                return operand
            case name:
                return f"{_CALLS[name]}({operand})"

    def _binary(self, expr: ex.Binary, at: At) -> str:
        function, common = expr.function, expr.dtype
        if function in ex.COMPARISONS:
            common = compute_dtype(promote(expr.left.dtype, expr.right.dtype))
        left, right = (self._operand(e, at, common) for e in (expr.left, expr.right))
        if isinstance(expr.left, ex.Constant) and isinstance(expr.right, ex.Constant):
            left = self.typed(expr.left, at, common)
        if common == "bool" and function in _LOGICAL:
            return f"{_LOGICAL[function]}({left}, {right})"
        if is_float(common) and function in ("floor_divide", "remainder"):
            quotient = f"T.floor({bracket(left)} / {bracket(right)})"
            if function == "floor_divide":
                return quotient
            return f"{bracket(left)} - {quotient} * {bracket(right)}"
        if function in _INFIX:
            return f"{bracket(left)} {_INFIX[function]} {bracket(right)}"
        return f"{_CALLS[function]}({left}, {right})"

    def _operand(self, expr: ex.Expr, at: At, dtype: str) -> str:
        if isinstance(expr, ex.Constant):  # takes the other operand's type
            exact = is_float(dtype) or not is_float(expr.dtype)
            return number(expr.value if exact else int(expr.value), dtype)
        positions = {_held(expr), dtype} == {POSITIONS, "int64"}
        return self.value(expr, at) if positions else self.typed(expr, at, dtype)


def _held(expr: ex.Expr) -> str:
    """The type that an expression's text has."""
    return POSITIONS if isinstance(expr, ex.IndexValue | ex.Position) else expr.dtype


def _own(expr: ex.Expr, at: At) -> At:
    """The place in an operand of the place in the result that it is broadcast to."""
    mine = at[len(at) - len(expr.shape) :]
    return tuple(Index() if n == 1 else p for n, p in zip(expr.shape, mine, strict=True))


def _neutral(function: str, dtype: str) -> str:
    if function == "sum":
        return number(0, dtype, typed=True)
    found = identity(function, numpy_dtype(dtype))
    return number(float(found) if is_float(dtype) else int(found), dtype, typed=True)

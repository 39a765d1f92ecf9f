"""Tensor expressions as JAX text on values of vector memory."""

from __future__ import annotations

from collections.abc import Mapping

from septran.dtypes import compute_dtype, is_float, numpy_dtype, promote
from septran.ir import expressions as ex
from septran.ir.index import Var, axis
from septran.ir.numerics import identity
from septran.targets.lower.python_writer import bracket
from septran.targets.tpu import element_types
from septran.targets.tpu.access import sizes_of
from septran.targets.tpu.elements import TileElements, postfix
from septran.targets.tpu.unsupported import unsupported
from septran.tile.nodes import Region

LONGEST = 72
"""Characters of a value's text beyond which it gets a name of its own."""
_FUNCTIONS: Mapping[str, str] = {
    "abs": "jnp.abs", "exp": "jnp.exp", "exp2": "jnp.exp2", "log": "jnp.log", "log2": "jnp.log2",
    "sqrt": "jnp.sqrt", "rsqrt": "jax.lax.rsqrt", "tanh": "jnp.tanh", "sigmoid": "jax.nn.sigmoid",
    "erf": "jax.lax.erf", "sin": "jnp.sin", "cos": "jnp.cos", "floor": "jnp.floor",
    "ceil": "jnp.ceil", "round": "jnp.round",
}  # fmt: skip
_INFIX: Mapping[str, str] = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^",
    "left_shift": "<<", "right_shift": ">>", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_CALLS: Mapping[str, str] = {
    "maximum": "jnp.maximum", "minimum": "jnp.minimum", "floor_divide": "jnp.floor_divide",
    "remainder": "jnp.remainder", "power": "jnp.power",
}  # fmt: skip
_INTEGERS: Mapping[str, str] = {
    "floor_divide": "_divided", "remainder": "_remainder", "power": "_power",
}  # fmt: skip
"""Functions whose corner cases JAX has otherwise for integers."""


class Values(TileElements):
    """The expressions of one node."""

    def value(self, expr: ex.Expr) -> str:
        """The value as text; long ones get a name."""
        text = self._value(expr)
        return self.named(text) if len(text) > LONGEST else text

    def _value(self, expr: ex.Expr) -> str:
        element_types.require(expr.dtype, self.origin)
        match expr:
            case ex.Load():
                assert isinstance(expr.view, Region)
                held = self.context.buffer(expr.view.buffer).dtype
                return self.converted(self.load(expr.view), held, expr.dtype)
            case ex.Constant():
                return self.context.constant(expr.value, expr.dtype)
            case ex.Scalar():
                return self.converted(f"{self.context.names[expr.name]}[0]", "", expr.dtype)
            case ex.IndexValue():
                text = f"jnp.int32({self.context.indices.text(expr.index)})"
                return self.converted(text, "int32", expr.dtype)
            case ex.Position():
                return self.converted(self._position(expr), "int32", expr.dtype)
            case ex.Unary():
                return self._unary(expr)
            case ex.Binary():
                return self._binary(expr)
            case ex.Select():
                return self._select(expr)
            case ex.Cast():
                return self.cast(expr.operand, expr.dtype)
            case ex.Expand():
                return self._expand(expr)
            case ex.Reduce():
                return self._reduce(expr)

    # ---- conversions --------------------------------------------------------------------

    def cast(self, expr: ex.Expr, dtype: str) -> str:
        """The value of `expr` in another type."""
        if isinstance(expr, ex.Constant) and not (is_float(expr.dtype) and not is_float(dtype)):
            return self.context.constant(expr.value, dtype)
        if isinstance(expr, ex.Constant):
            return self.converted(self.context.typed(expr.value, expr.dtype), expr.dtype, dtype)
        return self.converted(self.value(expr), expr.dtype, dtype)

    # ---- nodes --------------------------------------------------------------------------

    def _unary(self, expr: ex.Unary) -> str:
        if expr.function == "not":
            if expr.operand.dtype == "bool":
                return f"jnp.logical_not({self.value(expr.operand)})"
            return f"({self._operand(expr.operand)} == 0)"
        operand = self.cast(expr.operand, expr.dtype)
        if isinstance(expr.operand, ex.Constant):
            operand = self.context.typed(expr.operand.value, expr.dtype)
        if expr.function == "neg":
            return f"-{bracket(operand)}"
        if expr.function == "invert":
            return f"~{bracket(operand)}"
        if expr.function in ("floor", "ceil", "round") and not is_float(expr.dtype):
            return operand
        return f"{_FUNCTIONS[expr.function]}({operand})"

    def _binary(self, expr: ex.Binary) -> str:
        common = expr.dtype
        if expr.function in ex.COMPARISONS:
            common = compute_dtype(promote(expr.left.dtype, expr.right.dtype))
        element_types.require(common, self.origin)
        self._narrow(expr)
        left, right = (self.cast(e, common) for e in (expr.left, expr.right))
        if isinstance(expr.left, ex.Constant) and isinstance(expr.right, ex.Constant):
            left = self.context.typed(expr.left.value, common)
        if expr.function in _INFIX:
            return f"{bracket(left)} {_INFIX[expr.function]} {bracket(right)}"
        if expr.function in _INTEGERS and not is_float(common):
            for e in (expr.left, expr.right):
                if isinstance(e, ex.Constant):
                    typed = self.context.typed(e.value, common)
                    left, right = (typed, right) if e is expr.left else (left, typed)
            return f"{self.context.helper(_INTEGERS[expr.function])}({left}, {right})"
        return f"{_CALLS[expr.function]}({left}, {right})"

    def _narrow(self, expr: ex.Binary) -> None:
        """Refuse sums of 64 bits of what a call brings: they are exact in 32 for positions only."""
        if expr.dtype not in ("int64", "uint64"):
            return
        for part in ex.walk(expr):
            if (
                isinstance(part, ex.Load)
                and part.dtype == expr.dtype
                and expr.function not in ("add", "subtract", "maximum", "minimum")
            ):
                raise unsupported(
                    self.origin,
                    "a TPU has no integers of 64 bits",
                    "take int32 for what is computed with",
                )

    def _select(self, expr: ex.Select) -> str:
        condition = self.converted(self._operand(expr.condition), expr.condition.dtype, "bool")
        branches = []
        for branch in (expr.yes, expr.no):
            constant = isinstance(branch, ex.Constant)
            both = isinstance(expr.yes, ex.Constant) and isinstance(expr.no, ex.Constant)
            if constant and both:
                assert isinstance(branch, ex.Constant)
                branches.append(self.context.typed(branch.value, expr.dtype))
            else:
                branches.append(self.cast(branch, expr.dtype))
        return f"jnp.where({condition}, {branches[0]}, {branches[1]})"

    def _operand(self, expr: ex.Expr) -> str:
        if isinstance(expr, ex.Constant):
            return self.context.typed(expr.value, expr.dtype)
        return self.value(expr)

    def _expand(self, expr: ex.Expand) -> str:
        text = self._operand(expr.operand)
        rank = len(expr.shape)
        places = ["None" if n in expr.axes else ":" for n in range(rank)]
        if rank == len(expr.axes):
            dtype = element_types.name(element_types.computed(expr.dtype))
            return f"jnp.full({(1,) * rank}, {text}, {dtype})"
        return f"{postfix(text)}[{', '.join(places)}]"

    def _reduce(self, expr: ex.Reduce) -> str:
        text = self.cast(expr.operand, expr.dtype)
        operand = expr.operand
        neutral = self._neutral(expr.function, expr.dtype)
        text = self.masked(text, operand.shape, operand.valid, (expr.axis,), neutral)
        if expr.dtype == "bool":
            return f"jnp.{'any' if expr.function == 'max' else 'all'}({text}, axis={expr.axis})"
        return f"jnp.{expr.function}({text}, axis={expr.axis})"

    def _neutral(self, function: str, dtype: str) -> str:
        if function == "sum":
            return "0"
        found = identity(function, numpy_dtype(element_types.computed(dtype)))
        value = bool(found) if dtype == "bool" else float(found) if is_float(dtype) else int(found)
        return self.context.constant(value, dtype)

    def _position(self, expr: ex.Position) -> str:
        (size,) = sizes_of(expr.shape, expr.valid)
        own = axis(expr.axis)
        entry = next((e for e in expr.view.index if own in e.variables()), None)
        if entry is None:
            return f"jnp.zeros(({size},), jnp.int32)"
        zeros = {axis(n): 0 for n in range(expr.view.rank) if n != expr.axis}
        entry = entry.substitute(zeros)
        if any(own in c.variables() for e in entry.elements() for c in e.at):
            raise unsupported(self.origin, "positions that a tensor chooses are no vector")
        iota = Var(f"iota {size}")
        self.context.indices.names[iota] = f"jax.lax.broadcasted_iota(jnp.int32, ({size},), 0)"
        # Of one element, too, it is a vector: a range of 0 alone would make it a number.
        self.context.indices.ranges = {**self.context.indices.ranges, iota: (0, max(1, size - 1))}
        return f"({self.context.indices.text(entry.substitute({own: iota}))})"

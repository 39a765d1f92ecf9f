"""Random tensor expressions, as text, with exact values in float64 or integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from septran.fuzz.choices import Choices

_FLOAT_UNARY = (
    "-{}", "abs({})", "task.relu({})", "task.tanh({})", "task.sigmoid({})", "task.exp({})",
    "task.floor({})", "task.erf({})", "task.silu({})",
)  # fmt: skip
_FLOAT_BINARY = (
    "({} + {})", "({} - {})", "({} * {})", "task.maximum({}, {})", "task.minimum({}, {})",
    "task.where({} > 0, {}, 0.5)", "task.where({} <= {}, 1.0, -2.0)",
)  # fmt: skip
_INT_UNARY = ("-{}", "abs({})", "~{}")
_INT_BINARY = (
    "({} + {})", "({} - {})", "({} * {})", "task.maximum({}, {})", "task.minimum({}, {})",
    "({} & {})", "({} | {})", "({} ^ {})", "task.where({} > {}, 1, 0)", "task.where({} < 0, {}, 7)",
    "(({} + 1) - {})", "(({} * 2) // 2 + {})", "({} // (({} & 7) + 1))", "({} % (({} & 3) + 1))",
    "({} << ({} & 3))", "({} >> ({} & 3))",
)  # fmt: skip
_DANGEROUS = ("exp",)
"""Functions whose operand is bounded first, as an overflow would prove nothing."""


@dataclass(frozen=True)
class ExpressionParts:
    """The operands of an expression: texts of one shape, that of a tile."""

    tiles: Sequence[str]
    others: Sequence[str] = ()
    """Rows, columns and positions, broadcast to the tile's shape."""
    integers: bool = False


def expression(choices: Choices, operands: ExpressionParts, depth: int) -> str:
    """Return a random expression with at most `depth` levels of functions."""
    unary = _INT_UNARY if operands.integers else _FLOAT_UNARY
    binary = _INT_BINARY if operands.integers else _FLOAT_BINARY
    kind = choices.below(20) if depth else 0
    if kind < 4:
        return _operand(choices, operands)
    if kind < 10:
        form, inner = choices.of(unary), expression(choices, operands, depth - 1)
        return form.format(f"task.tanh({inner})" if any(d in form for d in _DANGEROUS) else inner)
    parts = [expression(choices, operands, depth - 1) for _ in range(2)]
    return choices.of(binary).format(*parts)


def _operand(choices: Choices, operands: ExpressionParts) -> str:
    tile = choices.of(operands.tiles)
    if operands.others and choices.chance(40):
        return f"({tile} {choices.of('+*')} {choices.of(operands.others)})"
    return tile

"""``fill``: one number everywhere."""

from __future__ import annotations

from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.tile.nodes import Compute


def emit_fill(context: Context, node: Compute) -> None:
    """Every element that exists becomes the attribute ``value``."""
    value = dict(node.attributes).get("value", 0)
    fill(context, context.access(node.operands[0]), float(value))


def fill(context: Context, target: Access, value: float) -> None:
    """Write `value` to all elements that exist."""
    raise NotImplementedError  # vector.py follows

"""Asynchronous products: they run beside what follows until something needs their operands."""

from __future__ import annotations

from collections.abc import Sequence

from septran.tile.nodes import (
    Compute,
    Copy,
    Node,
    Release,
    TileProgram,
    Wait,
    reads,
    writes,
)


def asynchronous(program: TileProgram, node: Node) -> bool:
    """Return whether a node is a product that its issuer need not wait for at once."""
    if not isinstance(node, Compute) or node.primitive != "gemm":
        return False
    try:
        instruction = program.machine.instruction(node.instruction)
    except KeyError:
        return False
    return bool(dict(instruction.options).get("asynchronous"))


def touches(program: TileProgram, node: Copy | Compute, product: Compute) -> bool:
    """Return whether a node must find a product complete: it needs the sums or changes an operand.

    Another asynchronous product may add to the same sums, as such products run in order.
    """
    sums = product.operands[0].buffer
    written = {r.buffer for r in writes(node)}
    if written & {r.buffer for r in product.operands[1:]}:
        return True
    if asynchronous(program, node) and node.operands[0] == product.operands[0]:  # type: ignore[union-attr]
        return sums in {r.buffer for r in reads(node) if r is not node.operands[0]}  # type: ignore[union-attr]
    return sums in written | {r.buffer for r in reads(node)}


def completed(program: TileProgram, body: Sequence[Node], position: int) -> int | None:
    """Return the position in its body before which a product must be complete; None at its end.

    Only products and element-wise work may stand between: at a loop, a copy or a barrier it is
    complete in any case.
    """
    product = body[position]
    if not asynchronous(program, product):
        return None
    assert isinstance(product, Compute)
    for later in range(position + 1, len(body)):
        node = body[later]
        if isinstance(node, Wait | Release):
            continue
        if not isinstance(node, Copy | Compute) or touches(program, node, product):
            return later
    return None

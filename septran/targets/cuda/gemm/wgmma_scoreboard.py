"""Products by wgmma that are under way: each is waited for where something needs its operands.

A warpgroup's groups of products complete in the order in which they were committed, so to wait
for one is to say how many younger ones may go on.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.shared import pointer
from septran.targets.cuda.state import InFlight
from septran.targets.cuda.text.ptx import ptx
from septran.targets.lower.writer import Expr
from septran.tile.analyses.asynchronous_products import touches
from septran.tile.nodes import Compute, Copy, Node, Release, Wait, writes

WAIT = "wgmma.wait_group.sync.aligned"
MOST_ROW_REGISTERS = 4
"""Registers of a thread that hold a row's value, not a tile."""
HOLD = """\
__forceinline__ __device__ void septran_hold(int thread) {
  asm volatile("{ .reg .pred p; setp.eq.s32 p, %0, -1; @p trap; }" : : "r"(thread) : "memory");
}
"""
IMPOSSIBLE_BITS = 0xFFFFDEAD
"""Bits that no arithmetic gives: a NaN other than the hardware's own."""


def add(context: Context, node: Compute) -> None:
    """A product has been issued."""
    found = context.state.flight
    found.products.append(node)
    found.overlapped.clear()


def note(context: Context, node: Node) -> None:
    """A node was written; it runs beside the products under way."""
    found = context.state.flight
    if found.products and isinstance(node, Copy | Compute) and node not in found.products:
        found.overlapped.update(dict.fromkeys(r.buffer for r in writes(node)))


def settle(context: Context, node: Node | None = None) -> None:
    """Wait for the products that `node` must find complete; for all where it is None."""
    found = context.state.flight
    products = found.products
    if not products:
        return
    needed = [n for n, p in enumerate(products) if node is None or _needs(context, node, p)]
    if needed:
        _pin(context, found)
        # Those younger than the last one that is needed may go on.
        ptx(context, WAIT, len(products) - 1 - needed[-1])
        del products[: needed[-1] + 1]


def _needs(context: Context, node: Node, product: Compute) -> bool:
    match node:
        case Copy() | Compute():
            return touches(context.program, node, product)
        case Release():
            buffers = context.program.channel(node.channel).buffers
            return any(r.buffer in buffers for r in product.operands)
        # A wait for a copy touches no operand; what a loop or a barrier does is not looked into.
        case Wait():
            return False
        case _:
            return True


def _pin(context: Context, found: InFlight) -> None:
    """Keep the wait behind what was computed beside the products.

    ptxas moves a wait up over arithmetic, which then no longer runs beside them. It does not
    move it over a store to shared memory; this one depends on the results and never happens.
    """
    values = [v for name in found.overlapped for v in _values(context, name)]
    found.overlapped.clear()
    if not values:
        return
    at = context.state.pin
    if at is None:
        at = context.state.pin = context.reserve(4, 4)
    odd: Any = None
    for value in values:
        same = tirx.reinterpret("uint32", value) == T.uint32(IMPOSSIBLE_BITS)
        odd = same if odd is None else tirx.Or(odd, same)
    place = pointer(context, context.lower(Index.of(at)))
    ptx(context, "st.shared.b32", place, T.uint32(0), pred=odd)


def hold(context: Context) -> None:
    """Keep what reads the sums behind a wait that stands behind the loop of their products.

    ptxas 12.8 to 13.2 moves conversions of sums up over such a wait, when the last product is still
    under way: on an H100 the last step of K was missing in some columns. It moves nothing over a
    branch that may end the kernel, which this one never does. `run.sums_in_flight` looks for what
    is left. A wait within the loop needs no help, and attention lost a tenth by it.
    """
    thread = context.lower(context.thread)
    context.writer.evaluate(T.cuda.func_call("septran_hold", thread, source_code=HOLD))


def _values(context: Context, name: str) -> list[Expr]:
    """The registers of a value of each row."""
    storage = context.storages.get(name)
    if storage is None or storage.fragment is None or storage.dtype != "float32":
        return []
    count = storage.fragment.registers
    if count > MOST_ROW_REGISTERS:
        return []
    return [storage.flat[context.writer.index(n)] for n in range(count)]

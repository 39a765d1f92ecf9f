"""``fill``: one number everywhere."""

from __future__ import annotations

from septran.ir.index import Index
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.elements import write
from septran.targets.cpu.simd import constant


def fill(context: Context, target: Access, value: float) -> None:
    """Write `value` to all nominal elements of an owned buffer's region, one by one."""
    number = constant(value, "float64")

    def nest(at: tuple[Index, ...]) -> None:
        if len(at) == target.region.rank:
            write(context, target, at, number)
            return
        with context.loop("i", target.region.shape[len(at)]) as i:
            nest((*at, i))

    nest(())

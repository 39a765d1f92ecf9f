"""A thread's warp and warpgroup, as numbers that the compiler knows to be alike in all lanes.

From ``threadIdx.x`` it cannot tell: addresses and descriptors that depend on the warpgroup, and
all that stands behind a branch on it, would be computed by each lane and moved to uniform
registers one by one.
"""

from __future__ import annotations

from tvm import tirx

from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import GROUP, WARP
from septran.targets.lower.writer import Expr


def warp(context: Context) -> Expr:
    """The number of the thread's warp in its block; read from the first lane, at the start."""
    if context.state.warp is None:
        index = context.writer.index
        own = tirx.shift_right(context.number, tirx.IntImm("int32", WARP.bit_length() - 1))
        mask = tirx.IntImm("uint32", 0xFFFFFFFF)
        value = tirx.call_extern("int32", "__shfl_sync", mask, own, index(0), index(WARP))
        context.state.warp = _opened(context, "warp", value)
    return context.state.warp


def below(context: Context, threads: int) -> Expr:
    """Whether a thread's number in its block is less than a multiple of a warp's threads."""
    return warp(context) < context.writer.index(threads // WARP)


def warpgroup(context: Context) -> Index:
    """The number of the thread's warpgroup among those that run the body."""
    first, count = context.threads.first, context.threads.count
    if count <= GROUP:
        return Index()
    if first % GROUP:
        return context.thread // GROUP
    if first not in context.state.warpgroups:
        own = tirx.shift_right(warp(context), tirx.IntImm("int32", 2))
        value = own - context.writer.index(first // GROUP) if first else own
        variable = _opened(context, "warpgroup", value)
        found = context.indices.fresh(variable, 0, count // GROUP - 1)
        # What it stands for stays known: `expand` decides divisions that the variable hides.
        meaning = context.thread // GROUP
        context.indices.meanings.update(dict.fromkeys(found.variables(), meaning))
        context.state.warpgroups[first] = found
    return context.state.warpgroups[first]


def _opened(context: Context, stem: str, value: Expr) -> Expr:
    """A variable that is known in all of the kernel."""
    variable = tirx.Var(context.writer.name(stem), "int32")
    context.opening.append(tirx.Bind(variable, value))
    return variable

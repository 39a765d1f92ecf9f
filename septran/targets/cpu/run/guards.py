"""Checks of a compiled function's arguments, beside those of TVM."""

from __future__ import annotations

import itertools
import math

from tvm import tirx
from tvm.ir import StringImm

from septran.dtypes import itemsize
from septran.targets.cpu import simd
from septran.targets.cpu.context import Context
from septran.targets.lower.writer import Expr
from septran.tile.analyses.loops import walk
from septran.tile.nodes import For, TileProgram, writes

APART = """\
define i32 @septran_apart(ptr %a, i64 %a_size, ptr %b, i64 %b_size) alwaysinline nounwind {
  %a_start = ptrtoint ptr %a to i64
  %b_start = ptrtoint ptr %b to i64
  %a_end = add i64 %a_start, %a_size
  %b_end = add i64 %b_start, %b_size
  %before = icmp ule i64 %a_end, %b_start
  %behind = icmp ule i64 %b_end, %a_start
  %apart = or i1 %before, %behind
  %number = zext i1 %apart to i32
  ret i32 %number
}"""
"""TensorIR compares no addresses, so this is in LLVM's own words."""


def emit_guards(context: Context, program: TileProgram) -> None:
    """Assert that nothing lies over what the function writes: its code is made for that.

    Python would take as long for it as a small kernel for all it does.
    """
    written = {
        region.buffer
        for node, _ in walk(program.body)
        if not isinstance(node, For)
        for region in writes(node)
    }
    for first, second in itertools.combinations(program.params, 2):
        if written.isdisjoint((first, second)):
            continue
        context.writer.functions["septran_apart"] = APART
        ends = [*_ends(context, program, first), *_ends(context, program, second)]
        apart = tirx.call_extern("int32", "septran_apart", *ends) != tirx.const(0, "int32")
        words = StringImm(f"{first} and {second} share memory")
        # In this order, whatever TVM 0.27 calls the parameters.
        context.writer.emit(tirx.AssertStmt(apart, StringImm("ValueError"), [words]))


def _ends(context: Context, program: TileProgram, name: str) -> tuple[Expr, Expr]:
    """A parameter's address and its size in bytes."""
    buffer = program.buffer(name)
    start = simd.address(context.storages[name].flat, context.writer.index(0))
    size: Expr = tirx.const(math.prod(buffer.shape) * itemsize(buffer.dtype), "int64")
    if buffer.exists:
        size = tirx.const(itemsize(buffer.dtype), "int64")
        for extent in buffer.exists:
            size = size * tirx.Cast("int64", context.lower(extent))
    return start, size

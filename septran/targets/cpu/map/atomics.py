"""``accumulate``: parts joined to elements in memory, each at once, by threads in any order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tvm import tirx

from septran.dtypes import is_float
from septran.targets.cpu import simd
from septran.targets.cpu.context import Context
from septran.targets.cpu.map.elements import read
from septran.targets.lower.values import cast
from septran.targets.lower.writer import Writer
from septran.tile.nodes import Buffer, Compute

_KINDS = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}
"""LLVM's type of each element type that a machine file may list."""
_OF_INTEGERS = {"sum": "add", "max": "max", "min": "min"}
_OF_FLOATS = {"sum": "fadd", "max": "fmaximum", "min": "fminimum"}
"""Its operations; ``fmax`` would leave out NaN."""


def emit_atomic_adds(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Each of the nodes: ``Y += X``, or the like, for what exists, an element at a time."""
    del private  # what is joined to lies where other threads see it
    for node in nodes:
        target, part = map(context.access, node.operands)
        dtype = target.storage.dtype
        name = _declared(context.writer, dtype, str(dict(node.attributes)["function"]))
        with ExitStack() as stack:
            valid = enumerate(target.region.valid)
            at = [stack.enter_context(context.loop(f"a{n}", extent)) for n, extent in valid]
            value = cast(read(context, part, at), dtype)
            place = simd.address(target.storage.flat, context.lower(target.at(at)))
            context.writer.evaluate(tirx.call_extern("void", name, place, value))


def _declared(writer: Writer, dtype: str, function: str) -> str:
    """Return the function for a type, which TVM has no word for, in LLVM's own."""
    kind = _KINDS[dtype]
    operation = _OF_FLOATS[function] if is_float(dtype) else _OF_INTEGERS[function]
    name = f"septran_atomic_{function}_{dtype}"
    # No order with other addresses is needed: whoever reads the results waits for all threads.
    writer.functions[name] = f"""\
define void @{name}(ptr %at, {kind} %value) alwaysinline nounwind {{
  %before = atomicrmw {operation} ptr %at, {kind} %value monotonic
  ret void
}}"""
    return name

"""PTX instructions, by their text, and the few groups of them that belong together."""

from __future__ import annotations

import functools
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.targets.cuda.context import Context
from septran.targets.lower.writer import Expr


def ptx(context: Context, text: str, *operands: Any, pred: Expr | None = None) -> None:
    """One instruction; `pred` predicates it."""
    extra = {} if pred is None else {"pred": pred}
    context.writer.evaluate(_instruction(text)(*operands, **extra))


@functools.cache
def _instruction(text: str) -> Any:
    """TVM's instruction of that text, which it looks for in a table."""
    return T.ptx[text]


FENCES = {"SHARED": "fence.proxy.async.shared::cta", "GLOBAL": "fence.proxy.async.global"}
"""Fences by memory: after one, wgmma and TMA see what this thread wrote there."""


def proxy_fence(context: Context) -> None:
    """Make this thread's accesses to shared memory visible to wgmma and TMA from here on."""
    ptx(context, FENCES["SHARED"])


def elected() -> Expr:
    """Whether this thread is the one of its warp that acts for all; warps must be converged."""
    return T.cuda.elect_sync()


def sums(context: Context, buffer: Any) -> Any:
    """An accumulator as PTX's operand: 32-bit integers have no sign there."""
    return words(context, buffer) if str(buffer.dtype) == "int32" else buffer


def words(context: Context, buffer: Any, dtype: str = "uint32") -> Any:
    """A local array seen as 32-bit registers, or as words of `dtype`, in the current scope."""
    size = int(buffer.shape[0]) * itemsize(str(buffer.dtype)) // itemsize(dtype)
    name = context.writer.name(f"{buffer.name}_words")
    view = tirx.decl_buffer((size,), dtype, name, data=buffer.data, scope="local", layout=None)
    context.writer.emit(tirx.DeclBuffer(view, data=buffer.data))
    return view

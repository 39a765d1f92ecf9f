"""PTX instructions, by their text, and the few groups of them that belong together."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from septran.targets.cuda.context import Context
from septran.targets.cuda.writer import Expr


def ptx(context: Context, text: str, *operands: Any, pred: Expr | None = None) -> None:
    """One instruction; `pred` predicates it."""
    extra = {} if pred is None else {"pred": pred}
    context.writer.evaluate(T.ptx[text](*operands, **extra))


def proxy_fence(context: Context) -> None:
    """What this thread wrote to or saw in shared memory is seen by wgmma and TMA from here on."""
    ptx(context, "fence.proxy.async.shared::cta")


def elected(context: Context) -> Expr:
    """Whether this thread is the one of its warp that acts for all; warps must be converged."""
    return T.cuda.elect_sync()


def words(context: Context, buffer: Any, dtype: str = "uint32") -> Any:
    """A local array seen as 32-bit registers."""
    from tvm import tirx

    key = ("words", buffer.data, dtype)
    if key not in context.state:
        size = int(buffer.shape[0]) * _bytes(str(buffer.dtype)) // 4
        context.state[key] = tirx.decl_buffer(  # type: ignore[index]
            (size,), dtype, f"{buffer.name}_words", data=buffer.data, scope="local", layout=None
        )
    return context.state[key]  # type: ignore[index]


def _bytes(dtype: str) -> int:
    from septran.dtypes import itemsize

    return itemsize(dtype)

"""Element types as a kernel for TPUs holds them."""

from __future__ import annotations

from septran.targets.tpu.unsupported import unsupported
from septran.tile.nodes import Origin

_HELD = {"bool": "int8", "int64": "int32", "uint64": "uint32"}
"""Types that are held as others: DMA moves no truth values, and a TPU has no 64-bit integers.

64-bit integers are those of positions and rows, and of what a call brings: it is refused where one
of them does not fit.
"""


def held(dtype: str) -> str:
    """The type in which elements of `dtype` lie in memory."""
    return _HELD.get(dtype, dtype)


def computed(dtype: str) -> str:
    """The type in which values of `dtype` are computed."""
    return dtype if dtype == "bool" else held(dtype)


def name(dtype: str) -> str:
    """JAX's name of a type."""
    return "jnp.bool_" if dtype == "bool" else f"jnp.{dtype}"


def require(dtype: str, origin: Origin) -> None:
    """Raise UnsupportedByTpuError for a type that a TPU has not."""
    if dtype == "float64":
        raise unsupported(origin, "a TPU computes nothing in float64", "take float32")

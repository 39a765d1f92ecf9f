"""Errors for programs that a Pallas kernel for TPUs cannot express, at the line they come from."""

from __future__ import annotations

from septran.errors import CapacityRefusal, TargetError
from septran.tile.nodes import Origin


class UnsupportedByTpuError(TargetError):
    """A node of the tile program cannot be said in a Pallas kernel for TPUs."""

    code = "SEP531"


class VectorMemoryError(CapacityRefusal, TargetError):
    """The buffers of a kernel for a TPU need more vector memory than a core has."""

    code = "SEP532"


def unsupported(origin: Origin, message: str, hint: str | None = None) -> UnsupportedByTpuError:
    """The error at the line that a node comes from."""
    why = hint or f"the node is there because: {origin.rule}"
    return UnsupportedByTpuError(message, origin.logic or origin.mapping, hint=why)

"""Errors for programs that CUDA cannot express, at the line they come from."""

from __future__ import annotations

from septran.errors import CapacityRefusal, TargetError
from septran.tile.nodes import Origin


class UnsupportedByCudaError(CapacityRefusal, TargetError):
    """A node of the tile program cannot be said in CUDA's instructions."""

    code = "SEP580"


def unsupported(origin: Origin, message: str, hint: str | None = None) -> UnsupportedByCudaError:
    """The error at the line that a node comes from."""
    why = hint or f"the node is there because: {origin.rule}"
    return UnsupportedByCudaError(message, origin.logic or origin.mapping, hint=why)

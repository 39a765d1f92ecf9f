"""Writes the TensorIR of CPU code: numbers are kept in spots on the stack."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir.expr import TensorLoad

from septran.targets.lower.writer import Expr, Writer

# kMaxStackAlloca in TVM's lower_tvm_builtin.cc.
LARGEST_ON_STACK = 1024
"""Bytes below which TVM keeps an allocation on the stack (and LLVM in registers)."""


class CpuWriter(Writer):
    """A writer for LLVM, which makes registers of spots on the stack."""

    def __init__(self) -> None:
        super().__init__()
        self._spots: set[str] = set()
        """Buffers that hold one number each, written once."""

    def bind(self, stem: str, value: Expr) -> Expr:
        """`value`, computed here once; what is constant or has a name stays itself.

        Indices get a variable. Numbers go through a spot on the stack, which LLVM makes a
        register: TVM would put the value of each variable into those of all that follow.
        """
        if isinstance(value, int | tirx.IntImm | tirx.FloatImm | tirx.Var | tirx.Broadcast):
            return value
        if isinstance(value, TensorLoad) and value.source.name in self._spots:
            return value
        dtype, _, lanes = str(value.ty.dtype).partition("x")
        if isinstance(value, TensorLoad) or (dtype == self.index_dtype and not lanes):
            return super().bind(stem, value)
        spot = self.allocate(stem, int(lanes or 1), dtype)
        self._spots.add(spot.name)
        self.store(spot, 0, value, int(lanes or 1))
        return self.load(spot, 0, int(lanes or 1))

    def scratch(self, stem: str, elements: int, dtype: str) -> Any:
        """As `allocate`, for a buffer that is indexed by what is only known in a run."""
        return self.allocate(stem, elements, dtype)

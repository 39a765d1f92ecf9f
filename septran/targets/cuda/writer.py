"""Writes the TensorIR of a kernel: each thread's arrays, and comments in the CUDA text."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import StringImm

from septran.targets.cuda.dialect import CUDA, Dialect
from septran.targets.cuda.text.atomics import atomic_name
from septran.targets.lower.writer import Expr, Writer, flat_buffer

NOTE = "septran_note"
"""The call that stands for a comment line until the text is printed."""
UNROLL = "#pragma unroll "
"""What a note begins with that becomes such a line: how many iterations the loop after it has
side by side."""
ROLLED = f"{UNROLL}1"
"""The loop after it stays one."""


class CudaWriter(Writer):
    """A writer of what each thread of a block does."""

    def __init__(self, index_dtype: str = "int32", dialect: Dialect = CUDA) -> None:
        super().__init__(index_dtype)
        self.dialect = dialect

    def note(self, text: str) -> None:
        """A comment line in the CUDA text: where the next statements come from."""
        call = tirx.call_extern("void", NOTE, StringImm(text.replace("\n", " ")))
        self.evaluate(call)

    def join_at_once(self, function: str, buffer: Any, index: Expr, value: Expr) -> None:
        """Join to an element in memory at once: of threads that do so at one time none is lost."""
        name = atomic_name(function, str(buffer.dtype))
        self.evaluate(tirx.call_extern(buffer.dtype, name, buffer.ptr_to([index]), value))

    def allocate(self, stem: str, elements: int, dtype: str) -> Any:
        """A flat array of each thread's own, which the compiler keeps in registers."""
        buffer = flat_buffer(self.name(stem), max(1, elements), dtype, 16, "local")
        self.emit(tirx.AllocBuffer(buffer))
        return buffer

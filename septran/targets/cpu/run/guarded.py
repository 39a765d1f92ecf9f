"""Code whose scratch buffers lie where its caller wants them: between pages nothing may touch.

The kernel is lowered once more with `GuardedWriter`. Every buffer that it allocates, those too
that a kernel in use has on its stack, is asked for at `Rooms.of`, a function of the process
that runs it, instead of at TVM's runtime. All else is the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx

from septran.dtypes import itemsize
from septran.targets.base import GuardedCode, Room
from septran.targets.cpu.extern.compiler import provide, shared_library
from septran.targets.cpu.lowering import lower_program
from septran.targets.cpu.run.build import compile_module
from septran.targets.cpu.run.isa import llvm_arch
from septran.targets.cpu.run.permission import ask_for_tiles, uses_tiles
from septran.targets.cpu.run.threads import use_all_cores
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.writer import flat_buffer
from septran.tile.nodes import TileProgram

FIRST, STEP = 4096, 8
"""A room's number is said by the bytes that are asked for, as TVM passes on nothing else.

More than it puts on the stack, and a multiple of every element.
"""
GIVE, TAKE = "7700770077007700771", "7700770077007700772"
"""Where the addresses of the two functions will stand in the code."""
USE_ROOMS = f"""\
@__TVMBackendAllocWorkspace = external global ptr
@__TVMBackendFreeWorkspace = external global ptr
define void @septran_use_rooms() {{
  store ptr inttoptr (i64 {GIVE} to ptr), ptr @__TVMBackendAllocWorkspace
  store ptr inttoptr (i64 {TAKE} to ptr), ptr @__TVMBackendFreeWorkspace
  ret void
}}"""
"""Code that TVM compiles calls its runtime through these two variables of its own."""


class GuardedWriter(CpuWriter):
    """Writes a kernel that takes its scratch buffers from two functions."""

    def __init__(self) -> None:
        super().__init__()
        self.rooms: list[Room] = []

    def scratch(self, stem: str, elements: int, dtype: str) -> Any:
        """A buffer whose size says its number."""
        if not self.rooms:  # code without scratch buffers has no such variables
            self.functions["septran_use_rooms"] = USE_ROOMS
            call = tirx.call_extern("void", "septran_use_rooms")
            self._bodies[0].insert(0, tirx.Evaluate(call))
        requested = FIRST + STEP * len(self.rooms)
        buffer = flat_buffer(self.name(stem), requested // itemsize(dtype), dtype)
        self.rooms.append(Room(buffer.name, max(1, elements) * itemsize(dtype), requested))
        self.emit(tirx.AllocBuffer(buffer))
        return buffer


def guarded_code(program: TileProgram) -> GuardedCode:
    """The kernel of a tile program, with its scratch buffers in rooms."""
    writer = GuardedWriter()
    module = tvm.IRModule({program.name: lower_program(program, writer)})
    text = str(tvm.ir.save_json(module))
    arch, rooms = llvm_arch(program.machine), tuple(writer.rooms)
    return GuardedCode(program.name, arch, text, rooms, shared_library(program))


def compile_guarded(code: GuardedCode, give: int, take: int) -> Callable[..., Any]:
    """As `septran.targets.base.Guarding` says; `GIVE` and `TAKE` stand in the module's JSON."""
    use_all_cores()
    if uses_tiles(code.text):
        ask_for_tiles(code.name)
    provide(code.library)
    module = tvm.ir.load_json(code.text.replace(GIVE, str(give)).replace(TAKE, str(take)))
    function: Callable[..., Any] = compile_module(module, code.arch)[code.name]
    return function

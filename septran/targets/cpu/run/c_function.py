"""A kernel as a C function of an object file, for any processor: exported, or emulated here.

A pointer for each tensor, then the scalars, then the extents that only a call tells. Parallel loops
and scratch buffers go through the few functions of ``c_runtime.c``, so that an object needs no TVM.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import StringImm

from septran.dtypes import C_TYPES
from septran.targets.base import TensorIR
from septran.targets.cpu.extern.compiler import linked
from septran.targets.cpu.run.build import C_PASSES, assembly_of, compile_module, llvm_of
from septran.targets.cpu.run.isa import foreign_system
from septran.targets.cpu.run.permission import uses_tiles
from septran.tile.nodes import TileProgram

RUNTIME = Path(__file__).with_name("c_runtime.c")
"""The C source that an object file is linked with."""
_RESERVED = frozenset(
    (
        "auto", "bool", "case", "char", "const", "default", "delete", "do", "double", "enum",
        "explicit", "export", "extern", "float", "friend", "goto", "inline", "int", "long",
        "mutable", "namespace", "new", "operator", "private", "protected", "public", "register",
        "restrict", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this",
        "throw", "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
        "status", "wrong", "failed", "version", "exact", "bound", "main", "printf", "compare",
    )
)  # fmt: skip
"""Words of C, C++ and an export's example that Python lets a parameter be called."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the C function."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    """The extents of a tensor, the greatest of those that a call tells; None for a scalar."""
    extents: tuple[str, ...] = ()
    """The extents in words where calls tell some: ``M``, ``64``."""
    example: int = 1
    """What an example passes for a scalar."""

    @property
    def c_name(self) -> str:
        """Its name where C and C++ have no other use for it."""
        return f"{self.name}_" if self.name in _RESERVED else self.name

    @property
    def c_type(self) -> str:
        """C's type of an element."""
        return C_TYPES[self.dtype]


@dataclass(frozen=True)
class CFunction:
    """The object code of a kernel and what it is called with."""

    name: str
    arch: str
    parameters: tuple[Parameter, ...]
    code: bytes
    """The bytes of the object file, of the processor's own format (ELF on Linux)."""
    llvm: bytes = field(repr=False)
    """LLVM's own text of the code, optimised, and compressed."""

    @cached_property
    def assembly(self) -> str:
        """The machine code as text, which LLVM writes anew."""
        return assembly_of(self.llvm)

    @property
    def symbol(self) -> str:
        """The function's name in C, which differs from those of the C library."""
        return symbol(self.name)

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """The parameters that are pointers, which come first."""
        return tuple(p for p in self.parameters if p.shape is not None)

    @property
    def architecture(self) -> str:
        """The first part of the triple of its system; empty where that is this host's."""
        return (foreign_system(self.arch) or "").partition("-")[0]

    def declaration(self, constant: Sequence[str] = ()) -> str:
        """Its prototype, in which tensors of these names are only read."""
        words = []
        for p in self.parameters:
            star = " " if p.shape is None else " *"
            words.append(f"{'const ' * (p.name in constant)}{p.c_type}{star}{p.c_name}")
        return f"int32_t {self.symbol}({', '.join(words)})"


def symbol(name: str) -> str:
    """The C name of a kernel's function."""
    return "septran_" + re.sub(r"\W", "_", name)


def c_function(ir: TensorIR, program: TileProgram, arch: str) -> CFunction:
    """Compile a kernel for a processor as a C function; raises whatever TVM and LLVM do."""
    function = ir.module[ir.name]
    module = tvm.IRModule({symbol(ir.name): _of_pointers(function, symbol(ir.name))})
    compiled = compile_module(module, arch, C_PASSES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.o"
        compiled.write_to_file(str(path), "o")
        code = linked(path.read_bytes(), program)
    tensors = [
        Parameter(b.name, b.dtype, b.shape, tuple(map(str, b.exists)))
        for b in map(program.buffer, program.params)
    ]
    scalars = [Parameter(s.name, s.dtype, None) for s in program.scalars]
    kinds = {variable.name: str(variable.ty.dtype) for variable in _sizes(function)}
    scalars += [Parameter(n.name, kinds[n.name], None, (), n.most) for n in program.sizes()]
    return CFunction(ir.name, arch, (*tensors, *scalars), code, llvm_of(compiled))


def _sizes(function: Any) -> list[Any]:
    """The variables that are extents of the function's tensors, in their order."""
    shapes = (param.shape for param in function.params if hasattr(param, "data"))
    found = [extent for shape in shapes for extent in shape if isinstance(extent, tirx.Var)]
    return [v for n, v in enumerate(found) if not any(v.same_as(other) for other in found[:n])]


def _of_pointers(function: Any, name: str) -> Any:
    """A PrimFunc that takes its buffers' addresses, and returns 0 when all is done."""
    params, declared = [], []
    for param in function.params:
        if not hasattr(param, "data"):  # a scalar
            params.append(param)
            continue
        element = tvm.ir.PointerType(tvm.ir.PrimType(str(param.ty.dtype)))
        params.append(tirx.Var(param.name, element))
        declared.append(tirx.DeclBuffer(param, data=params[-1]))
    if uses_tiles(str(function)):
        declared.append(_asked_for_tiles())
    body = tirx.SeqStmt([*declared, function.body, tirx.Return(tirx.const(0, "int32"))])
    for key, value in (("device_type", 1), ("device_id", 0)):  # of TVM's scratch buffers: a CPU
        body = tirx.AttrStmt("default", key, tirx.const(value, "int32"), body)
    params += _sizes(function)
    made = tirx.PrimFunc(params, body, tvm.ir.PrimType("int32"), attrs=function.attrs)
    return made.with_attr("global_symbol", name)


def _asked_for_tiles() -> Any:
    """Fail where the system does not let a kernel use tile registers."""
    given = tirx.call_extern("int32", "septran_ask_for_tiles") == 0
    words = StringImm("the system does not let this process use tile registers")
    return tirx.AssertStmt(given, StringImm("RuntimeError"), [words])

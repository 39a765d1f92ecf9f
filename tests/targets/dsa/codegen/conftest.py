"""Control programs built by hand, and both ways to their streams."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import tirx

from septran.machine.loader import load_machine
from septran.simulator.commands import DTYPES, EXTERNS
from septran.targets.dsa.code import toolchain
from septran.targets.dsa.code.build import compile_recording
from septran.targets.dsa.code.codegen import generate
from septran.targets.dsa.code.jit import recording
from septran.targets.dsa.code.native import compile_code
from septran.targets.dsa.code.vendor import Vendor
from septran.targets.lower.writer import Writer, flat_buffer

NAMES = tuple(EXTERNS)


class Program(Writer):
    """A control program on a core, one float32 tensor A and a buffer S in SPM by default."""

    def __init__(self, name="kernel", tensors=("A",), scalars=(), dtype="float32"):
        super().__init__()
        self.title, self.core = name, tirx.Var(self.name("core"), "int32")
        self.params = [
            tirx.decl_buffer((64, 64), dtype, self.name(t), data_alignment=1) for t in tensors
        ]
        self.flats = []
        for param, tensor in zip(self.params, tensors, strict=True):
            flat = flat_buffer(f"{tensor}_flat", 4096, dtype, alignment=1)
            self.emit(tirx.DeclBuffer(flat, data=param.data))
            self.flats.append(flat)
        self.spm = self.local("S", "SPM", dtype)
        self.scalars = [tirx.Var(self.name(n), t) for n, t in scalars]
        self.types = tuple(t for _, t in scalars)

    def local(self, name, memory, dtype="float32", offset=0):
        buffer = tirx.decl_buffer(
            (4096,), dtype, self.name(name), data_alignment=1, scope=f"global.{memory.lower()}",
            layout=None,
        )  # fmt: skip
        place = tirx.call_extern("handle", "dsa.pointer", memory, tirx.const(offset, "int64"))
        self.emit(tirx.DeclBuffer(buffer, data=place))
        return buffer

    def at(self, buffer, index=0):
        index = tirx.const(index, "int32") if isinstance(index, int) else index
        return tirx.address_of(tirx.BufferLoad(buffer, [index]))

    def command(self, name, *arguments):
        self.evaluate(tirx.call_extern("int32", f"dsa.{name}", *arguments))

    def copy(self, queue=0, rows=4, index=0, stride=64):
        source = self.at(self.flats[0], index)
        self.command("dma_copy", queue, self.at(self.spm), 64, source, stride, rows, 64)

    def fill(self, value, dtype="float32"):
        kind = "float64" if "float" in dtype else "int64"
        value = tirx.const(value, kind) if isinstance(value, int | float) else value
        self.command("vec_fill", 2, self.at(self.spm), 16, 4, value, 4, 4, DTYPES.index(dtype))

    def done(self):
        return self.function(self.title, [self.core, *self.params, *self.scalars])


class Routes:
    """C and LLVM, for one machine."""

    def __init__(self, machine):
        self.machine, self.vendor = machine, Vendor(machine)

    def code(self, program):
        function = program.done() if isinstance(program, Program) else program
        return generate(function, self.vendor, str(function.attrs["global_symbol"]))

    def streams(self, program, values=(), core=0):
        """What C records, and what LLVM does."""
        function = program.done()
        code = self.code(function)
        native = compile_code(self.vendor, code, len(program.params), program.types)
        module = tvm.IRModule({"record": recording(function, self.machine, code.lines)})
        return native(core, values), compile_recording(module, program.types)(core, values)

    def equal(self, program, values=(), core=0):
        """The one stream of both."""
        by_c, by_llvm = self.streams(program, values, core)
        assert by_c.tobytes() == by_llvm.tobytes(), (by_c, by_llvm)
        return by_c


@pytest.fixture(scope="session", autouse=True)
def _needs_a_compiler():
    if toolchain.compiler() is None:
        pytest.skip("no C compiler")


@pytest.fixture(scope="session")
def machine():
    return load_machine("dsa-sim")


@pytest.fixture(scope="session")
def routes(machine):
    return Routes(machine)


@pytest.fixture(scope="session")
def make_routes():
    return Routes


@pytest.fixture
def program():
    return Program


@pytest.fixture
def strict(tmp_path):
    """Compiles C text as a vendor would, with all warnings as errors."""

    def compile_strictly(text: str, folder: Path, *options: str) -> None:
        source = tmp_path / "strict.c"
        source.write_text(text)
        words = [
            *toolchain.compiler(),
            "-std=c11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
        ]
        words += ["-I", str(folder), *options, "-c", str(source), "-o", str(tmp_path / "strict.o")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return compile_strictly


@pytest.fixture
def named():
    """The externs of a stream, in order."""
    return lambda stream: [NAMES[code] for code in stream["code"]]


@pytest.fixture
def random():
    return np.random.default_rng(11)

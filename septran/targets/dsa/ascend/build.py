"""Ascend C compiled by the host's C++ compiler against a header that notes what is asked for.

The header (`include/kernel_operator.h`) takes its numbers from ``septran_machine.h``, which is made
here from the machine file. Nothing else stands between a kernel's text and the simulator: the
commands that it carries out are those that the calls of Ascend C mean, with the vendor's units and
limits.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from septran.machine.model import Machine
from septran.simulator.commands import ARGUMENTS, CODES, DTYPES, memory_address
from septran.simulator.queues import Queues
from septran.targets.dsa.code.native import LIBRARY, CProgram
from septran.targets.dsa.code.toolchain import CompileError, as_utf8, run_cpp_compiler, scratch
from septran.targets.dsa.code.vendor import ASCEND_HEADER, PIPES, Vendor

ENTRY = "septran_kernel"
"""The C function of a library: the core's number, then what the kernel takes."""
_KERNEL = re.compile(
    r'extern "C" __global__ __aicore__ void (?P<name>\w+)\((?P<params>.*?)\)$', re.MULTILINE
)
_CALL = re.compile(r"\s*[A-Za-z_]\w*(<[^;]*?>)?\(.*\);$")
"""A line of one call to a function, not to a method."""
_MEMORIES = ("L1", "L0A", "L0B", "L0C", "UB", "SCRATCH")


def machine_header(machine: Machine) -> str:
    """``septran_machine.h``: the numbers of memories, pipes, commands and element types."""
    vendor, numbers = Vendor(machine), Queues(machine).numbers
    names = [memory.name for memory in machine.memories]
    lines = ["#pragma once", "#include <cstdint>", "namespace septran {"]
    lines.append(f"constexpr int ARGUMENTS = {ARGUMENTS};")
    for name in _MEMORIES:
        at = names.index(name)
        lines.append(f"constexpr int64_t {name} = INT64_C({memory_address(at)});")
        size = machine.memories[at].capacity_bytes
        lines.append(f"constexpr int64_t {name}_BYTES = {size};")
    queues = {pipe: numbers[queue] for queue, pipe in vendor.pipes.items()}
    lines += [f"constexpr int {pipe} = {queues.get(pipe, -1)};" for pipe in PIPES]
    for extern, code in CODES.items():
        lines.append(f"constexpr int CODE_{extern.removeprefix('dsa.')} = {code};")
    lines += [f"constexpr int {dtype.upper()} = {n};" for n, dtype in enumerate(DTYPES)]
    return "\n".join([*lines, "}", ""])


def compile_ascend(vendor: Vendor, text: str, buffers: int, scalars: Sequence[str]) -> CProgram:
    """A kernel with the header that notes its calls; raises CompileError."""
    source = as_utf8(_marked(text.replace("\r\n", "\n")))
    folder = Path(tempfile.mkdtemp(prefix="ascend-", dir=scratch()))
    (folder / "kernel.cpp").write_bytes(source)
    (folder / "septran_machine.h").write_text(machine_header(vendor.machine), encoding="utf-8")
    library = folder / LIBRARY
    include = str(ASCEND_HEADER.parent)
    options = ("-I", include, "-I", str(folder), "-shared", str(folder / "kernel.cpp"))
    run_cpp_compiler("a kernel in Ascend C", (*options, "-o", str(library)))
    return CProgram.of(library, ENTRY, buffers, scalars)


def _marked(text: str) -> str:
    """The text with its number before each line of calls, and an entry for this process."""
    found = _KERNEL.search(text)
    if found is None:
        raise CompileError("there is no kernel in the text", hint=f"it has {_KERNEL.pattern}")
    lines = text.split("\n")
    for number in range(text[: found.start()].count("\n") + 1, len(lines)):
        if _CALL.match(lines[number]):
            lines[number] = f"septran_line = {number + 1}; {lines[number].lstrip()}"
    given = [p for p in found["params"].split(", ") if p]
    names = ", ".join(p.split()[-1] for p in given)
    params = ", ".join(["int32_t", *given])
    lines.append(f'extern "C" void {ENTRY}({params}) {{ {found["name"]}({names}); }}')
    return "\n".join([*lines, ""])

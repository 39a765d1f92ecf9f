"""Kernels and recorder as a program of their own, under ASan and UBSan."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from septran.compiler import produce_stages
from septran.simulator.commands import RECORD, parameter_address
from septran.targets.dsa.code import toolchain
from septran.targets.dsa.code.native import compile_code
from septran.targets.dsa.code.recorder import line_macros, recorder_source
from septran.targets.dsa.steps import core_count, workspaces

MAIN = """
#include <stdint.h>
#include <stdio.h>
void {function}(int32_t core, {types});
void septran_begin(int32_t core);
int64_t septran_take(const void **first);

int main(void)
{{
    for (int32_t core = 0; core < {cores}; ++core) {{
        const void *first = 0;
        septran_begin(core);
        {function}(core, {arguments});
        int64_t count = septran_take(&first);
        if (count < 0 || fwrite(first, {size}, (size_t)count, stdout) != (size_t)count) return 1;
    }}
    return 0;
}}
"""
FLAGS = (
    "-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
    "-fsanitize=float-divide-by-zero,float-cast-overflow", "-fno-sanitize-recover=all",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.parametrize("operator", ["gemm", "attention", "conv2d"])
def test_no_sanitizer_complains(tmp_path, make_routes, operator, machine):
    stages = produce_stages(operator, machine)
    program = stages.tile_program
    routes = make_routes(program.machine)
    code = routes.code(stages.tensor_ir.module[program.name])
    buffers = len(program.params) + len(workspaces(program))
    cores = core_count(program)
    scalars = [s.default if s.default is not None else 0.5 for s in program.scalars]
    main = MAIN.format(
        function=code.name,
        cores=cores,
        size=RECORD.itemsize,
        types=", ".join(["void *"] * buffers + ["float"] * len(scalars)),
        arguments=", ".join(
            [f"(void *)INT64_C({parameter_address(n)})" for n in range(buffers)]
            + [f"{value!r}f" for value in scalars]
        ),
    )
    texts = {
        "main.c": main, "kernel.c": code.text, "lines.h": line_macros(routes.vendor),
        "recorder.c": recorder_source(routes.vendor),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    command, where = toolchain.compiler(), ("-I", str(routes.vendor.header_path.parent))
    for name in ("main", "kernel", "recorder"):
        lines = ("-include", str(tmp_path / "lines.h")) if name == "kernel" else ()
        words = [*command, *FLAGS, *where, *lines, "-c", str(tmp_path / f"{name}.c")]
        run(*words, "-o", str(tmp_path / f"{name}.o"))
    objects = [str(tmp_path / f"{name}.o") for name in ("main", "kernel", "recorder")]
    run(*command, *FLAGS, *objects, "-o", str(tmp_path / "program"))
    streams = run(str(tmp_path / "program"))
    native = compile_code(routes.vendor, code, buffers, [s.dtype for s in program.scalars])
    expected = b"".join(native(core, scalars).tobytes() for core in range(cores))
    assert hashlib.sha256(streams).digest() == hashlib.sha256(expected).digest()


def run(*words):
    # The records live until the program ends: they are no leak.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(words, capture_output=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[:3000]
    return done.stdout

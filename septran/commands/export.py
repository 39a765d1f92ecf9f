"""``septran export``: a kernel as files that build without SepTran and TVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from septran.commands import arguments as options
from septran.commands.arguments import request

Arch = Annotated[
    str | None,
    typer.Option(
        "--arch",
        metavar="NAME",
        help="The processor that code is for, in the machine's words or LLVM's: avx2, "
        "neoverse-v1, apple-m1, sm_90a; what the machine's file says if absent.",
    ),
]
Folder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files are written.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(export)


def export(
    logic: options.Logic,
    output: Folder,
    on: options.On = None,
    mapping: options.MappingPath = None,
    arch: Arch = None,
    shape: options.Sizes = None,
    dtype: options.Dtypes = None,
    tunable: options.Tunables = None,
    static: options.Static = None,
) -> None:
    """Compile a kernel and write it for programs that have neither SepTran nor TVM.

    For a CPU, of this host's kind or another: an object file, its C header, a C file that
    gives it threads and scratch memory, and an example. For an NVIDIA GPU: one CUDA C++ file, and a
    loader for torch tensors. Shapes are fixed.

    \b
    Examples:
      septran export gemm -o gemm-avx512 --arch avx512 -s M=512 -s N=512 -s K=512
      septran export softmax --on cpu-arm --arch neoverse-v1 -o softmax-arm
      septran export attention --on nvidia-h200 -o attention-h200
    """  # noqa: D301  # \b is typer's mark for lines to keep
    import septran

    asked = request(logic, on, mapping, shape, dtype, tunable, static)
    plan = asked.mapping
    if arch is not None:
        plan = replace(plan, machine=replace(plan.machine, arch=arch))
    kernel = septran.compile(asked.logic, plan, **asked.settings)
    path = kernel.export(output)
    typer.echo(f"wrote {path} and {len(list(path.parent.iterdir())) - 1} files beside it")

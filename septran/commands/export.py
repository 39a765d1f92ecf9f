"""``septran export``: a kernel as files that build without SepTran and TVM."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from septran.commands import arguments as options
from septran.commands.arguments import request

Arch = Annotated[
    list[str] | None,
    typer.Option(
        "--arch",
        metavar="NAME",
        help="The processor that code is for, in the machine's words or LLVM's: avx2, "
        "neoverse-v1, apple-m1, sm_90a; what the machine's file says if absent. A library for "
        "CPUs may have code for several: --arch avx2 --arch avx512.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The library's name; the kernel's if absent."),
]


class ExportKind(StrEnum):
    """What a kernel is written as."""

    library = "library"
    tilelang = "tilelang"


As = Annotated[
    ExportKind,
    typer.Option(
        "--as", help="What the target builds, or a program for TileLang (of GPUs' mappings)."
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
    name: Name = None,
    kind: As = ExportKind.library,
) -> None:
    """Compile a kernel and write it for programs that have neither SepTran nor TVM.

    For a CPU, of this host's kind or another: a C header, a shared and a static library, their
    sources and build files, and examples that check themselves. For an NVIDIA GPU: one CUDA C++
    file, and a loader for torch tensors. For a DSA: the C of its control program. For OpenCL and
    AMD's GPUs: the kernels and a host program in C. Shapes are fixed.

    \b
    Examples:
      septran export gemm -o gemm-avx512 --arch avx512 -s M=512 -s N=512 -s K=512
      septran export gemm -o gemm-any --arch avx2 --arch avx512
      septran export softmax --on cpu-arm --arch neoverse-v1 -o softmax-arm
      septran export attention --on nvidia-h200 -o attention-h200
      septran export softmax --on nvidia-a100 --as tilelang -o softmax-tilelang
    """  # noqa: D301  # \b is typer's mark for lines to keep
    import septran
    from septran.mapping.loader import load_mapping

    asked = request(logic, on, mapping, shape, dtype, tunable, static)
    if kind is ExportKind.tilelang:
        if arch or name:
            given = "--arch" if arch else "--name"
            raise typer.BadParameter(f"a program for TileLang takes no {given}", param_hint="--as")
        explanation = septran.explain(asked.logic, asked.mapping, **asked.settings)
        text = str(explanation.tilelang)
        output.mkdir(parents=True, exist_ok=True)
        path = output / f"{explanation.name}.py"
        path.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {path}")
        return
    plan, archs = asked.mapping, tuple(arch or ())
    if len(archs) == 1:  # also of targets that write no libraries
        plan, archs = load_mapping(plan, replace(plan.machine, arch=archs[0])), ()
    kernel = septran.compile(asked.logic, plan, **asked.settings)
    path = kernel.export(output, name=name, arch=archs or None)
    count = sum(file.is_file() for file in output.rglob("*"))
    typer.echo(f"wrote {path} and {count - 1} files beside it")

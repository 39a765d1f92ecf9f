"""An operator as one CUDA C++ file with its host launcher, for machines without TVM.

The folder needs nvcc, apache-tvm-ffi and torch where it is built and run, nothing else.
"""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from septran.emulator.launch import KernelLaunch
from septran.targets.cuda.run.launcher import HERE, CArgument, LauncherProgram

if TYPE_CHECKING:
    from septran.targets.cuda.run.executable import CudaExecutable

KINDS = ("TENSOR_MAP", "POINTER", "SCALAR")

SOURCE = Template("""\
// $title
// Written by SepTran $version for $arch. Build it with ./build.sh, call it as load.py does.

#include <cuda_runtime_api.h>
$includes

// ---------------------------------------------------------------- kernels

$kernels
// ---------------------------------------------------------------- launcher

namespace launcher {
$launcher
// What is launched, and on what.
static const Program PROGRAM = $program;

static int find_kernel(void** function, int index) {
  static const void* const kernels[] = {$symbols};
  return cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(function), kernels[index]);
}

static Kernel* linked_kernel() {
  Kernel* kernel = septran_kernel(&PROGRAM);
  if (kernel) kernel->find = find_kernel;
  return kernel;
}
}  // namespace launcher

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_main(void*, const TVMFFIAny* args, int32_t count,
                                                 TVMFFIAny* result) {
  static launcher::Kernel* const kernel = launcher::linked_kernel();
  if (!kernel || !kernel->caches)
    return launcher::failed("RuntimeError", "no memory is left for a kernel");
  return launcher::septran_call(kernel, args, count, result);
}
""")
BUILD = Template("""\
#!/bin/sh
# Needs nvcc (CUDA 12.4 or later) and `pip install apache-tvm-ffi torch`.
set -e
cd "$$(dirname "$$0")"
PYTHON="$${PYTHON:-python3}"
INCLUDE="$$("$$PYTHON" -c 'import tvm_ffi.libinfo as i; print(i.find_include_path())')"
LIBRARY="$$("$$PYTHON" -c 'import tvm_ffi.libinfo as i; print(i.find_libtvm_ffi())')"
"$${NVCC:-nvcc}" -shared -O3 -std=c++20 -Xcompiler -fPIC -diag-suppress 177 \\
  -gencode arch=$virtual,code=$arch "-I$$INCLUDE" $name.cu -o $name.so "$$LIBRARY" -ldl
""")
LOADER = Template('''\
"""$title: built once with nvcc, called with torch tensors on a GPU.

    from load import $function
    $results = $function($inputs)
"""

import subprocess
from pathlib import Path

import torch
import tvm_ffi

TENSORS = {
$tensors
}
"""Shape, element type, and whether it is an input, an output, or summed into."""
SCALARS = ($scalars)
HERE = Path(__file__).parent
_loaded = []


def launch(*arguments):
    """Run on all tensors in the order of `TENSORS`, then the scalars; on torch's stream."""
    if not _loaded:
        library = HERE / "$name.so"
        if not library.exists():
            subprocess.run(["sh", str(HERE / "build.sh")], check=True)
        _loaded.append(tvm_ffi.load_module(str(library)))
    _loaded[0].main(*arguments)


def $function(*inputs, out=None, scalars=()):
    """The outputs for `inputs`; `out` gives their memory, one tensor or several."""
    device, given = inputs[0].device, iter(inputs)
    wanted = iter(() if out is None else out if isinstance(out, (tuple, list)) else (out,))
    tensors, results = [], []
    for shape, dtype, role in TENSORS.values():
        if role == "input":
            tensors.append(next(given))
            continue
        make = torch.zeros if role == "summed" else torch.empty
        result = next(wanted, None) if out is not None else None
        if result is None:
            result = make(shape, dtype=getattr(torch, dtype), device=device)
        tensors.append(result)
        results.append(result)
    launch(*tensors, *scalars)
    return results[0] if len(results) == 1 else tuple(results)
''')
README = Template("""\
# $title

`$name.cu` has the kernels and their host launcher. With nvcc, apache-tvm-ffi and torch:

    sh build.sh
    python -c "from load import $function"

No TVM and no SepTran is needed. Shapes are fixed: $shapes.
""")


def export(
    executable: CudaExecutable,
    folder: Path,
    roles: Sequence[str] | None = None,
    *,
    device_type: int | None = None,
) -> Path:
    """Write the four files; `roles` says ``input``, ``output`` or ``summed`` of each tensor.

    Returns the CUDA file's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W", "_", executable.name)
    words = _words(executable, name, roles or _roles(executable))
    table = executable.table()
    if device_type is not None:
        table.device_type = device_type
    includes, launcher = _launcher()
    kernels = executable.program.source.rstrip() + "\n"
    source = SOURCE.substitute(
        words, kernels=kernels, includes=includes, launcher=launcher, program=_program(table),
        symbols=", ".join(_symbol(launch) for launch in executable.program.launches),
    )  # fmt: skip
    path = folder / f"{name}.cu"
    path.write_text(source, encoding="utf-8")
    build = folder / "build.sh"
    build.write_text(BUILD.substitute(words), encoding="utf-8")
    build.chmod(build.stat().st_mode | stat.S_IXUSR)
    (folder / "load.py").write_text(LOADER.substitute(words), encoding="utf-8")
    (folder / "README.md").write_text(README.substitute(words), encoding="utf-8")
    return path


def _roles(executable: CudaExecutable) -> tuple[str, ...]:
    return tuple("output" if t.name in executable.outputs else "input" for t in executable.tensors)


def _words(executable: CudaExecutable, name: str, roles: Sequence[str]) -> dict[str, str]:
    # By name: the package is above the targets, and has been imported to get here.
    version = sys.modules["septran"].__version__
    pairs = list(zip(executable.tensors, roles, strict=True))
    rows = [f'    "{t.name}": ({t.shape}, "{t.dtype}", "{role}"),' for t, role in pairs]
    shapes = (f"{t.name} {'x'.join(map(str, t.shape)) or 'scalar'}" for t in executable.tensors)
    return {
        "title": f"{executable.name} for {executable.machine.name}",
        "version": version, "arch": executable.program.arch,
        # -arch=sm_90a would also build for compute_90, which has no wgmma.
        "virtual": executable.program.arch.replace("sm_", "compute_"),
        "name": name, "function": name,
        "tensors": "\n".join(rows),
        "inputs": ", ".join(t.name for t, role in pairs if role == "input"),
        "results": ", ".join(t.name for t, role in pairs if role != "input"),
        "scalars": "".join(f'"{scalar}", ' for scalar, _ in executable.program.scalars),
        "shapes": ", ".join(shapes),
    }  # fmt: skip


def _symbol(launch: KernelLaunch) -> str:
    return f"reinterpret_cast<const void*>({launch.kernel})"


def _launcher() -> tuple[str, str]:
    """The headers of the launcher, what they include apart from the rest."""
    headers = ("driver.h", "cuda_driver.h", "launcher.h")
    lines = "\n".join((HERE / h).read_text(encoding="utf-8") for h in headers).splitlines()
    includes = dict.fromkeys(line for line in lines if line.startswith("#include <"))
    rest = [line for line in lines if not line.startswith("#include")]
    return "\n".join(includes), "\n".join(rest)


def _program(table: LauncherProgram) -> str:
    """The table as a C++ initialiser, with the names of its fields."""
    tensors = "".join(
        f"        {{.name = {_text(t.name)}, .code = {t.code}, .bits = {t.bits}, "
        f".ndim = {t.ndim}, .alignment = {t.alignment}, .shape = {_list(t.shape[: t.ndim])}}},\n"
        for t in table.tensors[: table.tensor_count]
    )
    launches = "".join(
        f"        {{.kernel = {_text(x.kernel)}, .grid = {x.grid}, .block = {x.block}, "
        f".cluster = {x.cluster}, .shared_bytes = {x.shared_bytes},\n"
        f"         .argument_count = {x.argument_count}, .dependent = {x.dependent},\n"
        f"         .arguments = {{\n"
        f"{''.join(_argument(a) for a in x.arguments[: x.argument_count])}         }}}},\n"
        for x in table.launches[: table.launch_count]
    )
    head = "".join(
        f"    .{field} = {getattr(table, field)},\n"
        for field in (
            "device_type", "tensor_count", "scalar_count", "scratch_count", "launch_count",
            "reserved",
        )
    )  # fmt: skip
    return (
        f"{{\n    .name = {_text(table.name)},\n    .arch = {_text(table.arch)},\n{head}"
        f"    .tensors = {{\n{tensors}    }},\n"
        f"    .scalar_codes = {_list(table.scalar_codes[: table.scalar_count])},\n"
        f"    .scalar_bits = {_list(table.scalar_bits[: table.scalar_count])},\n"
        f"    .scratch_bytes = {_list(table.scratch_bytes[: table.scratch_count])},\n"
        f"    .launches = {{\n{launches}    }},\n}}"
    )


def _argument(a: CArgument) -> str:
    fields = {"kind": KINDS[a.kind], "index": a.index, "offset": a.offset}
    if a.rank:
        fields |= {
            "dtype": a.dtype, "rank": a.rank, "extents": _list(a.extents[: a.rank]),
            "strides": _list(a.strides[: a.rank - 1]), "box": _list(a.box[: a.rank]),
            "swizzle": a.swizzle,
        }  # fmt: skip
    return (
        f"             {{{', '.join(f'.{name} = {value}' for name, value in fields.items())}}},\n"
    )


def _text(value: bytes) -> str:
    return f'"{value.decode()}"'


def _list(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}" if values else "{}"

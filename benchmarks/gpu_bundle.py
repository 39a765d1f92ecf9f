"""A folder of compiled kernels for a machine with a GPU, torch and apache-tvm-ffi, without SepTran.

Each case is a folder: ``case.json`` says what it is, ``kernel.cubin`` is its machine code,
``program.bin`` what the launcher does with it, and ``arrays.npz``, of cases that only are checked,
has inputs, exact results and what rounding allows, from SepTran's reference in float64. The
launcher's C source lies beside the cases.
"""

from __future__ import annotations

import ctypes
import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from septran.runtime.kernel import Kernel

META, CUBIN, PROGRAM, ARRAYS = "case.json", "kernel.cubin", "program.bin", "arrays.npz"
SAMPLED = 1 << 15
"""Of a larger output so many elements, drawn at random, are compared."""
LAUNCHER = ("launcher.c", "launcher.h", "driver.h", "cuda_driver.h")


def write(kernel: Kernel, place: Path, meta: Mapping[str, Any], exact: bool) -> None:
    """Write a compiled kernel; with `exact`, also what it must compute from random inputs."""
    executable: Any = kernel.stages.executable
    place.mkdir(parents=True, exist_ok=True)
    (place / CUBIN).write_bytes(executable.compiled.cubin)
    (place / PROGRAM).write_bytes(bytes(executable.table()))
    from septran.targets.cuda.run import launcher

    for name in LAUNCHER:
        shutil.copyfile(launcher.HERE / name, place.parent / name)
    called = kernel.specialisations[-1]
    tensors = [
        (t.name, list(t.shape or ()), t.dtype, _role(t.reads, t.writes)) for t in called.tensors
    ]
    scalars = [s.default for s in called.scalars]
    assert None not in scalars, "a bundle's kernel is called without scalars"
    if exact:
        np.savez_compressed(place / ARRAYS, **_arrays(kernel))
    facts = {**meta, "tensors": tensors, "scalars": scalars}
    (place / META).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _role(reads: bool, writes: bool) -> str:
    return "input" if not writes else "summed" if reads else "output"


def _arrays(kernel: Kernel) -> dict[str, Any]:
    """Inputs by their bytes, and each output's exact elements with what they may be away by."""
    from septran.runtime.accuracy import SAFETY, error_bounds
    from septran.runtime.checks import product_rules

    given = kernel.sample()
    inputs = {n: np.ascontiguousarray(x) for n, x in given.items() if isinstance(x, np.ndarray)}
    rules = product_rules(kernel.stages.tile_program)
    bounds = error_bounds(kernel.stages.task_tree, inputs, {}, rules)
    found = {f"in {name}": x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    chance = np.random.default_rng(0)
    for name, bound in bounds.items():
        value, allowed = (np.broadcast_to(x, bound.value.shape) for x in (bound.value, bound.error))
        at = np.arange(value.size)
        if value.size > SAMPLED:
            at = np.sort(chance.choice(value.size, SAMPLED, replace=False))
        found[f"at {name}"] = at
        found[f"exact {name}"] = value.reshape(-1)[at]
        found[f"allowed {name}"] = SAFETY * allowed.reshape(-1)[at]
    return found


@dataclass(frozen=True)
class Loaded:
    """A case of a bundle, ready to be launched."""

    place: Path
    meta: Mapping[str, Any]
    function: Any
    """Of apache-tvm-ffi: the tensors in order, then the scalars."""

    @staticmethod
    def of(place: Path) -> Loaded:
        """Read a case's folder."""
        meta = json.loads((place / META).read_text(encoding="utf-8"))
        program, cubin = ((place / name).read_bytes() for name in (PROGRAM, CUBIN))
        table, code = (ctypes.create_string_buffer(x, len(x)) for x in (program, cubin))
        addresses = (ctypes.addressof(table), len(program), ctypes.addressof(code), len(cubin))
        return Loaded(place, meta, _launcher(place.parent).create(*addresses, 0))

    def arrays(self) -> Mapping[str, Any] | None:
        """Return what the case is checked against; None where that is computed here."""
        path = self.place / ARRAYS
        return np.load(path) if path.exists() else None


@functools.cache
def _launcher(folder: Path) -> Any:
    """The launcher, compiled in a fraction of a second."""
    import tvm_ffi
    from tvm_ffi import libinfo

    made = Path(tempfile.mkdtemp(prefix="septran-launcher-")) / "launcher.so"
    includes = [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "cc")
    subprocess.run(
        [compiler, "-O2", "-fPIC", "-shared", *includes, str(folder / LAUNCHER[0]), "-o", str(made),
         libinfo.find_libtvm_ffi(), "-ldl"],
        check=True,
    )  # fmt: skip
    return tvm_ffi.load_module(str(made))

"""Kernels of other compilers: where their packages come from, and how their PTX is made.

Packages that the environment has not are put into a folder of their own in the user's cache,
each with what it needs and no more: TileLang brings its own TVM, which must not meet ours.
"""

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import filelock
import numpy as np
import platformdirs
import pytest

import septran
from septran.emulator import build
from septran.runtime.accuracy import compare, error_bounds
from septran.runtime.rounding import Bounded, cast, cut_terms, gamma

HERE = Path(__file__).parent
PACKAGES = {
    "triton": ["triton==3.9.0"],
    "tilelang": [
        "tilelang==0.1.15",
        "apache-tvm-ffi==0.1.12",
        "z3-solver==4.15.4.0",
        "cloudpickle",
    ],
    "cutlass_library": ["nvidia-cutlass==4.2.0.0"],
}
"""By the module that is imported: requirements; what they require is in the environment."""
SECONDS = 1200


def _folder(module):
    """Where `module` can be imported from; None where it is in the environment already."""
    if module != "tilelang" and importlib.util.find_spec(module):
        return None
    root = Path(os.environ.get("SEPTRAN_FOREIGN") or platformdirs.user_cache_path("septran"))
    pins = PACKAGES[module]
    folder = root / "foreign" / pins[0].replace("==", "-")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
        if not folder.exists():
            _install(pins, folder)
    return folder


def _install(pins, folder):
    fresh = folder.with_name(f".new-{folder.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target",
               str(fresh), *pins]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{pins[0]} took too long to download")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        pytest.skip(f"{pins[0]} cannot be had: {last[:200]}")
    fresh.rename(folder)


@functools.cache
def _environment(module):
    folder = _folder(module)
    path = [str(folder)] if folder else []
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


@pytest.fixture(autouse=True, scope="session")
def _needs_a_compiler():
    try:
        build.compiler()
    except build.HostCompilerError:
        pytest.skip("no C++ compiler here")


@pytest.fixture(scope="session")
def package():
    """`package(module)` is the folder of an importable package of others."""

    def find(module):
        folder = _folder(module)
        if folder is None:
            return Path(importlib.util.find_spec(module).origin).parent
        return folder / module

    return find


@pytest.fixture(scope="session")
def produce(tmp_path_factory):
    """`produce(module, script, name)` runs a script of this folder; gives its text and facts."""

    @functools.cache
    def run(module, script, name, kind="ptx"):
        out = tmp_path_factory.mktemp("foreign") / name
        command = [sys.executable, str(HERE / script), name, str(out)]
        done = subprocess.run(
            command, env=_environment(module), capture_output=True, text=True, timeout=SECONDS,
            check=False, cwd=out.parent,
        )  # fmt: skip
        assert not done.returncode, done.stderr[-4000:]
        return Path(f"{out}.{kind}").read_text(), json.loads(Path(f"{out}.json").read_text())

    return run


@pytest.fixture(scope="session")
def to_ptx(tmp_path_factory):
    """`to_ptx(text, arch, *options)` is what nvcc makes of CUDA text."""

    @functools.cache
    def run(text, arch, *options):
        if not shutil.which("nvcc"):
            pytest.skip("no nvcc here")
        source = tmp_path_factory.mktemp("nvcc") / "kernel.cu"
        source.write_text(text)
        to = source.with_suffix(".ptx")
        command = [
            "nvcc",
            "-ptx",
            "-lineinfo",
            f"-arch={arch}",
            *options,
            str(source),
            "-o",
            str(to),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert not done.returncode, done.stderr[-4000:]
        return to.read_text()

    return run


@pytest.fixture(scope="session")
def right_product():
    """`right_product(c, a, b, bits)` asserts that C is A B, each sum in float32 and in any order.

    Where `bits` is given, tensor cores add so many of each term.
    """

    def check(c, a, b, bits=None):
        a, b = a.astype(np.float64), b.astype(np.float64)
        error = gamma(a.shape[-1] + 1, "float32") * (np.abs(a) @ np.abs(b))
        if bits is not None:
            error = error + cut_terms(a, b, np.zeros(error.shape), bits)
        exact = cast(Bounded(a @ b, error, "float32"), str(c.dtype))
        found = compare("C", c, exact)
        assert found.right, found
        assert found.unknown == 0

    return check


@pytest.fixture(scope="session")
def right_attention():
    """`right_attention(o, q, k, v, causal)` asserts the result of attention of [B, H, N, D]."""

    def check(o, q, k, v, causal):
        shapes = dict(zip("BHMDGN", (*q.shape, *k.shape[1:3]), strict=True))
        kernel = septran.compile(
            "attention", "cpu-x86", shapes=shapes, dtypes="float16", static={"causal": causal}
        )
        exact = error_bounds(kernel.stages.task_tree, {"Q": q, "K": k, "V": v})
        found = compare("O", o, exact["O"])
        assert found.right, found

    return check

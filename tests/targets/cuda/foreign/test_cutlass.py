"""CUTLASS's kernels as nvcc compiles them, with the parameters that its own host code makes."""

import ctypes
import functools
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from septran.emulator import MODES, emulate
from septran.emulator.launch import CudaProgram, ShapedLaunch, StructArgument

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
ROOM = 4096
"""Bytes that a kernel's parameters take at most."""


@pytest.fixture(scope="module")
def built(package, tmp_path_factory):
    """`built(name, arch)`: the PTX of a file, and its host code as a library."""

    @functools.cache
    def build(name, arch):
        if not shutil.which("nvcc"):
            pytest.skip("no nvcc here")
        root, folder = package("cutlass_library") / "source", tmp_path_factory.mktemp(name)
        command = [
            "nvcc", "-std=c++17", "-w", "--expt-relaxed-constexpr",
            "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1", f"-I{root / 'include'}",
            f"-I{root / 'tools' / 'util' / 'include'}", "-gencode",
            f"arch=compute_{arch},code=compute_{arch}", "-lineinfo", "--keep", "--keep-dir",
            str(folder), "-shared", "-Xcompiler", "-fPIC", str(HERE / f"{name}.cu"), "-o",
            str(folder / "host.so"),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        assert not done.returncode, done.stderr[-4000:]
        return (folder / f"{name}.ptx").read_text(), ctypes.CDLL(str(folder / "host.so"))

    return build


def launch_of(kernel, host, sizes, cluster):
    """The launch: its shape and its parameters as the host code says them."""

    def asked(a, b, c):
        room = (ctypes.c_uint8 * (ROOM + 128))()
        place = ctypes.addressof(room) + -ctypes.addressof(room) % 128
        shape = (ctypes.c_int * 6)()
        call = host.parameters
        call.argtypes = [*[ctypes.c_uint64] * 3, *[ctypes.c_int] * 3, ctypes.c_void_p,
                         ctypes.c_void_p]  # fmt: skip
        count = call(a, b, c, *sizes, place, ctypes.addressof(shape))
        assert 0 < count <= ROOM
        return ctypes.string_at(place, count), list(shape)

    _, (x, y, z, threads, shared, align) = asked(256, 512, 768)
    fill = StructArgument("params", lambda at: asked(at("a"), at("b"), at("c"))[0], align)
    return ShapedLaunch(
        kernel, x * y * z, threads, cluster, shared, (fill,), (x, y, z), (threads, 1, 1)
    )


def product(m, n, k):
    generator = np.random.default_rng(3)
    a, b = (generator.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    return a, b, np.full((m, n), 7, np.float16)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "arch", "cluster"),
    [("cutlass_sm80", "80", 1), ("cutlass_sm90", "90a", 2)],
    ids=["sm80", "sm90"],
)
def test_gemm(built, right_product, name, arch, cluster, mode):
    """Ragged on all sides; on sm_90 a cluster of two shares its tiles of B by multicast."""
    text, host = built(name, arch)
    (kernel,) = re.findall(r"\.entry\s+([\w$]+)", text)
    a, b, c = product(200, 136, 168)
    launch = launch_of(kernel, host, (200, 136, 168), cluster)
    program = CudaProgram(text, (launch,), (), ("a", "b", "c"), (), f"sm_{arch}")
    found = emulate(program, {"a": a, "b": b, "c": c}, mode=mode, seed=4)
    right_product(c, a, b)
    assert found.statistics["mma" if arch == "80" else "wgmma"]

"""Hand-written kernels for the emulator: `launch` runs one, `ptx` has short words for PTX."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from septran.emulator import build, emulate
from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer, TensorMap

HERE = Path(__file__).parent
NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}


@pytest.fixture(autouse=True)
def _needs_a_compiler():
    try:
        build.compiler()
    except build.HostCompilerError:
        pytest.skip("no C++ compiler here")


@pytest.fixture(scope="session")
def ptx():
    """CUDA text with PTX instructions as functions."""
    return (HERE / "ptx.cuh").read_text()


@pytest.fixture(scope="session")
def gemm():
    """A pipelined GEMM for Hopper: TMA, mbarriers, wgmma, stmatrix, TMA store."""
    return (HERE / "ptx.cuh").read_text() + (HERE / "gemm.cu").read_text()


@pytest.fixture(scope="session")
def launch():
    """`launch(text, arrays, block=..., ...)` runs the kernel `k` of `text`; gives the `Emulation`.

    Its arguments are `maps` (tensor maps), then a pointer to each array that has none.
    """

    def run(
        text, arrays, *, block=32, grid=1, cluster=1, shared=0, maps=(), arch="sm_90a",
        scratch=(), **options,
    ):  # fmt: skip
        mapped = {m.buffer for m in maps}
        pointers = [Pointer(n, "", n) for n in arrays if n not in mapped]
        pointers += [Pointer(n, "", n) for n, _ in scratch]
        one = KernelLaunch("k", grid, block, cluster, shared, (*maps, *pointers))
        program = CudaProgram(text, (one,), tuple(scratch), tuple(arrays), (), arch)
        return emulate(program, arrays, **options)

    return run


@pytest.fixture(scope="session")
def tensor_map():
    """`tensor_map(name, array, box, swizzle)` of a whole array; its last axis is the inner one."""

    def make(name, array, box, swizzle=0):
        dtype = {np.dtype(v): k for k, v in NUMPY.items()}.get(array.dtype, str(array.dtype))
        extents = array.shape[::-1]
        return TensorMap(name, dtype, extents, array.strides[::-1][1:], tuple(box), swizzle, name)

    return make


@pytest.fixture
def random():
    """`random(dtype, *shape)`: small numbers; integers from -5 to 5 in integer types."""
    generator = np.random.default_rng(7)

    def make(dtype, *shape):
        kind = np.dtype(NUMPY.get(dtype, dtype))
        if np.issubdtype(kind, np.integer):
            return generator.integers(-5, 6, shape).astype(kind)
        return generator.standard_normal(shape).astype(kind)

    return make

"""Triton's kernels, which are right on GPUs, are right in the emulator in every order."""

import ml_dtypes
import numpy as np
import pytest

from septran.emulator import MODES, emulate
from septran.emulator.launch import CudaProgram, Pointer, ScalarArgument, ShapedLaunch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(produce):
    """`run(kernel, grid, arrays, numbers, mode)` launches it as Triton does.

    Behind its own arguments a kernel gets the address of scratch of each block in global
    memory, where it makes tensor maps, and that of a profiler's, which there is none.
    """

    def call(kernel, grid, arrays, numbers, mode):
        text, facts = produce("triton", "triton_kernels.py", kernel)
        scalars = [ScalarArgument(n, "float32" if isinstance(v, float) else "int32")
                   for n, v in numbers.items()]  # fmt: skip
        arguments = (
            *(Pointer(n, "", n) for n in arrays), *scalars, Pointer("scratch", "", "scratch"),
            Pointer("profile", "", "profile"),
        )  # fmt: skip
        blocks = int(np.prod(grid))
        launch = ShapedLaunch(
            facts["name"], blocks, facts["threads"], 1, facts["shared"], arguments,
            (*grid, 1, 1)[:3], (facts["threads"], 1, 1),
        )  # fmt: skip
        arch = text.split(".target")[1].split()[0]
        scratch = (("scratch", max(16, facts["scratch"] * blocks)), ("profile", 16))
        program = CudaProgram(text, (launch,), scratch, tuple(arrays), (), arch)
        return emulate(program, arrays, numbers, mode=mode, seed=11)

    return call


def numbers(seed, dtype, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def product(m, n, k, dtype=np.float16, out=np.float16):
    return numbers(1, dtype, m, k), numbers(2, dtype, k, n), np.full((m, n), 7, out)


@pytest.mark.parametrize("mode", MODES)
def test_matmul_by_descriptors(run, right_product, mode):
    """TMA by tensor maps that the kernel makes, and pipelined wgmma; ragged on all sides."""
    a, b, c = product(200, 136, 264)
    sizes = {"M": 200, "N": 136, "K": 264}
    found = run("matmul", (2, 2), {"a": a, "b": b, "c": c}, sizes, mode)
    right_product(c, a, b)
    assert found.statistics["wgmma"] == 4 * 5 * 4 * 8  # blocks, steps of k, instructions, warps
    assert found.statistics["tma_loads"] == 4 * 5 * 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_matmul_by_pointers(run, right_product, arch, mode):
    a, b, c = product(96, 80, 112)
    found = run(f"pointers_{arch}", (2, 2), {"a": a, "b": b, "c": c}, {"M": 96, "N": 80, "K": 112},
                mode)  # fmt: skip
    right_product(c, a, b)
    assert found.statistics["copies"]
    assert found.statistics["mma" if arch == "sm80" else "wgmma"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", ["persistent", "specialised"])
def test_persistent_matmul(run, right_product, kernel, mode):
    """Two blocks share six tiles; specialised, with warps that load and pools of registers."""
    a, b, c = product(264, 136, 192)
    turned = np.ascontiguousarray(b.T)
    run(kernel, (2,), {"a": a, "b": turned, "c": c}, {"M": 264, "N": 136, "K": 192}, mode)
    right_product(c, a, b)


@pytest.mark.parametrize("mode", MODES)
def test_float8(run, right_product, mode):
    a, b, c = product(136, 144, 160, ml_dtypes.float8_e4m3fn, np.float32)
    turned = np.ascontiguousarray(b.T)
    run("float8", (2,), {"a": a, "b": turned, "c": c}, {"M": 136, "N": 144, "K": 160}, mode)
    right_product(c, a, b, bits=14)


@pytest.mark.parametrize("mode", MODES)
def test_attention(run, right_attention, mode):
    q, k, v = (numbers(s, np.float16, 1, 2, 200, 64) for s in (1, 2, 3))
    o = np.full_like(q, 7)
    run("attention", (2, 2), {"q": q, "k": k, "v": v, "o": o}, {"N": 200, "scale": 0.125}, mode)
    right_attention(o, q, k, v, causal=True)

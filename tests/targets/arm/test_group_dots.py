"""Products of bytes by NEON's dot products: bound where a processor has them, exact, and real."""

from __future__ import annotations

import re

import numpy as np
import pytest

KINDS = {
    ("int8", "int8"): "sdot", ("uint8", "uint8"): "udot", ("uint8", "int8"): "usdot",
    ("int8", "uint8"): "usdot",
}  # fmt: skip


def random(rng, shape, dtype):
    """Any bytes, the least and the greatest often among them."""
    info = np.iinfo(dtype)
    ends = rng.choice([info.min, info.max], shape).astype(dtype)
    found = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.3, ends, found)


@pytest.mark.parametrize("sizes", [(9, 35, 19), pytest.param((33, 50, 70), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_products_of_bytes_are_exact(emulator, kernel_for, kinds, sizes):
    m, n, k = sizes
    types = dict(zip("CAB", ("int32", *kinds), strict=True))
    kernel = kernel_for("neoverse-v1", "gemm", types, M=m, N=n, K=k)
    rng = np.random.default_rng(m)
    a, b = random(rng, (m, k), kinds[0]), random(rng, (k, n), kinds[1])
    exact = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), exact)


@pytest.mark.parametrize(("kinds", "instruction"), KINDS.items(), ids=str)
def test_the_instruction_is_in_the_assembly(kernel_for, kinds, instruction):
    types = dict(zip("CAB", ("int32", *kinds), strict=True))
    kernel = kernel_for("neoverse-v1", "gemm", types, M=32, N=96, K=64)
    assembly = kernel.stages.source.parts["assembly"]
    assert len(re.findall(rf"\t{instruction}\tv\d+\.4s", assembly)) >= 24


@pytest.mark.parametrize(
    ("arch", "kinds", "unit"),
    [
        ("neoverse-n1", ("int8", "int8"), "dotprod"),
        ("neoverse-n1", ("uint8", "int8"), "int8_microkernel"),
        ("cortex-a72", ("int8", "int8"), "int8_microkernel"),
        ("apple-m2", ("uint8", "int8"), "i8mm"),
    ],
)
def test_a_processor_without_them_takes_the_next_instruction(kernel_for, arch, kinds, unit):
    types = dict(zip("CAB", ("int32", *kinds), strict=True))
    kernel = kernel_for(arch, "gemm", types, M=8, N=16, K=16)
    assert f"by {unit}" in str(kernel.stages.tile_program)

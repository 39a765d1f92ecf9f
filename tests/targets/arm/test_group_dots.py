"""Products by NEON's dot products: bound where a processor has them, right, and real."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import septran
from septran.runtime.accuracy import compare, error_bounds

KINDS = {
    ("int8", "int8"): "sdot", ("uint8", "uint8"): "udot", ("uint8", "int8"): "usdot",
    ("int8", "uint8"): "usdot",
}  # fmt: skip
HALVES = ("bfloat16", "bfloat16")
SUMMED = dict(zip("CAB", ("float32", *HALVES), strict=True))


def random(rng, shape, dtype):
    """Any bytes, the least and the greatest often among them."""
    info = np.iinfo(dtype)
    ends = rng.choice([info.min, info.max], shape).astype(dtype)
    found = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.3, ends, found)


@pytest.mark.one_in(2)
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
        ("a64fx", ("uint8", "uint8"), "sve_dotprod"),
        ("a64fx", ("uint8", "int8"), "int8_microkernel"),
        ("apple-m2", HALVES, "bf16"),
        ("neoverse-n1", HALVES, "fma_microkernel"),
    ],
)
def test_a_processor_without_them_takes_the_next_instruction(kernel_for, arch, kinds, unit):
    types = dict(zip("CAB", ("float32" if kinds == HALVES else "int32", *kinds), strict=True))
    kernel = kernel_for(arch, "gemm", types, M=8, N=16, K=16)
    assert f"by {unit}" in str(kernel.stages.tile_program)


def test_bfdot_is_in_the_assembly(kernel_for):
    assembly = kernel_for("neoverse-v1", "gemm", SUMMED, M=32, N=96, K=64).stages.source.parts
    assert len(re.findall(r"\tbfdot\tv\d+\.4s", assembly["assembly"])) >= 24


def test_products_of_bfloat16_are_within_the_bound_of_sums_one_by_one(emulator, kernel_for):
    """Fewer sums are rounded, each to odd: with both halves of the products far apart, too."""
    kernel = kernel_for("neoverse-v1", "gemm", SUMMED, M=9, N=19, K=301)
    kernel.check().raise_if_wrong()
    rng = np.random.default_rng(7)
    a, b = (
        (rng.uniform(1, 2, shape) * 2.0 ** rng.integers(-9, 9, shape)).astype(ml_dtypes.bfloat16)
        for shape in ((9, 301), (301, 19))
    )
    kernel.check(a, b).raise_if_wrong()


@pytest.mark.slow
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 1)], ids=["nn", "nt", "tt"])
@pytest.mark.parametrize("sizes", [(9, 35, 19), (33, 50, 70), (1, 40, 33)], ids=str)
def test_products_of_bfloat16_of_any_size_are_right(emulator, kernel_for, sizes, turned):
    static = dict(zip(("trans_a", "trans_b"), map(bool, turned), strict=True))
    shapes = dict(zip("MNK", sizes, strict=True))
    kernel_for("neoverse-v1", "gemm", "bfloat16", static, **shapes).check().raise_if_wrong()


def test_subnormal_numbers_count_as_zero_and_the_bound_knows_it(emulator, kernel_for):
    kernel = kernel_for("neoverse-v1", "gemm", "bfloat16", M=16, N=16, K=16)
    a, b = (np.zeros((16, 16), ml_dtypes.bfloat16) for _ in range(2))
    a[0, 0], b[0, :] = 2.0**-130, 2.0**120
    found = np.asarray(kernel(a, b))
    assert found[0, 0] == 0
    kernel.check(a, b).raise_if_wrong()
    strict = error_bounds(kernel.stages.task_tree, {"A": a, "B": b})["C"]
    assert not compare("C", found, strict).right


@pytest.mark.parametrize(
    ("arch", "kind"),
    [("a64fx", "int8"), pytest.param("a64fx", "uint8", marks=pytest.mark.slow)]
    + [pytest.param("neoverse-v1", kind, marks=pytest.mark.slow) for kind in ("int8", "uint8")],
)
def test_bytes_in_long_vectors_are_exact(emulator, arch, kind):
    """By the instruction that is named, which other processors have, too."""
    machine = replace(septran.load_machine("cpu-arm"), arch=arch)
    text = """
        extends: cpu-arm
        rules:
          - {match: {primitive: gemm}, binding: {gemm: sve_dotprod}}
    """
    kernel = septran.compile(
        "gemm", text, machine=machine, shapes={"M": 19, "N": 35, "K": 41},
        dtypes=dict(zip("CAB", ("int32", kind, kind), strict=True)),
    )  # fmt: skip
    name = "sdot" if kind == "int8" else "udot"
    assembly = kernel.stages.source.parts["assembly"]
    assert len(re.findall(rf"\t{name}\tz\d+\.s, z\d+\.b", assembly)) >= 16
    assert not re.findall(rf"\t{name}\tv", assembly)
    rng = np.random.default_rng(8)
    a, b = random(rng, (19, 41), kind), random(rng, (41, 35), kind)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), exact)

"""Weights that lie in an instruction's groups are multiplied where they lie: nothing packs them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import septran
from septran import task
from septran.machine.loader import NATIVE_IS
from septran.tile.nodes import Copy, nodes


@task.define(leaf=True)
def product(C, A, B):
    task.fill(C, 0)
    task.call_primitive("gemm", C, A, B)


@task.define
def columns(C, A, B):
    rows = task.tunable("block_M")
    Cp, Ap = (task.partition(x, shape=(rows, x.shape[1])) for x in (C, A))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(product, Cp[i, 0], Ap[i, 0], B)


@task.define
def packed_gemm(
    C: task.Tensor["M", "P * S"],
    A: task.Tensor["M", "G * size"],
    B: task.Tensor["P", "G", "S", "size"],
    *,
    size: task.static = 4,
):
    """B has `size` elements of each column of a panel side by side."""
    panels, groups, width, _ = B.shape
    Cp = task.partition(C, shape=(C.shape[0], width))
    for p in task.parallel_range(panels):
        b = B[p].transpose(0, 2, 1).reshape(groups * size, width)
        task.launch(columns, Cp[0, p], A, b)


def random(rng, shape, dtype):
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def multiplied(m, panels, groups, width, kinds, size=4, result="int32"):
    """The kernel, what it gives, and the product by NumPy."""
    rng = np.random.default_rng(m)
    a = random(rng, (m, groups * size), kinds[0])
    b = random(rng, (panels, groups, width, size), kinds[1])
    kernel = septran.compile(
        packed_gemm, "cpu-x86", static={"size": size},
        dtypes=dict(zip("CAB", (result, *kinds), strict=True)),
    )  # fmt: skip
    whole = b.transpose(0, 2, 1, 3).reshape(panels * width, groups * size)
    found = np.asarray(kernel(a, b))
    kernel.check(a, b, guard=True).raise_if_wrong()
    return kernel, found, a.astype(np.float64) @ whole.T.astype(np.float64)


def copied(kernel):
    program = kernel.stages.tile_program
    return {n.source.buffer for n in nodes(program.body) if isinstance(n, Copy)}


@pytest.fixture(params=["split", "amx"])
def instructions(request, monkeypatch):
    """Those of bytes of other processors, which plain operations stand in for."""
    monkeypatch.setenv(NATIVE_IS, request.param)
    return request.param


@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "int8")], ids=str)
@pytest.mark.parametrize("sizes", [(7, 3, 5, 48), (33, 1, 17, 16)], ids=str)
@pytest.mark.one_in(7)
def test_bytes_are_multiplied_where_they_lie(instructions, sizes, kinds):
    kernel, found, exact = multiplied(*sizes, kinds)
    np.testing.assert_array_equal(found, exact)
    assert "B" not in copied(kernel)
    (removed,) = kernel.stages.tile_program.removed
    assert "lies in groups, as" in removed.reason
    assert ("septran_tdpb" in kernel.stages.tensor_ir.text) == (instructions == "amx")


def test_pairs_are(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "split")
    kinds = ("bfloat16", "bfloat16")
    kernel, _, _ = multiplied(9, 2, 6, 32, kinds, 2, "float32")
    assert "by avx512_bf16" in str(kernel.stages.tile_program)
    assert "B" not in copied(kernel)


@pytest.mark.parametrize(
    ("sizes", "size"), [((7, 2, 5, 20), 4), ((7, 2, 6, 32), 2), ((7, 2, 3, 32), 8)], ids=str
)
@pytest.mark.one_in(2)
def test_columns_that_fill_no_register_and_other_groups_are_packed(sizes, size, monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "split")
    kernel, found, exact = multiplied(*sizes, ("uint8", "int8"), size)
    np.testing.assert_array_equal(found, exact)
    assert "B" in copied(kernel)

"""The Python module of a program: what a reader finds in it, and what is refused."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest

import septran
from septran import operators, task
from septran.errors import SepTranError
from septran.targets.tpu.module import write_module
from septran.targets.tpu.unsupported import UnsupportedByTpuError, VectorMemoryError
from tests.tiers import slow_but

REFUSED = {
    "conv2d": "element by element",
    "conv2d_backward": "element by element",
    "conv2d_nhwc": "element by element",
    "max_pool2d_indices": "element by element",
    "max_pool2d_indices_backward": "element by element",
    "moe_layer": "chooses rows in the kernel that writes it",
    "pool2d_backward": "element by element",
    "route": "chooses rows in the kernel that writes it",
}
"""Operators with a case that no kernel for a TPU is written for, and why. It can only shrink."""


def module(case):
    stages = septran.produce_stages(
        case.operator, "tpu-v5e", shapes=case.sizes, dtypes=case.dtype, static=case.static
    )
    return write_module(stages.tile_program)


@pytest.mark.parametrize("name", slow_but(("attention", "conv2d", "gemm"), operators.names()))
def test_a_module_is_written_for_every_case_but_of_those_that_are_known(name):
    refused = set()
    for case in operators.cases(name):
        try:
            ast.parse(module(case))
        except UnsupportedByTpuError as error:
            refused.add(str(error))
    assert bool(refused) == (name in REFUSED)
    assert all(REFUSED[name] in message for message in refused)


def test_the_next_tiles_are_on_their_way_while_the_matrix_units_work(text):
    body = text("gemm", M=256, N=256, K=2048)
    loop = body[body.index("@pl.loop") :]
    begins, waits, product = (loop.index(word) for word in (".start()", ".wait()", "jnp.dot("))
    assert begins < waits < product
    stage = r"\(k\w* \+ 1\) % 2"
    assert re.search(rf"A_VMEM\.at\[{stage}\], A_B_in\.at\[{stage}, 0\]\)\.start", loop)


def test_parallel_loops_are_the_grid(text):
    body = text("elementwise", M=256, N=128)
    assert "grid=(2,)" in body
    assert "dimension_semantics=('parallel',)" in body
    assert "i = pl.program_id(0)" in body


def test_every_transfer_says_why_it_is_there(text):
    lines = text("softmax", M=64, N=512).splitlines()
    places = [n for n, line in enumerate(lines) if ".start()" in line]
    assert places
    assert all("softmax.py:" in "".join(lines[n - 3 : n]) for n in places)


def test_a_ragged_axis_is_padded_outside_and_masked_where_it_is_summed(text):
    body = text("gemm", M=300, N=128, K=700)
    assert "A = jnp.pad(A, ((0, 212), (0, 324)))" in body
    assert "return C[:300]" in body


def test_short_floats_are_multiplied_as_they_are_and_long_ones_by_six_products(text):
    sizes = {"M": 128, "N": 128, "K": 128}
    assert "Precision.HIGHEST" in text("gemm", **sizes)
    assert "Precision.HIGHEST" not in text("gemm", "bfloat16", **sizes)


def test_what_a_tpu_does_not_compute_in_is_refused(text):
    with pytest.raises(SepTranError):
        text("gemm", "float64", M=64, N=64, K=64)
    with pytest.raises(UnsupportedByTpuError, match="nothing in float64"):
        text("softmax", "float64", M=64, N=64)


def test_a_kernel_that_holds_more_than_vector_memory_is_refused():
    program = septran.produce_stages("softmax", "tpu-v5e", shapes={"M": 64, "N": 512}).tile_program
    small = septran.load_machine("tpu-v5e")
    memories = tuple(
        replace(m, capacity_bytes=1 << 16) if m.name == "VMEM" else m for m in small.memories
    )
    with pytest.raises(VectorMemoryError, match="65,536"):
        write_module(replace(program, machine=replace(small, memories=memories)))


@task.define(leaf=True)
def halves(Y, X):
    """Whole numbers of floats, as wide as can be."""
    Y[:, :] = (X * 3.0).astype(task.int32)


@task.define
def whole_numbers(Y: task.Tensor["M", "N", task.int32], X: task.Tensor["M", "N"]):
    """One tile at a time."""
    Yp, Xp = task.partition(Y, shape=(64, 128)), task.partition(X, shape=(64, 128))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(halves, Yp[i, j], Xp[i, j])


def test_functions_with_other_corner_cases_in_jax_are_in_the_module_only_where_used(text):
    assert "def _whole(x):" in text(whole_numbers, None, M=64, N=128)
    assert "_whole" not in text("softmax", M=64, N=512)


def test_the_position_of_a_single_element_is_a_vector():
    (case, *_) = operators.cases("paged_attention")
    assert "((0)[" not in module(case)
    assert "jax.lax.broadcasted_iota(jnp.int32, (1,), 0)" in module(case)

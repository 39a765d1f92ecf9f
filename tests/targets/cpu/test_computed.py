"""Operands of products that are computed where they are multiplied, and never stored."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace

import numpy as np
import pytest

import septran

FEW = [
    (1, 100, 192),
    (3, 70, 64),
    (6, 64, 128),
    (7, 33, 64),
    (11, 257, 128),
    (12, 1, 64),
    (16, 49, 64),
]


def product(m, n, k, dtype="float32", **static):
    shapes = {"M": m, "N": n, "K": k}
    return septran.compile("dequant_gemm", "cpu-x86", shapes=shapes, static=static, dtypes=dtype)


@pytest.fixture
def mine(tmp_path):
    """Compiles a task whose B is made by `lines` of a leaf from X of the same shape."""

    def compiled(lines, shapes, dtype="float32", kind="A.dtype", more="", mapping="cpu-x86"):
        text = f"""
from septran import task


@task.define(leaf=True)
def make(B, X):
{textwrap.indent(textwrap.dedent(lines), "    ")}


@task.define(leaf=True)
def product(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def made(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], X: task.Tensor["K", "N"]):
    B = task.empty(X.shape, {kind}, name="B")
    task.fill(C, 0)
    task.launch(make, B, X)
    task.launch(product, C, A, B)
{textwrap.indent(textwrap.dedent(more), "    ")}
"""
        path = tmp_path / "made.py"
        path.write_text(text, encoding="utf-8")
        return septran.compile(path, mapping, shapes=shapes, dtypes=dtype)

    return compiled


def held(kernel, stem="B"):
    """Whether the operand has a place in memory."""
    text = str(kernel.stages.tensor_ir)
    return re.search(rf"^ *{stem}(_\d+)? = T.alloc_buffer", text, re.MULTILINE) is not None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", FEW, ids=str)
def test_weights_of_few_rows_are_never_stored(shape, bits):
    kernel = product(*shape, bits=bits)
    assert not held(kernel, "T")
    result = kernel.check(guard=shape[0] in (1, 7))
    assert result.right, result


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("bits", [4, 8])
def test_every_type_of_the_other_operand(dtype, bits):
    kernel = product(3, 70, 128, dtype, bits=bits)
    assert not held(kernel, "T")
    result = kernel.check(guard=True)
    assert result.right, result


def test_weights_of_many_rows_are_stored():
    kernel = product(64, 64, 64)
    assert held(kernel, "T")
    assert kernel.check().right


def test_small_whole_numbers_are_exact():
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (5, 128)).astype("float32")
    w = rng.integers(0, 256, (64, 75), dtype=np.uint8)
    scale, zero = (np.full((2, 75), x, "float32") for x in (0.5, 8))
    halves = w.reshape(2, 32, 75)
    weights = np.concatenate([halves & 15, halves >> 4], 1).reshape(128, 75).astype("float32")
    found = product(5, 75, 128, bits=4)(a, w, scale, zero)
    assert (found == a @ ((weights - 8) / 2)).all()


SHAPES = {"M": 3, "N": 75, "K": 40}


@pytest.mark.parametrize(
    "lines",
    ["B[:, :] = X * 2 + 1", "h = X.shape[0] // 2\nB[:h, :] = X[h:, :]\nB[h:, :] = X[:h, :] + 1"],
)
def test_any_expression_is_computed_in_place(mine, lines):
    kernel = mine(lines, SHAPES)
    assert not held(kernel)
    result = kernel.check(guard=True)
    assert result.right, result


def test_whole_numbers_wrap_as_if_they_had_been_stored(mine):
    kernel = mine("B[:, :] = X * 3", SHAPES, "int16")
    x = np.full((40, 75), 20000, "int16")
    a = np.ones((3, 40), "int16")
    assert not held(kernel)
    assert (kernel(a, x) == a.astype("int32") @ (x * np.int16(3))).all()


def test_float16_is_rounded_as_if_it_had_been_stored(mine):
    kernel = mine("B[:, :] = X + 1", SHAPES, "float16")
    x = np.full((40, 75), 2.0**-11, "float16")
    assert not held(kernel)
    found = kernel(np.ones((3, 40), "float16"), x)
    assert (found == 40).all()


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        ("h = X.shape[0] // 4\nB[:h, :] = X[:h, :]\nB[h:, :] = X[h:, :] * 2", ""),
        ("B[:, :] = X\nB[:, :] = B * 2", ""),
        ("B[:, :] = X - task.max(X, axis=0)", ""),
        ("B[:, :] = X * 2", "task.launch(product, C, A, B)"),
    ],
    ids=["unequal parts", "two steps", "reduction", "used again"],
)
def test_other_operands_are_stored(mine, lines, more):
    kernel = mine(lines, SHAPES, more=more)
    assert held(kernel)
    result = kernel.check()
    assert result.right, result


def test_what_the_next_group_is_made_of_is_asked_for():
    """Weights of more than L2 holds: the first line of each row of the group to come."""
    kernel = product(1, 512, 8192)
    text = str(kernel.stages.tensor_ir)
    assert "T.address_of(W_flat" in text.split("septran_apart")[-1]
    assert (
        "T.address_of(W_flat" not in str(product(1, 512, 128).stages.tensor_ir).split("apart")[-1]
    )
    assert kernel.check(guard=True).right


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "shape", [(1, 100, 192), (3, 70, 64), (9, 49, 128), (16, 33, 64), (33, 64, 64)], ids=str
)
def test_bytes_are_joined_to_groups_where_they_are_multiplied(shape):
    """By dot products where the processor has them, else in float32: there are no others."""
    shapes = dict(zip("MNK", shape, strict=True))
    kernel = septran.compile("w4a8_gemm", "cpu-x86", shapes=shapes, dtypes="float32")
    assert not held(kernel, "T")
    result = kernel.check(guard=True)
    assert result.right, result


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("k", [40, 300])
def test_products_of_computed_bytes_are_exact(mine, kind, k):
    """Of 300 unsigned ones the sum is more than float32 holds exactly."""
    kernel = mine("B[:, :] = X ^ 5", {"M": 3, "N": 75, "K": k}, kind)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    rng = np.random.default_rng(0)
    a, x = (rng.choice([least, most, 77], shape).astype(kind) for shape in ((3, k), (k, 75)))
    assert not held(kernel)
    assert (kernel(a, x) == a.astype("int64") @ (x ^ 5).astype("int64")).all()


@pytest.fixture
def scaled(tmp_path):
    """Compiles a task whose sums P of A @ (X + 1) a leaf takes by `lines` into C, of ones."""

    def compiled(lines, shapes, dtype="float32", kind="C.dtype", source="X"):
        text = f"""
from septran import task


@task.define(leaf=True)
def make(B, X):
    B[:, :] = X + 1


@task.define(leaf=True)
def product(P, A, B):
    task.call_primitive("gemm", P, A, B)


@task.define(leaf=True)
def take(C, P):
{textwrap.indent(textwrap.dedent(lines), "    ")}


@task.define
def block(C, A, X):
    B = task.empty(X.shape, A.dtype, name="B")
    P = task.empty(C.shape, {kind}, name="P")
    task.launch(make, B, {source})
    task.fill(P, 0)
    task.launch(product, P, A, B)
    task.launch(take, C, P)


@task.define
def taken(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], X: task.Tensor["K", "N"]):
    task.fill(C, 1)
    for i in task.parallel_range(1):
        task.launch(block, C, A, X)
"""
        path = tmp_path / "taken.py"
        path.write_text(text, encoding="utf-8")
        return septran.compile(path, "cpu-x86", shapes=shapes, dtypes=dtype)

    return compiled


@pytest.mark.one_in(3)
@pytest.mark.parametrize("lines", ["C[:, :] = C + P * 2", "C[:, :] = task.exp(P / 64)"])
@pytest.mark.parametrize("rows", [3, 16])
def test_sums_that_the_next_statement_takes_stay_in_registers(scaled, lines, rows):
    kernel = scaled(lines, {**SHAPES, "M": rows})
    assert not held(kernel, "P")
    result = kernel.check(guard=True)
    assert result.right, result


@pytest.mark.parametrize("name", ["dequant_gemm", "w4a8_gemm"])
def test_sums_of_a_group_are_scaled_in_registers(name):
    shapes = {"M": 9, "N": 49, "K": 128}
    kernel = septran.compile(name, "cpu-x86", shapes=shapes, dtypes="float32")
    assert not held(kernel, "P")
    result = kernel.check(guard=True)
    assert result.right, result


def test_sums_in_registers_are_rounded_as_if_they_had_been_stored(scaled):
    """2048 + 1 is no float16, so that twice the sum is 4096."""
    kernel = scaled("C[:, :] = P * 2", {"M": 3, "N": 75, "K": 2}, "float16", "A.dtype")
    a, x = np.array([[2048, 1]] * 3, "float16"), np.zeros((2, 75), "float16")
    assert not held(kernel, "P")
    assert (kernel(a, x) == 4096).all()


@pytest.mark.parametrize(
    "lines",
    [
        "C[:, :] = P - task.max(P, axis=1)[:, None]",
        "C[:1, :] = P[1:2, :]\nC[1:, :] = P[1:, :]",
        "C[:, :] = P\nC[:, :] = C + P",
    ],
    ids=["reduction", "other rows", "taken twice"],
)
def test_other_sums_are_stored(scaled, lines):
    kernel = scaled(lines, SHAPES)
    assert held(kernel, "P")
    result = kernel.check()
    assert result.right, result


def test_a_result_that_tiles_are_computed_from_waits_for_all_of_them(scaled):
    """C is what B is made of, and 75 columns are more than one tile."""
    kernel = scaled("C[:, :] = C + P", {"M": 8, "N": 75, "K": 8}, source="C")
    assert held(kernel, "P")
    result = kernel.check()
    assert result.right, result


def test_rows_that_lie_side_by_side_are_summed_up_together(vectors):
    """What makes up for signs is a register of rows at a time, not an element."""
    shapes = {"M": 9, "N": 49, "K": 128}
    kernel = septran.compile("w4a8_gemm", "cpu-x86", shapes=shapes, dtypes="float32")
    dots = "vpdpbusd" in str(kernel.stages.tensor_ir)
    assert held(kernel, "totals") == dots
    assert dots or vectors == 256


BY_PAIRS = """
extends: cpu-x86
machine: cpu-x86
rules:
  - match: {primitive: gemm}
    binding: {gemm: byte_pairs}
"""
SHORT = [
    ("int8", "(X & 15) - 8", lambda x: (x & 15) - 8, True),  # eight groups fit into 16 bits
    ("int8", "(X & 127) - 64", lambda x: (x & 127) - 64, True),  # one
    ("int8", "X & 127", lambda x: x & 127, True),
    ("int8", "X[:, :1] & X[:1, :] & 3", lambda x: x[:, :1] & x[:1, :] & 3, True),
    ("int8", "X ^ 5", lambda x: x ^ 5, False),  # 2 * 128 * 255
    ("uint8", "X & 1", lambda x: x & 1, True),  # 64 would
    ("uint8", "X & 63", lambda x: x & 63, True),
    ("uint8", "X & 127", lambda x: x & 127, False),  # 2 * 255 * 127
]


@pytest.mark.both_widths
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "words", "function", "short"), SHORT, ids=[f"{s[0]} {s[1]}" for s in SHORT]
)
def test_bytes_of_a_short_range_are_multiplied_by_pairs(mine, kind, words, function, short):
    """Also where all products are the greatest or the least that there are: no sum saturates."""
    m, n, k = 5, 75, 72
    kernel = mine(f"B[:, :] = {words}", {"M": m, "N": n, "K": k}, kind, mapping=BY_PAIRS)
    assert not held(kernel)
    assert ("septran_byte_pairs" in str(kernel.stages.tensor_ir)) == short
    ends = np.iinfo(kind)
    rng = np.random.default_rng(0)
    a = rng.choice([ends.min, ends.max, 77], (m, k)).astype(kind)
    x = rng.choice([ends.min, ends.max, 0, 15, 63, 64, 127], (k, n)).astype(kind)
    a[:2] = [[ends.min], [ends.max]]
    x[:, :32], x[:, 32:64] = 0, 127  # whole registers of the least and of the greatest
    assert (kernel(a, x) == a.astype("int64") @ function(x.astype("int64"))).all()


@pytest.mark.both_widths
@pytest.mark.parametrize("arch", ["x86-64-v3", "alderlake"])
def test_weights_of_few_bits_are_multiplied_as_integers(arch):
    """By ``vpmaddubsw``, or AVX-VNNI's ``vpdpbusd`` in registers of 256 bits: never in float32."""
    host = replace(septran.load_machine("cpu-x86"), arch=arch)
    shapes = {"M": 6, "N": 64, "K": 128}
    kernel = septran.produce_stages("w4a8_gemm", machine=host, shapes=shapes, dtypes="float32")
    text = str(kernel.tensor_ir)
    assert ("septran_byte_pairs_8" in text) == (arch == "x86-64-v3")
    assert ("septran_vpdpbusd_8" in text) == (arch == "alderlake")
    assert "T.fma" not in text


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_as_long_as_pages_are_right(bits):
    kernel = product(2, 4100, 1024, bits=bits)
    assert "parts" in str(kernel.stages.tile_program)  # whole rows, of a part of K each
    result = kernel.check(guard=True)
    assert result.right, result


def test_bits_of_bytes_are_widened_once():
    text = septran.compile("dequant_gemm", "cpu-x86", shapes={"M": 1, "N": 64, "K": 64}).stages
    lines = str(text.tensor_ir)
    # Eight or sixteen lanes of bytes, of which both parts take what they need in 32 bits.
    assert re.search(r"T\.reinterpret\(\"int32x(8|16)\"", lines)
    assert not re.search(r"T\.Cast\(\"float32x(8|16)\", \w+ & ", lines)


def of_cores(count):
    """The machine with so many cores."""
    machine = septran.load_machine("cpu-x86")
    host, core = machine.processors
    return replace(machine, processors=(host, replace(core, count=count)))


PARTS = {1: (1, 1), 2: (8, 1), 8: (8, 1), 16: (8, 2), 64: (8, 8)}
"""Parts of the sum, and pieces of the columns, by the number of cores."""


@pytest.mark.parametrize("operator", ["dequant_gemm", "w4a8_gemm"])
@pytest.mark.parametrize("cores", PARTS)
def test_as_many_parts_as_cores_share_the_sum_of_few_rows(cores, operator):
    shapes = {"M": 1, "N": 4096, "K": 4096}
    stages = septran.produce_stages(operator, machine=of_cores(cores), shapes=shapes)
    program = str(stages.tile_program)
    parts, pieces = PARTS[cores]
    loops = rf"parallel\({parts}\) over CORE:\n +for j in parallel\({pieces}\) over CORE:"
    assert re.search(loops, program)
    assert ("buffer parts" in program) == (cores > 1)


@pytest.mark.parametrize("cores", [1, 16, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rows", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_parts_for_any_number_of_cores_are_right(rows, cores):
    shapes = {"M": rows, "N": 1100, "K": 1024}
    kernel = septran.compile("dequant_gemm", machine=of_cores(cores), shapes=shapes)
    result = kernel.check()
    assert result.right, result


@pytest.mark.parametrize("operator", ["dequant_gemm", "w4a8_gemm"])
def test_parts_are_alike_where_the_groups_are_no_multiple_of_eight(operator):
    kernel = septran.compile(operator, machine=of_cores(2), shapes={"M": 1, "N": 70, "K": 1280})
    assert "buffer parts: float32[4, 1, 70]" in str(kernel.stages.tile_program)
    result = kernel.check()
    assert result.right, result

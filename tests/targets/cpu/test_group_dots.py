"""Instructions that sum products of groups: bound where the processor has them, right, and real."""

from __future__ import annotations

import os
import re

import ml_dtypes
import numpy as np
import pytest

import septran
from septran import task
from septran.machine.loader import NATIVE_IS
from septran.mapping.mistakes import NoBindingError
from septran.runtime.accuracy import ProductRules, compare, error_bounds
from septran.targets.cpu.gemm.dot_instructions import VDPBF16PS, VPDPBUSD, VPMADDWD
from septran.targets.cpu.run.isa import features, host_arch, lacking, native
from septran.targets.lower.values import vector_type

SIZES = [(8, 48, 64), (3, 35, 19), (33, 50, 30), (70, 1, 7)]
"""M, N, K."""
KINDS = ["int8", "uint8"]


def random(rng, shape, dtype):
    """Any bytes, the least and the greatest often among them."""
    info = np.iinfo(dtype)
    found = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    ends = rng.choice([info.min, info.max], shape).astype(dtype)
    return np.where(rng.random(shape) < 0.3, ends, found)


def product(a, b, dtype="int32"):
    """In 64 bits, then cut to the type: what wraps is congruent."""
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(dtype)


def mapped(instruction, sizes=""):
    return f"""
        extends: cpu-x86
        rules:
          - {{match: {{primitive: gemm}}, binding: {{gemm: {instruction}}}}}
        tunables: {{{sizes}}}
    """


def split():
    """Whether plain operations stand in for instructions, as on a host that has none of them."""
    return os.environ.get(NATIVE_IS) == "split"


def having(feature, request, monkeypatch):
    """The host's own instructions, or plain ones with the same bits."""
    if request.param == "split":
        monkeypatch.setenv(NATIVE_IS, "split")
    elif split() or feature not in native().features or native().unit.bytes < 64:
        pytest.skip(f"this host, or what it is taken for, has no {feature}")
    return request.param


@pytest.fixture(params=["host", pytest.param("split", marks=pytest.mark.slow)])
def vnni(request, monkeypatch):
    """With products of bytes."""
    return having("avx512vnni", request, monkeypatch)


PAIRS = """
extends: cpu-x86
rules:
  - match: {primitive: gemm}
    binding: {gemm: avx512_bf16}    # which is not the fastest everywhere
"""


@pytest.fixture(params=["host", pytest.param("split", marks=pytest.mark.slow)])
def bf16(request, monkeypatch):
    """With products of bfloat16."""
    return having("avx512bf16", request, monkeypatch)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 1)], ids=["nn", "nt", "tt"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_bytes_are_exact(vnni, sizes, dtype, turned):
    del vnni
    m, n, k = sizes
    rng = np.random.default_rng(m * n)
    a, b = random(rng, (m, k), dtype), random(rng, (k, n), dtype)
    given = [np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), turned, strict=True)]
    static = dict(zip(("trans_a", "trans_b"), map(bool, turned), strict=True))
    kernel = septran.compile(
        "gemm", "cpu-x86", shapes={"M": m, "N": n, "K": k}, dtypes=dtype, static=static
    )
    assert "by avx512_vnni" in str(kernel.stages.tile_program)
    c = np.asarray(kernel(*given))
    np.testing.assert_array_equal(c, product(a, b, c.dtype))


@pytest.mark.parametrize("pair", [("int8", "uint8"), ("uint8", "int8")], ids=str)
def test_bytes_of_both_signs_are_multiplied_as_they_are(vnni, pair):
    del vnni
    shapes = {"M": 21, "N": 35, "K": 70}
    kernel = septran.compile(
        "gemm", "cpu-x86", shapes=shapes, dtypes=dict(zip("CAB", ("int32", *pair), strict=True))
    )
    assert "row_sums" not in kernel.stages.tensor_ir.text
    rng = np.random.default_rng(5)
    a, b = random(rng, (21, 70), pair[0]), random(rng, (70, 35), pair[1])
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), product(a, b))


def test_steps_of_the_sum_need_not_be_whole_groups(vnni):
    """Each of the steps makes up for its own signs, and what it leaves of a group."""
    del vnni
    text = mapped("avx512_vnni", "block_M: 8, block_N: 32, block_K: 7")
    kernel = septran.compile("gemm", text, shapes={"M": 21, "N": 35, "K": 30}, dtypes="int8")
    rng = np.random.default_rng(6)
    a, b = random(rng, (21, 30), "int8"), random(rng, (30, 35), "int8")
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), product(a, b))


def test_the_whole_of_it_stays_between_guard_pages(vnni):
    del vnni
    shapes = {"M": 9, "N": 35, "K": 19}
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, dtypes="int8")
    assert kernel.check(guard=True).right, str(kernel.check(guard=True))


def test_the_instruction_is_in_the_assembly(vnni):
    shapes = {"M": 32, "N": 96, "K": 64}
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, dtypes="int8")
    real = kernel.stages.source.parts["assembly"].count("vpdpbusd")
    assert (real > 20) if vnni == "host" else real == 0


@pytest.mark.parametrize(("dtype", "held"), [("int8", "uint8"), ("uint8", "int8")])
def test_packed_bytes_have_other_signs_before_they_are_multiplied(vnni, dtype, held):
    """Once, by the copy, and not for each strip of rows."""
    del vnni
    shapes = {"M": 32, "N": 96, "K": 64}
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, dtypes=dtype)
    text = kernel.stages.tensor_ir.text
    assert re.search(rf'B_L\d = T.alloc_buffer\(\(\d+,\), "{held}"', text)
    assert "^" not in text[text.index("row_sums =") :]


@task.define(leaf=True)
def products(C, D, A, E, B):
    """Two of one operand."""
    task.call_primitive("gemm", C, A, B)
    task.call_primitive("gemm", D, E, B)


@task.define
def by_one(
    C: task.Tensor["M", "N", "int32"],
    D: task.Tensor["M", "N", "int32"],
    A: task.Tensor["M", "K"],
    E: task.Tensor["M", "K"],
    B: task.Tensor["K", "N"],
):
    task.fill(C, 0)
    task.fill(D, 0)
    task.launch(products, C, D, A, E, B)


SHARED = """
machine: cpu-x86
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
  - match: {task: products}
    proc: CORE
    mems: {B: L2}
    layouts: {B: "panels(1, 16, 4)"}
    binding: {gemm: avx512_vnni}
"""


@pytest.mark.parametrize("other", KINDS)
def test_packed_bytes_keep_their_signs_where_one_of_their_products_wants_them(vnni, other):
    del vnni
    shapes, dtypes = {"M": 21, "N": 35, "K": 70}, {"A": "int8", "E": other, "B": "int8"}
    kernel = septran.compile(by_one, SHARED, shapes=shapes, dtypes=dtypes)
    changed = '"uint8"' in re.search(r"B_L2 = .*", kernel.stages.tensor_ir.text)[0]
    assert changed == (other == "int8")
    rng = np.random.default_rng(5)
    a, e, b = (
        random(rng, shape, dtype)
        for shape, dtype in [((21, 70), "int8"), ((21, 70), other), ((70, 35), "int8")]
    )
    for found, left in zip(kernel(a, e, b), (a, e), strict=True):
        np.testing.assert_array_equal(np.asarray(found), product(left, b))


@pytest.mark.parametrize("channels", [8, 64])
@pytest.mark.one_in(2, first=1)
def test_groups_of_channels_are_read_through_windows(vnni, channels):
    """From the image as it lies, group after group, and summed up by vectors where they fit."""
    del vnni
    shapes = {"B": 1, "H": 6, "W": 5, "C": channels, "R": 3, "S": 3, "O": 20}
    kernel = septran.compile(
        "conv2d_nhwc", "cpu-x86", shapes=shapes, static={"padding": 1}, dtypes="int8"
    )
    text = kernel.stages.tensor_ir.text
    assert "septran_vpdpbusd" in text
    assert not re.search(r"\bgroup\w*\[0\] = ", text)  # none is put together from single elements
    rng = np.random.default_rng(channels)
    x, f = random(rng, (1, 6, 5, channels), "int8"), random(rng, (3, 3, channels, 20), "int8")
    wide = np.pad(x.astype(np.int64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    exact = np.einsum("bhwcrs,rsco->bhwo", windows, f.astype(np.int64))
    np.testing.assert_array_equal(np.asarray(kernel(x, f)), exact)


RUNS = [
    ("conv2d_nhwc", "int8", {"C": 3, "R": 3, "S": 3}, {"padding": 1, "stride": 2}),
    ("conv2d", "bfloat16", {"C": 3, "R": 3, "S": 3}, {"padding": 1}),
    ("conv2d_nhwc", "bfloat16", {"C": 1, "R": 2, "S": 3}, {"dilation": 2}),
    ("conv2d", "uint8", {"C": 5, "R": 2, "S": 2}, {"dilation": 2, "padding": 1}),
    ("conv2d_nhwc", "bfloat16", {"C": 3, "R": 7, "S": 7}, {"stride": 2, "padding": 3}),
    ("conv2d", "int8", {"C": 3, "R": 5, "S": 5}, {"padding": 2}),
]
"""Convolutions whose channels are no whole groups of an instruction."""


@pytest.mark.parametrize(
    ("operator", "dtype", "sizes", "static"),
    [RUNS[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in RUNS[1:])],
    ids=str,
)
def test_runs_that_are_no_whole_groups_are_right_between_guard_pages(
    operator, dtype, sizes, static, monkeypatch
):
    monkeypatch.setenv(NATIVE_IS, "split")
    shapes = {"B": 1, "H": 11, "W": 9, "O": 20} | sizes
    dtypes = {"X": dtype, "F": dtype, "Y": "int32" if "int" in dtype else dtype}
    kernel = septran.compile(operator, "cpu-x86", shapes=shapes, static=static, dtypes=dtypes)
    assert any(b.layout.run for b in kernel.stages.tile_program.buffers)
    assert "septran_vp" in (text := kernel.stages.tensor_ir.text) or "septran_vd" in text
    kernel.check(guard=True).raise_if_wrong()


def test_what_a_window_does_not_see_is_not_multiplied_by_zeros_that_fill_up_a_group(bf16):
    """Infinity times such a zero is no number."""
    del bf16
    shapes = {"B": 1, "H": 4, "W": 8, "C": 3, "R": 3, "S": 3, "O": 4}
    kernel = septran.compile("conv2d_nhwc", "cpu-x86", shapes=shapes, dtypes="bfloat16")
    x, f = np.ones((1, 4, 8, 3), ml_dtypes.bfloat16), np.ones((3, 3, 3, 4), ml_dtypes.bfloat16)
    x[0, :, 5] = np.inf
    found = np.asarray(kernel(x, f)).astype(np.float32)
    np.testing.assert_array_equal(found[0, :, :3], 27)
    np.testing.assert_array_equal(found[0, :, 3:], np.inf)


@pytest.mark.slow
def test_groups_that_no_order_makes_whole_are_summed_in_single_elements_of_the_image(monkeypatch):
    """A layout of runs that a mapping asks for, while the image lies otherwise: right, if slow."""
    monkeypatch.setenv(NATIVE_IS, "split")
    text = """
        extends: cpu-x86
        rules:
          - match: {primitive: gemm}
            binding: {gemm: avx512_bf16}
          - match: {products: 1, order: [sum]}
            mems: {product.left: NONE, product.right: L2, product.result: NONE}
            layouts: {product.right: "panels(1, 16, 2, 7)"}
    """
    shapes = {"M": 9, "N": 20, "K": 21}
    flags = {"trans_a": True}
    kernel = septran.compile("gemm", text, shapes=shapes, dtypes="bfloat16", static=flags)
    assert any(b.layout.run == 7 for b in kernel.stages.tile_program.buffers)
    assert "septran_vdpbf16ps" in kernel.stages.tensor_ir.text
    kernel.check(guard=True).raise_if_wrong()


@pytest.mark.one_in(15)
@pytest.mark.both_widths
@pytest.mark.parametrize("pair", [(a, b) for a in KINDS for b in KINDS], ids=str)
@pytest.mark.parametrize("sizes", [(9, 35, 19), (7, 64, 80)], ids=str)
def test_bytes_in_pairs_are_exact(sizes, pair):
    m, n, k = sizes
    rng = np.random.default_rng(k)
    a, b = random(rng, (m, k), pair[0]), random(rng, (k, n), pair[1])
    kernel = septran.compile(
        "gemm", mapped("byte_pairs"), shapes={"M": m, "N": n, "K": k},
        dtypes=dict(zip("CAB", ("int32", *pair), strict=True)),
    )  # fmt: skip
    assert "septran_vpmaddwd" in kernel.stages.tensor_ir.text
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), product(a, b))


def test_bytes_in_pairs_are_widened_as_they_are_packed_and_stay_between_guard_pages(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "avx2")
    shapes = {"M": 70, "N": 35, "K": 19}
    text = mapped("byte_pairs", "block_M: 36, block_N: 32, block_K: 7")
    kernel = septran.compile("gemm", text, shapes=shapes, dtypes="int8")
    assert kernel.stages.source.parts["assembly"].count("\tvpmaddwd") > 5
    kernel.check(guard=True).raise_if_wrong()


def test_short_vectors_of_dots_are_bound_by_name_and_exact():
    if "avxvnni" not in native().features:
        pytest.skip("this host, or what it is taken for, has no AVX-VNNI")
    kernel = septran.compile(
        "gemm", mapped("avx_vnni"), shapes={"M": 13, "N": 35, "K": 30}, dtypes="int8"
    )
    rng = np.random.default_rng(13)
    a, b = random(rng, (13, 30), "int8"), random(rng, (30, 35), "int8")
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), product(a, b))
    lines = [
        line
        for line in kernel.stages.source.parts["assembly"].splitlines()
        if "\tvpdpbusd" in line or "vpdpbusd\t" in line
    ]
    assert bool(lines) is not split()
    assert all("%ymm" in line and "%zmm" not in line for line in lines)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 1)], ids=["nn", "nt", "tt"])
@pytest.mark.parametrize("sizes", [(9, 48, 64), (13, 35, 19), (33, 50, 31)], ids=str)
def test_products_of_bfloat16_are_within_the_bound(bf16, sizes, turned):
    del bf16
    static = dict(zip(("trans_a", "trans_b"), map(bool, turned), strict=True))
    shapes = dict(zip("MNK", sizes, strict=True))
    kernel = septran.compile("gemm", PAIRS, shapes=shapes, dtypes="bfloat16", static=static)
    assert "by avx512_bf16" in str(kernel.stages.tile_program)
    assert "vdpbf16ps" in kernel.stages.tensor_ir.text
    kernel.check().raise_if_wrong()


def test_small_whole_numbers_of_bfloat16_are_summed_exactly(bf16):
    shapes = {"M": 13, "N": 50, "K": 37}
    kernel = septran.compile("gemm", PAIRS, shapes=shapes, dtypes="bfloat16")
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((13, 37), (37, 50)))
    exact = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(np.asarray(kernel(a, b)).astype(np.int64), exact)
    real = kernel.stages.source.parts["assembly"].count("vdpbf16ps")
    assert (real > 20) if bf16 == "host" else real == 0


def test_flushed_numbers_are_in_the_bound_and_nothing_else_is(bf16):
    """A product of a subnormal number counts as zero, which only the instruction's bound allows."""
    del bf16
    shapes = {"M": 16, "N": 16, "K": 16}
    kernel = septran.compile("gemm", PAIRS, shapes=shapes, dtypes="bfloat16")
    a, b = (np.zeros((16, 16), ml_dtypes.bfloat16) for _ in range(2))
    a[0, 0], b[0, :] = 2.0**-130, 2.0**120
    assert np.asarray(kernel(a, b))[0, 0] == 0
    kernel.check(a, b).raise_if_wrong()
    strict = error_bounds(kernel.stages.task_tree, {"A": a, "B": b})["C"]
    assert not compare("C", np.asarray(kernel(a, b)), strict).right
    a[0, 0] = 2.0**-100
    kernel.check(a, b).raise_if_wrong()
    rules = ProductRules(flushed=frozenset({"bfloat16"}))
    aware = error_bounds(kernel.stages.task_tree, {"A": a, "B": b}, rules=rules)
    assert not compare("C", np.zeros((16, 16)), aware["C"]).right


def test_products_of_bfloat16_stay_between_guard_pages(bf16):
    del bf16
    shapes = {"M": 13, "N": 35, "K": 19}
    kernel = septran.compile("gemm", PAIRS, shapes=shapes, dtypes="bfloat16")
    kernel.check(guard=True).raise_if_wrong()


def run_dot(dot, lanes, have, c, a, b):
    """An instruction's text on vectors, one after another, and the assembly."""
    import tvm
    from tvm import tirx

    from septran.targets.cpu import simd
    from septran.targets.cpu.run.build import compile_module
    from septran.targets.cpu.writer import CpuWriter

    writer = CpuWriter()
    kinds = zip("CAB", (dot.sums, "int32", "int32"), strict=True)
    bufs = [tirx.decl_buffer((c.size,), kind, name) for name, kind in kinds]
    writer.functions["dot"] = dot.text(lanes, have)
    kind = vector_type(dot.sums, lanes)
    with writer.loop("i", writer.index(c.size // lanes)) as i:
        given = (simd.load(x, i * lanes, lanes) for x in bufs)
        value = simd.external(kind, dot.function(lanes), *given)
        simd.store(writer, bufs[0], i * lanes, value, lanes)
    module = compile_module(tvm.IRModule({"run": writer.function("run", bufs)}), host_arch())
    held = [tvm.runtime.tensor(x) for x in (c, a, b)]
    module["run"](*held)
    return held[0].numpy(), str(module.inspect_source("asm"))


@pytest.mark.parametrize("lanes", [8, 16])
def test_what_stands_in_for_the_instruction_has_its_bits(lanes):
    have = features(host_arch())
    if lacking(host_arch()) or not {"avx512vnni", "avx512vl"} <= have:
        pytest.skip("this host has no AVX512_VNNI")
    rng = np.random.default_rng(lanes)
    count = 100 * lanes
    c = rng.integers(-(2**31), 2**31, count).astype("int32")
    a, b = (random(rng, 4 * count, t).view("int32") for t in ("uint8", "int8"))
    real, assembly = run_dot(VPDPBUSD, lanes, have, c, a, b)
    plain, other = run_dot(VPDPBUSD, lanes, frozenset(), c, a, b)
    assert "\tvpdpbusd" in assembly
    assert "\tvpdpbusd" not in other
    np.testing.assert_array_equal(real, plain)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_what_stands_in_runs_whole_products(monkeypatch, dtype):
    """A small one of each; the slow tests have more."""
    monkeypatch.setenv(NATIVE_IS, "split")
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 2, "N": 18, "K": 7}, dtypes=dtype)
    assert "by avx512" in str(kernel.stages.tile_program)
    kernel.check().raise_if_wrong()


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.one_in(2, first=1)
def test_pairs_of_16_bits_are_summed_alike_by_both_widths(lanes):
    have = features(host_arch())
    if lacking(host_arch()) or not {"avx512bw", "avx512vl"} <= have:
        pytest.skip("this host has no AVX512BW")
    rng = np.random.default_rng(lanes)
    count = 50 * lanes
    c = rng.integers(-(2**31), 2**31, count).astype("int32")
    a, b = (rng.integers(-128, 256, 2 * count).astype("int16").view("int32") for _ in range(2))
    both = [run_dot(VPMADDWD, lanes, kinds, c, a, b)[0] for kinds in (have, frozenset())]
    exact = (a.view("int16").astype(int) * b.view("int16")).reshape(-1, 2).sum(1) + c
    for found in both:
        np.testing.assert_array_equal(found, exact.astype("int32"))


def pairs(words):
    """Numbers of 16 bits two by two, as words."""
    return np.asarray(words, np.uint16).view("int32")


def near_the_least(rng, count):
    """Sums about the least normal number of float32, and two bfloat16 whose product is, too."""
    c = (rng.choice([-1, 1], count) * 2.0 ** rng.uniform(-128, -124, count)).astype("float32")
    a, b = (
        (rng.choice([-1, 1], 2 * count) * 2.0 ** rng.uniform(-76, -61, 2 * count)).astype("float32")
        for _ in range(2)
    )
    return c, *(pairs(x.view("uint32") >> 16) for x in (a, b))


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("numbers", ["any", "usual", "least", "ends"])
def test_what_stands_in_for_the_product_of_bfloat16_has_its_bits(lanes, numbers):
    """Of all numbers but those of NaN, which is NaN."""
    have = features(host_arch())
    if lacking(host_arch()) or not {"avx512bf16", "avx512vl"} <= have:
        pytest.skip("this host has no AVX512_BF16")
    rng, count = np.random.default_rng(lanes), 1000 * lanes
    c = rng.integers(0, 2**32, count, dtype=np.uint32).view("float32")
    a, b = (pairs(rng.integers(0, 2**16, 2 * count)) for _ in range(2))
    if numbers == "usual":
        c = rng.standard_normal(count).astype("float32")
        a, b = (
            pairs(rng.standard_normal(2 * count).astype("float32").view("uint32") >> 16)
            for _ in range(2)
        )
    elif numbers == "least":
        c, a, b = near_the_least(rng, count)
    elif numbers == "ends":  # the result is the least normal number, or would be, rounded
        c = np.full(count, 2.0**-126, "float32")
        powers = -(2.0 ** rng.integers(-80, -73, 2 * count))
        a = pairs(powers.astype("float32").view("uint32") >> 16)
        b = pairs(np.full(2 * count, 2.0**-75, "float32").view("uint32") >> 16)
    real, assembly = run_dot(VDPBF16PS, lanes, have, c, a, b)
    plain, other = run_dot(VDPBF16PS, lanes, frozenset({"fma"}), c, a, b)
    assert "\tvdpbf16ps" in assembly
    assert "\tvdpbf16ps" not in other
    bits = [np.where(np.isnan(x), np.float32(np.nan), x).view("int32") for x in (real, plain)]
    np.testing.assert_array_equal(*bits)
    assert np.isfinite(real).any()


def test_an_instruction_that_the_processor_lacks_is_not_bound(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "avx2")
    stages = septran.produce_stages("gemm", "cpu-x86", dtypes="int8")
    assert "by byte_pairs" in str(stages.tile_program)
    assert not [r for r in stages.tile_program.remarks if r.kind == "missed"]


def test_naming_an_instruction_that_the_processor_lacks_is_refused_there(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "avx2")
    with pytest.raises(NoBindingError, match="it needs avx512vnni, which arch native") as error:
        _ = septran.produce_stages("gemm", mapped("avx512_vnni"), dtypes="int8").mapping
    assert error.value.where.line == 4
    assert "int8_microkernel" in error.value.hint


def lines_asked_for(columns):
    stages = septran.produce_stages(
        "gemm", "cpu-x86", dtypes="int8", shapes={"M": 1, "N": columns, "K": 1024}
    )
    until = str(stages.tensor_ir).partition("septran_apart")[2].partition("for panel in")[0]
    whole = str(stages.tensor_ir).count("llvm.prefetch")
    return whole, until.count("llvm.prefetch"), stages.tile_program.buffers[-1]


def test_one_row_of_bytes_asks_for_the_lines_that_the_next_blocks_pack(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "avx2")  # bytes are widened there, and packed before
    _, asked, packed = lines_asked_for(4096)
    assert asked == packed.layout.group == 2  # a line of each row of a group
    assert packed.shape == (8, 2048)
    assert lines_asked_for(1024)[1] == 0  # a core's own cache holds all of that B


def test_one_row_of_bytes_asks_for_the_rows_that_are_interleaved_next(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "split")
    assert lines_asked_for(4096)[0] == 4  # a line of each row of a group
    assert lines_asked_for(1024)[0] == 0


@pytest.mark.parametrize(("n", "k"), [(4096, 7), (4099, 33), (5000, 1000)])
@pytest.mark.one_in(2)
def test_one_row_of_bytes_is_exact_in_any_size(n, k):
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-128, 128, shape).astype("int8") for shape in ((1, k), (k, n)))
    got = septran.compile("gemm", "cpu-x86", dtypes={"A": "int8", "B": "int8", "C": "int32"})(a, b)
    np.testing.assert_array_equal(got, a.astype("int32") @ b.astype("int32"))

"""Instructions that sum products of groups: bound where the processor has them, exact, and real."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran.mapping.mistakes import NoBindingError
from septran.targets.cpu.gemm.dot_instructions import VPDPBUSD
from septran.targets.cpu.run.isa import NATIVE_IS, features, lacking, native

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


@pytest.fixture(params=["host", "split"])
def vnni(request, monkeypatch):
    """With VNNI: the host's own, or in plain instructions with the same bits."""
    if request.param == "split":
        monkeypatch.setenv(NATIVE_IS, "split")
    elif "avx512vnni" not in native().features or native().unit.bytes < 64:
        pytest.skip("this host, or what it is taken for, has no AVX512_VNNI")
    return request.param


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


def run_dot(dot, lanes, have, c, a, b):
    """One call of an instruction's text on vectors, by TVM's LLVM."""
    import tvm
    from tvm import tirx

    from septran.targets.cpu import simd
    from septran.targets.cpu.run.build import compile_module
    from septran.targets.cpu.run.isa import host_arch
    from septran.targets.cpu.writer import CpuWriter

    writer = CpuWriter()
    bufs = [
        tirx.decl_buffer((lanes,), d, n)
        for n, d in zip("CAB", (dot.sums, "int32", "int32"), strict=True)
    ]
    writer.functions["dot"] = dot.text(lanes, have)
    value = simd.external(
        simd.vector_type(dot.sums, lanes), dot.function(lanes),
        *(simd.load(x, writer.index(0), lanes) for x in bufs),
    )  # fmt: skip
    simd.store(writer, bufs[0], writer.index(0), value, lanes)
    module = compile_module(tvm.IRModule({"run": writer.function("run", bufs)}), host_arch())
    given = [tvm.runtime.tensor(x) for x in (c, a, b)]
    module["run"](*given)
    return given[0].numpy(), str(module.inspect_source("asm"))


@pytest.mark.parametrize("lanes", [8, 16])
def test_what_stands_in_for_the_instruction_has_its_bits(lanes):
    from septran.targets.cpu.run.isa import host_arch

    have = features(host_arch())
    if lacking(host_arch()) or not {"avx512vnni", "avx512vl"} <= have:
        pytest.skip("this host has no AVX512_VNNI")
    rng = np.random.default_rng(lanes)
    for _ in range(4):
        c = rng.integers(-(2**31), 2**31, lanes).astype("int32")
        a, b = (random(rng, 4 * lanes, t).view("int32") for t in ("uint8", "int8"))
        real, assembly = run_dot(VPDPBUSD, lanes, have, c, a, b)
        plain, other = run_dot(VPDPBUSD, lanes, frozenset(), c, a, b)
        assert "vpdpbusd" in assembly
        assert "vpdpbusd" not in other
        np.testing.assert_array_equal(real, plain)


def test_an_instruction_that_the_processor_lacks_is_not_bound(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "avx2")
    stages = septran.produce_stages("gemm", "cpu-x86", dtypes="int8")
    assert "by int8_microkernel" in str(stages.tile_program)
    assert not [r for r in stages.tile_program.remarks if r.kind == "missed"]


def test_naming_an_instruction_that_the_processor_lacks_is_refused_there(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "avx2")
    with pytest.raises(NoBindingError, match="it needs avx512vnni, which arch native") as error:
        _ = septran.produce_stages("gemm", mapped("avx512_vnni"), dtypes="int8").mapping
    assert error.value.where.line == 4
    assert "int8_microkernel" in error.value.hint

"""`fastest` stands for a machine's instructions, the one with the greatest throughput first."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import septran
from septran.machine import loader
from septran.mapping.loader import load_mapping
from septran.mapping.mistakes import UnknownNameError
from septran.mapping.rules import converts

FASTEST = """
extends: cpu-x86
rules:
  - match: {primitive: gemm}
    binding: {gemm: fastest}
"""


def machine(**throughputs):
    """The CPU with all that an `avx512` processor with bfloat16 has, at other rates."""
    own = septran.load_machine("cpu-x86")
    rated = [replace(i, throughput=throughputs.get(i.name, i.throughput)) for i in own.instructions]
    return replace(own, arch="cooperlake", instructions=tuple(rated))


def bound(machine, dtype, mapping=FASTEST):
    stages = septran.produce_stages("gemm", mapping, machine=machine, dtypes=dtype)
    return {
        str(setting.value)
        for instance in stages.mapping.instances
        for primitive, setting in instance.bindings.items()
        if primitive == "gemm"
    }


def test_the_instruction_of_the_greatest_throughput_is_bound():
    assert bound(machine(avx512_bf16=64, fma_microkernel=32), "bfloat16") == {"avx512_bf16"}
    assert bound(machine(avx512_bf16=14, fma_microkernel=32), "bfloat16") == {"fma_microkernel"}


def test_the_first_in_the_machine_file_is_bound_among_equals():
    assert bound(machine(avx512_bf16=32, fma_microkernel=32), "bfloat16") == {"avx512_bf16"}


def test_what_has_no_throughput_comes_last():
    assert bound(machine(avx512_bf16=None), "bfloat16") == {"fma_microkernel"}


def test_what_does_not_accept_the_operands_is_passed_over():
    assert bound(machine(avx512_bf16=1000), "float32") == {"fma_microkernel"}


def test_it_may_follow_what_is_preferred():
    text = FASTEST.replace("fastest", "[muladd_microkernel, fastest]")
    assert bound(machine(), "float32", text) == {"muladd_microkernel"}
    text = FASTEST.replace("fastest", "[avx512_bf16, fastest]")
    assert bound(machine(), "float32", text) == {"fma_microkernel"}


def test_no_other_word_is_taken_for_an_instruction():
    with pytest.raises(UnknownNameError, match="quickest"):
        load_mapping(FASTEST.replace("fastest", "quickest"))


@pytest.mark.parametrize(
    ("flags", "rate"), [("avx512f avx512_bf16", 55), ("avx512f avx512_fp16 avx512_bf16", 14)]
)
def test_features_of_few_processors_come_before_widths_in_a_table(
    monkeypatch, tmp_path, flags, rate
):
    """Those with FP16 take twice as long for products of bfloat16 as for multiply-adds."""
    monkeypatch.delenv(loader.NATIVE_IS, raising=False)
    monkeypatch.setattr(loader.Path, "read_text", read(loader.Path.read_text, flags))
    loader._load.cache_clear()
    own = septran.load_machine("cpu-x86")
    loader._load.cache_clear()
    assert own.instruction("avx512_bf16").throughput == rate
    assert own.instruction("fma_microkernel").throughput == 32


def read(own, flags):
    def read_text(path, *arguments, **named):
        if str(path) == "/proc/cpuinfo":
            return f"flags : {flags}"
        return own(path, *arguments, **named)

    return read_text


@pytest.mark.parametrize(("arch", "rate"), [("cooperlake", 55), ("znver5", 55), ("avx512", 55)])
def test_a_processor_that_the_table_lacks_counts_as_the_widest(tmp_path, arch, rate):
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: cpu-x86\nname: mine\narch: {arch}\n")
    assert septran.load_machine(file).instruction("avx512_bf16").throughput == rate


@pytest.mark.parametrize(
    ("arch", "rates", "dtype", "widened"),
    [
        ("x86-64-v3", {}, "int8", True),  # vpmaddwd takes pairs of 16 bits
        ("x86-64-v3", {}, "bfloat16", True),
        ("x86-64-v3", {}, "float16", True),
        ("x86-64-v3", {}, "float32", False),
        ("x86-64-v3", {}, "float64", False),
        ("znver4", {}, "int8", False),  # vpdpbusd takes bytes by fours
        ("znver4", {"avx512_bf16": 64}, "bfloat16", False),
        ("znver4", {"avx512_bf16": 14}, "bfloat16", True),
    ],
)
def test_what_the_fastest_instruction_widens(arch, rates, dtype, widened):
    host = replace(machine(**rates), arch=arch)
    assert converts(host, dtype) is widened


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float16"])
def test_what_is_widened_is_packed_once_for_all_columns(dtype):
    """Neither rows of A nor columns of B are read in place by AVX2, which widens both."""

    def staged(arch):
        host = replace(machine(avx512_bf16=64), arch=arch)
        sizes = {"M": 256, "N": 256, "K": 256}
        stages = septran.produce_stages("gemm", machine=host, dtypes=dtype, shapes=sizes)
        return bool(re.search(r"A_L2(\[.*\])? = copy\(A\b", str(stages.tile_program)))

    assert staged("x86-64-v3")
    assert staged("znver4") is (dtype == "float16")  # which has no instruction of its own there


def test_a_rule_for_a_type_asks_what_widens_that_one():
    """Most tensors are float32: of the rows that are rounded to bytes AVX2 packs no copy."""

    def packed(arch):
        host = replace(machine(), arch=arch)
        sizes = {"M": 16, "N": 512, "K": 256}
        stages = septran.produce_stages("w4a8_gemm", machine=host, dtypes="float32", shapes=sizes)
        return "Q_L2 = copy(Q" in str(stages.tile_program)

    assert not packed("x86-64-v3")
    assert packed("znver4")

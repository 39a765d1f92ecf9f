"""Code for ARM processors: whose instructions it has, and what it is made for."""

from __future__ import annotations

import re

import pytest

import septran
from septran.targets.cpu.run import isa
from septran.targets.cpu.run.isa import (
    UnknownProcessorError,
    features,
    foreign_system,
    host_arch,
    llvm_arch,
    unit_of,
)
from septran.targets.cpu.simd import NEON, SVE256, SVE512

SIZES = {"M": 48, "N": 64, "K": 64}


def loops(assembly):
    """The lines between a label and a jump back to it, of each innermost loop."""
    lines, found, labels = assembly.splitlines(), [], {}
    for number, line in enumerate(lines):
        label = re.match(r"(\.LBB\w+):", line)
        if label:
            labels[label[1]] = number
        jump = re.match(r"\t(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s*(\.LBB\w+)", line)
        if jump and jump[1] in labels:
            body = lines[labels[jump[1]] : number]
            if not any(re.match(r"\.LBB", text) for text in body[1:]):
                found.append(body)
    return found


@pytest.mark.parametrize(
    ("arch", "unit"),
    [
        ("neoverse-n1", NEON), ("neoverse-v2", NEON), ("apple-m1", NEON), ("apple-m4", NEON),
        ("neoverse-v1", SVE256), ("a64fx", SVE512),
    ],
)  # fmt: skip
def test_a_processor_has_its_registers(arch, unit):
    assert unit_of(arch) == unit
    assert "neon" in features(arch)


def test_whose_code_it_is_follows_from_the_name():
    assert foreign_system(host_arch()) is None
    assert foreign_system("apple-m1") == "aarch64-linux-gnu"


def test_what_a_host_of_this_kind_lacks_is_told(monkeypatch):
    monkeypatch.setattr(isa, "_host_features", lambda: frozenset({"neon", "dotprod"}))
    assert isa.lacking("neoverse-v1") == ("bf16", "i8mm", "sve")
    assert isa.lacking("neoverse-n1") == ()


def test_a_name_that_llvm_does_not_know_is_refused(kernel_for):
    with pytest.raises(UnknownProcessorError, match="'neoverse-n9' is no processor") as caught:
        kernel_for("neoverse-n9", "gemm", **SIZES)
    assert "neoverse-n" in caught.value.hint
    assert llvm_arch(septran.load_machine("cpu-arm")) == "neoverse-n1"


@pytest.mark.parametrize(
    ("arch", "register", "sums"),
    [("neoverse-n1", r"v\d+\.4s", 24), ("neoverse-v1", r"z\d+\.s", 16)],
)
def test_the_sums_of_a_product_stay_in_registers(kernel_for, arch, register, sums):
    source = kernel_for(arch, "gemm", **SIZES).stages.source
    assembly = source.parts["assembly"]
    kernels = [
        body for body in loops(assembly)
        if sum(bool(re.search(rf"\tfm(?:la|ad)\t{register}", x)) for x in body) >= sums
    ]  # fmt: skip
    assert kernels, assembly
    for body in kernels:
        assert not any("[sp" in line for line in body), "\n".join(body)
    assert source.facts["fused multiply-adds"] >= sums
    assert source.facts["vector bits"] == 8 * unit_of(arch).bytes
    assert not re.search(r"%[xyz]mm", assembly)

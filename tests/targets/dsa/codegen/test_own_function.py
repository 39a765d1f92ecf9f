"""An instruction with a C function of its own: ``vendor.functions["mma.gemv"]``."""

from __future__ import annotations

import re

import numpy as np
import pytest

import septran
from septran.machine.loader import load_machine, mappings_root
from septran.targets.dsa.code import toolchain
from septran.targets.dsa.code.vendor import Vendor, VendorError

GEMV = """
  gemv:
    primitive: gemm
    tile: [1, 16, 16]
    dtypes: [[float32, float32, float32], [int32, int8, int8]]
    operands: {C: ACC, A: SPM, B: SPM}
    throughput: 256 FMA/cycle
    options: {queue: GEMV, startup_cycles: 4, cycles: 1}
"""
PARAMETERS = (
    "void *c, const void *a, const void *b, int64_t b_stride, int32_t b_transposed, "
    "int64_t a_stride, int32_t a_transposed, int64_t c_stride, int32_t m, "
    "int32_t n, int32_t k, int32_t c_type, int32_t type, int32_t accumulate"
)
PROTOTYPE = f'    mma.gemv: "void vendor_lib_gemv({PARAMETERS})"\n'


def machine_text():
    text = (mappings_root() / "machines" / "dsa-sim.yaml").read_text()
    text = text.replace("name: dsa-sim", "name: dsa-gemv")
    return text.replace("\ninstructions:", f"\ninstructions:{GEMV}", 1).replace(
        "    pointer:", f"{PROTOTYPE}    pointer:", 1
    )


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A copy of dsa-sim with one more instruction."""
    monkeypatch.setenv("SEPTRAN_DSA_TRUST", "all")
    header = (mappings_root() / "machines" / "dsa-sim.h").read_text()
    at = header.rindex("#endif") if "#endif" in header else len(header)
    declared = f"void vendor_lib_gemv({PARAMETERS});\n"
    (tmp_path / "dsa-sim.h").write_text(header[:at] + declared + header[at:])
    (tmp_path / "dsa-gemv.yaml").write_text(machine_text())
    mapping = (mappings_root() / "dsa-sim.mapping.yaml").read_text()
    mapping = re.sub(r"^machine: .*$", "machine: dsa-gemv.yaml", mapping, flags=re.MULTILINE)
    mapping = mapping.replace("binding: {gemm: mma}", "binding: {gemm: gemv}")
    (tmp_path / "m.mapping.yaml").write_text(mapping)
    return tmp_path


def kernel_of(folder):
    return septran.compile("gemm", folder / "m.mapping.yaml")


def test_the_c_calls_it_and_the_result_is_right(files, random):
    a, b = random.standard_normal((3, 90), np.float32), random.standard_normal((90, 50), np.float32)
    kernel = kernel_of(files)
    assert kernel.check(a, b).right
    text = str(kernel.stages.source)
    assert "vendor_lib_gemv(" in text
    assert "vendor_lib_mma(" not in text


def test_it_takes_as_long_as_the_machine_file_says(files, random):
    slow = machine_text().replace("cycles: 1}", "cycles: 16}")
    assert slow != machine_text()
    (files / "dsa-gemv.yaml").write_text(slow)
    a, b = (
        random.standard_normal((1, 512), np.float32),
        random.standard_normal((512, 64), np.float32),
    )
    kernel = kernel_of(files)
    kernel(a, b)
    profile = kernel.profile(a, b)
    steps, tiles = 4, (128 // 16) * (64 // 16)  # B's tile is 128 x 64
    assert round(profile.utilisation["GEMV"] * profile.cycles) == steps * (4 + 16 * tiles)


def test_both_routes_record_the_same(files, random, monkeypatch):
    a, b = random.standard_normal((3, 90), np.float32), random.standard_normal((90, 50), np.float32)
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    by_c = kernel_of(files)
    by_c(a, b)
    monkeypatch.setenv("SEPTRAN_DSA_CC", "none")
    assert toolchain.compiler() is None
    by_llvm = kernel_of(files)
    by_llvm(a, b)
    streams = [k.stages.executable.stream().tobytes() for k in (by_c, by_llvm)]
    assert streams[0] == streams[1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mma.gemv", "mma.gemw", "there is no instruction 'gemw'"),
        ("mma.gemv", "mna.gemv", "'mna.gemv', which is no command"),
        ("mma.gemv", "pointer.gemv", "'pointer.gemv', which is no command"),
        ("queue: GEMV", "queue: MMA", "gemv has a function of its own, and shares its queue"),
    ],
)
def test_mistakes_are_named(files, old, new, said):
    text = machine_text()
    assert old in text
    (files / "wrong.yaml").write_text(text.replace(old, new))
    with pytest.raises(VendorError, match=said):
        _ = Vendor(load_machine(files / "wrong.yaml")).functions

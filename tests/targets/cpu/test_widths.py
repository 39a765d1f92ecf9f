"""Code for AVX2 and for AVX-512 is made and run on either host."""

from __future__ import annotations

import re

import pytest

import septran
from septran.machine.loader import NATIVE_IS
from septran.targets.cpu.run import isa
from septran.targets.cpu.run.isa import UnknownNativeError, native
from septran.targets.cpu.target import TARGET


@pytest.mark.both_widths
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_code_is_made_for_the_width_that_is_asked_for(vectors, dtype):
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 40, "N": 36, "K": 50}, dtypes=dtype)
    kernel.check().raise_if_wrong()
    lanes = {int(n) for n in re.findall(r"float(?:32|64)x(\d+)", kernel.stages.tensor_ir.text)}
    assert vectors // (64 if dtype == "float64" else 32) in lanes
    if vectors == 256:
        assert kernel.stages.source.facts["vector bits"] == 256


def test_kernels_of_another_width_are_no_others_in_the_cache(monkeypatch):
    prints = set()
    for word, size in (("avx2", 32), ("split", 64), ("avx512", 64)):
        monkeypatch.setenv(NATIVE_IS, word)
        assert native().unit.bytes == size
        prints.add(TARGET.fingerprint())
    assert len(prints) == 3


@pytest.mark.parametrize(("shape", "dtype"), [((61, 83, 90), "float32"), ((9, 50, 33), "float16")])
@pytest.mark.one_in(2, first=1)
def test_tiles_of_longer_vectors_run_in_halves(monkeypatch, shape, dtype):
    """As they do on a host that has AVX2 only."""
    monkeypatch.setenv(NATIVE_IS, "split")
    sizes = dict(zip("MNK", shape, strict=True))
    kernel = septran.compile("gemm", "cpu-x86", shapes=sizes, dtypes=dtype)
    kernel.check().raise_if_wrong()
    assert kernel.stages.source.facts["vector bits"] == 256


def test_an_unknown_word_is_refused(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "sse")
    with pytest.raises(UnknownNativeError, match=r"avx2, avx512, split"):
        septran.compile("gemm", "cpu-x86", shapes={"M": 4, "N": 4, "K": 4})


@pytest.fixture
def hides(monkeypatch):
    """A function after which the host's system hides features of its processor."""
    monkeypatch.delenv(NATIVE_IS, raising=False)
    says = dict(isa._host_says())

    def hide(*names):
        for name in names:
            says[name] = False
        isa.host_arch.cache_clear()
        isa._host_features.cache_clear()

    monkeypatch.setattr(isa, "_host_says", lambda: says)
    yield hide
    monkeypatch.undo()
    isa.host_arch.cache_clear()
    isa._host_features.cache_clear()


def test_a_host_may_hide_features_of_its_processor(hides):
    """Hypervisors hide AMX, for one: LLVM's name of the processor still promises it."""
    name = isa.processor(isa.host_arch())
    if not {"avx512vnni", "avx512bf16"} <= isa.features(name):
        pytest.skip("this processor has no dot products of AVX-512 that could be hidden")
    hides("avx512vnni", "avx512bf16", "avxvnni")
    assert not {"avx512vnni", "avx512bf16", "avxvnni"} & native().features
    assert isa.lacking(isa.host_arch()) == ()
    assert "avx512bf16" in isa.lacking(name)
    for dtype in ("bfloat16", {"A": "int8", "B": "int8", "C": "int32"}):
        kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 9, "N": 50, "K": 33}, dtypes=dtype)
        kernel.check().raise_if_wrong()
        assert not re.search("vdpbf16|vpdpbusd", kernel.stages.source.parts["assembly"])


def test_hidden_vectors_are_not_used(hides):
    if native().unit.bytes != 64:
        pytest.skip("this host has no AVX-512 that could be hidden")
    hides(*(name for name in isa.features(isa.host_arch()) if name.startswith("avx512")))
    assert native().unit.bytes == 32
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 9, "N": 50, "K": 33})
    kernel.check().raise_if_wrong()
    assert kernel.stages.source.facts["vector bits"] == 256

"""Code for AVX2 and for AVX-512 is made and run on either host."""

from __future__ import annotations

import re

import pytest

import septran
from septran.machine.loader import NATIVE_IS
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

"""The benchmark's other side of quantised products: llama.cpp's library, where there is one."""

from __future__ import annotations

import pytest

from benchmarks import cpu_llama


def test_without_the_library_there_is_nothing_to_compare_with(monkeypatch):
    monkeypatch.setattr(cpu_llama, "library", lambda: None)
    assert cpu_llama.products(1, 64, 64, "Q4_0") == ()
    assert cpu_llama.version() == ""


def test_a_folder_without_the_library_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    monkeypatch.setattr(cpu_llama.importlib.util, "find_spec", lambda _name: None)
    assert cpu_llama._folder() is None


@pytest.mark.skipif(cpu_llama.library() is None, reason="llama.cpp is not there")
@pytest.mark.parametrize(("kind", "ways"), [("Q4_0", 2), ("Q8_0", 1)])
def test_its_products_are_those_of_what_it_rounded(kind, ways):
    """`products` itself compares them with the exact ones."""
    assert len(cpu_llama.products(3, 64, 256, kind)) == ways

"""Layouts that a machine's engines cannot make are mistakes of a program."""

from __future__ import annotations

from dataclasses import replace

import pytest

import septran
from septran.errors import Errors
from septran.tile.contracts import converts
from septran.tile.layouts import ROW
from septran.tile.nodes import Copy, nodes
from septran.tile.verify.bijection import LayoutError
from septran.tile.verify.verifier import verify


def test_an_engine_that_leaves_layouts_as_they_are_needs_them_at_its_source():
    found = septran.produce_stages("gemm", "npu-cube", shapes={"M": 64, "N": 64, "K": 96})
    program = found.tile_program
    assert str(program.buffer("A_L1").layout) == "fractal(16, 16)"  # as mte1 only moves
    assert all(converts(program, n) for n in nodes(program.body) if isinstance(n, Copy))
    plain = tuple(replace(b, layout=ROW) if b.name == "A_L1" else b for b in program.buffers)
    with pytest.raises(Errors) as caught:
        verify(replace(program, buffers=plain))
    copies = [n for n in nodes(program.body) if isinstance(n, Copy) and n.source.buffer == "A_L1"]
    assert [type(e) for e in caught.value.errors] == [LayoutError] * len(copies)
    for error in caught.value.errors:
        assert error.message.startswith("mte1 cannot change the layout from A_L1 (row) to A_L0A")
        assert error.hint == "mte1 writes row"

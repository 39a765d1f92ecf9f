"""What only passes can have broken is told as the compiler's fault, not as the user's."""

from __future__ import annotations

import pytest

import septran
from septran.errors import Errors, TileError
from septran.tile import pipeline as place
from septran.tile.interpret.channel_state import ProtocolError
from septran.tile.passes import PASSES

SHAPES = {"M": 130, "N": 130, "K": 130}


@pytest.fixture
def without_waits(monkeypatch):
    """The compiler as it would be without the pass that makes copies wait."""
    left = tuple(p for p in PASSES if p.__name__ != "insert_sync")
    monkeypatch.setattr(place, "PASSES", left)


def refusal(**settings):
    with pytest.raises((TileError, Errors)) as caught:
        _ = septran.produce_stages("gemm", "dsa-sim", shapes=SHAPES, **settings).tile_program
    error = caught.value
    return error.errors[0] if isinstance(error, Errors) else error


def test_a_fault_of_the_passes_is_internal(without_waits):
    error = refusal()
    assert isinstance(error, ProtocolError)
    assert error.message.startswith("internal error: ")
    assert error.where is None
    assert "fault of SepTran's passes" in error.hint
    assert [place.file.endswith("gemm.py") for _, place in error.related[:1]] == [True]


def test_with_passes_of_ones_own_it_is_told_as_it_is_found(without_waits):
    same = septran.tile_pass(after="eliminate_copies")(lambda program: program)
    error = refusal(passes=[same])
    assert "internal error" not in error.message
    assert error.where is not None

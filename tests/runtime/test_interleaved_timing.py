"""Two sides are timed call by call."""

from __future__ import annotations

from septran.runtime.beside_torch.interleaved_timing import (
    MIN_PAIRS,
    WARM_UP_CALLS,
    time_interleaved,
)


def test_sides_alternate_call_by_call():
    calls = []
    found = time_interleaved(
        lambda: calls.append("ours"), lambda: calls.append("theirs"), seconds=0
    )
    assert found.pairs == MIN_PAIRS
    assert calls == ["ours", "theirs"] * (WARM_UP_CALLS + MIN_PAIRS)


def test_no_more_pairs_are_taken_than_asked_for():
    calls = []
    assert time_interleaved(lambda: calls.append(1), lambda: None, seconds=60, most=9).pairs == 9
    assert len(calls) == WARM_UP_CALLS + 9

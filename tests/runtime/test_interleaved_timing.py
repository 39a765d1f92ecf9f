"""Two sides are timed call by call."""

from __future__ import annotations

from septran.runtime.interleaved_timing import LEAST_PAIRS, WARM_CALLS, duel


def test_sides_alternate_call_by_call():
    calls = []
    found = duel(lambda: calls.append("ours"), lambda: calls.append("theirs"), seconds=0)
    assert found.pairs == LEAST_PAIRS
    assert calls == ["ours", "theirs"] * (WARM_CALLS + LEAST_PAIRS)


def test_no_more_pairs_are_taken_than_asked_for():
    calls = []
    assert duel(lambda: calls.append(1), lambda: None, seconds=60, most=9).pairs == 9
    assert len(calls) == WARM_CALLS + 9

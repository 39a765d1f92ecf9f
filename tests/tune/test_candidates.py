"""What a search goes through."""

from __future__ import annotations

import pytest

from septran.mapping.loader import load_mapping
from septran.mapping.tune import Space
from septran.tuning.candidates import MOST_LISTED, CandidateValues

TUNED = """
extends: cpu-x86.mapping.yaml
tunables:
  block_width: !tune {type: range, low: 1024, high: 4096, step: 1024}
constraints: ["block_width != 2048"]
"""


def test_a_mappings_own_and_those_to_try_are_combined_and_constrained():
    choices = CandidateValues.of(load_mapping(TUNED).space(), {"block_rows": [8, 16]})
    assert choices.size == 8
    assert list(choices.points()) == [
        {"block_width": w, "block_rows": r} for w in (1024, 3072, 4096) for r in (8, 16)
    ]


def test_neighbours_differ_by_one_step():
    choices = CandidateValues.of(Space(), {"a": [1, 2, 4], "b": [True, False]})
    near = list(choices.near({"a": 2, "b": True}))
    assert near == [{"a": 1, "b": True}, {"a": 4, "b": True}, {"a": 2, "b": False}]
    assert list(choices.near({"a": 1, "b": False})) == [{"a": 2, "b": False}, {"a": 1, "b": True}]


@pytest.mark.parametrize("seed", [0, 1])
def test_of_very_many_some_are_drawn_none_twice_and_the_same_again(seed):
    choices = CandidateValues.of(Space(), {name: range(20) for name in "abc"})
    points = [tuple(p.values()) for p in choices.points(seed)]
    assert len(points) == len(set(points)) == MOST_LISTED
    assert points == [tuple(p.values()) for p in choices.points(seed)]
    assert points != sorted(points)

"""Which nodes run, in order: complete, and refused where it would not end in time."""

from __future__ import annotations

import pytest

import septran
from septran.tile.analyses.loops import walk
from septran.views.maps import events
from septran.views.maps.events import TooManyEventsError, record


@pytest.fixture(scope="module")
def program():
    shapes = {"M": 200, "N": 136, "K": 160}
    return septran.explain("gemm", "dsa-sim", shapes=shapes).tile_program


def test_the_events_of_chosen_blocks_are_those_of_the_whole_walk(program):
    chosen = record(program, keep=lambda loop, values: [0])
    first = [e for e in record(program) if not any(_parallel(program, e.values).values())]
    assert chosen
    assert [(e.number, dict(e.values)) for e in chosen] == [
        (e.number, dict(e.values)) for e in first
    ]


def test_a_program_of_too_many_nodes_is_refused_with_a_hint(program, monkeypatch):
    count = len(record(program))
    monkeypatch.setattr(events, "MOST", count)
    assert len(record(program)) == count
    monkeypatch.setattr(events, "MOST", count - 1)
    with pytest.raises(TooManyEventsError, match=f"more than {count - 1:,} nodes") as caught:
        record(program)
    assert "smaller shapes" in caught.value.hint


def _parallel(program, values):
    """The indices of parallel loops among `values`."""
    spread = {x.variable for _, loops in walk(program.body) for x in loops if x.kind == "parallel"}
    return {v: n for v, n in values.items() if v in spread}

"""Boxes of different owners that meet, found on a grid of edges as on one of elements."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from septran.ir.index import Index, Var, minimum
from septran.tile.layouts import ROW
from septran.tile.nodes import Buffer, Region
from septran.tile.verify import collisions
from septran.tile.verify.collisions import collide, owned_boxes

SIZE = 9
SPANS = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)).map(
    lambda s: tuple(sorted(s))
)
BOXES = st.lists(st.tuples(st.integers(0, 3), st.tuples(SPANS, SPANS)), max_size=6)


def elements(box):
    return set(itertools.product(*(range(low, high + 1) for low, high in box)))


@given(BOXES, BOXES)
def test_two_meet_where_they_have_an_element_in_common(painted, seen):
    pairs = [*itertools.combinations(painted, 2), *itertools.product(painted, seen)]
    expected = any(a != b and elements(x) & elements(y) for (a, x), (b, y) in pairs)
    assert collide(painted, seen) is expected


def region(index, shape, valid=None):
    return Region("X", index, shape, valid or tuple(map(Index.of, shape)))


BUFFER = Buffer("X", "DRAM", (40, 30), "float32", ROW)
TILE, ROWS, COLUMNS = Index.of(Var("i")), Index.of(Var("$0")), Index.of(Var("$1"))


def boxes(view, count=3):
    return owned_boxes(view, BUFFER, ({Var("i"): n} for n in range(count)), Var("i"))


def test_tiles_are_boxes_also_transposed_and_backwards():
    assert boxes(region((TILE * 8 + ROWS, COLUMNS), (8, 30))) == [
        (n, ((0, 0), (8 * n, 8 * n + 7), (0, 29))) for n in range(3)
    ]
    assert boxes(region((TILE * 8 - COLUMNS + 7, ROWS), (30, 8)), 1) == [
        (0, ((0, 0), (0, 7), (0, 29)))
    ]


def test_ragged_tiles_have_what_exists():
    valid = minimum(16, 40 - TILE * 16), Index.of(30)
    found = boxes(region((TILE * 16 + ROWS, COLUMNS), (16, 30), valid), 4)
    assert [(low, high) for _, (_, (low, high), _) in found] == [(0, 15), (16, 31), (32, 39)]


def test_what_is_no_box_is_left_to_others():
    assert boxes(region((ROWS * 2 + TILE, COLUMNS), (8, 30))) is None  # every second row
    assert boxes(region((ROWS, ROWS), (8,))) is None  # a diagonal
    assert boxes(region((ROWS + COLUMNS, Index()), (8, 8))) is None  # windows that overlap
    assert boxes(region(((TILE * 8 + ROWS) // 2, COLUMNS), (8, 30))) is None
    assert boxes(region((TILE * 20 + ROWS, COLUMNS), (20, 30))) is None  # outside of its buffer


def test_a_grid_that_is_too_large_is_not_made(monkeypatch):
    monkeypatch.setattr(collisions, "MOST_CELLS", 3)
    assert collide([(0, ((0, 1), (0, 1))), (1, ((2, 3), (2, 3)))], []) is None
    assert collide([], []) is False

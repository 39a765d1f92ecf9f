"""Lower bounds that know that a loop index stays below its loop's extent."""

from septran.task.index import Index, Var, minimum
from septran.tile.bounds import alternatives, lowest

ROW, COLUMN = Index.of(Var("i")), Index.of(Var("k"))
KNOWN = {Var("i"): (0, 7), Var("k"): (0, 7)}
TOPS = {Var("k"): ROW + 1}


def test_a_loop_index_is_below_its_extent():
    assert lowest(ROW - COLUMN, KNOWN, {}) == -7
    assert lowest(ROW - COLUMN, KNOWN, TOPS) == 0
    assert lowest(128 * ROW - 128 * COLUMN + 128, KNOWN, TOPS) == 128


def test_minima_are_looked_into():
    assert lowest(minimum(128, 128 * ROW - 128 * COLUMN + 128), KNOWN, TOPS) == 128
    assert lowest(minimum(5, ROW - COLUMN), KNOWN, TOPS) == 0
    assert lowest(COLUMN - minimum(3, ROW), KNOWN, TOPS) == -3


def test_extents_that_are_minima_bound_as_well():
    assert lowest(128 * ROW + 128 - 128 * COLUMN, KNOWN, {Var("k"): minimum(8, ROW + 1)}) == 128


def test_the_indices_of_which_one_is_the_least():
    found = set(alternatives(minimum(100, 128 * ROW) - COLUMN))
    assert found == {100 - COLUMN, 128 * ROW - COLUMN}

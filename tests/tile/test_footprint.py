"""Footprints: exactly which elements a region touches."""

from __future__ import annotations

import septran
from septran import task
from septran.ir.index import Index, axis
from septran.tile.nodes import Region
from septran.tile.verify.footprint import footprint, meet, scattered


def rows(start: int, count: int, width: int = 10) -> Region:
    """Elements from `start` of a [7, width] buffer seen as a line."""
    at = Index.of(axis(0)) + start
    return Region("Y", (at // width, at % width), (count,), (Index.of(count),))


def test_neighbours_in_a_reshaped_tensor_do_not_meet():
    (first_box, first), (second_box, second) = (
        footprint(rows(start, 15), (7, 10), {}) for start in (0, 15)
    )
    assert (first_box, second_box) == (((0, 1), (0, 9)), ((1, 2), (0, 9)))
    assert list(first) == list(range(15))
    assert not meet(first, second)


def test_one_common_element_is_found():
    first, second = (footprint(rows(start, 15), (7, 10), {})[1] for start in (0, 14))
    assert meet(first, second)
    assert meet(first, None)


def test_nothing_and_padding_are_no_elements():
    box, cells = footprint(rows(0, 0), (7, 10), {})
    assert box == ((0, -1), (0, -1))
    assert cells.size == 0
    assert list(footprint(rows(65, 15), (7, 10), {})[1]) == [65, 66, 67, 68, 69]


@task.define(leaf=True)
def twice(Y, X):
    """Y is twice X."""
    Y[:, :] = X + X


@task.define
def phases(Y: task.Tensor["B", "M", "4 * N"], X: task.Tensor["B", "M", "N"]):
    """Every fourth column, from each of the first four on."""
    apart = Y.reshape(*X.shape, 4)
    for b, p in task.parallel_range(X.shape[0], 4):
        task.launch(twice, apart[b, :, :, p], X[b])


def test_columns_between_others_do_not_meet():
    """Copies out of both are in flight at a time, which was taken for a fault of the passes."""
    kernel = septran.compile(phases, "dsa-sim", shapes={"B": 2, "M": 5, "N": 9})
    kernel.check().raise_if_wrong()


def test_only_reshaped_buffers_are_scattered():
    shapes = {"B": 1, "C": 3, "H": 9, "W": 9, "O": 4, "R": 2, "S": 2}
    program = septran.produce_stages("conv2d", "dsa-sim", shapes=shapes).tile_program
    assert "Y" in scattered(program)
    plain = septran.produce_stages("gemm", "dsa-sim", shapes={"M": 9, "N": 9, "K": 9})
    assert scattered(plain.tile_program) == frozenset()

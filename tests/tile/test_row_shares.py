"""Rows are shared out only where every node works on its own rows of every result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.tile.analyses.row_shares import IndivisibleError, RowShares
from septran.tile.nodes import Region


@pytest.fixture
def share(build, part):
    """`share(nodes(b))` shares out the rows of a gemm C = A B; `b` has regions of 8x8 buffers."""
    buffers = {n: build.buffer(n, "SPM", (8, 8)) for n in "CABD"}
    tiles = {n: part(b) for n, b in buffers.items()}

    def run(*body):
        return RowShares.of(body, frozenset("CD"), 2, build.machine)

    return tiles, run


def turned(region):
    return replace(region, index=(Index.of(axis(1)), Index.of(axis(0))))


def test_rows_are_followed_through_all_nodes(build, share):
    t, run = share
    found = run(build.gemm(t["C"], t["A"], t["B"]), build.move(t["D"], t["C"]))
    assert found.axes == {"C": 0, "D": 0}
    found = run(build.gemm(t["C"], t["A"], t["B"]), build.move(turned(t["D"]), t["C"]))
    assert found.axes == {"C": 0, "D": 1}


def test_without_a_product_there_are_no_rows(build, share):
    t, run = share
    with pytest.raises(IndivisibleError, match="nothing in it is the result of a gemm"):
        run(build.fill(t["C"]))


def test_what_no_row_reaches_cannot_be_shared(build, share):
    t, run = share
    with pytest.raises(IndivisibleError, match="D has no rows to share out"):
        run(build.gemm(t["C"], t["A"], t["B"]), build.fill(t["D"]))


def test_a_result_that_is_summed_over_is_needed_whole(build, share):
    t, run = share
    with pytest.raises(IndivisibleError, match="D needs all rows of C"):
        run(build.gemm(t["C"], t["A"], t["B"]), build.gemm(t["D"], t["A"], t["C"]))


def test_rows_are_one_axis_of_their_buffer(build, share):
    t, run = share
    every_other = Region("C", (Index.of(axis(0)) * 2, Index.of(axis(1))), (4, 8), t["C"].valid)
    with pytest.raises(IndivisibleError, match="are not an axis of C"):
        run(build.gemm(every_other, t["A"], t["B"]))


def test_rows_are_not_columns_elsewhere(build, share):
    t, run = share
    with pytest.raises(IndivisibleError, match="C is used by rows and by columns"):
        run(build.gemm(t["C"], t["A"], t["B"]), build.gemm(turned(t["C"]), t["A"], t["B"]))


def test_rows_beside_columns_are_needed_whole(build, share):
    """D[i, j] = C[i, j] + C[j, i] has C's rows along both of its axes."""
    t, run = share
    both = ex.binary("add", ex.Load(t["C"], "float32"), ex.Load(turned(t["C"]), "float32"))
    node = replace(build.move(t["D"], t["C"]), primitive="map", expression=both)
    with pytest.raises(IndivisibleError, match="C"):
        run(build.gemm(t["C"], t["A"], t["B"]), node)

"""Short texts of views and statements of a task."""

from __future__ import annotations

import pytest

from septran.ir import expressions as ex
from septran.ir.index import Index, Var, axis
from septran.ir.views import View
from septran.location import Location
from septran.task.tree import Assign
from septran.views.text.outline import statement_text, tree_outline, view_text

A = View.whole("A", (100, 64))
KNOWN = {"A": (A.shape, A.valid), "y": ((64,), (Index.of(64),))}
ROW = Index.of(Var("i"))


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (A, "A"),
        (A.block((ROW * 32, 0), (32, 64)), "A[32*i:+32, :]"),
        (A.transposed((1, 0)), "A.T"),
        (A.block((ROW * 32, 0), (32, 64)).transposed((1, 0)), "A[32*i:+32, :].T"),
        (A.without(0, ROW), "A[i, :]"),
        (View("unknown", A.index, A.shape, A.valid), "unknown[0:+100, 0:+64]"),
        (View("A", (Index.of(axis(0)) * 2, Index()), (4,), (Index.of(4),)), "A[2*$0, 0]"),
    ],
)
def test_views_are_as_short_as_they_are_clear(view, text):
    assert view_text(view, KNOWN) == text


def test_expressions_show_whole_tensors_by_name():
    y = View.whole("y", (64,))
    value = ex.binary("add", ex.reduce("sum", ex.Load(A, "float32"), 0), ex.Load(y, "float32"))
    statement = Assign(y, value, Location(__file__, 1))
    assert statement_text(statement, KNOWN) == "y = sum(A, axis=0) + y"


def test_the_outline_nests_tasks_under_their_launches(tree):
    lines = tree_outline(tree).splitlines()
    assert lines[1:4] == [
        "    for i in parallel(4):",
        "        launch gemm_block(C[32*i:+32, :], A[32*i:+32, :], B)",
        "            launch fill(C)",
    ]
    assert lines[-1].strip() == "gemm(C, A, B)"

"""Sizes of ragged tiles have a name where a text repeats them; sums begin with what is positive."""

from __future__ import annotations

import pytest

from septran.ir.index import Index, Var, minimum
from septran.ir.size_names import name_sizes
from septran.ir.views import View

i, k = Index.of(Var("i")), Index.of(Var("k"))


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (minimum(96, 250 - 96 * i), "min(96, 250 - 96*i)"),
        (k - i, "k - i"),
        (-i - 3, "-i - 3"),
        (-(i // 2), "-(i//2)"),
        (5 - i // 2, "5 - i//2"),
        (-2 * (i // 2) - 1, "-2*(i//2) - 1"),
    ],
)
def test_a_sum_begins_with_something_positive(index, text):
    assert str(index) == text
    at = {Var("i"): 7, Var("k"): 2}
    assert eval(text, {"i": 7, "k": 2, "min": min}) == index.evaluate(at)


def view(*valid):
    return View("X", (i,) * len(valid), (96,) * len(valid), tuple(map(Index.of, valid)))


def test_a_size_that_is_there_twice_has_a_name():
    rows = minimum(96, 250 - 96 * i)
    lines = [f"A[:{rows}] = copy(B[:{rows}])", f"C[:{minimum(8, 20 - 8 * k)}]"]
    sizes, shortened = name_sizes(lines, [view(rows), view(minimum(8, 20 - 8 * k))])
    assert sizes == ["n_i = min(96, 250 - 96*i)"]
    assert shortened == ["A[:n_i] = copy(B[:n_i])", "C[:min(8, 20 - 8*k)]"]


def test_a_name_is_not_one_that_the_text_has():
    rows, others = minimum(96, 250 - 96 * i), minimum(32, 250 - 96 * i)
    lines = [f"n_i[:{rows}, :{others}] = copy(B[:{rows}, :{others}])"]
    sizes, shortened = name_sizes(lines, [view(rows, others)])
    assert sizes == ["n2_i = min(32, 250 - 96*i)", "n3_i = min(96, 250 - 96*i)"] or sizes == [
        "n2_i = min(96, 250 - 96*i)", "n3_i = min(32, 250 - 96*i)",
    ]  # fmt: skip
    assert "min" not in shortened[0]


def test_a_size_that_holds_another_is_defined_by_its_name():
    rows = minimum(96, 250 - 96 * i)
    part = rows - minimum(64, 100 * i)
    inner = minimum(32, part - 32 * k)
    lines = [f"A[:{rows}, :{inner}] = copy(B[:{rows}, :{inner}])"]
    sizes, shortened = name_sizes(lines, [view(rows, inner)])
    assert "min" not in shortened[0]
    assert sizes[0].startswith("n_i = ")

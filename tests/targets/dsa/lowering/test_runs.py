"""Runs of a view's axis: every element of a run is where its slope says."""

from __future__ import annotations

import random

import pytest

from septran.ir.index import Index, Var
from septran.targets.dsa.runs import ELEMENTS, fused, runs, slope

X, J = Var("$0"), Var("j")
x, j = Index.of(X), Index.of(J)

INDICES = {
    "row": 7 * x + j,
    "window": 100 * ((x + 64 * j) // 26) + (x + 64 * j) % 26,
    "blocks": 256 * (x // 16) + x % 16,
    "window in blocks": 256 * (x // 16) + x % 16 + 5 * ((x + j) % 26),
    "nested": 9 * (((x + 64 * j + 1) // 3) // 3) + 4 * (((x + 64 * j + 1) // 3) % 3),
    "strided": (2 * x) // 3,
    "least": Index.of(3),
}


@pytest.mark.parametrize("name", INDICES)
def test_a_run_is_affine(name):
    index, rng = INDICES[name], random.Random(0)
    found = runs([index], X)
    for _ in range(50):
        at = {J: rng.randrange(5)}
        begins = [n for n in range(80) if starts(found, n, at)]
        for first, last in zip(begins, [*begins[1:], 80], strict=True):
            for n in range(first, last):
                moved = index.evaluate({**at, X: n}) - index.evaluate({**at, X: first})
                assert moved == (n - first) * (slope(index, X) or 0) or last - first == 1


def starts(found, n, at):
    return n == 0 or any((n + c.shift.evaluate(at)) % c.step == 0 for c in found.cuts)


@pytest.mark.parametrize(
    ("name", "longest"), [("row", 80), ("window", 26), ("blocks", 16), ("window in blocks", 16),
                          ("nested", 3), ("strided", 1)]
)  # fmt: skip
def test_runs_are_as_long_as_can_be(name, longest):
    assert runs([INDICES[name]], X).length(80) == longest


def test_a_divided_multiple_has_no_runs():
    assert runs([INDICES["strided"]], X) == ELEMENTS


def test_quotient_and_remainder_make_the_whole():
    value = x + 64 * j
    assert fused(26 * (value // 26) + value % 26 + 3) == value + 3
    inner = value // 3
    assert fused(18 * (inner // 3) + 6 * (inner % 3) + 2 * (value % 3)) == 2 * value
    apart = 25 * (value // 26) + value % 26
    assert fused(apart) == apart

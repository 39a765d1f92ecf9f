"""Loops are written by how often they turn; what never runs is said to."""

from __future__ import annotations

import pytest

import septran
from septran import task
from septran.task.errors import IndexingError, LaunchArgumentsError


@task.define(leaf=True)
def add(Y, X):
    Y[:] = Y + X


def sums(loop, many=4):
    """The sum of rows, whose loop is written by `loop`."""

    @task.define
    def total(Y: task.Tensor["N"], X: task.Tensor["L", "N"]):
        task.fill(Y, 0)
        loop(Y, X)

    return septran.trace(total, {"Y": (8,), "X": (many, 8)})


def plain(*extents, **others):
    def loop(Y, X):
        for k in task.sequential_range(*extents, **others):
            task.launch(add, Y, X[k])

    return loop


@pytest.mark.parametrize(
    ("loop", "error", "said"),
    [
        (plain(0, 4, 2), IndexingError, "write `for k, p, q in ..`"),
        (plain(range(1, 4, 2)), IndexingError, "here 2 times with 1 + k * 2"),
        (plain(4, step=2), LaunchArgumentsError, "loop as often as it turns"),
    ],
)
def test_a_start_and_a_step_are_refused_with_what_to_write(loop, error, said):
    with pytest.raises(error) as found:
        sums(loop)
    assert said in found.value.hint
    assert "start + k * step" in found.value.hint
    assert found.value.where.file == __file__


def never(tree):
    found = septran.resolve(tree, septran.load_mapping("cpu-x86")).decisions
    return [d for d in found if d.kind == "no-effect" and "never runs" in d.message]


def beyond(last):
    def loop(Y, X):
        for k in task.sequential_range(X.shape[0]):
            with task.when(k - last):
                task.launch(add, Y, X[k])

    return loop


def test_a_condition_that_no_iteration_meets_is_reported_at_its_line():
    (decision,) = never(sums(beyond(3)))
    assert decision.where.text.strip() == "with task.when(k - last):"
    assert not never(sums(beyond(2)))


def test_a_loop_that_never_turns_is_reported_unless_there_are_no_elements():
    def loop(Y, X):
        for _, k in task.sequential_range(X.shape[0] // 5, X.shape[0]):
            task.launch(add, Y, X[k])

    assert len(never(sums(loop))) == 1
    assert not never(sums(loop, many=5))
    assert not never(sums(loop, many=0))


def test_what_one_of_two_launches_runs_is_not_reported():
    @task.define
    def later(Y, X, *, first: task.static = 0):
        beyond(first)(Y, X)

    def loop(Y, X):
        for first in (2, 9):
            task.launch(later, Y, X, first=first)

    assert not never(sums(loop))

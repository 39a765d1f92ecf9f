"""Temporaries that are written in part: refused where what is read is not written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran import produce_stages, task
from septran.task.check import definedness
from septran.task.errors import UnwrittenElementError
from septran.task.trace import tracing
from septran.tile.interpret import unwritten
from septran.tile.interpret.interpreter import interpret

HALF = """
    @task.define(leaf=True)
    def start(T, X):
        T[:, :4] = X[:, :4]

    @task.define(leaf=True)
    def finish(Y, T):
        Y[:, :] = T * 2

    @task.define
    def half(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
        shape = (16, X.shape[1])
        Yp, Xp = task.partition(Y, shape=shape), task.partition(X, shape=shape)
        for i in task.parallel_range(Yp.shape[0]):
            t = task.empty(Xp[i, 0].shape, name="t")
            task.launch(start, t, Xp[i, 0])
            task.launch(finish, Yp[i, 0], t)
"""
X = np.ones((40, 9), np.float32)


@pytest.fixture
def undecided(monkeypatch):
    """The trace says nothing, as where there is too much to follow."""
    monkeypatch.setattr(tracing, "check_defined", lambda root, ranges: ())


def test_the_trace_refuses_it(machine, logic):
    path = logic("half", HALF)
    with pytest.raises(UnwrittenElementError, match=r"t\[0, 4\] is read, and nobody has") as caught:
        _ = produce_stages(path, machine, shapes={"R": 40, "S": 9}).task_tree
    assert caught.value.where.line == 10
    assert [place.line for _, place in caught.value.related] == [17]


def unchecked(stages):
    return [d for d in stages.mapping.decisions if d.kind == "unchecked"]


def test_what_is_too_much_to_follow_is_told(logic):
    """Also before there is a mark for each of its elements, which memory may not hold."""
    path, entry = logic("half", HALF), "half"
    (told,) = unchecked(produce_stages(path, "cpu-x86", shapes={"R": 40, "S": 1 << 40}))
    assert told.about == entry
    assert told.message == (
        "t is written in parts, and whether all that is read of it is written was not followed "
        "to the end, as that takes more than 67,108,864 elements"
    )
    assert told.where.line == 17
    with_all = produce_stages(path, "cpu-x86", shapes={"R": 40, "S": 4})
    assert unchecked(with_all) == []


def test_the_docs_say_how_much_is_followed():
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    assert f"{definedness.MOST:,} elements" in " ".join(text.split())


def test_what_is_written_in_full_is_right(machine, logic, right):
    right(logic("half", HALF), machine, {"R": 40, "S": 4})


def test_the_reference_refuses_it(logic, undecided):
    with pytest.raises(UnwrittenElementError, match=r"t\[0, 4\] is read") as caught:
        task.run(task.load_entry(logic("half", HALF)), X)
    assert caught.value.where.line == 10


@pytest.mark.parametrize("order", ["early", "late", 1])
def test_the_interpreter_refuses_it(order, machine, logic, undecided):
    stages = produce_stages(logic("half", HALF), machine, shapes={"R": 40, "S": 9})
    with pytest.raises(unwritten.UnwrittenResultError, match=r"t\[0, 4\].* is read") as caught:
        interpret(stages.tile_program, [X], order=order)
    assert caught.value.where.line == 10


TILE_BY_TILE = """
    @task.define(leaf=True)
    def part(T, X):
        T[:, :] = X + 1

    @task.define(leaf=True)
    def rows(Y, T):
        Y[:, :] = T - task.sum(T, axis=1)[:, None]

    @task.define
    def by_tiles(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
        shape = (24, X.shape[1])
        Yp, Xp = task.partition(Y, shape=shape), task.partition(X, shape=shape)
        for i in task.parallel_range(Yp.shape[0]):
            t = task.empty(Xp[i, 0].shape, name="t")
            wide = task.tunable("block_part", 40)
            Tp, Cp = task.partition(t, shape=(7, wide)), task.partition(Xp[i, 0], shape=(7, wide))
            for k in task.sequential_range(Tp.shape[1]):
                for r in task.sequential_range(Tp.shape[0]):
                    task.launch(part, Tp[r, k], Cp[r, k])
            task.launch(rows, Yp[i, 0], t)
"""
ODD_AND_EVEN = """
    @task.define(leaf=True)
    def first(T, X):
        T[:, :3] = X[:, :3]

    @task.define(leaf=True)
    def second(T, X):
        T[:, 3:] = X[:, 3:] * 2

    @task.define(leaf=True)
    def take(Y, T):
        Y[:, :] = T + 1

    @task.define
    def pieces(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
        shape = (16, X.shape[1])
        Yp, Xp = task.partition(Y, shape=shape), task.partition(X, shape=shape)
        for i in task.parallel_range(Yp.shape[0]):
            t = task.empty(Xp[i, 0].shape, name="t")
            task.launch(second, t, Xp[i, 0])
            task.launch(first, t, Xp[i, 0])
            task.launch(take, Yp[i, 0], t)
"""
GROWING = """
    @task.define(leaf=True)
    def put(T, X):
        T[:, :] = X

    @task.define(leaf=True)
    def add(Y, T):
        Y[:, :] = task.sum(T, axis=0)[None, :]

    @task.define
    def growing(Y: task.Tensor[1, "S"], X: task.Tensor["R", "S"]):
        for n in task.parallel_range(1):
            t = task.empty(X.shape, name="t")
            shape = (8, X.shape[1])
            Tp, Xp = task.partition(t, shape=shape), task.partition(X, shape=shape)
            for k in task.sequential_range(Tp.shape[0]):
                task.launch(put, Tp[k, 0], Xp[k, 0])
                for j in task.sequential_range(k + 1):
                    task.launch(add, Y, Tp[j, 0])
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("entry", "text"),
    [("by_tiles", TILE_BY_TILE), ("pieces", ODD_AND_EVEN), ("growing", GROWING)],
    ids=["tile by tile", "two pieces", "read as it grows"],
)
def test_what_is_written_before_it_is_read_is_not_refused(entry, text, machine, logic, right):
    right(logic(entry, text), machine, {"R": 50, "S": 99})


def test_one_iteration_too_few_is_seen(logic):
    text = GROWING.replace("range(k + 1)", "range(task.least(k + 2, Tp.shape[0]))")
    with pytest.raises(UnwrittenElementError, match=r"t\[8, 0\] is read"):
        _ = produce_stages(logic("growing", text), "cpu-x86", shapes={"R": 50, "S": 33}).task_tree


CHOSEN = """
    @task.define(leaf=True)
    def chosen(Y, X):
        t = task.empty(X.shape, name="t")
        t[:, :4] = X[:, :4]
        t[:, :] = task.where(task.index(X, 1) < 4, t, 7)
        Y[:, :] = t

    @task.define
    def masked(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
        shape = (16, X.shape[1])
        Yp, Xp = task.partition(Y, shape=shape), task.partition(X, shape=shape)
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(chosen, Yp[i, 0], Xp[i, 0])
"""


def test_what_a_condition_does_not_choose_is_not_read(logic):
    path = logic("masked", CHOSEN)
    found = task.run(task.load_entry(path), X)
    assert np.array_equal(found, np.where(np.arange(9) < 4, X, 7))
    program = produce_stages(path, "cpu-x86", shapes={"R": 40, "S": 9}).tile_program
    assert np.array_equal(interpret(program, [X])["Y"], found)


def test_what_a_condition_chooses_is_read(logic):
    path = logic("masked", CHOSEN.replace("< 4, t", "< 5, t"))
    with pytest.raises(UnwrittenElementError, match=r"t\[0, 4\] is read"):
        task.run(task.load_entry(path), X)
    program = produce_stages(path, "cpu-x86", shapes={"R": 40, "S": 9}).tile_program
    with pytest.raises(unwritten.UnwrittenResultError, match=r"t\[0, 4\] is read"):
        interpret(program, [X])


def test_a_nan_of_the_caller_is_no_unwritten_element(machine, logic):
    stages = produce_stages(logic("half", HALF), machine, shapes={"R": 40, "S": 4})
    found = interpret(stages.tile_program, [np.full((40, 4), np.nan, np.float32)])
    assert np.isnan(found["Y"]).all()

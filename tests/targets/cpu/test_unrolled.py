"""Logic with many launches in a row: lowering looks at each statement a few times."""

import numpy as np
import pytest

import septran
from septran import task
from septran.targets.cpu.map import statements


@task.define(leaf=True)
def add_times(Y, X, *, factor: task.static = 1):
    Y[:] = Y + X * float(factor)


@task.define
def block(Y, X, *, count: task.static = 1):
    task.fill(Y, 0)
    for k in range(count):
        task.launch(add_times, Y, X[k], factor=k + 1)


@task.define
def unrolled(Y: task.Tensor["N"], X: task.Tensor["K", "N"], *, count: task.static = 1):
    Yp, Xp = task.partition(Y, shape=(64,)), task.partition(X, shape=(X.shape[0], 64))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(block, Yp[i], Xp[0, i], count=count)


def looks(monkeypatch, count):
    """How often a statement's elements are looked at while `count` launches are lowered."""
    calls, plain = [0], statements.touched

    def counted(*arguments):
        calls[0] += 1
        return plain(*arguments)

    monkeypatch.setattr(statements, "touched", counted)
    shapes, static = {"N": 100, "K": count}, {"count": count}
    stages = septran.produce_stages(unrolled, "cpu-x86", shapes=shapes, static=static)
    stages.tensor_ir  # noqa: B018
    monkeypatch.undo()
    return calls[0]


def test_the_work_grows_as_the_launches(monkeypatch):
    few, many = looks(monkeypatch, 10), looks(monkeypatch, 40)
    assert few > 10
    assert many < 6 * few


@pytest.mark.parametrize("count", [3, 70])
@pytest.mark.one_in(2)
def test_many_launches_are_right(count):
    """More than the extents that a first trace makes up, too."""
    x = np.arange(count * 100, dtype="float32").reshape(count, 100) % 7
    kernel = septran.compile(unrolled, "cpu-x86", static={"count": count})
    assert np.array_equal(kernel(x), np.arange(1, count + 1) @ x)

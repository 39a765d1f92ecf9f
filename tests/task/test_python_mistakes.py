"""What is Python, or NumPy, but not Task Lang, is told at its line with what to write instead."""

import importlib.util
import math
import re

import numpy as np
import pytest

import septran
from septran import task
from septran.task import errors


@task.define(leaf=True)
def double(Y, X):
    Y[:] = X * 2.0


def leaf(body):
    """A leaf of two tensors whose body is ``body(Y, X)``."""

    @task.define(leaf=True)
    def logic(Y, X):
        body(Y, X)

    return logic


def composite(body):
    """A composite whose body is ``body(Y, X, Yp, Xp)``, with tiles of 32."""

    @task.define
    def logic(Y, X):
        body(Y, X, task.partition(Y, shape=(32,)), task.partition(X, shape=(32,)))

    return logic


IN_LEAVES = {
    "np.exp": (lambda Y, X: np.exp(X), errors.PythonError, r"task\.exp"),
    "np.sum": (lambda Y, X: np.sum(X), errors.PythonError, r"task\.sum"),
    "np.add": (lambda Y, X: np.add(X, 1), errors.PythonError, r"write x \+ y"),
    "np.where": (lambda Y, X: np.where(X > 0, X, 0), errors.SymbolicValueError, "task's own"),
    "np.dot": (lambda Y, X: np.dot(X, X), errors.SymbolicValueError, "task's own"),
    "np.asarray": (lambda Y, X: np.asarray(X) + 1, errors.SymbolicValueError, "task's own"),
    "array": (lambda Y, X: X + np.ones(64), errors.ShapeError, "passed to the logic"),
    "math.exp": (lambda Y, X: math.exp(X), errors.SymbolicValueError, r"task\.exp"),
    "int": (lambda Y, X: int(X), errors.SymbolicValueError, "shapes, tunables"),
    "format": (lambda Y, X: f"{X:.2f}", errors.SymbolicValueError, "shapes"),
    "round to": (lambda Y, X: round(X, 2), errors.SymbolicValueError, "own"),
    "divmod": (lambda Y, X: divmod(X, 2), errors.PythonError, "no values while"),
    "if": (lambda Y, X: 1 if X > 0 else 2, errors.SymbolicValueError, r"task\.where"),
    "and": (lambda Y, X: (X > 0) and X, errors.SymbolicValueError, "&"),
    "index": (lambda Y, X: [1, 2, 3][X], errors.SymbolicValueError, "shapes"),
    "key": (lambda Y, X: {1: 2}[X], errors.PythonError, "runs once"),
    "range": (lambda Y, X: range(X), errors.SymbolicValueError, "shapes"),
    "len": (lambda Y, X: len(X), errors.IndexingError, r"x\.shape\[0\]"),
    "iterate": (lambda Y, X: list(X), errors.IndexingError, "parallel_range"),
    "in": (lambda Y, X: 3 in X, errors.IndexingError, r"task\.where"),
    "shape": (lambda Y, X: X.shape == X, errors.ShapeError, "tensors of the task"),
    "shape at": (lambda Y, X: X.shape[X], errors.SymbolicValueError, "shapes"),
    "product": (lambda Y, X: X @ X, errors.ShapeError, "call_primitive"),
    "method": (lambda Y, X: X.sum(), errors.UnknownConstructError, r"task\.sum"),
    "mean": (lambda Y, X: X.mean(), errors.UnknownConstructError, r"task\.sum.*x\.shape"),
    "misspelt": (lambda Y, X: X.shpe, errors.UnknownConstructError, "'shape'"),
    "view": (lambda Y, X: (X + 1).T, errors.UnknownConstructError, "temporary"),
    "function": (lambda Y, X: task.expp(X), errors.UnknownConstructError, "'exp"),
    "package": (lambda Y, X: septran.compilee, errors.PythonError, "runs once"),
    "handle": (lambda Y, X: double.nmae, errors.UnknownConstructError, "'name'"),
    "axis": (lambda Y, X: task.max(X, axis="a"), errors.ShapeError, "write axis=1"),
    "no axis": (lambda Y, X: task.max(X, axis=3), errors.ShapeError, "from 0"),
    "type": (lambda Y, X: X.astype("float33"), errors.DtypeError, "'float32'"),
    "no type": (lambda Y, X: X.astype(None), errors.DtypeError, "known"),
    "fill": (lambda Y, X: task.fill(Y, None), errors.DtypeError, "default"),
    "word": (lambda Y, X: X.reshape("a"), errors.IndexingError, "integers"),
    "window": (lambda Y, X: task.window(X, 2, stride=None), errors.IndexingError, "integers"),
    "place": (lambda Y, X: task.index(X, "a"), errors.IndexingError, "from 0"),
    "divisor": (lambda Y, X: task.cdiv(3, 0), errors.IndexingError, "tunable"),
    "nothing least": (lambda Y, X: task.least(), errors.IndexingError, r"task\.least\(n, 64\)"),
    "tunable": (lambda Y, X: task.tunable(3), errors.TunableError, "block_M"),
    "default": (lambda Y, X: task.tunable("a", X), errors.TunableError, "block_M"),
    "name": (lambda Y, X: undefined, errors.PythonError, "imported"),
    "own error": (lambda Y, X: 1 // 0, errors.PythonError, "runs once"),
}
IN_COMPOSITES = {
    "lunch": (lambda Y, X, P, Q: task.lunch(double, Y, X), "'launch'"),
    "paralel": (lambda Y, X, P, Q: task.paralel_range(3), "'parallel_range'"),
    "range": (lambda Y, X, P, Q: task.range(3), "task.parallel_range"),
    "tiles": (lambda Y, X, P, Q: len(P), "P.shape"),
    "each tile": (lambda Y, X, P, Q: list(P), "parallel_range"),
    "tiles' attribute": (lambda Y, X, P, Q: P.shap, "'shape'"),
    "whole partition": (lambda Y, X, P, Q: task.launch(double, P, Q), "P[i]"),
    "expression": (lambda Y, X, P, Q: task.launch(double, Y, X + 1), "temporary"),
    "array": (lambda Y, X, P, Q: task.launch(double, Y, np.ones(3)), "passed to the logic"),
    "keywords": (lambda Y, X, P, Q: task.launch(double, Y=Y, X=X), "by position"),
    "whose blocks": (lambda Y, X, P, Q: task.partition(X, shape_from="Z"), "known: X, Y"),
    "counted": (lambda Y, X, P, Q: list(enumerate(task.parallel_range(2))), "same index"),
    "zipped": (lambda Y, X, P, Q: set(zip(task.parallel_range(2), strict=True)), "same index"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_LEAVES)
def test_python_in_a_leaf(name):
    body, error, hint = IN_LEAVES[name]
    with pytest.raises(error) as caught:
        task.trace(leaf(body), {"Y": (64,), "X": (64,)})
    mistake = caught.value
    assert mistake.where.file == __file__
    assert mistake.where.line == body.__code__.co_firstlineno
    assert mistake.where.column is not None
    assert re.search(hint, mistake.hint)


@pytest.mark.parametrize("name", IN_COMPOSITES)
def test_python_in_a_composite(name):
    body, hint = IN_COMPOSITES[name]
    with pytest.raises(septran.errors.LogicError) as caught:
        task.trace(composite(body), {"Y": (64,), "X": (64,)})
    assert hint in caught.value.hint
    assert caught.value.where.line == body.__code__.co_firstlineno


def test_what_python_can_do_with_indices_and_expressions(on_cpu):
    """An index is an integer already, and an expression has the language's rounding."""

    @task.define(leaf=True)
    def part(Y, X):
        Y[:] = round(X) + +X + math.floor(X) + abs(X)

    @task.define
    def logic(Y: task.Tensor["N"], X: task.Tensor["N"]):
        Xp, Yp = task.partition(X, shape=(32,)), task.partition(Y, shape=(32,))
        for i in task.parallel_range(Xp.shape[0]):
            task.launch(part, Yp[round(i)], Xp[math.ceil(+i)])

    x = np.linspace(-3, 3, 70, dtype="float32")
    wanted = np.round(x) + x + np.floor(x) + np.abs(x)
    assert np.allclose(on_cpu(logic, x), wanted, rtol=0, atol=1e-5)


def test_the_place_has_the_column_of_what_fails():
    @task.define(leaf=True)
    def logic(Y, X):
        Y[:] = X + math.exp(X)

    with pytest.raises(errors.SymbolicValueError) as caught:
        task.trace(logic, {"Y": (8,), "X": (8,)})
    where = caught.value.where
    assert where.text[where.column - 1 :][: where.length] == "math.exp(X)"


def yields(Y, X):
    Y[:] = X
    yield


async def awaits(Y, X):
    Y[:] = X


async def both(Y, X):
    yield


@pytest.mark.parametrize("function", [yields, awaits, both])
def test_a_task_is_an_ordinary_function(function):
    with pytest.raises(errors.TaskFunctionError) as caught:
        task.define(function, leaf=True)
    assert caught.value.where.line == function.__code__.co_firstlineno
    assert "parallel_range" in caught.value.hint


@pytest.mark.parametrize("thing", [3, print, double, type("T", (), {})])
def test_only_a_function_becomes_a_task(thing):
    with pytest.raises(errors.TaskFunctionError, match="is no function"):
        task.define(thing)


def test_a_task_returns_nothing(raises_at):
    @task.define(leaf=True)
    def part(Y, X):
        Y[:] = X
        return Y  # here

    @task.define
    def logic(Y, X):
        task.launch(part, Y, X)

    raises_at(
        errors.TaskFunctionError, "task part returns Y",
        lambda: task.trace(logic, {"Y": (8,), "X": (8,)}),
    )  # fmt: skip


@task.define(leaf=True)
def renames(Y, X):
    Y = X * 2.0  # noqa: F841


@pytest.mark.parametrize("stated", [False, True])
def test_a_logic_without_a_result(stated):
    @task.define
    def reads(Y: task.In["N"], X: task.In["N"]):
        task.launch(renames, Y, X)

    logic = reads if stated else renames
    with pytest.raises(errors.NothingWrittenError, match="writes none") as caught:
        task.run(logic, np.ones(8), np.ones(8))
    assert caught.value.where == logic.location
    assert "Y[:] = " in caught.value.hint
    with pytest.raises(errors.NothingWrittenError):
        septran.compile(logic, "cpu-x86")(np.ones(8, "float32"))


def test_a_misspelt_import(tmp_path):
    file = tmp_path / "logic.py"
    file.write_text("from septran.task import lunch\n")
    with pytest.raises(errors.LoadError) as caught:
        task.load_logic(file)
    assert caught.value.hint == "did you mean 'launch'?"
    assert caught.value.where.line == 1


def test_modules_of_the_package_are_still_found():
    for name in ("septran.task", "septran"):
        assert importlib.util.find_spec(name)
        assert not hasattr(__import__(name, fromlist=["x"]), "nothing_of_that_name")

"""Each mistake a logic author can make has its own class, line and hint."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from septran import task
from septran.task import errors


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def double(Y, X):
    Y[:, :] = X * 2.0


def square(*names):
    return {name: (32, 32) for name in names}


def tracing(logic, *names, **options):
    names = names or tuple(n for n, _ in logic.tensors)
    return task.trace(logic, square(*names), **options)


def fails(logic, error, match, **options):
    with pytest.raises(error, match=match) as caught:
        tracing(logic, **options)
    where = caught.value.where
    assert where is not None
    assert where.file == __file__
    source, first = inspect.getsourcelines(logic.function)
    assert first <= where.line < first + len(source)
    return caught.value


def test_a_leaf_must_not_launch():
    @task.define(leaf=True)
    def bad(Y, X):
        task.launch(double, Y, X)

    fails(bad, errors.LeafLaunchesError, "leaf task bad launches double")


def test_a_leaf_must_not_loop():
    @task.define(leaf=True)
    def bad(Y, X):
        for _ in task.parallel_range(4):
            Y[:, :] = X

    fails(bad, errors.LeafLaunchesError, "leaf task bad loops over launches")


def test_a_composite_must_not_call_primitives():
    @task.define
    def bad(C, A, B):
        task.call_primitive("gemm", C, A, B)

    error = fails(bad, errors.CompositeTouchesDataError, "composite task bad calls primitive")
    assert "leaf task" in (error.hint or "")


def test_a_composite_must_not_compute():
    @task.define
    def bad(Y, X):
        Y[:, :] = X + 1.0

    fails(bad, errors.CompositeTouchesDataError, "computes on elements")


def test_an_input_must_not_be_written():
    @task.define(leaf=True)
    def bad(Y: task.In["M", "N"], X: task.Tensor["M", "N"]):
        Y[:, :] = X

    fails(bad, errors.ReadOnlyError, "Y of bad is declared as In, but it is written")


def test_an_input_must_not_be_written_by_a_launched_task():
    @task.define
    def bad(Y: task.In["M", "N"], X: task.Tensor["M", "N"]):
        task.launch(double, Y, X)

    fails(bad, errors.ReadOnlyError, "declared as In")


def test_an_output_must_not_be_read_first():
    @task.define(leaf=True)
    def bad(Y: task.Out["M", "N"]):
        Y[:, :] = Y + 1.0

    fails(bad, errors.ReadOnlyError, "is Out, but is read before")


def test_parallel_iterations_must_not_write_the_same():
    @task.define
    def bad(Y, X):
        Xp = task.partition(X, shape=(8, 32))
        Yp = task.partition(Y, shape=(8, 32))
        for i in task.parallel_range(Xp.shape[0]):
            task.launch(double, Yp[0, 0], Xp[i, 0])

    error = fails(bad, errors.RaceError, "may write the same elements of Y")
    assert len(error.related) == 2


def test_parallel_iterations_must_not_read_what_another_writes():
    @task.define
    def bad(Y, X):
        Yp = task.partition(Y, shape=(8, 32))
        for i in task.parallel_range(3):
            task.launch(double, Yp[i, 0], Yp[i + 1, 0])

    fails(bad, errors.RaceError, "may read or write the same elements of Y")


def test_overlapping_windows_may_be_read_in_parallel():
    @task.define
    def fine(Y, X):
        Yp = task.partition(Y, shape=(8, 32))
        for i in task.parallel_range(4):
            task.launch(double, Yp[i, 0], X[i * 4 : i * 4 + 8])

    assert tracing(fine).root.params[1].privilege == "read"


def test_shapes_must_fit_the_primitive():
    @task.define
    def bad(C, A, B):
        Ap = task.partition(A, shape=(32, 16))
        task.launch(mma, C, Ap[0, 0], B)

    with pytest.raises(errors.ShapeError, match="extents of k differ") as caught:
        tracing(bad)
    assert "C[m, n], A[m, k], B[k, n]" in str(caught.value)
    assert "float32[32, 16]" in str(caught.value)


def test_full_and_ragged_extents_must_not_mix():
    @task.define
    def bad(C, A, B):
        Ap = task.partition(A, shape=(24, 32))
        Cp = task.partition(C, shape=(24, 32))
        for i in task.parallel_range(Ap.shape[0]):
            S = task.empty((24, 32), name="S")
            task.launch(mma, S, Ap[i, 0], B)
            task.copy(Cp[i, 0], S)

    with pytest.raises(errors.ShapeError, match="ragged edge"):
        tracing(bad)


def test_integers_and_floats_must_not_mix():
    with pytest.raises(errors.DtypeError, match="mixes integers and floats"):
        tracing(mma, dtypes={"A": "int8"})


def test_a_loop_index_must_not_decide_an_if():
    @task.define
    def bad(Y, X):
        for i in task.parallel_range(4):
            if i == 0:
                task.launch(double, Y, X)

    error = fails(bad, errors.SymbolicValueError, "is not known while tracing")
    assert "task.where" in (error.hint or "")


def test_elements_must_not_decide_an_if():
    @task.define(leaf=True)
    def bad(Y, X):
        if X > 0:
            Y[:, :] = X

    fails(bad, errors.SymbolicValueError, "cannot decide a Python if")


def test_an_unknown_primitive_names_the_nearest():
    @task.define(leaf=True)
    def bad(C, A, B):
        task.call_primitive("gem", C, A, B)

    error = fails(bad, errors.UnknownPrimitiveError, "unknown primitive 'gem'")
    assert error.hint == "did you mean 'gemm'?"


def test_a_temporary_must_not_escape():
    kept = []

    @task.define
    def keep(Y, X):
        kept.append(task.zeros((32, 32)))
        task.launch(double, Y, kept[0])

    @task.define
    def bad(Y, X):
        task.launch(keep, Y, X)
        task.launch(double, Y, kept[0])

    fails(bad, errors.EscapeError, "belongs to task keep")


def test_recursion_needs_a_leaf():
    @task.define
    def endless(Y, X):
        task.launch(endless, Y, X)

    fails(endless, errors.EndlessRecursionError, "nested 64 deep")


def test_arguments_are_counted():
    @task.define
    def bad(Y, X):
        task.launch(double, Y)

    fails(bad, errors.LaunchArgumentsError, r"double takes 2 tensors \(Y, X\), but 1 are given")


def test_unknown_keywords_name_the_nearest():
    @task.define(leaf=True)
    def scaled(Y, X, *, factor: task.static = 1):
        Y[:, :] = X * factor

    @task.define
    def bad(Y, X):
        task.launch(scaled, Y, X, factr=2)

    assert fails(bad, errors.LaunchArgumentsError, "'factr'").hint == "did you mean 'factor'?"


def test_tasks_are_not_called():
    @task.define
    def bad(Y, X):
        double(Y, X)

    fails(bad, errors.LaunchArgumentsError, "called like a function")


def test_indices_must_stay_inside():
    @task.define
    def bad(Y, X):
        task.launch(double, Y[0:1], X[32:33])

    @task.define
    def grid(Y, X):
        Xp = task.partition(X, shape=(8, 32))
        Yp = task.partition(Y, shape=(8, 32))
        for i in task.parallel_range(5):
            task.launch(double, Yp[i, 0], Xp[i, 0])

    fails(grid, errors.IndexingError, "leaves the grid")
    with pytest.raises(errors.IndexingError):
        tracing(bad)


def test_products_of_indices_are_refused():
    @task.define
    def bad(Y, X):
        for i, j in task.parallel_range(2, 2):
            task.launch(double, Y[i * j : i * j + 1], X[0:1])

    fails(bad, errors.IndexingError, "must be linear")


@pytest.mark.parametrize(
    ("block", "match"),
    [((8,), "1 axes"), ((0, 8), "not positive"), ((8.0, 8), "not an integer")],
)
def test_block_shapes_are_checked(block, match):
    @task.define
    def bad(Y, X):
        task.partition(X, shape=block)

    fails(bad, errors.PartitionError, match)


def test_dimensions_must_agree():
    @task.define
    def named(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        task.launch(double, Y, X)

    with pytest.raises(errors.SizeMismatchError, match="N is 4 in Y and 5 in X"):
        task.trace(named, {"Y": (3, 4), "X": (3, 5)})


def test_constructs_need_a_task():
    with pytest.raises(errors.NotInTaskError):
        task.tunable("block")


def test_a_ragged_axis_cannot_be_merged():
    @task.define
    def bad(Y, X):
        Xp = task.partition(X, shape=(24, 32))
        for i in task.parallel_range(Xp.shape[0]):
            Xp[i, 0].reshape(24 * 32)

    fails(bad, errors.ViewError, "ragged axis cannot be merged")


def test_an_output_that_nothing_determines_is_an_error():
    @task.define
    def grow(Y: task.Tensor["P"], X: task.Tensor["M"]):
        task.fill(Y, 0)

    with pytest.raises(errors.InferenceError, match="dimension P of Y"):
        task.run(grow, np.zeros(3))


def test_unannotated_outputs_follow_from_how_they_are_used():
    @task.define
    def product(C, A, B):
        Cp = task.partition(C, shape=(8, 8))
        Ap = task.partition(A, shape=(8, A.shape[1]))
        Bp = task.partition(B, shape=(B.shape[0], 8))
        task.fill(C, 0)
        for i, j in task.parallel_range(Cp.shape):
            task.launch(mma, Cp[i, j], Ap[i, 0], Bp[0, j])

    a, b = np.ones((20, 5)), np.ones((5, 12))
    assert np.array_equal(task.run(product, a, b, dtype="float64"), a @ b)


def test_a_broken_logic_file_is_told_by_line(tmp_path):
    file = tmp_path / "logic.py"
    file.write_text("import task_lang as task\n\nx = 1 / 0\n")
    with pytest.raises(errors.LoadError, match="ZeroDivisionError") as caught:
        task.load_logic(file)
    assert caught.value.where is not None
    assert caught.value.where.line == 3


def test_a_logic_file_can_import_its_neighbours_and_the_language(tmp_path):
    (tmp_path / "tiles.py").write_text(
        "import tasklang as task\n\n@task.define(leaf=True)\ndef twice(Y, X):\n    Y[:] = X * 2\n"
    )
    (tmp_path / "logic.py").write_text(
        "import task_lang as task\nfrom tiles import twice\n\n@task.define\n"
        "def main(Y: task.Tensor['N'], X: task.Tensor['N']):\n    task.launch(twice, Y, X)\n"
    )
    entry = task.load_entry(tmp_path / "logic.py")
    assert entry.name == "main"
    assert np.array_equal(task.run(entry, np.arange(3.0)), [0, 2, 4])
    with pytest.raises(ModuleNotFoundError):
        __import__("task_lang")


def test_a_static_tuple_that_picks_dimensions_is_a_keyword():
    @task.define(leaf=True)
    def turned(
        Y: task.Tensor["(A, B)[ordr]"],
        X: task.Tensor["A", "B"],
        *,
        order: tuple = (1, 0),
    ):
        Y[:, :] = X.T

    words = "dimensions are picked by ordr, which is no static parameter"
    with pytest.raises(errors.LaunchArgumentsError, match=words) as caught:
        task.run(turned, np.zeros((2, 3), "float32"))
    assert caught.value.hint == "did you mean 'order'?"


def test_an_expression_that_is_multiplied_is_told_as_one():
    @task.define(leaf=True)
    def bad(Y, X):
        task.call_primitive("gemm", Y, task.exp(X), X)

    message = r"^[^<]*an expression of float32 \(32, 32\) is not a tensor of this task"
    assert "`t[:] = e`" in fails(bad, errors.LaunchArgumentsError, message).hint

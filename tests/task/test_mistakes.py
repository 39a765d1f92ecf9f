"""Each class of mistake is raised at the very line that makes it."""

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


@task.define(leaf=True)
def shift(Y, X):
    Y[1:, :] = X[:-1, :]


@task.define(leaf=True)
def leaf_launches(Y, X):
    task.launch(double, Y, X)  # here


@task.define(leaf=True)
def leaf_partitions(Y, X):
    task.partition(Y, shape=(8, 8))  # here


@task.define
def composite_calls(Y, X):
    task.call_primitive("copy", Y, X)  # here


@task.define
def composite_computes(Y, X):
    Y += X  # here


@task.define
def composite_asks(Y, X):
    task.index(X, 0)  # here


@task.define(leaf=True)
def writes_input(Y: task.In["M", "N"], X: task.Tensor["M", "N"]):
    Y[:, :] = X  # here


@task.define
def races(Y, X):
    for i in task.parallel_range(4):  # here
        task.launch(double, Y[i : i + 2], X[i : i + 2])


@task.define
def neighbours(Y, X):
    Yp = task.partition(Y, shape=(8, 32))
    for i in task.parallel_range(3):  # here
        task.launch(double, Yp[i, 0], Yp[i + 1, 0])


@task.define(leaf=True)
def bad_broadcast(Y, X):
    Y[:, :] = X + X[0:8]  # here


@task.define(leaf=True)
def bad_store(Y, X):
    Y[0:8] = X  # here


@task.define(leaf=True)
def bad_reshape(Y, X):
    X.reshape(31, 33)  # here


@task.define(leaf=True)
def negative_reshape(Y, X):
    X.reshape(-32, -32)  # here


@task.define(leaf=True)
def bad_axis(Y, X):
    task.sum(X, axis=2)  # here


@task.define(leaf=True)
def bad_copy(Y, X):
    task.call_primitive("copy", Y, X[0:4])  # here


@task.define(leaf=True)
def vector_product(Y, X):
    task.call_primitive("gemm", Y, X, X[0])  # here


@task.define(leaf=True)
def bits_of_reals(Y, X):
    Y[:, :] = X & 1  # here


@task.define(leaf=True)
def unknown_dtype(Y, X):
    task.empty((3,), "flaot32")  # here


@task.define(leaf=True)
def bad_fill(Y, X):
    task.zeros((3,), "int8", name="t")
    task.full((3,), 300, "int8")  # here


@task.define
def if_on_an_index(Y, X):
    for i in task.parallel_range(4):
        if i > 2:  # here
            break


@task.define(leaf=True)
def if_on_elements(Y, X):
    while X > 0:  # here
        pass


@task.define
def python_range(Y, X):
    for i in task.sequential_range(4):
        range(i)  # here


@task.define(leaf=True)
def unknown_primitive(Y, X):
    task.call_primitive("cpy", Y, X)  # here


@task.define(leaf=True)
def unknown_attribute(Y, X):
    task.call_primitive("fill", Y, valeu=3)  # here


KEPT = []


@task.define
def keeps(Y, X):
    KEPT[:] = [Y]
    task.launch(double, Y, X)


@task.define
def escapes(Y, X):
    task.launch(keeps, Y, X)
    task.launch(double, Y, KEPT[0])  # here


@task.define
def endless(Y, X):
    task.launch(endless, Y, X)  # here


@task.define
def too_few(Y, X):
    task.launch(double, Y)  # here


@task.define
def no_task(Y, X):
    task.launch(print, Y)  # here


@task.define
def no_tensor(Y, X):
    task.launch(double, Y, 3.0)  # here


@task.define
def called(Y, X):
    double(Y, X)  # here


@task.define(leaf=True)
def few_operands(Y, X):
    task.call_primitive("gemm", Y, X)  # here


@task.define
def beyond(Y, X):
    X[32]  # here


@task.define
def before(Y, X):
    for i in task.sequential_range(4):
        X[i - 1]  # here


@task.define
def tile_before(Y, X):
    Xp = task.partition(X, shape=(8, 32))
    for i in task.sequential_range(4):
        Xp[i - 1, 0]  # here


@task.define
def tile_before_all(Y, X):
    task.partition(X, shape=(8, 32))[-5, 0]  # here


@task.define
def slice_before(Y, X):
    for i in task.sequential_range(4):
        X[i - 1 : i]  # here


@task.define
def too_many(Y, X):
    X[0, 0, 0]  # here


@task.define
def steps(Y, X):
    X[::2]  # here


@task.define
def open_slice(Y, X):
    for i in task.sequential_range(4):
        X[i - 1 :]  # here


@task.define
def by_tensor(Y, X):
    X[X]  # here


@task.define
def by_computed(Y, X):
    X[X + 1]  # here


@task.define
def by_expression(Y, X):
    for i in task.sequential_range(4):
        X[i & 1]  # here


@task.define
def by_quotient(Y, X):
    for i in task.sequential_range(4):
        X[7 // (i + 1)]  # here


@task.define
def by_number(Y, X):
    X[0.5]  # here


@task.define
def panel_by_range(Y, X):
    task.partition(X, shape=(8, 8))[0:2, 0]  # here


@task.define
def assigned_tile(Y, X):
    task.partition(X, shape=(8, 8))[0, 0] = 1  # here


@task.define
def leaked(Y, X):
    for i in task.sequential_range(4):
        task.launch(double, Y[i : i + 1], X[i : i + 1])
    task.launch(double, Y[i : i + 1], X[0:1])  # here


@task.define
def leaked_number(Y, X):
    *_, last = task.sequential_range(4)
    task.fill(Y, last)  # here


@task.define
def no_blocks(Y, X):
    task.partition(X)  # here


@task.define
def other_blocks(Y, X):
    task.partition(X, by="columns", shape=(8, 8))  # here


@task.define
def zero_block(Y, X):
    task.partition(X, shape=(0, 8))  # here


@task.define
def negative_tunable(Y, X):
    task.tunable("block", -3)  # here


@task.define(leaf=True)
def padded_part(Y, X):
    task.window(X[0:16], (3, 3), padding=1)  # here


@task.define(leaf=True)
def three_windows(Y, X):
    task.window(X, (3, 3, 3))  # here


@task.define(leaf=True)
def no_stride(Y, X):
    task.window(X, 3, stride=0)  # here


@task.define
def aliased(Y, X):
    task.launch(shift, Y, Y)  # here


@task.define
def overlapping(Y, X):
    task.launch(double, Y[0:8], Y[4:12])  # here


@task.define
def breaks(Y, X):
    for _i in task.sequential_range(4):  # here
        task.launch(double, Y, X)
        break


@task.define
def returns(Y, X):
    for _i in task.parallel_range(1):  # here
        task.launch(double, Y, X)
        return


@task.define
def skips(Y, X):
    for i in task.sequential_range(4):
        with task.when(i):
            continue  # here
        task.launch(double, Y, X)


@task.define
def returns_on_a_condition(Y, X):
    for i in task.sequential_range(4):
        with task.when(i):
            for _ in range(2):
                break
            task.launch(double, Y, X)
            return  # here


@task.define(leaf=True)
def half_written(Y, X):
    t = task.empty(X.shape)
    t[:4] = X[:4]
    Y[:] = t  # here


@task.define
def demands_other_sizes(Y, X):
    task.require(X.shape[0] == 5, "it has five rows")  # here
    for _i in task.parallel_range(1):
        task.launch(double, Y, X)


@task.define(leaf=True)
def joins_no_groups(Y, X):
    Y[:, :] = task.scan(lambda x, y: (x + y) / 2, X, axis=0)  # here


MISTAKES = {
    errors.LeafLaunchesError: [leaf_launches, leaf_partitions],
    errors.CompositeTouchesDataError: [composite_calls, composite_computes, composite_asks],
    errors.ReadOnlyError: [writes_input],
    errors.RaceError: [races, neighbours],
    errors.ShapeError: [
        bad_broadcast, bad_store, bad_reshape, negative_reshape, bad_axis, bad_copy, vector_product,
    ],
    errors.DtypeError: [bits_of_reals, unknown_dtype, bad_fill],
    errors.SymbolicValueError: [if_on_an_index, if_on_elements, python_range],
    errors.UnknownPrimitiveError: [unknown_primitive, unknown_attribute],
    errors.EscapeError: [escapes],
    errors.EndlessRecursionError: [endless],
    errors.LaunchArgumentsError: [no_stride, too_few, no_task, no_tensor, called, few_operands],
    errors.IndexingError: [
        beyond, before, tile_before, tile_before_all, slice_before, too_many, steps, open_slice,
        by_computed, by_expression, by_quotient, by_number, panel_by_range, assigned_tile, leaked,
        leaked_number,
    ],
    errors.IndirectIndexError: [by_tensor],
    errors.PartitionError: [no_blocks, other_blocks, zero_block],
    errors.TunableError: [negative_tunable],
    errors.ViewError: [padded_part, three_windows],
    errors.AliasError: [aliased, overlapping],
    errors.EarlyExitError: [breaks, returns, skips, returns_on_a_condition],
    errors.UnwrittenElementError: [half_written],
    errors.UnmetDemandError: [demands_other_sizes],
    errors.ScanError: [joins_no_groups],
}  # fmt: skip


@pytest.mark.parametrize(
    ("error", "logic"), [(e, t) for e, tasks in MISTAKES.items() for t in tasks],
    ids=lambda v: getattr(v, "name", getattr(v, "code", v)),
)  # fmt: skip
def test_the_line_of_the_mistake(error, logic, raises_at):
    names = [n for n, _ in logic.tensors]
    raises_at(error, "", lambda: task.trace(logic, dict.fromkeys(names, (32, 32))))


def test_every_class_has_a_line():
    """Those that are missing here are raised below, in test_count, test_gather, test_inference,
    test_loader and test_python_mistakes.
    """
    every = {
        c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__
    }
    elsewhere = {
        errors.UnknownTaskError, errors.NotInTaskError, errors.InferenceError, errors.LoadError,
        errors.SizeMismatchError, errors.PythonError, errors.UnknownConstructError,
        errors.TaskFunctionError, errors.NothingWrittenError, errors.IndexRangeError,
        errors.CountRangeError,
    }  # fmt: skip
    assert every - set(MISTAKES) == elsewhere


def test_a_tunable_without_a_value(raises_at):
    class Asks(task.DefaultChooser):
        fallback = None

    @task.define
    def logic(Y):
        task.tunable("block")  # here

    error = raises_at(
        errors.TunableError, "tunable block of logic has no value",
        lambda: task.trace(logic, {"Y": (3,)}, chooser=Asks(fallback=None)),
    )  # fmt: skip
    assert "tunables: {block: 64}" in (error.hint or "")


def test_variants_of_nothing(raises_at):
    def define():
        @task.define(variant_of="doubel")  # here
        def other(Y, X): ...

    error = raises_at(errors.UnknownTaskError, "variant of unknown task 'doubel'", define)
    assert error.hint == "did you mean 'double'?"


def test_unknown_variants(raises_at):
    @task.define
    def logic(Y, X):
        task.launch(double, Y, X)  # here

    chooser = task.DefaultChooser(variants={"double": "duoble"})
    raises_at(
        errors.UnknownTaskError, "task double has no variant 'duoble'",
        lambda: task.trace(logic, dict.fromkeys("YX", (4, 4)), chooser=chooser),
    )  # fmt: skip


def test_constructs_outside_of_a_task(raises_at):
    raises_at(errors.NotInTaskError, "only be used in a task", lambda: task.zeros((3,)))  # here
    raises_at(errors.NotInTaskError, "only be used", lambda: task.launch(double, 1, 2))  # here
    with pytest.raises(errors.NotInTaskError):
        next(task.parallel_range(3))


def test_dimensions_disagree_at_a_launch(raises_at):
    @task.define(leaf=True)
    def same(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        Y[:, :] = X

    @task.define
    def logic(Y, X):
        task.launch(same, Y, X[0:4])  # here

    raises_at(
        errors.SizeMismatchError, "M is 8 in Y and 4 in X",
        lambda: task.trace(logic, dict.fromkeys("YX", (8, 8))),
    )  # fmt: skip


def test_annotations_are_checked(raises_at):
    @task.define(leaf=True)
    def typed(Y: task.Tensor["M", task.float16], X: task.Tensor[4]):
        Y[:] = X

    @task.define
    def halves(Y, X):
        task.launch(typed, Y, X)  # here

    raises_at(
        errors.DtypeError, "Y of typed is annotated float16, but is float32",
        lambda: task.trace(halves, {"Y": (4,), "X": (4,)}),
    )  # fmt: skip
    with pytest.raises(errors.SizeMismatchError, match="fixed extent of 4, not 5"):
        task.trace(typed, {"Y": (4,), "X": (5,)}, {"Y": "float16"})
    with pytest.raises(errors.ShapeError, match="Y of typed has 1 axes, but Y has 2"):
        task.trace(halves, {"Y": (4, 4), "X": (4,)}, {"Y": "float16"})
    raises_at(errors.DtypeError, "neither a dimension", lambda: task.Tensor["M +"])  # here
    raises_at(errors.DtypeError, "neither a dimension", lambda: task.In[3.5])  # here


def test_functions_must_name_their_parameters():
    with pytest.raises(errors.LaunchArgumentsError, match="many takes \\*tensors"):

        @task.define
        def many(*tensors): ...


def test_reference_arrays_are_counted():
    with pytest.raises(errors.InferenceError, match="double takes X; 3 tensors are given"):
        task.run(double, *[np.ones((4, 4))] * 3)

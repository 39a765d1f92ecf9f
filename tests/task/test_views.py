"""Views are NumPy's views: sliced, transposed, reshaped, windowed, cut into tiles."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from septran import task
from septran.ir.index import Index, Var, axis
from septran.ir.views import View, transposition_text

STEP = Var("i")


def slices(extent):
    return st.tuples(st.integers(0, extent), st.integers(0, extent)).map(
        lambda e: slice(*sorted(e))
    )


@st.composite
def steps(draw, shape):
    """One way to look at a tensor, and the shape that it then has."""
    kinds = ["slice", "transpose", "reshape"] + (
        ["index"] if len(shape) > 1 and 0 not in shape else []
    )
    kind = draw(st.sampled_from(kinds))
    rank = len(shape)
    if kind == "slice":
        key = tuple(draw(st.one_of(st.just(slice(None)), slices(e))) for e in shape)
        return kind, key
    if kind == "index":
        at = draw(st.integers(0, rank - 1))
        return kind, (*[slice(None)] * at, draw(st.integers(-shape[at], shape[at] - 1)))
    if kind == "transpose":
        return kind, tuple(draw(st.permutations(range(rank))))
    total = int(np.prod(shape))
    divisors = [n for n in range(1, total + 1) if total % n == 0] or [0]
    first = draw(st.sampled_from(divisors))
    return kind, draw(st.sampled_from([(total,), (first, -1 if total else 0), (total, 1)]))


def look(x, step):
    kind, what = step
    if kind == "transpose":
        return x.transpose(*what)
    return x.reshape(*what) if kind == "reshape" else x[what]


@st.composite
def looks(draw):
    """A tensor's shape and some views of views."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    array, chain = np.zeros(shape), []
    for _ in range(draw(st.integers(1, 4))):
        step = draw(steps(array.shape))
        array = look(array, step)
        chain.append(step)
    return shape, chain


def through(chain):
    @task.define(leaf=True)
    def leaf(Y, X):
        for step in chain:
            X = look(X, step)
        Y[...] = X + 1.0

    return leaf


def back(chain):
    @task.define(leaf=True)
    def leaf(X, Y):
        for step in chain:
            X = look(X, step)
        X[...] = Y * 2.0

    return leaf


def run(logic, **arrays):
    tree = task.trace(logic, {n: a.shape for n, a in arrays.items()})
    return task.run_tree(tree, arrays), tree


@settings(max_examples=50)
@given(looks())
def test_views_of_views_show_what_numpys_show(case):
    shape, chain = case
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    wanted = x
    for step in chain:
        wanted = look(wanted, step)
    found, _ = run(through(chain), Y=np.zeros_like(wanted), X=x)
    assert np.array_equal(found["Y"], wanted + 1)


@settings(max_examples=50)
@given(looks())
def test_writes_through_views_land_where_numpys_do(case):
    shape, chain = case
    places = np.arange(np.prod(shape)).reshape(shape)  # of the elements, as reshape may copy
    for step in chain:
        places = look(places, step)
    y = np.random.default_rng(0).random(places.shape, dtype="float32")
    wanted = np.zeros(int(np.prod(shape)), "float32")
    wanted[places.ravel()] = 2 * y.ravel()
    found, tree = run(back(chain), X=np.zeros(shape, "float32"), Y=y)
    assert np.array_equal(found["X"].ravel(), wanted)
    assert tree.root.params[0].reads == (len(set(places.ravel())) < wanted.size)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.one_in(2, first=1)
def test_views_of_views_compiled(seed, on_cpu):
    """The same on the target: a composite passes the view on to a leaf."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(3, 9, 2).tolist()
    a, b = sorted(rng.integers(0, rows + 1, 2).tolist())
    chains = [
        [("slice", (slice(a, b), slice(None))), ("transpose", (1, 0))],
        [("reshape", (rows * columns,)), ("slice", (slice(1, -1),)), ("reshape", (1, -1))],
        [("transpose", (1, 0)), ("reshape", (columns * rows, 1))],
        [("index", (-1,)), ("reshape", (-1, 1))],
        [("reshape", (1, rows, columns)), ("transpose", (1, 2, 0)), ("index", (0,))],
        [("slice", (slice(-2, None), slice(1, 2)))],
    ]
    chain = chains[seed]
    x = rng.random((rows, columns), dtype="float32")
    wanted = x
    for step in chain:
        wanted = look(wanted, step)
    shape = wanted.shape

    @task.define(leaf=True)
    def leaf(Y, X):
        Y[:, :] = X * 2.0

    @task.define
    def logic(Y: task.Tensor[shape], X: task.Tensor[rows, columns], Z: task.Tensor[shape]):
        for step in chain:
            X = look(X, step)
        task.launch(leaf, Y, X)
        task.launch(add, Y, Z)

    @task.define(leaf=True)
    def add(Y, Z):
        Y += Z

    y = on_cpu(logic, x, np.zeros(wanted.shape, "float32"))
    assert np.array_equal(y, wanted * 2)


@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation"),
    [*itertools.product((1, 2, 3), (1, 2), (0, 1), (1, 2)), (4, 3, 2, 1), (9, 1, 4, 1)],
)
def test_windows_are_numpys(size, stride, padding, dilation):
    @task.define(leaf=True)
    def leaf(Y, X):
        Y[:, :, :] = task.window(X, size, stride, padding, dilation)

    x = np.random.default_rng(0).random((3, 9), dtype="float32")
    padded = np.pad(x, ((0, 0), (padding, padding)))
    wanted = sliding_window_view(padded, dilation * (size - 1) + 1, 1)[:, ::stride, ::dilation]
    assert np.array_equal(run(leaf, Y=np.zeros_like(wanted), X=x)[0]["Y"], wanted)


def test_windows_in_two_dimensions_compiled_with_merged_axes(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, W):
        Y[:, :] = task.max(W, axis=2)

    @task.define
    def pool(Y: task.Tensor["(H - 1) // 2 + 1", "W - 1"], X: task.Tensor["H", "W"]):
        windows = task.window(X, (3, 2), (2, 1), (1, 0), 1)
        p, q = Y.shape
        task.launch(leaf, Y, windows.reshape(p, q, 6))

    x = np.random.default_rng(0).standard_normal((7, 5)).astype("float32")
    found = on_cpu(pool, x)
    padded = np.pad(x, ((1, 1), (0, 0)))
    assert np.array_equal(found, sliding_window_view(padded, (3, 2))[::2].max((2, 3)))


def test_a_window_that_fits_nowhere_is_empty():
    @task.define(leaf=True)
    def leaf(Y, X):
        Y[:, :] = task.window(X, 9)

    assert run(leaf, Y=np.zeros((0, 9)), X=np.zeros(4))[0]["Y"].shape == (0, 9)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
@settings(max_examples=30)
def test_tiles_cover_each_element_once(shape, block):
    block = tuple(min(b, n) for b, n in zip(block, shape, strict=False))

    @task.define(leaf=True)
    def count(Y):
        Y[...] = Y + 1.0

    @task.define
    def logic(Y):
        Yp = task.partition(Y, shape=block)
        assert Yp.shape == tuple(-(-n // b) for n, b in zip(shape, block, strict=True))
        if len(shape) == 1:
            for i in task.parallel_range(Yp.shape[0]):
                task.launch(count, Yp[i])
            return
        for place in task.parallel_range(Yp.shape):
            task.launch(count, Yp[place])

    assert np.array_equal(run(logic, Y=np.zeros(tuple(shape)))[0]["Y"], np.ones(tuple(shape)))


def test_panels_and_negative_tiles(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, X):
        Y[:, :] = X

    @task.define
    def logic(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        Yp, Xp = task.partition(Y, shape=(4, 3)), task.partition(X, shape=(4, 3))
        task.launch(leaf, Yp[0, :], Xp[0, :])
        task.launch(leaf, Yp[-1, :], Xp[-1, :])
        task.launch(leaf, Yp[1, 0], Xp[1, 0])
        task.launch(leaf, Yp[1, -1], Xp[1, -1])
        task.launch(leaf, Yp[1, 1], Xp[1, 1])

    x = np.random.default_rng(0).random((10, 8), dtype="float32")
    assert np.array_equal(on_cpu(logic, x), x)


def test_the_end_of_a_ragged_tile_can_be_sliced(on_cpu):
    @task.define(leaf=True)
    def tail(Y, X):
        Y[:] = X
        Y[-2:] = X[-2:] * 2.0

    @task.define
    def logic(Y: task.Tensor["M"], X: task.Tensor["M"]):
        Yp, Xp = task.partition(Y, shape=4), task.partition(X, shape=4)
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(tail, Yp[i], Xp[i])

    x = np.arange(1, 12, dtype="float32")
    assert on_cpu(logic, x).tolist() == [1, 2, 6, 8, 5, 6, 14, 16, 9, 20, 22]


def test_the_algebra_of_views():
    whole = View.whole("A", (8, 6))
    tile = whole.block((Index.of(STEP) * 4, 2), (4, 4))
    assert str(tile) == "A[4*i:+min(4, 8 - 4*i), 2:+4]"
    assert tile.ragged
    assert tile.substitute({STEP: 1}).valid == (Index.of(4), Index.of(4))
    turn = tile.transposed((1, 0))
    assert turn.index == (Index.of(axis(1)) + Index.of(STEP) * 4, Index.of(axis(0)) + 2)
    assert transposition_text(turn) == ".T"
    assert turn.transposed((1, 0)) == tile
    assert tile.without(0, 3).origin() == (Index.of(STEP) * 4 + 3, Index.of(2))
    assert tile.strides() == ({0: 1}, {1: 1})
    assert whole.block((0, 0), (8, 6)) == whole
    merged = View("A", (Index.of(axis(0)) // 6, Index.of(axis(0)) % 6), (48,), (Index.of(48),))
    assert merged.strides() is None
    assert tile.compose(View.whole("", (4, 4), tile.valid)) == tile
    assert tile.at((1, 1)) == (Index.of(STEP) * 4 + 1, Index.of(3))


@task.define(leaf=True)
def corner_first(C, A):
    C[0, 0] = A[0, 0]
    C[0, 1:] = A[0, 1:]
    C[1:, :] = A[1:, :]


@task.define
def copied_by_parts(C: task.Tensor["M", "N"], A: task.Tensor["M", "N"]):
    task.launch(corner_first, C, A)


def test_a_single_element_is_assigned():
    a = np.arange(1, 13, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(task.run(copied_by_parts, a), a)

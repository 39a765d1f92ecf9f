"""Each construct of Task Lang, compiled for this CPU and compared with its reference."""

import numpy as np
import pytest

import septran
from septran import task
from septran.task import errors


def numbers(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@task.define(leaf=True)
def add(Y, X):
    """Y += X."""
    Y += X


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def product(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    m, n, k = task.tunable("m", 8), task.tunable("n", 16), task.tunable("k", 8)
    Cp = task.partition(C, by="blocks", shape=(m, n))
    Ap, Bp = task.partition(A, shape=(m, k)), task.partition(B, shape=(k, n))
    for i, j in task.parallel_range(*Cp.shape):
        task.fill(Cp[i, j], 0)
        for p in task.sequential_range(Ap.shape[1]):
            task.launch(mma, Cp[i, j], Ap[i, p], Bp[p, j])


@task.define(variant_of="product")
def by_rows(C, A, B):
    Cp = task.partition(C, shape=(task.tunable("m", 8), C.shape[1]))
    Ap = task.partition(A, shape=(task.tunable("m", 8), A.shape[1]))
    for i in task.parallel_range(Cp.shape[0]):
        task.fill(Cp[i, 0], 0)
        task.launch(mma, Cp[i, 0], Ap[i, 0], B)


@task.define(variant_of="by_rows")
def whole(C, A, B):
    task.fill(C, 0)
    task.launch(mma, C, A, B)


@pytest.mark.parametrize("shape", [(19, 33, 21), (8, 16, 8), (1, 1, 1), (3, 5, 0), (0, 4, 4)])
@pytest.mark.one_in(2)
def test_ragged_tiles_of_a_product(shape, on_cpu):
    m, n, k = shape
    on_cpu(product, numbers(m, k), numbers(k, n, seed=1))


BY_VARIANT = """
machine: cpu-x86
rules:
  - match: {{task: product}}
    proc: HOST
    mems: {{"*": DRAM}}
    variant: {variant}
tunables: {{m: 5}}
"""


def test_variants_and_tunables_change_no_result(on_cpu):
    a, b = numbers(19, 21), numbers(21, 33, seed=1)
    assert set(product.variants) == {"by_rows", "whole"}
    for tunables in ({"m": 5, "n": 7, "k": 64}, {"m": 32, "n": 3, "k": 4}):
        on_cpu(product, a, b, tunables=tunables)
    for variant in ("by_rows", "whole"):
        chooser = task.DefaultChooser({"m": 5}, {"product": variant})
        assert task.run(product, a, b, chooser=chooser) == pytest.approx(a @ b, abs=1e-4)
        text = BY_VARIANT.format(variant=variant)
        kernel = septran.compile(product, text)
        assert kernel.check(a, b).right
        variants = {t.variant for t in kernel.stages.task_tree.tasks() if t.name == "product"}
        assert variants == {variant}


def test_a_variant_that_is_launched_by_its_own_name_runs():
    @task.define
    def entry(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
        task.launch(by_rows, C, A, B)

    chooser = task.DefaultChooser(variants={"product": "whole"})
    tree = task.trace(entry, {"C": (4, 4), "A": (4, 4), "B": (4, 4)}, chooser=chooser)
    assert [t.variant for t in tree.tasks()][1] == "by_rows"


def test_shape_from_takes_the_mappings_blocks(on_cpu):
    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        Yp = task.partition(Y, shape_from="X")
        Xp = task.partition(X, shape_from="X")
        for i, j in task.parallel_range(Yp.shape):
            task.copy(Yp[i, j], Xp[i, j])

    x = numbers(10, 9)
    assert np.array_equal(on_cpu(entry, x, tunables={"block_M": 4, "block_N": 5}), x)
    tree = task.trace(
        entry, {"Y": (10, 9), "X": (10, 9)}, chooser=task.DefaultChooser({"block_size": 3})
    )
    assert [str(e) for e in tree.root.body[0].extents] == ["4", "3"]


def test_temporaries_copies_casts_and_fills(on_cpu):
    @task.define(leaf=True)
    def cast(Y, X):
        task.call_primitive("cast", Y, X)

    @task.define
    def entry(Y: task.Out["N", task.float32], X: task.In["N", task.float32]):
        half = task.empty(X.shape, task.float16, name="half")
        ones = task.full(X.shape, 1, name="ones")
        none = task.zeros(X.shape[0], name="none")
        task.launch(cast, half, X)
        task.copy(Y, half)
        task.launch(add, Y, ones)
        task.launch(add, Y, none)

    x = numbers(21)
    assert np.array_equal(on_cpu(entry, x), x.astype("float16").astype("float32") + 1)


def test_a_leaf_has_temporaries_of_its_tiles_ragged_shape(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, X):
        doubled = task.empty((X.shape[0], 2 * X.shape[1]), name="doubled")
        doubled[:, : X.shape[1]] = X
        doubled[:, X.shape[1] :] = X + 1.0
        Y[:] = task.sum(doubled, axis=1)

    @task.define
    def entry(Y: task.Tensor["M"], X: task.Tensor["M", "N"]):
        Yp, Xp = task.partition(Y, shape=4), task.partition(X, shape=(4, X.shape[1]))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i], Xp[i, 0])

    on_cpu(entry, numbers(10, 7))


def test_loops_depend_on_outer_indices(on_cpu):
    """Running sums by blocks: what is before a block, and the block itself."""

    @task.define(leaf=True)
    def block(Y, X):
        before = task.index(X, 0)[None, :] <= task.index(Y, 0)[:, None]
        Y[:] = Y + task.sum(task.where(before, X[None, :], 0.0), axis=1)

    @task.define
    def entry(Y: task.Tensor["N"], X: task.Tensor["N"]):
        Yp, Xp = task.partition(Y, shape=4), task.partition(X, shape=4)
        task.fill(Y, 0)
        for i in task.parallel_range(Yp.shape[0]):
            for k in task.sequential_range(i + 1):
                task.launch(block, Yp[i], Xp[i - k])

    x = np.arange(1, 12, dtype="float32")
    assert np.array_equal(on_cpu(entry, x), np.cumsum(x))


def test_extents_by_least_greatest_and_ceiling(on_cpu):
    @task.define
    def entry(Y: task.Tensor["N"], X: task.Tensor["N"]):
        Yp, Xp = task.partition(Y, shape=4), task.partition(X, shape=4)
        task.fill(Y, 0)
        for i in task.parallel_range(Yp.shape[0]):
            first = task.start(Yp[i], 0)
            turns = task.greatest(0, task.least(task.cdiv(first, 3), 2))
            for _k in task.sequential_range(turns):
                task.launch(add, Yp[i], Xp[i])

    found = on_cpu(entry, np.ones(14, "float32"))
    assert found.tolist() == [0] * 4 + [2] * 10


def test_indices_are_numbers_in_a_leaf(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, *, at: task.static):
        Y[:] = at * 2 + task.index(Y, 0) % 3 + (7 // (at + 1)) + (at & 1) * 100

    @task.define
    def entry(Y: task.Tensor["N", task.int32], X: task.Tensor["N", task.int32]):
        task.copy(Y, X)
        Yp = task.partition(Y, shape=4)
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i], at=i)

    n = np.arange(11)
    i = n // 4
    assert np.array_equal(
        on_cpu(entry, n.astype("int32")), i * 2 + n % 3 + 7 // (i + 1) + i % 2 * 100
    )


def test_python_decides_what_is_known_while_tracing(on_cpu):
    @task.define
    def entry(Y: task.Tensor["N"], X: task.Tensor["N"], *, turns: task.static = 1):
        task.copy(Y, X)
        for _ in range(turns):
            if turns > 1 and X.shape[0] == 9:
                task.launch(add, Y, X)

    x = numbers(9)
    assert np.array_equal(on_cpu(entry, x), x)
    assert np.allclose(on_cpu(entry, x, turns=3), 4 * x)


def test_right_sides_are_computed_before_anything_is_stored(on_cpu):
    @task.define(leaf=True)
    def leaf(Y):
        Y[:, :] = Y.T
        Y[1:, :] = Y[:-1, :]
        Y[:, :] = Y - task.max(Y, axis=1)[:, None]

    @task.define
    def entry(Y: task.Tensor["M", "M"], X: task.Tensor["M", "M"]):
        task.copy(Y, X)
        task.launch(leaf, Y)

    x = numbers(37, 37)
    wanted = x.T.copy()
    wanted[1:] = wanted[:-1].copy()
    assert np.array_equal(on_cpu(entry, x), wanted - wanted.max(1, keepdims=True))


def test_in_place_operators_store(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, X):
        Y *= 2
        Y[:] += X
        Y -= 1.0
        Y[0:3] /= 2
        Y //= 0.25
        Y %= 5
        Y **= 2

    @task.define(leaf=True)
    def bits(Z):
        Z |= 5
        Z &= 127
        Z ^= 3
        Z <<= 2
        Z >>= 1

    @task.define
    def entry(Y: task.Out["N"], Z: task.Out["N", task.int32], X: task.In["N"], W: task.In["N"]):
        task.copy(Y, X)
        task.launch(leaf, Y, X)
        task.copy(Z, W)
        task.launch(bits, Z)

    x, w = np.arange(9, dtype="float32"), np.arange(9, dtype="int32") * 40
    y = x * 2 + x - 1
    y[0:3] /= 2
    found = on_cpu(entry, x, w)
    assert np.array_equal(found[0], (y // 0.25 % 5) ** 2)
    assert np.array_equal(found[1], ((((w | 5) & 127) ^ 3) << 2) >> 1)


def test_tasks_are_found_in_a_file(tmp_path, raises_at):
    file = tmp_path / "logic.py"
    file.write_text(
        "import tasklang as task\n@task.define(leaf=True)\ndef one(Y, X):\n    Y[:] = X\n"
        "@task.define\ndef entry(Y: task.Tensor['N'], X: task.Tensor['N']):\n"
        "    task.launch(one, Y, X)\n"
    )
    assert task.load_entry(file).name == "entry"
    assert task.load_entry(file, "one").leaf
    assert np.array_equal(septran.compile(logic_file=file)(numbers(5)), numbers(5))
    with pytest.raises(errors.LoadError, match="no task 'entri'") as caught:
        task.load_entry(file, "entri")
    assert caught.value.hint == "did you mean 'entry'?"
    with pytest.raises(errors.LoadError, match="no logic file"):
        task.load_logic(tmp_path / "none.py")
    file.write_text(file.read_text() + "ENTRY = 'one'\n")
    with pytest.raises(errors.LoadError, match="ENTRY is 'one', which is no task") as caught:
        task.load_entry(file)
    assert caught.value.hint == "name the task itself: ENTRY = one"
    file.write_text("x = 1\n")
    with pytest.raises(errors.LoadError, match="it defines no task"):
        task.load_entry(file)
    file.write_text("x = 1\ny = (\n")
    with pytest.raises(errors.LoadError, match="not valid Python") as caught:
        task.load_entry(file)
    assert caught.value.where.line == 2
    file.write_text("import septran.task as t\n@t.define(variant_of='a')\ndef b(X): ...\n")
    with pytest.raises(errors.UnknownTaskError):
        task.load_entry(file)


def test_tasks_print_what_they_are():
    assert repr(add) == "<task add>"
    assert add.doc == "Y += X."
    assert add.file == __file__

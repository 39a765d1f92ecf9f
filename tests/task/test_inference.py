"""Shapes and dtypes of outputs follow from the inputs, or the author is told why not."""

from types import SimpleNamespace

import numpy as np
import pytest

import septran
from septran import operators, task
from septran.task import errors
from septran.task.trace.dims import extent, named_dims


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def twice(Y, X):
    Y[...] = X * 2


def array(*shape, dtype="float32"):
    return SimpleNamespace(shape=shape, dtype=dtype)


SIZES = {
    "gemm": (((5, 7), (7, 3)), {}, (5, 3)),
    "batched_gemm": (((2, 5, 7), (2, 7, 3)), {}, (2, 5, 3)),
    "gemm_bias_act": (((5, 7), (7, 3), (3,)), {}, (5, 3)),
    "gemm_backward": (((7, 5), (7, 3), (5, 3)), {"trans_a": True}, (7, 5)),
    "softmax": (((5, 7),), {}, (5, 7)),
    "gemm_bias_act_backward": (((5, 7), (7, 3), (3,), (5, 3)), {}, (5, 7)),
    "elementwise_backward": (((5, 7), (5, 7)), {}, (5, 7)),
    "layer_norm_backward": (((5, 7), (7,), (5, 7)), {}, (5, 7)),
    "rms_norm_backward": (((5, 7), (7,), (5, 7)), {}, (5, 7)),
    "softmax_backward": (((5, 7), (5, 7)), {}, (5, 7)),
    "conv2d_backward": (((1, 3, 10, 9), (4, 3, 3, 3), (1, 4, 8, 7)), {}, (1, 3, 10, 9)),
    "cross_entropy_backward": (((5, 7), (5,), (5,)), {}, (5, 7)),
    "cumsum_backward": (((5, 7),), {"reverse": True}, (5, 7)),
    "linear_attention_backward": (
        ((1, 2, 5, 8), (1, 2, 5, 8), (1, 2, 5, 7), (1, 2, 5, 7)),
        {},
        (1, 2, 5, 8),
    ),
    "logsumexp_backward": (((5, 7), (5,), (5,)), {}, (5, 7)),
    "rope_backward": (((5, 4), (5, 4), (5, 2, 8)), {}, (5, 2, 8)),
    "swiglu_gates": (((5, 7), (7, 3), (7, 3)), {}, (5, 3)),
    "swiglu_backward": (
        ((5, 7), (7, 3), (7, 3), (5, 3), (5, 3), (5, 3)),
        {},
        (5, 7),
    ),
    "attention": (((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8)), {}, (1, 2, 5, 8)),
    "attention_lse": (((1, 2, 5, 8), (1, 1, 7, 8), (1, 1, 7, 8)), {}, (1, 2, 5, 8)),
    "attention_backward": (
        ((1, 2, 5, 8), (1, 1, 7, 8), (1, 1, 7, 8), (1, 2, 5, 8), (1, 2, 5), (1, 2, 5, 8)),
        {},
        (1, 2, 5, 8),
    ),
    "attention_bias": (((1, 2, 5, 8), (1, 1, 7, 8), (1, 1, 7, 8), (1, 2, 5, 7)), {}, (1, 2, 5, 8)),
    "attention_decode": (((2, 6, 8), (2, 3, 7, 8), (2, 3, 7, 8)), {}, (2, 6, 8)),
    "causal_conv1d": (((2, 5, 9), (5, 4), (5,)), {}, (2, 5, 9)),
    "conv2d_nhwc": (((1, 10, 9, 3), (3, 3, 3, 4)), {"dilation": 2}, (1, 6, 5, 4)),
    "cross_entropy": (((5, 7), (5,)), {}, (5,)),
    "cumsum": (((5, 7),), {"reverse": True}, (5, 7)),
    "dequant_gemm": (((5, 96), (48, 7), (3, 7), (3, 7)), {"group": 32}, (5, 7)),
    "elementwise": (((5, 7),), {}, (5, 7)),
    "elementwise_binary": (((5, 7), (5, 7)), {}, (5, 7)),
    "embedding": (((9, 7), (5,)), {}, (5, 7)),
    "embedding_backward": (((9, 7), (5,), (5, 7)), {}, (9, 7)),
    "paged_attention": (
        ((2, 4, 8), (5, 3, 2, 8), (5, 3, 2, 8), (2, 6), (2,)),
        {},
        (2, 4, 8),
    ),
    "grouped_gemm": (((5, 7), (2, 7, 3), (3,)), {}, (5, 3)),
    "moe": (((5, 7), (2, 7, 3), (2, 7, 3), (2, 3, 7), (6,), (6,), (3,)), {}, (5, 7)),
    "moe_layer": (((5, 7), (7, 2), (2, 7, 3), (2, 7, 3), (2, 3, 7)), {}, (5, 7)),
    "route": (((5, 3),), {"k": 2}, (10,)),
    "attention_varlen": (((5, 4, 8), (7, 2, 8), (7, 2, 8), (3,), (3,)), {}, (5, 4, 8)),
    "block_sparse_attention": (
        ((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8), (1, 2, 1, 2)),
        {"columns": 4},
        (1, 2, 5, 8),
    ),
    "gated_delta_rule": (
        ((1, 2, 5, 8), (1, 2, 5, 8), (1, 2, 5, 7), (1, 2, 5), (1, 2, 5)),
        {},
        (1, 2, 5, 7),
    ),
    "paged_prefill": (
        ((5, 4, 8), (7, 16, 2, 8), (7, 16, 2, 8), (4,), (3, 2), (3,)),
        {},
        (5, 4, 8),
    ),
    "linear_recurrence_backward": (((2, 3, 4), (2, 3, 4), (2, 3, 4)), {}, (2, 3, 4)),
    "linear_recurrence": (((2, 3, 4), (2, 3, 4)), {}, (2, 3, 4)),
    "ssd": (((1, 5, 4, 7), (1, 5, 4), (1, 5, 2, 8), (1, 5, 2, 8)), {}, (1, 5, 4, 7)),
    "fp8_gemm": (((5, 96), (7, 96), (5, 3), (1, 3)), {"block": 32}, (5, 7)),
    "gemm_splitk": (((5, 7), (7, 3)), {}, (5, 3)),
    "layer_norm": (((5, 7), (7,), (7,)), {}, (5, 7)),
    "linear_attention": (((1, 2, 5, 8), (1, 2, 5, 8), (1, 2, 5, 7)), {}, (1, 2, 5, 7)),
    "logsumexp": (((5, 7),), {}, (5,)),
    "mla_decode": (((2, 6, 16), (2, 6, 4), (2, 9, 16), (2, 9, 4)), {}, (2, 6, 16)),
    "permute": (((2, 5, 7),), {"order": (2, 0, 1)}, (7, 2, 5)),
    "max_pool2d_indices": (((1, 3, 10, 9),), {"size": 2, "padding": 1}, (1, 3, 6, 5)),
    "max_pool2d_indices_backward": (((1, 3, 10, 9), (1, 3, 4, 4), (1, 3, 4, 4)), {}, (1, 3, 10, 9)),
    "pool2d_backward": (((1, 3, 10, 9), (1, 3, 4, 4)), {}, (1, 3, 10, 9)),
    "pool2d": (((1, 3, 10, 9),), {"size": 2, "padding": 1}, (1, 3, 6, 5)),
    "reduce": (((5, 7),), {}, (5,)),
    "rms_norm": (((5, 7), (7,)), {}, (5, 7)),
    "sliding_attention": (((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8)), {"window": 3}, (1, 2, 5, 8)),
    "swiglu": (((5, 7), (7, 3), (7, 3)), {}, (5, 3)),
    "transpose": (((2, 5, 7),), {}, (2, 7, 5)),
    "w4a8_gemm": (((5, 96), (48, 7), (3, 7)), {"group": 32}, (5, 7)),
    "rope": (((5, 3, 8), (5, 4), (5, 4)), {}, (5, 3, 8)),
    "topk": (((5, 7),), {"k": 2}, (5, 2)),
    "conv2d": (((1, 3, 10, 9), (4, 3, 3, 2)), {"stride": 2, "padding": 1}, (1, 4, 5, 5)),
}


@pytest.mark.parametrize("name", operators.names())
@pytest.mark.one_in(2)
def test_outputs_of_the_library(name):
    inputs, static, wanted = SIZES[name]
    logic = operators.load(name)
    kinds = [kind for _, kind in logic.tensors[-len(inputs) :]]
    dtypes = [kind.dtype or "float32" for kind in kinds]
    given = [array(*s, dtype=d) for s, d in zip(inputs, dtypes, strict=True)]
    shapes, _ = task.infer_outputs(logic, given, static=static)
    assert shapes[logic.tensors[0][0]] == wanted


@pytest.mark.parametrize("size", [3, 32, 128, 96])
def test_flags_may_divide_dimensions(size):
    assert task.written(operators.load("dequant_gemm"), {"group": 2 * size}) == {"C"}
    assert task.written(operators.load("conv2d"), {"groups": size}) == {"Y"}


@pytest.mark.parametrize("flags", [{}, {"trans_a": True}, {"trans_b": True}])
def test_flags_turn_dimensions(flags):
    a = array(7, 5) if flags.get("trans_a") else array(5, 7)
    b = array(3, 7) if flags.get("trans_b") else array(7, 3)
    shapes, _ = task.infer_outputs(operators.load("gemm"), [a, b], static=flags)
    assert shapes["C"] == (5, 3)


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        (("float32", "float32"), "float32"), (("float16", "float16"), "float16"),
        (("bfloat16", "float32"), "float32"), (("int8", "int8"), "int32"),
        (("uint8", "int8"), "int32"), (("int64", "int64"), "int64"),
        (("float16", "int8"), "float16"), (("float64", "float32"), "float64"),
    ],
)  # fmt: skip
def test_dtypes_of_a_product(kinds, wanted):
    given = [array(4, 4, dtype=k) for k in kinds]
    _, found = task.infer_outputs(operators.load("gemm"), given)
    assert found["C"] == wanted
    _, found = task.infer_outputs(operators.load("gemm"), given, dtypes={"C": "float64"})
    assert found["C"] == "float64"


def test_an_integer_that_is_not_summed_keeps_its_type():
    @task.define
    def logic(Y: task.Tensor["N"], X: task.Tensor["N"]):
        task.launch(twice, Y, X)

    assert task.run(logic, np.arange(3, dtype="int8")).dtype == "int8"


def test_all_tensors_may_be_given_and_torch_too():
    torch = pytest.importorskip("torch")
    logic = operators.load("gemm")
    a = torch.arange(6.0).reshape(2, 3)
    assert np.array_equal(task.run(logic, a, a.T), (a @ a.T).numpy())
    c = np.full((2, 2), 9.0, "float32")
    assert np.array_equal(task.run(logic, c, a.numpy(), a.numpy().T), (a @ a.T).numpy())
    half = task.run(logic, a.bfloat16(), a.T.bfloat16())
    assert half.astype("float32").tolist() == (a @ a.T).tolist()


def test_unannotated_outputs_are_searched_for():
    @task.define
    def product(C, A, B):
        Cp = task.partition(C, shape=(4, 4))
        Ap, Bp = task.partition(A, shape=(4, A.shape[1])), task.partition(B, shape=(B.shape[0], 4))
        for i, j in task.parallel_range(Cp.shape):
            task.fill(Cp[i, j], 0)
            task.launch(mma, Cp[i, j], Ap[i, 0], Bp[0, j])

    shapes, kinds = task.infer_outputs(product, [array(10, 3), array(3, 7)])
    assert shapes["C"] == (10, 7)
    assert kinds["C"] == "float32"
    assert task.written(product) == {"C"}


def test_stated_privileges_are_believed_where_probing_cannot_guess():
    """The rank-2 probe of equal extents would not fit this logic."""

    @task.define
    def halves(Y: task.Out["P"], X: task.In["N"]):
        task.launch(twice, Y, X[: X.shape[0] // 2])

    assert task.written(halves) == {"Y"}
    given = np.zeros(3, "float32"), np.arange(6, dtype="float32")
    assert task.run(halves, *given).tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("inputs", "match"),
    [((), "takes A, B; 0 tensors"), ([array(2, 3)], "takes A, B; 1 tensors")],
)
def test_inputs_are_counted(inputs, match):
    with pytest.raises(errors.InferenceError, match=match):
        task.infer_outputs(operators.load("gemm"), inputs)


def test_sizes_must_agree():
    logic = operators.load("gemm")
    with pytest.raises(errors.SizeMismatchError, match="K is 3 in A and 4 in B"):
        task.infer_outputs(logic, [array(2, 3), array(4, 5)])
    with pytest.raises(errors.SizeMismatchError, match=r"A of gemm has 2 axes \(M, K\), but"):
        task.infer_outputs(logic, [array(2), array(4, 5)])
    conv = operators.load("conv2d")
    with pytest.raises(errors.SizeMismatchError, match="has an axis of 9, but"):
        task.trace(conv, {"X": (1, 3, 8, 8), "F": (4, 3, 3, 3), "Y": (1, 4, 9, 6)})


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("N", 7), ("2*N + 1", 15), ("N // step", 3), ("-N + 10", 3), ("N % step", 1),
        ("(N - 1) * (step + 1)", 18), ("N - 100", 0), (4, 4),
    ],
)  # fmt: skip
def test_formulas_of_dimensions(formula, wanted):
    @task.define(leaf=True)
    def logic(Y: task.Tensor["P"], X: task.Tensor["N"], *, step: task.static = 2): ...

    assert extent(formula, {"N": 7}, {}, logic, "Y") == wanted
    assert named_dims(logic, {"X": (7,), "Y": (3,)}, {}) == {"N": 7, "P": 3}


@pytest.mark.parametrize("formula", ["Q", "N ** 2", "f(N)", "N / 2"])
def test_formulas_that_are_none(formula):
    logic = operators.load("softmax")
    with pytest.raises(errors.InferenceError, match="does not follow from the inputs") as caught:
        extent(formula, {"N": 7}, {}, logic, "Y")
    assert "its shape, shapes={'Y': (...)}" in (caught.value.hint or "")
    assert ("shapes={'Q': ...} (-s Q=...)" in caught.value.hint) == (formula == "Q")


def test_a_name_may_be_of_formulas_alone():
    """E of offsets of E + 1 sections: outputs were not found where no annotation says Out."""

    @task.define(leaf=True)
    def scaled(Y: task.Tensor["T"], X: task.Tensor["T"], W: task.Tensor["E + 1"]):
        Y[:] = X * task.sum(W)

    assert task.written(scaled) == {"Y"}


def test_a_dimension_follows_from_one_that_is_longer_by_a_number():
    """Rows of a matrix in CSR from their M + 1 ends."""

    @task.define(leaf=True)
    def lengths(Y: task.Out["M", task.int64], ends: task.In["M + 1", task.int64]):
        Y[:] = ends[1:] - ends[:-1]

    known, _ = task.complete(lengths, {"ends": (9,)}, {})
    assert known["Y"] == (8,)
    with pytest.raises(errors.SizeMismatchError, match="axis of 9"):
        task.trace(lengths, {"Y": (7,), "ends": (9,)})


def test_dimensions_have_any_name_that_python_takes():
    @task.define
    def jedes(
        Y: task.Tensor["α + 1", "größe // β"], X: task.Tensor["α", "größe"], Z: task.Tensor["β"]
    ):
        task.fill(Y, 0)

    assert task.run(jedes, np.ones((3, 8), "f"), np.ones(2, "f")).shape == (4, 4)
    kernel = septran.compile(jedes, "dsa-sim", shapes={"α": 3, "größe": 8, "β": 2})
    assert kernel.check().right

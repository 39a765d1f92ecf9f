"""Extents that calls tell: one compilation for every length."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.dynamic import FixedDimensionError, SizeRangeError
from septran.request import DynamicRequestError
from septran.runtime.cache import load_or_build
from septran.task.errors import InferenceError

LENGTHS = (1, 5, 64, 65, 200)
Make = Callable[[int], dict[str, np.ndarray]]


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def attention(m: int, n: int) -> dict[str, np.ndarray]:
    return {"Q": normal(1, 4, m, 16), "K": normal(1, 2, n, 16), "V": normal(1, 2, n, 16)}


CASES: dict[str, tuple[str, tuple[str, ...], Make]] = {
    "gemm M": ("gemm", ("M",), lambda n: {"A": normal(n, 48), "B": normal(48, 33)}),
    "gemm N": ("gemm", ("N",), lambda n: {"A": normal(20, 48), "B": normal(48, n)}),
    "gemm K": ("gemm", ("K",), lambda n: {"A": normal(20, n), "B": normal(n, 33)}),
    "softmax rows": ("softmax", ("M",), lambda n: {"X": normal(n, 70)}),
    "softmax columns": ("softmax", ("N",), lambda n: {"X": normal(7, n)}),
    "attention": ("attention", ("M", "N"), lambda n: attention(n, 2 * n)),
    "attention keys": ("attention", ("N",), lambda n: attention(1, n)),
}


@pytest.fixture
def built(monkeypatch):
    """The names of the kernels that were built, or found built."""
    names: list[str] = []

    def noted(target, ir, program, *others):
        names.append(program.name)
        return load_or_build(target, ir, program, *others)

    monkeypatch.setattr("septran.compiler.load_or_build", noted)
    return names


LONG = pytest.param("attention", marks=pytest.mark.slow)


@pytest.mark.one_in(9)
@pytest.mark.both_widths
@pytest.mark.parametrize("case", [LONG if case == "attention" else case for case in CASES])
def test_one_compilation_is_right_for_every_length(case, built):
    name, dims, make = CASES[case]
    kernel = septran.compile(name, "cpu-x86", dynamic=dict.fromkeys(dims, (1, 512)))
    for length in LENGTHS:
        kernel.check(**make(length)).raise_if_wrong()
    assert built == [name]


@pytest.mark.parametrize(
    "case", [pytest.param("gemm M", marks=pytest.mark.slow), "softmax columns", LONG]
)
def test_nothing_beside_the_call_s_own_tensors_is_touched(case):
    name, dims, make = CASES[case]
    kernel = septran.compile(name, "cpu-x86", dynamic=dict.fromkeys(dims, (1, 512)))
    kernel.check(**make(37), guard=True).raise_if_wrong()


@pytest.mark.slow
def test_causal_attention_over_lengths_that_both_vary():
    lengths = {"M": (1, 512), "N": (1, 512)}
    kernel = septran.compile("attention", "cpu-x86", dynamic=lengths, static={"causal": True})
    for m, n in ((1, 1), (1, 130), (33, 70), (65, 64)):
        kernel.check(**attention(m, n)).raise_if_wrong()


@pytest.mark.slow
def test_causal_sections_of_any_number_of_keys():
    """The slices of keys begin and end by extrema of extrema, which loops and a size bound."""
    kernel = septran.compile(
        "attention_varlen", "cpu-x86", dynamic={"S": (1, 64)}, static={"causal": True}
    )
    for keys in (7, 40):
        inputs = {"Q": normal(20, 2, 16), "K": normal(keys, 1, 16), "V": normal(keys, 1, 16)}
        ends = {"starts": np.array([0, 9, 20]), "key_starts": np.array([0, 4, keys])}
        kernel.check(**inputs, **ends).raise_if_wrong()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.one_in(2)
def test_interpreter_runs_the_program_for_any_length(case):
    name, dims, make = CASES[case]
    kernel = septran.compile(name, "cpu-x86", dynamic=dict.fromkeys(dims, (1, 512)))
    inputs = make(37)
    found, exact = kernel.interpret(**inputs), kernel.reference(**inputs)
    assert np.allclose(found, exact, atol=1e-5)  # the numbers are judged by `check`
    assert found.shape == exact.shape


def test_calls_with_torch_take_each_length(built):
    kernel = septran.compile("softmax", "cpu-x86", dynamic={"M": (1, 512)})
    for length in (4, 4, 9, 4, 0, 9):  # the short way, and the way to it
        x = torch.randn(length, 70)
        assert torch.allclose(kernel(x), x.softmax(1), atol=1e-6)
    assert built == ["softmax"]


def test_shapes_compile_at_once_for_all_lengths(built):
    shapes = {"M": 100, "N": 70}
    kernel = septran.compile("softmax", "cpu-x86", dynamic=["M"], shapes=shapes)
    assert built == ["softmax"]
    kernel.check(X=normal(31, 70)).raise_if_wrong()
    assert built == ["softmax"]


def test_without_a_range_a_longer_call_compiles_for_twice_as_much(built):
    kernel = septran.compile("softmax", "cpu-x86", dynamic=["M"])
    for length in (3, 1024, 1025, 2000):
        kernel(normal(length, 8))
    assert built == ["softmax"] * 2
    assert [s.most for s in kernel.stages.tile_program.sizes()] == [2048]


def test_other_extents_have_kernels_of_their_own(built):
    kernel = septran.compile("softmax", "cpu-x86", dynamic=["M"])
    for columns in (8, 9):
        for length in (3, 4):
            kernel(normal(length, columns))
    assert built == ["softmax"] * 2


def test_a_length_out_of_range_is_refused():
    kernel = septran.compile("softmax", "cpu-x86", dynamic={"M": (2, 40)})
    kernel(normal(40, 8))
    with pytest.raises(
        SizeRangeError, match="M of softmax is 41, and the kernel is for 2 to 40"
    ) as error:
        kernel(normal(41, 8))
    assert "(2, 41)" in str(error.value.hint)
    with pytest.raises(SizeRangeError, match="is 1, "):
        kernel(normal(1, 8))


def test_compiled_function_refuses_a_length_out_of_range():
    kernel = septran.compile("softmax", "cpu-x86", dynamic={"M": (2, 40)})
    kernel(normal(40, 8))
    y, x = (torch.full((41, 8), 7.0) for _ in range(2))
    with pytest.raises(ValueError, match="M is not in 2 to 40"):
        kernel.stages.executable(y, x)
    assert (y == 7).all()


def test_tensors_that_disagree_about_a_length_are_refused():
    kernel = septran.compile("gemm", "cpu-x86", dynamic=["M"])
    kernel(normal(4, 8), normal(8, 8))
    with pytest.raises(septran.SepTranError, match="M"):
        kernel(normal(4, 8), normal(8, 8), out=np.empty((5, 8), np.float32))


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ("M", "names dimensions"),
        (3, "names dimensions"),
        (["Q"], "no dimension 'Q'"),
        ({"M": 0}, "two integers from 1"),
        ({"M": (5, 2)}, "two integers from 1"),
        ({"M": "long"}, "two integers from 1"),
    ],
)
def test_a_wrong_request_says_what_to_write(dynamic, message):
    with pytest.raises(DynamicRequestError, match=message) as error:
        septran.compile("gemm", "cpu-x86", dynamic=dynamic)
    assert error.value.hint


def test_other_targets_say_that_they_cannot():
    with pytest.raises(DynamicRequestError, match="amd-mi300x has no extents that calls decide"):
        septran.compile("gemm", "amd-mi300x", dynamic=["M"])


def test_a_dimension_that_decides_the_code_is_refused_at_its_line():
    kernel = septran.compile("attention", "cpu-x86", dynamic=["H"])
    with pytest.raises(
        FixedDimensionError, match="H of attention cannot be left to calls"
    ) as error:
        kernel(*(normal(1, 4, 8, 16) for _ in range(3)))
    assert error.value.where is not None
    assert error.value.where.file.endswith("attention.py")


@task.define(leaf=True)
def average(Y, X):
    Y[:, :] = task.sum(X, axis=2) / 3


@task.define
def smooth(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    windows = task.window(X, size=(3,), padding=(1,))
    Yp, Xp = task.partition(Y, shape=(8, 8)), task.partition(windows, shape=(8, 8, 3))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(average, Yp[i, j], Xp[i, j, 0])


def test_padding_ends_where_memory_does_so_its_axis_is_no_call_s():
    rows = septran.compile(smooth, "cpu-x86", dynamic=["M"])
    rows.check(X=normal(21, 30)).raise_if_wrong()
    with pytest.raises(FixedDimensionError, match="cannot be padded"):
        septran.compile(smooth, "cpu-x86", dynamic=["N"])(normal(21, 30))


def test_a_mistake_of_the_logic_is_reported_as_it_is():
    kernel = septran.compile("gemm", "cpu-x86", dynamic=["M"])
    with pytest.raises(septran.SepTranError) as error:
        kernel(normal(4, 8), normal(9, 8))
    assert not isinstance(error.value, FixedDimensionError)


def test_a_dimension_that_no_tensor_has_alone_is_refused_by_a_trace():
    from septran.operators import load

    with pytest.raises(InferenceError, match="no dimension 'Q'"):
        task.trace(load("softmax"), {"X": (4, 4), "Y": (4, 4)}, dynamic={"Q": 1})


def test_exported_function_takes_the_length_and_refuses_others(tmp_path):
    kernel = septran.compile("softmax", "cpu-x86", dynamic={"M": (1, 50)})
    kernel(normal(5, 8))
    kernel.export(tmp_path)
    header = (tmp_path / "include/softmax.h").read_text()
    assert "(float *Y, const float *X, int32_t M);" in header
    assert "M: an extent, from 1 to 50." in header
    script = ["sh", tmp_path / "build.sh", "check"]
    done = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60)
    assert "softmax Y: right" in done.stdout
    example = (tmp_path / "examples/example.c").read_text()
    assert "(Y, X, 5)" in example
    (tmp_path / "examples/example.c").write_text(example.replace("(Y, X, 5)", "(Y, X, 51)"))
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "an extent is beyond those that the kernel was made for" in done.stdout


def test_a_range_of_one_extent_leaves_nothing_to_tell():
    kernel = septran.compile("conv2d", dynamic={"B": (1, 1), "O": (1, 20)})
    x, f = (np.ones(shape, np.float32) for shape in ((1, 4, 8, 8), (7, 4, 3, 3)))
    assert kernel.check(x, f).right
    with pytest.raises(SizeRangeError):
        kernel(np.ones((2, 4, 8, 8), np.float32), f)


@task.define(leaf=True)
def sum_leaf(Y, X):
    Y[:] = task.sum(X, axis=1)


@task.define
def moving_sums(Y: task.Tensor["M"], X: task.Tensor["L"], W: task.Tensor["R"]):
    task.launch(sum_leaf, Y, task.window(X, (W.shape[0],)))


def test_a_window_has_no_extent_that_calls_tell():
    """Its elements were counted for the greatest: random program 20157."""
    shapes = {"Y": (7,), "X": (10,), "W": (4,)}
    with pytest.raises(FixedDimensionError, match="a window has the extent") as error:
        septran.compile(moving_sums, "cpu-x86", shapes=shapes, dynamic={"R": (1, 4)})
    assert "out of dynamic" in str(error.value.hint)


@task.define(leaf=True)
def scaled(Y, X, W):
    Y[:] = X * task.sum(W)


@task.define
def scaled_parts(Y: task.Tensor["T"], X: task.Tensor["T"], W: task.Tensor["K + 1"]):
    Yp, Xp = (task.partition(x, shape=(16,)) for x in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(scaled, Yp[i], Xp[i], W)


def test_what_calls_do_not_tell_need_not_follow_from_other_dimensions():
    """K + 1 was refused, as no tensor has a K of its own."""
    kernel = septran.compile(scaled_parts, "cpu-x86", dynamic={"T": (1, 64)})
    for length, others in ((5, 3), (40, 3), (40, 4)):
        kernel.check(normal(length), normal(others)).raise_if_wrong()

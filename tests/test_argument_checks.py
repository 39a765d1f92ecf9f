"""What the public functions say of arguments that they cannot take: a code, the name, a hint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import septran
from septran import argument_checks, operators, task
from septran.argument_checks import WrongArgumentError
from septran.errors import SepTranError
from septran.request import UnsuitableRequestError
from septran.task.errors import (
    LaunchArgumentsError,
    LoadError,
    NothingWrittenError,
    UnmetDemandError,
)
from septran.tile.interpret.interpreter import ArgumentError
from septran.tile.user_passes import PassPlaceError
from septran.tuning.tuner import SearchLimits

SIZES = {"M": 8, "N": 8, "K": 8}
NO_PATHS = [None, 3, [], "", b"x"]


@pytest.fixture(scope="module")
def kernel():
    return septran.compile("gemm", "cpu-x86", shapes=SIZES)


@pytest.fixture(scope="module")
def simulated():
    return septran.compile("gemm", "dsa-sim", shapes=SIZES)


@pytest.mark.parametrize("path", NO_PATHS)
@pytest.mark.parametrize("write", ["export", "save"])
def test_what_is_no_path(kernel, write, path):
    with pytest.raises(WrongArgumentError, match="no path") as caught:
        getattr(kernel, write)(path)
    assert "pathlib" in caught.value.hint


@pytest.mark.parametrize("path", ["", ".", "nowhere/trace.json", "a\0b"])
@pytest.mark.one_in(2)
def test_files_that_cannot_be_written(simulated, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongArgumentError):
        simulated.profile().to_chrome_trace(path)
    with pytest.raises(WrongArgumentError):
        septran.explain("gemm", "dsa-sim", shapes=SIZES).save_html(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", ["x", None, -1, 1.5, True])
def test_seeds(kernel, seed):
    with pytest.raises(WrongArgumentError, match=r"seed is .* not an integer of at least 0"):
        kernel.sample(seed)


@pytest.mark.parametrize("repeat", ["x", 0, -1, 1.5, [], True])
def test_repetitions(kernel, simulated, repeat):
    for one in (kernel, simulated):
        with pytest.raises(WrongArgumentError, match=r"repeat is .* not an integer of at least 1"):
            one.profile(repeat=repeat)


@pytest.mark.parametrize("order", ["soon", None, 1.5, True, np.ones(3)])
def test_orders(kernel, order):
    arrays = kernel.sample().values()
    with pytest.raises(WrongArgumentError, match="'early', 'late' or a seed"):
        kernel.interpret(*arrays, order=order)


@pytest.mark.parametrize("dtype", ["float16", "x", 3, float])
def test_a_reference_run_is_exact_or_as_the_logic_says(kernel, dtype):
    with pytest.raises(WrongArgumentError, match="reference run"):
        kernel.reference(*kernel.sample().values(), dtype=dtype)


@pytest.mark.parametrize(
    ("shapes", "dtypes"),
    [(None, 3), (3, {}), ({"A": "x"}, {}), ({"A": (1, -1)}, {}), ({1: ()}, {})],
)
def test_what_cannot_be_specialised(kernel, shapes, dtypes):
    with pytest.raises(WrongArgumentError):
        kernel.specialise(shapes, dtypes)


@pytest.mark.parametrize("value", [None, "gemm", 3, [], np.ones(3)])
def test_stages_of_another_kind(simulated, value):
    for take in (septran.place, septran.verify, lambda x: septran.interpret(x, [])):
        with pytest.raises(WrongArgumentError, match=r"not a (resolved mapping|tile program)"):
            take(value)
    with pytest.raises(SepTranError):
        septran.compare_profiles(value)
    with pytest.raises(WrongArgumentError, match="not a dsa profile"):
        septran.compare_profiles([simulated.profile(), value])


@pytest.mark.parametrize("passes", [3, "x", {"a": 1}, lambda program: program])
@pytest.mark.parametrize("take", [septran.compile, septran.produce_stages])
def test_passes_are_a_list(take, passes):
    with pytest.raises(WrongArgumentError, match=r"passes is .* not a list"):
        take("gemm", "cpu-x86", passes=passes)


def test_passes_are_made_by_tile_pass():
    with pytest.raises(PassPlaceError, match="not said where the pass 'x' goes"):
        septran.compile("gemm", "cpu-x86", passes=["x"])
    with pytest.raises(PassPlaceError, match="before or after"):
        septran.tile_pass(lambda program: program)
    with pytest.raises(PassPlaceError, match="no name of a pass"):
        septran.tile_pass(after=3)
    with pytest.raises(PassPlaceError, match="is no function"):
        septran.tile_pass(after="insert_sync")(3)
    assert septran.compile("gemm", "cpu-x86", passes=None).name == "gemm"


def test_arrays_and_scalars_of_an_interpreted_program(kernel):
    program = kernel.stages.tile_program
    with pytest.raises(WrongArgumentError, match="arrays is 'ab', not a list"):
        septran.interpret(program, "ab")
    with pytest.raises(ArgumentError, match="not a NumPy array"):
        septran.interpret(program, [[1.0], [2.0]])
    arrays = list(kernel.sample().values())
    with pytest.raises(WrongArgumentError, match="scalars is 3"):
        septran.interpret(program, arrays, scalars=3)
    with pytest.raises(ArgumentError, match="no scalar 'eps'"):
        septran.interpret(program, arrays, scalars={"eps": 1.0})
    scaled = septran.produce_stages("rms_norm", "cpu-x86", shapes={"M": 4, "N": 8}).tile_program
    inputs = [np.ones((4, 8), "float32"), np.ones(8, "float32")]
    with pytest.raises(ArgumentError, match="scalar eps is 'x', not a number"):
        septran.interpret(scaled, inputs, scalars={"eps": "x"})


@pytest.mark.parametrize("take", [septran.explain, septran.tune])
def test_tunables_are_a_dictionary(take):
    more = {"tried": {"block_M": [8]}} if take is septran.tune else {}
    with pytest.raises(UnsuitableRequestError, match="tunables is 'block_M'"):
        take("gemm", "cpu-x86", shapes=SIZES, tunables="block_M", **more)


@pytest.mark.parametrize("tried", [3, "x", {"block_M": 3}, {"block_M": "ab"}, {"block_M": []}])
def test_what_cannot_be_tried(tried):
    with pytest.raises(WrongArgumentError, match="tried"):
        septran.tune("gemm", "cpu-x86", shapes=SIZES, tried=tried, measured=False)


@pytest.mark.parametrize("scalars", [3, "x", {"eps": 1.0}])
def test_scalars_that_a_search_cannot_take(scalars):
    with pytest.raises(WrongArgumentError, match="scalars"):
        septran.tune(
            "gemm", "cpu-x86", shapes=SIZES, tried={"block_M": [8]}, scalars=scalars, measured=False
        )


@pytest.mark.parametrize(
    "limits",
    [
        (0, None, 1.0), (-1, None, 1.0), ("x", None, 1.0), (1, -1, 1.0), (1, "x", 1.0),
        (1, float("nan"), 1.0), (1, None, 0), (1, None, "x"), (1, None, None),
    ],
)  # fmt: skip
def test_limits_of_a_search(limits):
    with pytest.raises(WrongArgumentError, match=r"runs|seconds|patience"):
        SearchLimits(*limits)


@pytest.mark.parametrize("name", [np.ones(3), None, 3, []])
def test_operators_have_names(name):
    with pytest.raises(LoadError, match="no operator"):
        operators.load(name)


@pytest.mark.parametrize("named", [{"logic_file": ""}, {"mapping_file": ""}])
def test_an_empty_file_name_is_not_none(named):
    with pytest.raises(SepTranError, match=r"no (operator|mapping) ''"):
        septran.compile("gemm", "cpu-x86", **named)


@pytest.mark.parametrize(
    ("operator", "static", "words"),
    [
        ("attention", {"causal": "no"}, "true or false"),
        ("attention", {"causal": None}, "true or false"),
        ("gemm", {"trans_b": 2}, "true or false"),
        ("conv2d", {"stride": "x"}, "a number"),
        ("elementwise", {"function": 3}, "a word"),
    ],
)
def test_a_static_flag_is_of_its_defaults_kind(operator, static, words):
    with pytest.raises(LaunchArgumentsError, match=f"must be {words}"):
        septran.produce_stages(operator, "cpu-x86", static=static)


def test_static_flags_may_be_numbers_that_say_yes_and_no():
    for flag in (1, 0, np.bool_(True), np.int64(0)):
        stages = septran.produce_stages("attention", "cpu-x86", static={"causal": flag})
        assert stages.task_tree.name == "attention"


def test_numbers_of_numpy_are_numbers():
    stages = septran.produce_stages("topk", "cpu-x86", static={"k": np.int64(3)})
    assert stages.task_tree.root.params[0].shape[1] == 3


def test_a_reduction_has_a_function_that_there_is():
    with pytest.raises(UnmetDemandError, match="none of sum, mean"):
        septran.produce_stages("reduce", "cpu-x86", static={"function": "prod"}).task_tree.name  # noqa: B018


@task.define(leaf=True)
def idle(Y, X):
    Y = X  # noqa: F841  # the mistake: a name, not the elements


@task.define(leaf=True)
def doubled(Y, X):
    Y[:, :] = X * 2.0


@task.define
def half_done(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    task.launch(doubled, Y, X)
    task.launch(idle, Y, X)


def test_a_launched_leaf_writes_something():
    with pytest.raises(NothingWrittenError, match="leaf task idle writes none") as caught:
        septran.produce_stages(half_done, "cpu-x86", shapes={"M": 4, "N": 4}).task_tree.name  # noqa: B018
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    (_, launch), *_ = caught.value.related
    assert "task.launch(idle" in text[launch.line - 1]
    assert "Y[:] = ..." in caught.value.hint


def test_a_long_value_is_cut_short():
    with pytest.raises(WrongArgumentError) as caught:
        argument_checks.as_int("seed", "x" * 5000)
    assert len(str(caught.value)) < 200

"""The public functions refuse what they cannot take, by an error of SepTran with a hint."""

from __future__ import annotations

import math

import numpy as np
import pytest

import septran
from septran import task
from septran.argument_checks import WrongArgumentError
from septran.machine.mistakes import NoMachineError
from septran.mapping.mistakes import NoMappingError
from septran.request import MissingLogicError, UnsuitableRequestError
from septran.runtime.errors import ArchiveError
from septran.targets.dsa.profiles.comparison import NothingToCompareError
from septran.task.errors import DtypeError, LaunchArgumentsError, LoadError, ShapeError

SIZES = {"M": 8, "N": 8, "K": 8}


@pytest.mark.parametrize("logic", [3, [], {}, b"gemm", print, task])
@pytest.mark.parametrize("take", [septran.compile, septran.explain, septran.produce_stages])
def test_what_is_no_logic(take, logic):
    with pytest.raises(MissingLogicError, match="is no logic") as caught:
        take(logic, "cpu-x86")
    assert "@task.define" in caught.value.hint


@pytest.mark.parametrize("path", ["a\0b.py", "x" * 5000 + ".py", "nowhere.py"])
def test_logic_files_that_cannot_be(path):
    with pytest.raises(LoadError):
        septran.compile(path)


@pytest.mark.parametrize("mapping", [3, [], {}, b"cpu-x86"])
@pytest.mark.parametrize("take", [septran.compile, septran.explain, septran.edit])
def test_what_is_no_mapping(take, mapping):
    with pytest.raises(NoMappingError, match="is no mapping") as caught:
        take("gemm", mapping)
    assert "name of a machine" in caught.value.hint


@pytest.mark.parametrize("machine", [3, [], b"cpu-x86"])
def test_what_is_no_machine(machine):
    with pytest.raises(NoMachineError, match="is no machine"):
        septran.load_machine(machine)
    if machine:
        with pytest.raises(NoMachineError, match="is no machine"):
            septran.compile("gemm", "cpu-x86", machine=machine)


@pytest.mark.parametrize("extent", [None, "a", 2.5, np.float32(4), -2, True, (3, 3), "12"])
def test_extents_are_integers(extent):
    for shapes in ({**SIZES, "M": extent}, {"A": (extent, 8), "B": (8, 8)}):
        if isinstance(shapes.get("M"), tuple):
            continue
        with pytest.raises(UnsuitableRequestError, match="extents are integers") as caught:
            septran.compile("gemm", shapes=shapes)
        assert caught.value.hint == "write shapes={'M': 128} or {'A': (128, 64)}"


def test_integers_of_numpy_are_extents():
    shapes = {"A": (np.int64(3), np.uint8(4)), "B": (4, 5)}
    tree = septran.produce_stages("gemm", shapes=shapes).task_tree
    assert {p.name: p.shape for p in tree.root.params}["C"] == (3, 5)


@pytest.mark.parametrize("sizes", [(2**40, 2**40, 3), (2**64, 3, 3), (3, 3, 2**62)])
def test_tensors_that_no_machine_can_address(sizes):
    with pytest.raises(UnsuitableRequestError, match="too large"):
        septran.compile("gemm", shapes=dict(zip("MNK", sizes, strict=True)))


@pytest.mark.parametrize("name", ["shapes", "tunables", "static"])
@pytest.mark.parametrize("value", [3, [1], "abc"])
def test_tables_are_dictionaries(name, value):
    with pytest.raises(UnsuitableRequestError, match="not a dictionary") as caught:
        septran.compile("gemm", **{"shapes": SIZES, name: value})
    assert f"write {name}={{" in caught.value.hint


@pytest.mark.parametrize("shapes", [3, "abc", None, [1], {"A": 3}, {"A": (2.5,)}, {"A": "ab"}])
def test_a_trace_takes_tuples_of_integers(shapes):
    @task.define(leaf=True)
    def logic(A):
        A[:] = 1.0

    with pytest.raises(ShapeError, match="not a dictionary of tuples"):
        septran.trace(logic, shapes)
    with pytest.raises(LaunchArgumentsError, match="is not a task"):
        septran.trace("gemm", {"A": (3,)})


@task.define(leaf=True)
def scaled(Y: task.Tensor["M"], X: task.Tensor["M"], *, by: float = 2.0, n: task.static = 1):
    """A logic that is right."""
    Y[:] = X * by


SHAPES = {"Y": (4,), "X": (4,)}
X = np.ones(4, "float32")
NO_TASKS = ["gemm.py", None, 3, print, dict, scaled.function, [], septran]


@pytest.mark.parametrize("logic", NO_TASKS)
@pytest.mark.parametrize(
    "take",
    [
        lambda logic: task.run(logic, X),
        lambda logic: task.trace(logic, SHAPES),
        lambda logic: task.complete(logic, SHAPES, {}),
        lambda logic: task.infer_outputs(logic, [X]),
        task.written,
    ],
    ids=["run", "trace", "complete", "infer_outputs", "written"],
)
def test_what_is_no_task(take, logic):
    with pytest.raises(LaunchArgumentsError, match="is not a task") as caught:
        take(logic)
    assert "@task.define" in caught.value.hint
    assert "task.load_entry" in caught.value.hint


@pytest.mark.parametrize("value", ["gemm.py", 3, [], dict, scaled])
def test_what_is_no_tree_or_module(value):
    mapping = septran.load_mapping("cpu-x86")
    for take in (lambda: task.run_tree(value, {}), lambda: septran.resolve(value, mapping)):
        with pytest.raises(WrongArgumentError, match="tree is") as caught:
            take()
        assert "septran.trace" in caught.value.hint
    with pytest.raises(WrongArgumentError, match="module is") as caught:
        task.find_entry(value)
    assert "task.load_entry(file)" in caught.value.hint


def test_a_module_of_c_has_no_task():
    with pytest.raises(LoadError, match="defines no task"):
        task.find_entry(math)


NO_ARRAYS = ["x.npy", None, dict, [[1, 2], [3]], object(), {"X": 1}, 2j, np.array(["a"])]


@pytest.mark.parametrize("value", NO_ARRAYS)
def test_what_is_no_array(value):
    tree = task.trace(scaled, SHAPES)
    takers = [
        lambda: task.run(scaled, value),
        lambda: task.run_tree(tree, {"X": value}),
        lambda: task.infer_outputs(scaled, [value]),
    ]
    for take in takers:
        with pytest.raises(WrongArgumentError, match=r"is no array|of no type here") as caught:
            take()
        assert "NumPy array of numbers" in caught.value.hint


@pytest.mark.parametrize(
    ("arrays", "scalars", "message", "hint"),
    [
        ([X], None, "arrays is .* not a dictionary", "'A': a"),
        ({"Z": X}, None, "no parameter 'Z'", "known: X, Y"),
        ({"X": X[:3]}, None, r"X is \[3\], not \[4\]", "trace the logic again"),
        ({"X": X}, [2], "scalars is .* not a dictionary", "eps"),
        ({"X": X}, {"bye": 2}, "no scalar 'bye'", "did you mean 'by'"),
        ({"X": X}, {"by": "2"}, "by of scaled is '2', not a number", "by=0.5"),
    ],
)
def test_what_a_tree_does_not_take(arrays, scalars, message, hint):
    with pytest.raises(WrongArgumentError, match=message) as caught:
        task.run_tree(task.trace(scaled, SHAPES), arrays, scalars)
    assert hint in caught.value.hint


@pytest.mark.parametrize("chooser", ["x", 3, {"block_M": 64}, task.DefaultChooser])
def test_what_is_no_chooser(chooser):
    with pytest.raises(WrongArgumentError, match="not a chooser") as caught:
        task.run(scaled, X, chooser=chooser)
    assert "task.DefaultChooser({" in caught.value.hint


@pytest.mark.parametrize("dtype", ["float23", 3, None, float])
def test_what_is_no_element_type(dtype):
    with pytest.raises(DtypeError, match="no element type") as caught:
        task.trace(scaled, SHAPES, {"X": dtype})
    assert "float32" in caught.value.hint
    with pytest.raises(DtypeError, match="no element type"):
        task.run(scaled, X, dtypes={"Y": dtype})


@pytest.mark.parametrize("name", ["dtypes", "static"])
@pytest.mark.parametrize("value", ["x", 3, [1]])
def test_tables_of_a_trace(name, value):
    with pytest.raises(WrongArgumentError, match=f"{name} is .* not a dictionary") as caught:
        task.trace(scaled, SHAPES, **{name: value})
    assert f"write {name}={{" in caught.value.hint


@pytest.mark.parametrize("mappings", [[], None, 3, "cpu-x86"])
def test_nothing_to_compare(mappings):
    with pytest.raises(NothingToCompareError, match="no list of mappings"):
        septran.compare("gemm", mappings)


def test_places_that_cannot_be_written_or_read(tmp_path):
    kernel = septran.compile("gemm", shapes=SIZES)
    (tmp_path / "file").write_text("mine")
    for place in ("/proc/kernel", "a\0b", "x" * 5000, tmp_path / "file", tmp_path / "file" / "x"):
        with pytest.raises(ArchiveError, match="cannot be written"):
            kernel.save(place)
    assert (tmp_path / "file").read_text() == "mine"
    for place in (3, None, []):
        with pytest.raises(ArchiveError, match="no path"):
            septran.load(place)

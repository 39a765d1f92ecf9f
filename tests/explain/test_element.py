"""An element's way by index maps equals where its number is seen when the program runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import septran
from septran.dtypes import numpy_dtype
from septran.ir.index import Index, Var, axis
from septran.tile.interpret import interpreter
from septran.tile.interpret.execution import Execution, Schedule
from septran.tile.nodes import Region, nodes
from septran.views.maps.element import NoSuchElementError, follow, located_in

MARK = 12345.0
CASES = {
    "gemm": ({"M": 200, "N": 136, "K": 160}, "dsa-sim"),
    "gemm npu": ({"M": 200, "N": 136, "K": 160}, "npu-cube"),
    "gemm roles": ({"M": 200, "N": 136, "K": 160}, "nvidia-h200"),
    "gemm cpu": ({"M": 200, "N": 136, "K": 160}, "cpu-x86"),
    "gemm_splitk": ({"M": 100, "N": 72, "K": 200}, "dsa-sim"),
    "softmax": ({"M": 70, "N": 96}, "dsa-sim"),
}


@pytest.fixture(scope="module", params=CASES)
def program(request):
    sizes, machine = CASES[request.param]
    logic = request.param.split()[0]
    return septran.explain(logic, machine, shapes=sizes).tile_program


class Watcher(interpreter._Numbers):
    """Runs the numbers and notes every copy that moves a certain one, and to where."""

    def __init__(self, program, value):
        super().__init__(program, {})
        self.value, self.seen = value, []
        self.number = {id(node): n for n, node in enumerate(nodes(program.body))}

    def copy(self, node, frame):
        data = self._read(node.source, node, frame)
        moved = [tuple(map(int, at)) for at in np.argwhere(data == self.value)]
        for local in moved:
            ends = [
                (r.buffer, tuple(e.evaluate(frame.values) for e in r.at(local)),
                 r.stage.evaluate(frame.values))
                for r in (node.source, node.target)
            ]  # fmt: skip
            self.seen.append((self.number[id(node)], *ends))
        super().copy(node, frame)


def watched(program, arrays, value):
    """All copies of `value` when the whole program runs on `arrays`."""
    effects = Watcher(program, value)
    stores = {n: interpreter._argument(program, n, arrays.get(n), {}) for n in program.params}
    with np.errstate(all="ignore"):
        Execution(program, effects, Schedule.of("early")).run(interpreter._World(stores))
    return effects.seen, {n: stores[n].array()[0] for n in program.outputs}


def zeros(program):
    return {
        name: np.zeros(program.buffer(name).shape, numpy_dtype(program.buffer(name).dtype))
        for name in program.params if name not in program.outputs
    }  # fmt: skip


def ends_of(step):
    return tuple((p.buffer, p.at, p.stage) for p in (step.source, step.target))


@pytest.mark.parametrize("where", [(0, 0), (37, 5), (-1, -1)])
def test_an_input_is_copied_where_its_number_is_seen(program, where):
    arrays = zeros(program)
    for name, array in arrays.items():
        at = tuple(n % extent for n, extent in zip(where, array.shape, strict=True))
        array[at] = MARK
        seen, _ = watched(program, arrays, MARK)
        array[at] = 0
        found = [(s.event.number, *ends_of(s)) for s in follow(program, name, at).copies]
        assert found == seen


@pytest.mark.parametrize("where", [(0, 0), (37, 5), (-1, -1)])
def test_an_output_comes_from_where_its_number_is_seen(program, where):
    random = np.random.default_rng(7)
    arrays = {n: random.standard_normal(a.shape).astype(a.dtype)
              for n, a in zeros(program).items()}  # fmt: skip
    name = program.outputs[0]
    shape = program.buffer(name).shape
    at = tuple(n % extent for n, extent in zip(where, shape, strict=True))
    _, outputs = watched(program, arrays, MARK)
    seen, _ = watched(program, arrays, outputs[name][at])
    journey = follow(program, name, at)
    found = [(s.event.number, *ends_of(s)) for s in journey.copies]
    final = [s for s in journey.steps if s.kind == "writes"][-1]
    after = journey.steps[journey.steps.index(final) + 1 :]
    copied = [(s.event.number, *ends_of(s)) for s in after if s.kind == "copy"]
    # Once it is computed, its number is seen in just these copies, in this order; before that
    # only where what computes it adds it to 0.
    assert seen[len(seen) - len(copied) :] == copied
    assert set(seen) <= set(found)


def test_addresses_are_inside_of_the_plan(program):
    plan = {p.buffer: p for p in program.plan}
    for name in program.params:
        for step in follow(program, name, (3, 4)).steps:
            for place in (step.source, step.target):
                if place and place.buffer in plan:
                    held = plan[place.buffer]
                    end = held.offset_bytes + held.size_bytes
                    assert held.offset_bytes <= place.address < end


def test_operands_of_an_element_come_from_its_row_and_column():
    program = septran.explain("gemm", "npu-cube", shapes=CASES["gemm"][0]).tile_program
    steps = [s for s in follow(program, "C", (37, 5)).steps if s.kind == "writes"]
    homes = [[o.home for o in step.operands] for step in steps]
    assert homes == [
        ["A[37, 0:64]", "B[0:64, 5]"], ["A[37, 64:128]", "B[64:128, 5]"],
        ["A[37, 128:160]", "B[128:160, 5]"],
    ]  # fmt: skip


def test_the_data_is_json_and_names_tile_tasks_and_units():
    program = septran.explain("gemm", "nvidia-h200", shapes=CASES["gemm"][0]).tile_program
    data = json.loads(json.dumps(follow(program, "C", (137, 5)).to_dict()))
    assert data["tile"] == {"low": [128, 0], "high": [200, 128]}
    assert data["tasks"][0] == "gemm"
    assert data["steps"][-1]["unit"] == "BLOCK i=1, BLOCK j=0, consumer"
    assert data["steps"][-1]["target"]["text"] == "C[137, 5]"
    assert "<script>" not in follow(program, "C", (0, 0))._repr_mimebundle_()["text/html"]


def test_what_is_not_there_is_said():
    program = septran.explain("gemm", "dsa-sim", shapes=CASES["gemm"][0]).tile_program
    with pytest.raises(NoSuchElementError, match=r"no element \[200, 0\]"):
        follow(program, "A", (200, 0))
    with pytest.raises(NoSuchElementError, match="no tensor 'X'"):
        follow(program, "X", (0, 0))


def test_a_window_holds_an_element_at_several_places():
    entry = Index.of(axis(0)) * 2 + axis(1)
    region = Region("X", (entry,), (3, 3), (Index.of(3), Index.of(3)))
    assert located_in(region, (4,), {}) == [(1, 2), (2, 0)]
    assert located_in(region, (9,), {}) == []


def test_a_transposed_ragged_tile_is_turned_back():
    i = Index.of(Var("i"))
    region = Region("X", (i * 4 + axis(1), Index.of(axis(0))), (3, 4), (Index.of(3), 6 - i * 4))
    assert located_in(region, (5, 2), {Var("i"): 1}) == [(2, 1)]
    assert located_in(region, (6, 2), {Var("i"): 1}) == []


COUNTED = """
from septran import task


@task.define(leaf=True)
def add(Y, X):
    Y[:] = Y + X


@task.define
def sums(Y: task.Tensor["B", "D"], X: task.Tensor["L", "D"], n: task.Tensor["B", task.int32]):
    for b in task.parallel_range(Y.shape[0]):
        task.fill(Y[b], 0)
        for k in task.sequential_range(task.count(n[b], most=X.shape[0])):
            task.launch(add, Y[b], X[k])
"""


def test_rows_that_data_choose_are_supposed_to_come_in_turn():
    sizes = {"T": 8, "V": 16, "D": 32}
    program = septran.produce_stages("embedding", "dsa-sim", shapes=sizes).tile_program
    journey = follow(program, "Y", (3, 2))
    assert str(journey.copies[0].source) == "W[3, 2]"
    assert "supposing that index holds 0, 1, 2, ... as rows" in str(journey)
    assert "supposing that index" in journey.to_dict()["title"]
    assert follow(program, "W", (3, 2)).copies
    assert not follow(program, "W", (12, 2)).steps  # none of the eight chooses that row


def test_iterations_that_data_count_are_supposed_to_be_the_most(tmp_path):
    logic = tmp_path / "sums.py"
    logic.write_text(COUNTED)
    shapes = {"B": 2, "L": 5, "D": 8}
    program = septran.produce_stages(logic, "dsa-sim", shapes=shapes).tile_program
    journey = follow(program, "X", (4, 1))
    assert journey.steps
    assert "the most as counts" in str(journey)
    assert len(follow(program, "Y", (0, 1)).steps) > 5


def test_a_program_without_such_tensors_supposes_nothing(program):
    at = (0,) * len(program.buffer(program.outputs[0]).shape)
    assert follow(program, program.outputs[0], at).supposition == ""

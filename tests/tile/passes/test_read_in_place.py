"""Where a mapping leaves the choice, what few rows are multiplied by is not packed."""

from __future__ import annotations

import pytest

import septran
from septran.tile.nodes import Copy, nodes
from septran.tile.passes.copies.read_in_place import NAME

PANELS = '''"""C = 2 A B with B in panels of S columns."""

from septran import task


@task.define(leaf=True)
def product(C, A, B):
    task.fill(C, 0)
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def twice(C, acc):
    C[:, :] = acc * 2


@task.define
def some_rows(C, A, B):
    acc = task.empty(C.shape, task.float32, name="acc")
    task.launch(product, acc, A, B)
    task.launch(twice, C, acc)


@task.define
def panel(C, A, B):
    rows = task.tunable("block_M")
    Cp, Ap = (task.partition(x, shape=(rows, x.shape[1])) for x in (C, A))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(some_rows, Cp[i, 0], Ap[i, 0], B)


@task.define
def by_panels(
    C: task.Tensor["M", "P * S"], A: task.Tensor["M", "K"], B: task.Tensor["P", "K", "S"]
):
    Cp = task.partition(C, shape=(C.shape[0], B.shape[2]))
    for p in task.parallel_range(B.shape[0]):
        task.launch(panel, Cp[0, p], A, B[p])
'''


def program(m, n, k, machine="cpu-x86", **options):
    shapes = {"M": m, "N": n, "K": k}
    return septran.compile("gemm", machine, shapes=shapes, **options).stages.tile_program


def copied(made):
    return {node.source.buffer for node in nodes(made.body) if isinstance(node, Copy)}


def in_place(made):
    return [removed for removed in made.removed if removed.by == NAME]


def test_few_rows_need_no_packed_operand_wherever_its_rows_lie():
    made = program(7, 4096, 512)
    assert copied(made) == set()
    assert [r.reason for r in in_place(made)] == ["only 7 rows are multiplied by it"]
    assert {b.name for b in made.buffers} == {"A", "B", "C"}


def test_a_memory_without_a_choice_is_the_mappings_last_word(tmp_path):
    path = tmp_path / "always.mapping.yaml"
    rule = "{match: {task: gemm_block}, mems: {B: L2}}"
    path.write_text(f"extends: cpu-x86.mapping.yaml\nrules: [{rule}]\n")
    assert copied(program(7, 4096, 512)) == set()
    made = program(7, 4096, 512, path)
    assert copied(made) == {"B"}
    assert in_place(made) == []


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (12, {"static": {"trans_b": True}}),
        (8, {"dtypes": "bfloat16"}),
        (8, {"static": {"trans_b": True}, "dtypes": "float16"}),
    ],
)
@pytest.mark.one_in(2)
def test_so_do_columns_that_are_not_adjacent_and_narrow_elements(rows, options):
    made = program(rows, 512, 512, **options)
    assert "B" not in copied(made)
    assert [r.reason for r in in_place(made)] == [f"only {rows} rows are multiplied by it"]


def test_some_rows_need_none_that_stays_in_a_cache():
    made = program(100, 100, 100)
    assert copied(made) == set()
    assert "stay in a cache for the" in in_place(made)[0].reason


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((512, 512, 512), {}),  # many rows
        ((64, 4096, 1024), {}),  # rows of B at the same places of the caches
        ((100, 100, 100), {"static": {"trans_b": True}}),  # columns of B are not adjacent
        ((9, 512, 512), {"dtypes": "float16"}),  # widened once, when it is packed
    ],
)
@pytest.mark.one_in(3)
def test_the_rest_is_packed(shape, options):
    made = program(*shape, **options)
    assert in_place(made) == []
    assert "B" in copied(made)


@pytest.mark.parametrize(("width", "places"), [(48, 1), (64, 0)])
def test_a_panel_as_the_caller_stores_it_is_not_packed_again(tmp_path, width, places):
    logic = tmp_path / "by_panels.py"
    logic.write_text(PANELS)
    shapes = {"M": 200, "P": 4, "K": 1536, "S": width}
    stages = septran.produce_stages(logic, "cpu-x86", shapes=shapes)
    found = [removed.reason for removed in in_place(stages.tile_program)]
    assert found == ["its rows lie one behind the other, as those of a panel"] * places
    # Nor are the rows that each panel is multiplied by, unless they would share cache sets.
    assert copied(stages.tile_program) == ({"B"} if not places else set())
    shapes["K"] = 2048
    assert "A" in copied(septran.produce_stages(logic, "cpu-x86", shapes=shapes).tile_program)


def test_copies_into_memories_that_hardware_does_not_fill_stay():
    made = program(7, 64, 64, "dsa-sim")
    assert in_place(made) == []
    assert "B" in copied(made)


@pytest.mark.parametrize("causal", [False, True])
def test_keys_that_all_blocks_of_queries_read_stay_packed(causal):
    shapes = {"B": 1, "H": 1, "G": 1, "M": 1024, "N": 1024, "D": 64}
    static = {"causal": causal}
    stages = septran.produce_stages("attention", "cpu-x86", shapes=shapes, static=static)
    copied = {n.target.buffer for n in nodes(stages.tile_program.body) if isinstance(n, Copy)}
    assert {"K_L3", "V_L3"} <= copied

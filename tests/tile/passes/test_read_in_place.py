"""Where a mapping leaves the choice, what few rows are multiplied by is not packed."""

from __future__ import annotations

import pytest

import septran
from septran.tile.nodes import Copy, nodes
from septran.tile.passes.copies.read_in_place import NAME


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

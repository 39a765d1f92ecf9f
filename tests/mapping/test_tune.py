"""`!tune`: spaces are sized and checked; a mapping with one left is not compiled."""

from __future__ import annotations

from textwrap import dedent

import pytest

from septran.mapping.keys import ORDER, PROC
from septran.mapping.loader import load_mapping
from septran.mapping.mistakes import TuneLeftError, UnknownNameError

TEXT = dedent("""
    machine: nvidia-h200
    entrypoint: host
    constraints: ["block_M * block_K <= 8192", "pipeline < 4 or block_K < 64"]
    task_mappings:
      host:
        task_name: gemm
        tunables:
          block_M: !tune {type: choice, values: [64, 128, 256]}
          block_K: !tune {type: range, low: 16, high: 64, step: 16}
        calls: {gemm_block: block}
      block:
        task_name: gemm_block
        proc: !tune {type: choice, values: [BLOCK, WARPGROUP]}
        pipeline: !tune {type: range, low: 2, high: 5}
        order: !tune {type: permutation, values: [i, j]}
        leaf_task_bindings:
          gemm_tile: !tune {type: choice, values: [wgmma, mma_sync]}
    """)


def test_a_space_has_a_size_and_dimensions():
    space = load_mapping(TEXT).space()
    assert [(d.name, d.size) for d in space.dimensions] == [
        ("block_M", 3), ("block_K", 4), ("proc", 2), ("pipeline", 4), ("order", 2),
        ("gemm_tile", 2),
    ]  # fmt: skip
    assert space.size == 3 * 4 * 2 * 4 * 2 * 2
    assert "384 combinations of 6 dimensions" in str(space)


def test_constraints_cut_the_space():
    space = load_mapping(TEXT).space()
    points = list(space.points())
    assert 0 < len(points) < space.size
    assert all(p["block_M"] * p["block_K"] <= 8192 for p in points)
    assert all(p["pipeline"] < 4 or p["block_K"] < 64 for p in points)


def test_values_fill_the_mapping_in():
    mapping = load_mapping(TEXT)
    point = next(iter(mapping.space().points())) | {"proc": "WARPGROUP", "order": ("j", "i")}
    settled = mapping.with_values(point)
    assert settled.dimensions == ()
    block = settled.instances["block"]
    assert block.get(PROC).value == "WARPGROUP"
    assert block.get(ORDER).value == ["j", "i"]
    assert settled.instances["host"].tunables["block_M"].cases[0].value == 64


def test_some_values_leave_the_rest_to_be_searched():
    left = load_mapping(TEXT).with_values({"block_M": 128})
    assert [d.name for d in left.dimensions] == [
        "block_K",
        "proc",
        "pipeline",
        "order",
        "gemm_tile",
    ]


def test_an_unknown_dimension_is_named():
    with pytest.raises(UnknownNameError, match="block_L"):
        load_mapping(TEXT).with_values({"block_L": 1})


def test_what_is_still_to_be_searched_is_not_compiled():
    with pytest.raises(TuneLeftError) as caught:
        load_mapping(TEXT).chooser()
    assert (caught.value.where.line, caught.value.where.column) == (9, 16)
    assert "384 combinations" in str(caught.value.hint)
    assert len(caught.value.related) == 5


def test_equal_keys_are_told_apart_by_their_path():
    text = dedent("""
        rules:
          - match: {level: entry}
            pipeline: !tune {type: range, low: 1, high: 2}
          - match: {level: 1}
            pipeline: !tune {type: range, low: 1, high: 2}
        """)
    names = [d.name for d in load_mapping(text).dimensions]
    assert names == ["rules_0_pipeline", "rules_1_pipeline"]


def test_the_seeds_own_example_loads():
    text = dedent("""
        task_mappings:
          gemm_block_gpu:
            task_name: gemm_block_logic
            tunables:
              block_size_M: !tune {type: choice, values: [64, 128, 256]}
              pipeline_depth: !tune {type: choice, values: [2, 3, 4, 5]}
            leaf_task_bindings:
              gemm_leaf_logic: !tune {type: choice, values: [gemm_leaf_tensorcore, gemm_leaf_simt]}
        """)
    assert load_mapping(text).space().size == 3 * 4 * 2

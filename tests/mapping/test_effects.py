"""Keys that change nothing for this logic and machine are said to."""

from __future__ import annotations

import re

import pytest

import septran
from septran.mapping.keys import COPY, LAYOUTS, PIPELINE, PROC, SINGLE

BLOCK = "product/block"


def idle(resolved):
    return [d.message for d in resolved.decisions if d.kind == "no-effect"]


def on_block(field):
    return f"rules: [{{match: {{task: block}}, proc: CORE, {field}}}]"


IDLE = {
    "pipeline: 3": "cpu-x86 has no asynchronous engine",
    "warpspecialize: true": "cpu-x86 has no asynchronous engine",
    "roles: {consumers: 2}": "there are no roles without `warpspecialize`",
    "cluster: 2": "cpu-x86 has no clusters",
    "copy: {A: load_store}": "A is not copied for block",
    "layouts: {A: row}": "A is not copied for block",
    "persistent: true": "code for cpu-x86 does not depend on it in this version",
}


@pytest.mark.parametrize("field", IDLE)
def test_a_key_without_effect_is_reported(bench, field):
    resolved = bench.resolve(on_block(field))
    (decision,) = [d for d in resolved.decisions if d.kind == "no-effect"]
    assert decision.message.startswith(f"`{field.partition(':')[0]}")
    assert decision.message.endswith(f"` has no effect: {IDLE[field]}")
    assert decision.where.line == 1
    assert decision.where.column > 40


def test_what_has_no_effect_is_not_passed_on(bench):
    field = (
        "pipeline: 3, warpspecialize: true, cluster: 2, layouts: {A: row}, roles: {consumers: 2}"
    )
    block = bench.resolve(on_block(field)).instance(BLOCK)
    assert all(block.settings.get(key).value == key.default for key in SINGLE if key is not PROC)
    assert not any(block.settings.tables.values())


def test_what_has_an_effect_is_kept(bench):
    text = """
        rules:
          - match: {task: block}
            proc: CORE
            mems: {C: ACC}
            pipeline: 2
          - match: {task: tile}
            mems: {A: SPM, B: SPM}
            layouts: {A: padded(16)}
            copy: {B: dma_in}
        """
    resolved = bench.resolve(text, "dsa-sim")
    assert resolved.instance(BLOCK).settings.get(PIPELINE).value == 2
    tile = resolved.instance(f"{BLOCK}/tile")
    assert tile.settings.table(LAYOUTS)["A"].value == "padded(16)"
    assert tile.settings.table(COPY)["B"].value == "dma_in"
    assert idle(resolved) == []


def test_a_rules_line_counts_where_it_has_an_effect_for_some_task(bench):
    text = """
        rules:
          - match: {loops: parallel}
            proc: CORE
          - {match: {leaf: true}, mems: {reads: SPM, "*": ACC}}
          - {match: {leaf: true}, pipeline: 2}
          - {match: {leaf: false}, pipeline: 2}
        """
    resolved = bench.resolve(text, "dsa-sim", shapes={"C": (16, 8), "A": (16, 16), "B": (16, 8)})
    assert [m.partition(":")[0] for m in idle(resolved)] == ["`pipeline` has no effect"]


def test_an_engine_that_does_not_move_there(bench):
    text = """
        rules:
          - {match: {task: block}, proc: CORE, mems: {C: ACC}}
          - {match: {task: tile}, mems: {A: SPM, B: SPM}, copy: {A: dma_out}}
        """
    (message,) = idle(bench.resolve(text, "dsa-sim"))
    assert "dma_out does not move from GLOBAL to SPM; dma_in does" in message


def test_an_instance_that_nothing_becomes(bench):
    text = """
        entrypoint: host
        task_mappings:
          host: {task_name: product}
          spare: {task_name: other}
        """
    resolved = bench.resolve(text)
    assert "instance spare has no effect: no task of this logic becomes it" in idle(resolved)


def test_tunables_of_a_file_for_every_operator_may_be_others(bench):
    assert idle(bench.resolve("rules: [{}]\ntunables: {block_Q: 3}")) == []


def test_the_order_of_a_pipelines_statements_is_reported(bench):
    resolved = bench.resolve(on_block("pipeline: {stages: 1, order: [1, 0]}"))
    messages = [d.message for d in resolved.decisions if d.kind == "no-effect"]
    assert any(m.startswith("`pipeline.order` has no effect") for m in messages)


def test_the_schedule_is_that_of_the_task_with_the_parallel_loop():
    """Of a task that is launched in a loop, but has none of its own, it says nothing."""
    rule = "{match: {task: gemm_block}, persistent: true, raster: 4, cluster: 2}"
    text = f"extends: nvidia-h200.mapping.yaml\nrules: [{rule}]"
    found = septran.produce_stages("gemm", text).mapping
    assert [m for m in idle(found) if "parallel" in m] == [
        f"`{key}` has no effect: gemm_block has no parallel loop"
        for key in ("persistent", "cluster", "raster")
    ]
    text = text.replace("task: gemm_block", "task: gemm_core")
    assert not [m for m in idle(septran.produce_stages("gemm", text).mapping) if "loop" in m]


def test_a_copy_that_is_needed_is_no_choice(bench):
    text = """
        rules:
          - {match: {task: block}, proc: CORE, mems: {C: ACC}}
          - {match: {task: tile}, mems: {A: [NONE, SPM], B: SPM}}
        """
    resolved = bench.resolve(text, "dsa-sim")
    held = resolved.instance(f"{BLOCK}/tile").mems["A"]
    assert (held.value, held.optional) == ("SPM", False)
    why = "SPM is no cache, so what is to be there is copied"
    assert idle(resolved) == [f"`mems: {{A: [NONE, SPM]}}` has no effect: {why}"]


LAID_OVER = """
extends: cpu-x86
rules:
  - match: {level: entry}
    tunables: {block_K: 128}
tunables: {block_M: 16, "block_*": 48, block_width: 512, blok_N: 64}
"""


def of_tunables(text, **options):
    resolved = septran.produce_stages("gemm", text, shapes={"M": 64, "N": 64, "K": 64}, **options)
    return [
        d for d in resolved.mapping.decisions
        if d.kind == "no-effect" and d.message.startswith("tunable")
    ]  # fmt: skip


def test_tunables_that_the_extended_rules_go_before_are_reported():
    found = {d.message.partition(" has")[0]: d for d in of_tunables(LAID_OVER)}
    assert set(found) == {
        f"tunable `{key}`" for key in ("block_K", "block_M", "block_*", "block_width", "blok_N")
    }
    places = [(d.where.line, d.where.column) for d in found.values()]
    assert sorted(places) == [(5, 16), (6, 12), (6, 25), (6, 40), (6, 58)]
    table, rule = found["tunable `block_M`"], found["tunable `block_K`"]
    by = r"gemm_core takes block_M = \d+ from cpu-x86\.mapping\.yaml:\d+ \(rule \d+ of cpu-x86\."
    assert re.match(rf"tunable `block_M` has no effect: {by}", table.message)
    assert rule.hint == (
        "a rule of this file goes before it: "
        "- {match: {task: gemm_block}, tunables: {block_K: 128}}"
    )
    assert found["tunable `blok_N`"].hint == "did you mean 'block_N'?"


def test_what_the_hint_says_has_an_effect():
    text = "extends: cpu-x86\nrules:\n  - {match: {task: gemm_block}, tunables: {block_K: 32}}\n"
    assert of_tunables(text) == []


def test_only_what_is_laid_over_another_file_is_told_of_for_its_tunables():
    """A file of rules alone is for other operators, too, and the call's word is no surprise."""
    assert of_tunables("cpu-x86") == []
    over = "extends: cpu-x86\ntunables: {block_M: 16, block_N: 16}\n"
    assert of_tunables(over, tunables={"block_M": 8, "block_N": 8}) == []


def test_a_rule_of_the_file_itself_goes_before_its_table_and_says_so():
    own = (
        "extends: cpu-x86\nrules: [{match: {task: gemm_core}, tunables: {block_M: 8}}]\n"
        "tunables: {block_M: 16}\n"
    )
    (found,) = of_tunables(own)
    assert re.search(r"gemm_core takes block_M = 8 from <mapping \w+>:2 \(rule 1\)$", found.message)
    assert found.hint is None


def test_a_case_that_does_not_hold_is_not_overridden():
    assert of_tunables("extends: cpu-x86\ntunables: {block_M: [{when: M > 999, value: 8}]}\n") == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            "{match: {leaf: true}, binding: {gemm: scalar}}",
            "`binding: {gemm: scalar}` has no effect: softmax_rows leaves no gemm",
        ),
        (
            "{match: {task: softmax}, binding: vector}",
            "`binding: vector` has no effect: softmax computes nothing itself",
        ),
        ("{match: {leaf: true}, binding: {gemm: scalar, map: vector}}", "`binding: {gemm: sc"),
        ("{match: {leaf: true}, binding: vector}", None),
        ("{binding: {map: vector}}", None),
    ],
)  # fmt: skip
def test_a_binding_of_what_a_task_does_not_compute_is_reported(rule, said):
    text = f"extends: cpu-x86\nrules:\n  - {rule}"
    stages = septran.produce_stages("softmax", text, shapes={"M": 8, "N": 16})
    found = [d for d in stages.mapping.decisions if d.kind == "no-effect"]
    assert len(found) == (said is not None)
    assert all(d.message.startswith(said) and d.where.line == 3 for d in found)

"""A rule of a file that extends another one says so where the logic has not what it names."""

from __future__ import annotations

import pytest

import septran

SHAPES = {"M": 8, "N": 16}


def told(*rules, extends="extends: cpu-x86\n", sizes=SHAPES):
    text = f"{extends}machine: cpu-x86\nrules:\n" + "".join(f"  - {rule}\n" for rule in rules)
    decisions = septran.produce_stages("softmax", text, shapes=sizes).mapping.decisions
    return [
        (d.message.partition(" has no effect: ")[::2], d.hint, (d.where.line, d.where.column))
        for d in decisions if d.kind == "no-effect"
    ]  # fmt: skip


SILENT = {
    "the task": "{match: {task: softmax_rows}, mems: {X: L2}}",
    "a pattern": "{match: {task: 'soft*'}, tunables: {'block_*': 4}}",
    "another size": "{match: {task: softmax_rows, when: M > 99}, mems: {Q: L2}}",
    "another type": "{match: {task: softmax_rows, dtype: float16}, mems: {Q: L2}}",
    "another machine": "{match: {task: softmax_rows, machine_feature: TMA}, mems: {Q: L2}}",
    "what it launches asks": "{match: {level: entry}, tunables: {block_rows: 4}}",
    "another variant": "{match: {variant: softmax_of_long_rows}, mems: {Q: L2}}",
    "all tasks": "{mems: {writes: DRAM}}",
    "a group": "{match: {within: softmax}, mems: {temporaries: L2}}",
}


@pytest.mark.parametrize("rule", SILENT)
def test_a_rule_that_is_for_a_task_or_would_be_in_another_call_is_not_told(rule):
    assert told(SILENT[rule]) == []


IDLE = {
    "{match: {task: softmx_rows}}": (
        ("rule 1", "no task of softmax is called 'softmx_rows'"),
        "did you mean 'softmax_rows'?", (4, 20),
    ),
    "{match: {task: softmax_rows, within: sofmax}}": (
        ("rule 1", "no task of softmax is called 'sofmax' and launches another one"),
        "did you mean 'softmax'?", (4, 42),
    ),
    "{match: {task: softmax_rows, level: 3}}": (
        ("rule 1", "it is for no task of softmax"),
        "without `level` it would be for softmax_rows", (4, 5),
    ),
    "{match: {task: softmax_rows, loops: sequential}}": (
        ("rule 1", "it is for no task of softmax"),
        "without `loops` it would be for softmax_rows", (4, 5),
    ),
    "{match: {task: softmax}, tunables: {blok_rows: 8}}": (
        ("tunable `blok_rows`", "softmax uses block_rows"),
        "did you mean 'block_rows'?", (4, 41),
    ),
    "{match: {task: softmax_rows}, tunables: {block_rows: 8}}": (
        ("tunable `block_rows`", "softmax_rows uses no tunables"),
        "softmax asks for it: match that task, or one that launches it", (4, 46),
    ),
    "{match: {task: softmax_rows}, mems: {Q: L2}}": (
        ("`mems.Q`", "no task of rule 1 has that tensor"),
        "known: X, Y, e, m, s", (4, 42),
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", IDLE)
def test_what_the_logic_does_not_have_is_told_with_its_place(rule):
    (found,) = told(rule)
    assert found == IDLE[rule]


def test_what_is_extended_and_files_for_any_logic_are_not_told():
    assert told("{match: {task: dits}}", "{tunables: {block_rows: 4}}", extends="") == []


def test_each_rule_is_told_for_itself():
    first, second = told(*("{match: {task: dits}}", "{match: {task: dats}}"))
    assert (first[0][0], second[0][0]) == ("rule 1", "rule 2")

"""Tunables: where their values come from, and which of several is taken."""

from __future__ import annotations

import pytest

from septran.compiler import produce_stages
from septran.mapping.mistakes import ConditionError, TunableSettingError

BLOCK = "product/block"


def chosen(bench, text, path="product", name="block_M", **options):
    return bench.resolve(text, **options).instance(path).tunables[name]


def top(value):
    return f"rules: [{{}}]\ntunables: {{block_M: {value}}}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("32", 32),
        ("[512, 64]", 64),  # M is 128, and 512 does not fit
        ("[128, 64]", 128),
        ("[1000, 999]", 999),  # where nothing fits, the last
        ("{when: M > 100, value: 16}", 16),
        ("[{when: M > 128, value: 16}, 8]", 8),
        ("[{when: 'dtype == \"float16\"', value: 16}, {when: A_0 == 128, value: 4}, 8]", 4),
        ("[{when: 'M * N * K < 2**20 and A_dtype == \"float32\"', value: 2}, 8]", 2),
    ],
)
def test_values_by_preference_and_condition(bench, value, expected):
    assert chosen(bench, top(value)).value == expected


def test_where_no_condition_holds_the_logics_default_is_taken(bench):
    setting = chosen(bench, top("{when: M < 0, value: 16}"))
    assert (setting.value, setting.reason) == (64, "default of the logic")


def test_sizes_fit_up_to_the_next_power_of_two(bench):
    shapes = {"C": (100, 64), "A": (100, 96), "B": (96, 64)}
    assert chosen(bench, top("[128, 64]"), shapes=shapes).value == 128
    assert chosen(bench, top("[256, 64]"), shapes=shapes).value == 64


def test_the_nearest_place_wins(bench):
    text = """
        rules:
          - {match: {level: 1}, tunables: {"block_*": 8}}
          - {match: {level: entry}, tunables: {block_K: 4, block_M: 32}}
        tunables: {block_M: 16, block_K: 2}
        """
    assert chosen(bench, text).value == 32
    assert chosen(bench, text, BLOCK, "block_K").value == 8


def test_a_callers_value_holds_for_what_it_launches(bench):
    text = "rules: [{match: {level: entry}, tunables: {block_K: 4}}]\ntunables: {block_K: 2}"
    setting = chosen(bench, text, BLOCK, "block_K")
    assert (setting.value, setting.reason) == (4, "rule 1")


def test_a_name_goes_before_a_pattern(bench):
    text = "rules: [{}]\ntunables: {'block_*': 8, block_M: 32, '*': 4}"
    assert chosen(bench, text).value == 32
    assert chosen(bench, text, BLOCK, "block_K").value == 8


def test_values_given_with_the_call_go_before_the_file(bench):
    setting = chosen(bench, top("32"), block_M=16)
    assert (setting.value, setting.reason) == (16, "given with the call")


def test_a_value_of_another_kind_is_an_error(bench):
    with pytest.raises(TunableSettingError, match="an integer in the logic, not 'wide'") as caught:
        chosen(bench, top("wide"))
    assert caught.value.where.line == 2


def test_an_unknown_name_in_a_condition(bench):
    with pytest.raises(ConditionError) as caught:
        chosen(bench, top("{when: L > 1, value: 2}"))
    assert caught.value.where.line == 2


EXPLICIT = """
    entrypoint: host
    task_mappings:
      host: {task_name: product, tunables: {%s: 32}}
    """


def test_a_misspelt_tunable_of_an_instance_is_an_error(bench):
    with pytest.raises(TunableSettingError, match="no tunable 'blok_M'") as caught:
        bench.resolve(EXPLICIT % "blok_M")
    assert caught.value.hint == "did you mean 'block_M'?"
    assert (caught.value.where.line, caught.value.where.column) == (4, 41)


def test_a_name_that_only_looks_alike_is_not(bench):
    resolved = bench.resolve(EXPLICIT % "block_N")
    assert "tunable `block_N` has no effect: product uses block_K, block_M" in [
        d.message for d in resolved.decisions
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [("minus", "tunable block_K is 'minus': .*not an integer"), ("-4", "block_K is -4, not pos")],
)
def test_a_value_that_the_logic_cannot_take_is_the_mappings_mistake(value, message):
    text = f"""
        machine: cpu-x86
        rules: [{{match: {{level: entry}}, proc: HOST}}]
        tunables: {{"block_*": 32, block_K: {value}}}
    """
    stages = produce_stages("gemm", text, shapes={"M": 64, "N": 64, "K": 64})
    with pytest.raises(TunableSettingError, match=message) as caught:
        _ = stages.task_tree
    assert caught.value.where.line == 4
    assert [place.file.endswith("gemm.py") for _, place in caught.value.related] == [True]

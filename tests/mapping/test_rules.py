"""Rules: which task instances they are for, and who wins."""

from __future__ import annotations

import pytest

import septran
from septran.compiler import produce_stages
from septran.mapping.keys import RASTER
from septran.mapping.mistakes import ConditionError, UnknownVariantError

BLOCK, TILE, FILL = "product/block", "product/block/tile", "product/block/fill"


def procs(bench, match):
    resolved = bench.resolve(f"rules: [{{match: {match}, proc: CORE}}]")
    return [
        i.path for i in resolved.instances if i.proc.value == "CORE" and "rule" in i.proc.reason
    ]


@pytest.mark.parametrize(
    ("match", "paths"),
    [
        ("{task: block}", [BLOCK]),
        ("{task: [nothing, block]}", [BLOCK]),
        ("{task: 'b*'}", [BLOCK]),
        ("{variant: block}", [BLOCK]),
        ("{variant: block_whole}", []),
        ("{level: 1}", [BLOCK]),
        ("{level: [1, 2]}", [BLOCK, TILE]),
        ("{level: entry}", ["product"]),
        ("{loops: parallel}", [BLOCK]),
        ("{loops: sequential, level: 2}", [TILE]),
        ("{leaf: true}", [FILL, TILE]),
        ("{leaf: false, level: 1}", [BLOCK]),
        ("{leaf: gemm}", [TILE]),
        ("{leaf: [gemm, fill]}", [FILL, TILE]),
        ("{leaf: elementwise}", []),
        ("{primitive: gemm}", [TILE]),
        ("{primitive: [map, fill]}", [FILL]),
        ("{task: fill}", [FILL]),
        ("{dtype: float32, level: 1}", [BLOCK]),
        ("{dtype: [float16, bfloat16]}", []),
        ("{machine_feature: asynchronous}", []),
        ("{machine_feature: L2, level: 1}", [BLOCK]),
        ("{level: 1, task: tile}", []),
        ("{task: block, when: C_0 > 0 and dtype == 'float32'}", [BLOCK]),
        ("{task: block, when: C_0 < 0}", []),
        ("{task: block, when: longest_row > 0}", [BLOCK]),
        ("{task: block, when: longest_row > 65536}", []),
        ("{task: block, when: most_rows > 0}", [BLOCK]),
        ("{task: block, when: most_rows > 65536}", []),
        ("{within: product}", [BLOCK, TILE]),  # fill and copy follow their caller
        ("{within: 'b*', leaf: gemm}", [TILE]),
        ("{within: [tile, block], task: tile}", [TILE]),
        ("{within: tile}", []),
        ("{task: product, within: product}", []),
    ],
)
def test_what_a_match_is_for(bench, match, paths):
    assert procs(bench, match) == paths


@pytest.mark.parametrize("stride", [1, 2])
def test_conditions_name_static_flags(stride):
    text = """
        machine: cpu-x86
        rules:
          - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
          - {match: {task: gemm_core, when: stride > 1}, mems: {B: L3}}
        tunables: {"block_*": 64}
    """
    shapes = {"B": 1, "C": 4, "H": 6, "W": 6, "O": 4, "R": 1, "S": 1}
    stages = produce_stages("conv2d", text, shapes=shapes, static={"stride": stride})
    placed = stages.mapping.instance("conv2d/gemm_core").mems
    assert ("B" in placed and placed["B"].value == "L3") == (stride > 1)


def test_a_condition_of_a_match_names_what_the_task_has(bench):
    with pytest.raises(ConditionError, match="unknown name 'X_0'") as caught:
        procs(bench, "{task: block, when: X_0 > 0}")
    assert (caught.value.where.line, caught.value.where.column) == (1, 37)


def test_elementwise_leaves(bench):
    resolved = bench.resolve(
        "rules: [{match: {leaf: elementwise}, binding: vector}]", logic=bench.scaled
    )
    assert bench.field(resolved, "scaled/scale", "bindings.map").reason == "rule 1"


def test_a_machine_with_asynchronous_engines(bench):
    text = """
        rules:
          - {match: {machine_feature: [asynchronous, SPM], level: 1}, proc: CORE}
          - {match: {primitive: [gemm, fill]}, mems: {reads: SPM, "*": ACC}}
        """
    resolved = bench.resolve(text, "dsa-sim")
    assert resolved.instance(BLOCK).proc.reason == "rule 1"


def test_the_first_rule_that_gives_a_field_wins(bench):
    resolved = bench.resolve("""
        rules:
          - {match: {level: 1}, mems: {A: L2}}
          - {match: {task: block}, proc: CORE, mems: {A: L1, B: L2}}
          - {match: {loops: parallel}, proc: HOST, mems: {"*": NONE}}
        """)
    block = resolved.instance(BLOCK)
    assert (block.proc.value, block.proc.reason) == ("CORE", "rule 2")
    assert {k: s.value for k, s in block.mems.items()} == {"C": "NONE", "A": "L2", "B": "L2"}


def test_names_go_before_groups_and_groups_before_all(bench):
    resolved = bench.resolve("""
        rules:
          - match: {level: 1}
            proc: CORE
            mems: {"*": DRAM, reads: L2, accumulators: L1, B: NONE}
        """)
    block = resolved.instance(BLOCK)
    assert {k: s.value for k, s in block.mems.items()} == {"C": "L1", "A": "L2", "B": "NONE"}


def test_what_is_written_without_being_summed_into(bench):
    resolved = bench.resolve(
        "rules: [{match: {level: 1}, proc: CORE, mems: {writes: L2, accumulators: L1}}]",
        logic=bench.scaled,
    )
    assert resolved.instance("scaled/scale").mems["Y"].value == "L2"


def test_temporaries_of_a_leaf_follow_its_callers(bench):
    text = "rules: [{match: {level: entry}, mems: {temporaries: L3}}]"
    setting = bench.field(bench.resolve(text, logic=bench.scaled), "scaled/scale", "mems.e")
    assert (setting.value, setting.reason) == ("L3", "rule 1")


def test_temporaries_have_a_default(bench):
    resolved = bench.resolve(
        "rules: [{match: {level: 1}, proc: CORE, mems: {'*': NONE}}]", logic=bench.scaled
    )
    setting = bench.field(resolved, "scaled/scale", "mems.e")
    assert (setting.value, setting.reason) == ("L2", "default of cpu-x86")


def test_a_rule_chooses_a_variant(bench):
    resolved = bench.resolve("rules: [{match: {task: block}, variant: block_whole}]")
    assert resolved.instance(BLOCK).variant == "block_whole"
    assert TILE in [i.path for i in resolved.instances]


def test_a_rule_by_the_chosen_variant(bench):
    resolved = bench.resolve("""
        rules:
          - {match: {task: block}, variant: block_whole}
          - {match: {variant: block_whole}, proc: CORE}
        """)
    assert resolved.instance(BLOCK).proc.value == "CORE"


def test_an_unknown_variant_is_an_error(bench):
    with pytest.raises(UnknownVariantError) as caught:
        bench.resolve("rules: [{match: {task: block}, variant: block_hole}]")
    assert "block_whole" in caught.value.hint
    assert caught.value.where.column == 41


def test_other_operators_rules_do_not_matter(bench):
    text = "rules: [{match: {task: other}, variant: x, mems: {Q: L2}, proc: CORE}]"
    assert bench.resolve(text).decisions[1:] == ()


def test_a_rule_by_what_a_task_reaches():
    """The product is in a leaf launches below; a softmax has none."""
    rule = "{match: {holds: parallel, reaches: gemm}, raster: 3}"
    text = f"extends: nvidia-h200.mapping.yaml\nrules: [{rule}]"
    for operator, found in (("gemm", [3]), ("softmax", [])):
        resolved = septran.produce_stages(operator, text).mapping
        values = [i.settings.get(RASTER).value for i in resolved.instances]
        given = [value for value in values if value != RASTER.default]
        assert given == found


CALLED = """
from septran import task

@task.define(leaf=True)
def {name}(Y, X):
    T = task.empty(X.shape, X.dtype, name="T")
    T[:, :] = task.exp(X)
    Y[:, :] = T * X

@task.define
def whole(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    Yp, Xp = (task.partition(t, shape=(8, t.shape[1])) for t in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch({name}, Yp[i, 0], Xp[i, 0])
"""


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "npu-cube", "nvidia-h200"])
@pytest.mark.parametrize("name", ["copy", "fill"])
@pytest.mark.one_in(3, first=1)
def test_a_task_called_like_one_of_the_language_is_a_task_like_others(name, machine, tmp_path):
    def mapped(name):
        file = tmp_path / f"{name}_logic.py"
        file.write_text(CALLED.format(name=name), encoding="utf-8")
        stages = produce_stages(str(file), machine, shapes={"M": 20, "N": 30})
        return [
            (
                i.proc.value,
                {n: p.memory for n, p in i.mems.items()},
                {k: b.value for k, b in i.bindings.items()},
            )
            for i in stages.mapping.instances
        ]

    assert mapped(name) == mapped("another")

"""`Comparison`: what differs between mappings, stage by stage, and what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

import septran
from septran.mapping.keys import PIPELINE
from septran.mapping.resolved import Setting, TensorMemory
from septran.views.comparisons.comparison import ABSENT, Comparison, labels
from septran.views.explanation import Explanation


@pytest.fixture
def two(tree, resolved, program, source):
    """The same logic with A left in GLOBAL and no pipeline in the second mapping."""
    block = resolved.instances[1]
    changed = replace(
        block,
        mems={**block.mems, "A": TensorMemory("GLOBAL", memory="GLOBAL")},
        settings=block.settings.changed(PIPELINE, Setting(1, "default")),
    )
    other = replace(resolved, instances=(resolved.instances[0], changed, *resolved.instances[2:]))
    (blocks,) = program.body
    shorter = replace(program, body=(replace(blocks, body=blocks.body[:1]),), channels=())
    made = [
        Explanation(
            SimpleNamespace(task_tree=tree, mapping=m, tile_program=p, tensor_ir=source,
                            source=source)
        )
        for m, p in ((resolved, program), (other, shorter))
    ]  # fmt: skip
    return Comparison(("staged", "direct"), tuple(made))


def test_keys_are_aligned_by_task(two):
    found = {(d.task, d.key): d.values for d in two.differences}
    assert found == {
        ("gemm/gemm_block", "mems.A"): ("SHARED", "GLOBAL"),
        ("gemm/gemm_block", "pipeline"): ("2", "1"),
    }


def test_a_task_that_one_mapping_lacks_is_shown_as_absent(two):
    first, second = two.explanations
    fewer = replace(second.mapping, instances=second.mapping.instances[:2])
    stages = SimpleNamespace(task_tree=first.task_tree, mapping=fewer,
                             tile_program=second.tile_program)  # fmt: skip
    found = Comparison(two.names, (first, Explanation(stages))).differences
    assert ("gemm/gemm_block/fill", "task", ("fill on BLOCK", ABSENT)) in {
        (d.task, d.key, d.values) for d in found
    }


def test_equal_stages_have_no_diff_and_others_a_unified_one(two):
    assert two.stage_diff("task_tree") == ""
    assert two.stage_diff("source") == ""
    lines = two.stage_diff("tile_program").splitlines()
    assert lines[:2] == ["--- staged", "+++ direct"]
    assert any(line.startswith("-") and "wait(full, k)" in line for line in lines)


def test_figures_count_copies_waits_and_bytes_by_edge(two):
    figures = {row[0]: row[1:] for row in two.figures()}
    assert figures["copies"] == ("3", "0")
    assert figures["waits and other synchronisation"] == ("4", "0")
    assert figures["bytes GLOBAL -> SHARED"] == ("133.5 KiB", ABSENT)
    assert figures["predicted time"][0] == "162.3 us"


def test_text_html_and_data_agree(two):
    text = str(two)
    assert "gemm/gemm_block  mems.A    SHARED  GLOBAL" in text
    assert "Tile program: staged and direct" in text
    bundle = two._repr_mimebundle_()
    assert bundle["text/plain"] == text
    assert "mems.A" in bundle["text/html"]
    data = json.loads(json.dumps(two.to_dict(), allow_nan=False))
    assert data["mappings"] == ["staged", "direct"]
    assert data["diffs"]["direct"]["task_tree"] == ""


def test_a_page_is_saved(two, tmp_path):
    page = two.save_html(tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert "gemm under 2 mappings" in page
    assert "mems.A" in page


def test_hostile_names_stay_text(two):
    hostile = '<script>pwned=1</script>"onerror='
    tags = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            tags.append(tag)
            assert not any(name.startswith("on") for name, _ in attrs)

    Parser().feed(Comparison((hostile, "b"), two.explanations)._repr_mimebundle_()["text/html"])
    assert "script" not in tags


def test_figures_become_a_table_of_pandas(two):
    frame = two.to_pandas()
    assert list(frame.columns) == ["staged", "direct"]
    assert frame.loc["copies", "staged"] == "3"


def test_mappings_are_named_after_their_files():
    text = "machine: x\nrules: []\n"
    names = labels(["maps/a.mapping.yaml", "other/a.mapping.yaml", text, "cpu-x86"])
    assert names == ("a", "a (2)", "mapping 3", "cpu-x86")


def test_a_run_adds_its_figures_and_its_timeline():
    rule = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {loops: parallel}, proc: CORE, mems: {C: ACC}, pipeline: 2}
  - {match: {primitive: gemm}, mems: {A: SPM, B: SPM}}
tunables: {block_M: 32, block_N: 32, block_K: 32}
"""
    mappings = {"two stages": rule, "one stage": rule.replace("pipeline: 2", "pipeline: 1")}
    compared = septran.compare("gemm", mappings, shapes={"M": 64, "N": 64, "K": 128})
    assert compared.names == ("two stages", "one stage")
    assert "measured cycles" not in str(compared)
    run = compared.measure()
    cycles = dict((row[0], row[1:]) for row in run.figures())["measured cycles"]
    assert cycles == tuple(f"{ran.cycles:,}" for ran in run.measured)
    html = run._repr_mimebundle_()["text/html"]
    assert "Timelines on one axis" in html
    assert html.count("Timeline of") == 2
    assert "Timelines on one axis" not in compared._repr_mimebundle_()["text/html"]

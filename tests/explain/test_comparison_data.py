"""The data of a comparison's view: aligned, complete, small, and safe in a page."""

from __future__ import annotations

import json
from difflib import unified_diff

import pytest

import septran
from septran.views.comparisons.data import CONTEXT, _rows, comparison_data

SIZES = {"M": 128, "N": 128, "K": 256}


@pytest.fixture(scope="module")
def comparison():
    return septran.compare("gemm", ["dsa-sim", "npu-cube", "nvidia-h200"], shapes=SIZES)


@pytest.fixture(scope="module")
def measured(comparison):
    return comparison.measure()


def test_each_row_has_a_value_for_each_mapping(measured):
    data = comparison_data(measured)
    assert data["names"] == ["dsa-sim", "npu-cube", "nvidia-h200"]
    assert all(len(figure["values"]) == 3 for figure in data["figures"])
    assert all(len(edge["bytes"]) == 3 for edge in data["edges"])
    assert all(len(memory["used"]) == 3 for memory in data["memories"])
    assert len(data["roofline"]) == 3
    assert all(len(stage["diffs"]) == 2 for stage in data["stages"])


def test_figures_are_those_of_the_stages(measured):
    data = comparison_data(measured)
    figures = {figure["title"]: figure["values"] for figure in data["figures"]}
    found = measured.explanations
    assert figures["predicted time"][2] == found[2].prediction.seconds
    assert figures["predicted time"][0] == found[0].prediction.cycles / 1e9
    assert figures["main memory traffic"] == [e.ledger.main_memory_bytes for e in found]
    assert figures["measured cycles"][0] == measured.runs[0].profile.cycles
    assert figures["measured cycles"][2] is None
    spm = next(memory for memory in data["memories"] if memory["name"] == "SPM")
    assert spm["used"][0]["peak"] == found[0].memory_map.peak("SPM")
    assert spm["used"][1] is None


def test_what_cannot_run_here_says_why(measured):
    assert "runs on a GPU, and torch finds none" in measured.runs[2].reason
    assert measured.runs[2].profile is None
    assert comparison_data(measured)["runs"][2]["reason"] == measured.runs[2].reason


def test_nothing_runs_before_it_is_asked_for(comparison):
    data = comparison_data(comparison)
    assert data["timelines"] == []
    assert {run["reason"] for run in data["runs"]} == {"not measured"}
    assert "measured time" not in {figure["title"] for figure in data["figures"]}


def test_simulated_runs_are_on_one_axis(measured):
    found = comparison_data(measured)["timelines"]
    assert [one["title"] for one in found] == ["dsa-sim", "npu-cube"]
    assert [one["end"] for one in found] == [run.cycles for run in measured.runs[:2]]
    assert len({one["unit"] for one in found}) == 1


def test_points_of_the_roofline_are_below_their_roofs(measured):
    for point in comparison_data(measured)["roofline"]:
        roof = min(point["peak"], point["bandwidth"] * point["intensity"])
        assert point["predicted"] <= roof * 1.001
        assert point["measured"] is None or point["measured"] <= roof * 1.001


def test_rows_of_a_diff_hold_both_texts_and_only_near_lines():
    left = [f"line {n}" for n in range(100)]
    right = [*left[:50], "new", *left[51:], "last"]
    rows = _rows("\n".join(left), "\n".join(right))
    assert ["~", 51, "line 50", 51, "new"] in rows
    assert ["+", None, "", 101, "last"] in rows
    assert sum(row[0] == "=" for row in rows) == 3 * CONTEXT
    hidden = sum(row[1] for row in rows if row[0] == ".")
    changed = sum(row[0] in "~-" for row in rows)
    assert hidden + changed + 3 * CONTEXT == 100
    text = "\n".join(unified_diff(left, right, n=0))
    assert text.count("\n+") - 1 == sum(row[0] in "~+" for row in rows)


def test_equal_texts_have_no_rows():
    assert _rows("a\nb", "a\nb") == []


def test_the_data_is_json_and_small(measured):
    assert len(json.dumps(comparison_data(measured))) < 400_000


def test_the_exported_page_needs_no_network_and_no_markup_gets_out(measured, tmp_path):
    pytest.importorskip("anywidget")
    text = measured.export_html(tmp_path / "page.html").read_text("utf-8")
    assert "https://" not in text
    assert text.replace("http://www.w3.org/2000/svg", "").count("http://") == 0
    assert "default-src 'none'" in text


def test_a_comparison_of_finished_stages_has_nothing_to_run(comparison):
    from septran.views.comparisons.comparison import Comparison

    alone = Comparison(comparison.names, comparison.explanations)
    with pytest.raises(ValueError, match="nothing to run"):
        alone.measure()

"""Timelines are data: lanes, bars, each text once."""

from __future__ import annotations

import json

import numpy as np
import pytest

import septran
from septran.views.dsa.timeline import timeline as timeline_of
from septran.views.text.origin_text import origin_parts
from septran.views.timelines.svg import timeline_svg
from septran.views.timelines.timeline import Timeline, TimelineRecord, covered, joined, timelines

WHY = "A is GLOBAL, so it is copied in [gemm.py:33, dsa.mapping.yaml:39:38]"


def record(start, end, lane="in", kind="in", **more):
    return TimelineRecord(lane, start, end, kind, "copy A", origin=WHY, **more)


def of(*records):
    return Timeline("run", "us", max(r.end for r in records), records)


def test_bars_that_overlap_are_in_rows_of_their_lane():
    data = of(record(0, 10), record(5, 15), record(10, 20), record(3, 4, "mma")).to_dict()
    assert [lane["title"] for lane in data["lanes"]] == ["in", "mma"]
    assert [lane["rows"] for lane in data["lanes"]] == [2, 1]
    assert data["bars"]["row"] == [0, 1, 0, 0]


def test_lanes_of_a_group_stay_together():
    found = of(
        record(0, 1, "a", group="core 0"), record(0, 1, "a", group="core 1"),
        record(1, 2, "b", group="core 0"),
    ).to_dict()["lanes"]  # fmt: skip
    assert [(lane["group"], lane["title"]) for lane in found] == [
        ("core 0", "a"), ("core 0", "b"), ("core 1", "a"),
    ]  # fmt: skip


def test_busy_is_the_union_of_the_bars_and_waits_are_apart():
    lane = of(record(0, 6), record(4, 8), record(8, 10, kind="wait")).to_dict()["lanes"][0]
    assert lane["busy"] == pytest.approx(0.8)
    assert lane["waits"] == pytest.approx(0.2)
    assert covered([record(0, 1), record(2, 3), record(2, 4)]) == 3


def test_an_origin_is_taken_apart_for_links():
    assert origin_parts(WHY) == {
        "rule": "A is GLOBAL, so it is copied in",
        "places": ["gemm.py:33", "dsa.mapping.yaml:39:38"],
        "keys": ["logic:gemm.py:33", "mapping:39"],
    }
    assert origin_parts("every slot is free [at first]")["keys"] == []
    assert origin_parts("free")["rule"] == "free"


def test_joining_keeps_bytes_and_counts_and_lanes_apart():
    many = [record(n * 2, n * 2 + 1, lane="ab"[n % 2], bytes=3) for n in range(10_000)]
    few = joined(many, 20_000, 100)
    assert len(few) <= 100
    assert sum(r.bytes for r in few) == 30_000
    assert sum(r.count for r in few) == 10_000
    assert {r.lane for r in few} == {"a", "b"}
    assert max(r.end for r in few) == 19_999


def test_few_records_are_left_alone():
    records = (record(0, 1), record(1, 2))
    assert joined(records, 2) == records


@pytest.fixture(scope="module")
def profile():
    kernel = septran.compile("gemm", "dsa-sim", shapes={"M": 256, "N": 128, "K": 256})
    random = np.random.default_rng(0)
    return kernel.profile(
        random.standard_normal((256, 256), np.float32),
        random.standard_normal((256, 128), np.float32),
    )


def test_a_dsa_profile_is_all_in_its_timeline(profile):
    data = timeline_of(profile).to_dict()
    trace = profile.run.trace
    works = (trace["bytes"] > 0) | (trace["flops"] > 0)
    kinds = [data["what"][n][0] for n in data["bars"]["what"]]
    assert sum(kind != "wait" for kind in kinds) == works.sum()
    assert data["end"] == profile.cycles
    moved = sum(data["what"][n][3] for n in data["bars"]["what"])
    assert moved == trace["bytes"].sum()
    busy = {lane["title"]: lane["busy"] for lane in data["lanes"]}
    for lane in profile.lanes:
        if lane.busy_cycles:
            assert busy[lane.queue] == pytest.approx(lane.utilisation)


def test_each_bar_says_why_it_is_there(profile):
    data = timeline_of(profile).to_dict()
    origins = [data["origins"][row[2]] for row in data["what"]]
    assert all(origin["rule"] for origin in origins)
    copies = [o for row, o in zip(data["what"], origins, strict=True) if row[0] == "in"]
    assert copies
    assert all(any(key.startswith("logic:gemm.py:") for key in o["keys"]) for o in copies)


def test_timelines_are_json_and_small(profile):
    text = json.dumps(timelines(timeline_of(profile), timeline_of(profile, "again")))
    assert len(text) < 100_000
    assert json.loads(text)["timelines"][1]["title"] == "again"


def test_the_static_picture_has_every_lane_and_no_markup_of_users():
    text = timeline_svg(Timeline("<b>x</b>", "us", 4.0, (record(0, 4, "<script>"),)))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<b>" not in text

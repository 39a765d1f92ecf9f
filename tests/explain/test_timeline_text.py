"""Timelines in a terminal, and as JSON for Perfetto."""

import json

from septran.views.timelines.timeline import Timeline, TimelineRecord

RECORDS = (
    TimelineRecord("copies", 0, 4, "in", "tma A", "block 0", "line 1", bytes=64),
    TimelineRecord("products", 2, 6, "matrix", "gemm C", "block 0", flops=10),
    TimelineRecord("products", 3, 8, "matrix", "gemm C", "block 0", flops=10),
    TimelineRecord("products", 0, 2, "wait", "wait A", "block 0"),
    TimelineRecord("copies", 6, 8, "in", "tma A", "block 1"),
)
TIMELINE = Timeline("k on m", "steps", 8, RECORDS, ("a note",))


def test_rows_are_as_dark_as_lanes_are_busy():
    lines = TIMELINE.to_text(width=4).splitlines()
    assert lines == [
        "k on m",
        "  block 0",
        "  copies   |██  |  50.0%  64 bytes",
        "  products | ███|  75.0%  20 operations",
        "  block 1",
        "  copies   |   █|  25.0%",
        "            08 steps",
        "  a note",
    ]
    assert "|▒▒|" in Timeline("", "us", 4, (TimelineRecord("x", 1, 3, "in", ""),)).to_text(2)


def test_nothing_at_all():
    assert Timeline("k", "us", 0.0, ()).to_text(3).splitlines()[0] == "k"


def test_a_trace_has_a_process_a_group_and_a_thread_a_lane(tmp_path):
    data = json.loads(TIMELINE.to_chrome_trace(tmp_path / "t.json").read_text())
    names = [e["args"]["name"] for e in data["traceEvents"] if e["ph"] == "M"]
    assert names == ["block 0", "copies", "products", "block 1", "copies"]
    bars = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert bars[0]["args"] == {"origin": "line 1", "bytes": 64}
    assert [bar["dur"] for bar in bars] == [4, 4, 5, 2, 2]
    assert len({(bar["pid"], bar["tid"]) for bar in bars}) == 3

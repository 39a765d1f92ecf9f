"""Pictures and traces show the commands where they are."""

from __future__ import annotations

import io
import itertools
import json

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from septran.targets.dsa.profiles.comparison import compare_profiles
from septran.views.dsa.plots import KINDS, WAIT

STEPS = 8


def boxes(axes, colour):
    """Left and right ends of all bars of a colour."""
    found = []
    for collection in axes.collections:
        if to_hex(collection.get_facecolor()[0]) == colour:
            found += [(p.vertices[:, 0].min(), p.vertices[:, 0].max())
                      for p in collection.get_paths()]  # fmt: skip
    return sorted(found)


def test_each_command_is_a_bar_at_its_time(two_stages):
    axes = two_stages.plot()
    frame = two_stages.to_pandas()
    products = frame[frame.operation == "mma"]
    expected = sorted(zip(products.start, products.end, strict=True))
    assert boxes(axes, KINDS["matrix"]) == expected
    assert len(boxes(axes, KINDS["in"])) == 2 * STEPS
    assert len(boxes(axes, KINDS["out"])) == 1
    assert boxes(axes, WAIT)


def test_lanes_are_named_and_the_legend_says_what_colours_mean(two_stages):
    axes = two_stages.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dma_in", "dma_out", "MMA"]
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["copies in", "copies out", "matrix unit", "waits for a flag"]


def test_it_draws_on_axes_that_are_given(two_stages):
    axes = Figure().add_subplot()
    assert two_stages.plot(axes, start=1000, end=4000) is axes
    assert axes.get_xlim() == (1000, 4000)
    assert two_stages.plot_roofline(axes) is axes


def test_the_roofline_marks_what_was_reached(two_stages):
    axes = two_stages.plot_roofline()
    points = [line for line in axes.lines if line.get_marker() == "o"]
    (at,), (reached,) = points[0].get_data()
    assert at == pytest.approx(two_stages.intensity)
    assert reached == pytest.approx(two_stages.flops_per_second / 1e9)


def test_pictures_can_be_saved(one_stage, two_stages):
    figure = compare_profiles([one_stage, two_stages]).plot()
    assert len(figure.axes) == 2
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim() == (0, one_stage.cycles)
    with io.BytesIO() as file:
        figure.savefig(file, format="png")
        assert file.getvalue().startswith(b"\x89PNG")


def test_the_chrome_trace_has_a_process_a_core_and_a_thread_a_queue(two_stages, tmp_path):
    path = two_stages.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    names = {e["args"]["name"]: e for e in events if e["name"] == "thread_name"}
    assert set(names) == {"control", "dma_in", "dma_out", "MMA"}
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["core 0"]
    spans = [e for e in events if e["ph"] == "X" and e["cat"] == "mma"]
    assert len(spans) == STEPS
    frame = two_stages.to_pandas()
    products = frame[frame.operation == "mma"]
    assert [(e["ts"], e["dur"]) for e in spans] == list(
        zip(products.start, products.cycles, strict=True)
    )
    assert {e["tid"] for e in spans} == {names["MMA"]["tid"]}
    threads = {}
    for event in events:
        if event["ph"] == "X":
            threads.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for found in threads.values():  # viewers cannot show what overlaps
        ordered = sorted(found)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered))
    assert spans[0]["args"]["origin"].startswith("gemm by mma")
    assert spans[0]["args"]["flops"] == 2 * 64**3


def test_arrows_go_forwards_from_a_set_to_a_wait_that_stalled(two_stages, tmp_path):
    path = two_stages.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
    assert starts
    assert starts.keys() == ends.keys()
    assert all(starts[n] <= ends[n] for n in starts)
    waits = [e for e in events if e["ph"] == "X" and e["cat"] == "wait_flag"]
    assert len(waits) == len(starts)

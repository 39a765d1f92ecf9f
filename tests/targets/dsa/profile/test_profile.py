"""What a profile says of runs whose schedules are known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from septran.machine.loader import load_machine
from septran.simulator import TRACE, simulate
from septran.simulator.commands import parameter_address
from septran.simulator.queues import Queues
from septran.simulator.script import Script
from septran.targets.dsa.profiles.comparison import NothingToCompareError, compare_profiles
from septran.targets.dsa.profiles.lanes import shares, unions
from septran.targets.dsa.profiles.profile import UNKNOWN, DsaProfile
from septran.views.dsa.plots import kinds_of

STEPS, TILE = 8, 64 * 64 * 4
MMA_CYCLES = 8 + 4 * 4 * 4 * 16
"""Of one 64 x 64 x 64 tile: start, then 16 cycles a block of 16 x 16 x 16."""


def records(*spans):
    found = np.zeros(len(spans), TRACE)
    for record, (start, end) in zip(found, spans, strict=True):
        record["start"], record["end"] = start, end
    return found


def test_overlapping_commands_are_counted_once():
    spans = unions(records((0, 10), (5, 20), (30, 40), (31, 35), (40, 41)))
    assert spans.tolist() == [[0, 20], [30, 41]]
    assert unions(records((3, 3))).shape == (0, 2)


def test_shares_of_columns_add_up_to_the_spans():
    spans = np.array([[0, 15], [40, 50]])
    assert shares(spans, 100, 10).tolist() == [1, 0.5, 0, 0, 1, 0, 0, 0, 0, 0]
    assert shares(spans, 100, 7).sum() * 100 / 7 == pytest.approx(25)
    assert shares(np.zeros((0, 2), int), 100, 4).tolist() == [0, 0, 0, 0]


def test_the_matrix_unit_is_busy_for_as_long_as_its_tiles_take(two_stages):
    (lane,) = [lane for lane in two_stages.lanes if lane.queue == "MMA"]
    assert lane.busy_cycles == STEPS * MMA_CYCLES
    assert lane.utilisation == lane.busy_cycles / two_stages.cycles
    assert two_stages.utilisation["MMA"] == lane.utilisation
    assert lane.commands == STEPS


def test_every_operation_and_byte_is_counted(two_stages):
    assert two_stages.flops == 2 * 64 * 64 * 64 * STEPS
    assert two_stages.edge_bytes == {"GLOBAL -> SPM": 2 * STEPS * TILE, "ACC -> GLOBAL": TILE}
    assert two_stages.main_memory_bytes == (2 * STEPS + 1) * TILE
    assert two_stages.engine_bytes["dma_in"] == 2 * STEPS * TILE


def test_a_copy_within_main_memory_counts_twice():
    """As in the ledger and on the simulator's port: it is read there and written there."""
    machine = load_machine("dsa-sim")
    first, *others = machine.engines
    within = replace(first, moves=(*first.moves, ("GLOBAL", "GLOBAL")))
    machine = replace(machine, engines=(within, *others))
    script = Script()
    script.add(
        "dma_copy", queue=Queues(machine).numbers[first.name], dst=parameter_address(0),
        dst_stride=64, src=parameter_address(1), src_stride=64, rows=4, row_bytes=64,
    )  # fmt: skip
    script.add("sync")
    stream, tensors = script.stream(), [np.zeros(256, np.uint8), np.ones(256, np.uint8)]
    profile = DsaProfile("within", simulate(machine, stream, tensors), stream, {})
    assert (tensors[0] == 1).all()
    assert profile.edge_bytes == {"GLOBAL -> GLOBAL": 256}
    assert profile.main_memory_bytes == 512


def test_zeros_that_are_written_to_main_memory_go_outwards():
    machine = load_machine("dsa-sim")
    script = Script()
    queue = Queues(machine).numbers["dma_out"]
    script.add(
        "dma_zero", queue=queue, dst=parameter_address(0), dst_stride=64, rows=4, row_bytes=64
    )
    script.add("sync")
    stream, tensors = script.stream(), [np.ones(256, np.uint8)]
    profile = DsaProfile("zeros", simulate(machine, stream, tensors), stream, {})
    assert profile.edge_bytes == {"GLOBAL": 256}
    assert profile.main_memory_bytes == 256
    assert kinds_of(profile).tolist() == ["out", ""]


def test_rates_are_those_of_the_clock(two_stages):
    assert two_stages.seconds == two_stages.cycles / 1e9
    assert two_stages.flops_per_second == two_stages.flops / two_stages.seconds
    assert two_stages.intensity == two_stages.flops / two_stages.main_memory_bytes
    roofs = {(roof.name, roof.kind): roof.per_second for roof in two_stages.roofs}
    assert roofs["mma", "compute"] == 512e9
    assert roofs["GLOBAL", "memory"] == 32e9
    roof = min(512e9, two_stages.intensity * 32e9)
    assert two_stages.flops_per_second < roof


def test_the_second_stage_hides_the_copies(one_stage, two_stages):
    copies, product = "dma_in", "MMA"

    def beside(profile):
        """Cycles in which both the copies and the matrix unit work."""
        frame = profile.to_pandas()
        busy = []
        for queue in (copies, product):
            cycles = np.zeros(profile.cycles, bool)
            mine = frame[(frame.queue == queue) & ~frame.operation.str.contains("flag")]
            for start, end in zip(mine.start, mine.end, strict=True):
                cycles[start:end] = True
            busy.append(cycles)
        return int(np.sum(busy[0] & busy[1]))

    assert beside(one_stage) == 0
    assert beside(two_stages) > 0.6 * STEPS * MMA_CYCLES


def test_the_timeline_has_a_row_a_command_with_its_origin(two_stages):
    frame = two_stages.to_pandas()
    assert len(frame) == len(two_stages.stream)
    wanted = ["core", "queue", "operation", "start", "end", "cycles", "bytes", "flops"]
    assert set(wanted) <= set(frame.columns)
    assert {f"stall_{cause}" for cause in two_stages.stalls} <= set(frame.columns)
    product = frame[frame.operation == "mma"]
    assert set(product.origin) == {"gemm by mma [gemm.py:16, m.mapping.yaml:9:3]"}
    assert frame[frame.operation == "sync"].queue.tolist() == ["control"]
    assert frame[frame.operation == "sync"].origin.tolist() == [UNKNOWN]
    assert (frame.end >= frame.start).all()
    assert frame.end.max() == two_stages.cycles


def test_origins_add_up_to_all_bytes_and_name_the_mapping_line(two_stages):
    frame = two_stages.by_origin()
    assert frame.bytes.sum() == two_stages.run.trace["bytes"].sum()
    assert frame.flops.sum() == two_stages.flops
    copies = frame[frame.queue == "dma_in"]
    assert copies.mapping.tolist() == ["m.mapping.yaml:7:3"]
    assert frame.cycles.is_monotonic_decreasing
    assert frame[frame.queue == "MMA"].cycles.iloc[0] == STEPS * MMA_CYCLES


def test_stalls_are_those_of_the_trace(one_stage):
    assert one_stage.stalls["flag"] == one_stage.run.trace["flag"].sum() > 0
    assert sum(lane.stalls["flag"] for lane in one_stage.lanes) == one_stage.stalls["flag"]


def test_the_text_tells_cycles_utilisation_stalls_and_bytes(two_stages):
    text = str(two_stages)
    assert f"{two_stages.cycles:,} cycles" in text
    assert f"{two_stages.utilisation['MMA']:.1%}" in text
    assert "waiting for a flag" in text
    assert "GLOBAL -> SPM 262,144 bytes" in text


def test_the_text_timeline_is_dark_where_a_lane_works(two_stages):
    lines = two_stages.timeline_text(40).splitlines()
    assert [line.split("|")[0].strip() for line in lines[:3]] == ["dma_in", "dma_out", "MMA"]
    incoming, outgoing = (line.split("|")[1] for line in lines[:2])
    assert len(incoming) == len(outgoing) == 40
    assert incoming[0] == "█"
    assert incoming[-1] == " "
    assert outgoing[0] == " "
    assert outgoing[-1] == "█"


def test_it_becomes_json(two_stages):
    data = json.loads(json.dumps(two_stages.to_dict()))
    assert data["cycles"] == two_stages.cycles
    assert data["bound"] is None
    assert data["edge_bytes"]["ACC -> GLOBAL"] == TILE


def test_html_is_static_and_says_in_words_what_the_picture_shows(two_stages):
    html = two_stages._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert "data:image/svg+xml" in html
    assert f"Timeline of {two_stages.cycles:,} cycles" in html
    assert "MMA 77%" in html


def test_the_svg_has_a_bar_a_command(two_stages):
    from septran.views.dsa.profile_panel import timeline_svg

    svg = timeline_svg(two_stages)
    assert svg.startswith("<svg")
    assert "<title>product" in svg
    assert svg.count("v18h") == 2 * STEPS + STEPS + 1


def test_comparison_puts_them_beside_each_other(one_stage, two_stages):
    found = compare_profiles([one_stage, two_stages], ["pipeline: 1", "pipeline: 2"])
    frame = found.to_pandas()
    assert frame.loc["pipeline: 2", "speedup"] == one_stage.cycles / two_stages.cycles
    text = str(found)
    assert f"{one_stage.cycles:,}" in text
    assert f"{two_stages.cycles:,}" in text
    assert "pipeline: 2" in found._repr_mimebundle_()["text/html"]
    assert set(found.to_dict()) == {"pipeline: 1", "pipeline: 2"}


def test_comparison_of_nothing_is_an_error(one_stage):
    with pytest.raises(NothingToCompareError, match="no profiles"):
        compare_profiles([])
    with pytest.raises(NothingToCompareError, match="1 profiles have 2 titles"):
        compare_profiles([one_stage], ["a", "b"])

"""An emulated GPU run shows itself: lanes of engines and warps, reasons, counts."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import septran
from septran.views.panels.emulated import timeline

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++")


@pytest.fixture(scope="module")
def profile():
    shapes = {"M": 128, "N": 128, "K": 128}
    tile = {"block_M": 128, "block_N": 128, "block_K": 64}
    kernel = septran.compile(
        "gemm", "nvidia-h200", shapes=shapes, dtypes="float16", tunables=tile, emulate=True
    )
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 128)).astype(np.float16) for _ in range(2))
    return kernel.profile(a, b)


def test_a_bar_a_record_in_lanes_of_engines_and_warps(profile):
    found = timeline(profile, None, warps=True)
    assert found.unit == "steps"
    assert len(found.records) == len(profile.run.trace)
    lanes = list(dict.fromkeys(record.lane for record in found.records))
    assert lanes[:2] == ["copy engine", "tensor cores"]
    assert lanes[2:] == sorted(lanes[2:], key=lambda name: int(name.removeprefix("warp ")))
    for lane, kind in (("copy engine", {"in", "out"}), ("tensor cores", {"matrix"})):
        assert {r.kind for r in found.records if r.lane == lane} == kind
    copied = sum(r.bytes for r in found.records if r.kind == "in")
    assert copied == profile.run.statistics["tma_load_bytes"] == 2 * 128 * 128 * 2
    assert sum(r.flops for r in found.records) == 2 * 128**3


def test_one_multiprocessor_has_a_lane_a_warpgroup(profile):
    lanes = {record.lane for record in timeline(profile).records}
    assert lanes == {"copy engine", "tensor cores", "warp 0", "warp 4", "warp 8"}
    assert {record.group for record in timeline(profile, None).records} == {
        record.group for record in timeline(profile, None, warps=True).records
    }


def test_bars_say_why_they_are_there(profile):
    copies = [r for r in timeline(profile).records if r.kind == "in"]
    assert all("gemm.py:" in r.origin and "nvidia-h200.mapping.yaml:" in r.origin for r in copies)


def test_it_displays_itself_without_a_kernel(profile):
    shown = profile._repr_mimebundle_()
    assert "TMA loads" in shown["text/html"]
    assert "no time of a GPU" in shown["text/html"]
    assert shown["text/plain"] == str(profile)


def test_its_view_holds_the_timeline(profile):
    pytest.importorskip("anywidget")
    view = profile.explore()
    data = view.data["timelines"][0]
    assert data["unit"] == "steps"
    assert {lane["title"] for lane in data["lanes"]} >= {"copy engine", "tensor cores"}

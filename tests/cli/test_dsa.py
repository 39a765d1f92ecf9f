"""The command line on a simulated DSA: cycles instead of seconds."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from septran.cli import app

SIZES = ("-s", "M=64", "-s", "N=64", "-s", "K=96")


@pytest.fixture(scope="module", autouse=True)
def cache_of_this_module(tmp_path_factory):
    """A kernel that several commands run is compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path_factory.mktemp("cache") / "cache"))
        yield


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def septran(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result.output


def test_run_counts_cycles_and_says_nothing_of_torch():
    text = septran("run", "gemm", "--on", "dsa-sim", *SIZES)
    assert "C: right" in text
    assert " cycles, " in text
    assert "bound: " in text
    assert "torch" not in text
    assert "unreliable" not in text


def test_run_shows_the_timeline():
    text = septran("run", "gemm", "--on", "dsa-sim", "--profile", *SIZES)
    assert "utilisation" in text
    assert "stall cycles" in text
    lanes = [line for line in text.splitlines() if line.count("|") == 2]
    assert [line.split()[0] for line in lanes] == ["dma_in", "dma_out", "MMA"]
    assert "so it is copied in [septran/operators/gemm.py:33" in text


def test_run_writes_a_trace(tmp_path):
    path = tmp_path / "gemm.json"
    text = septran("run", "gemm", "--on", "dsa-sim", "--trace", path, *SIZES)
    assert str(path) in text
    assert json.loads(path.read_text(encoding="utf-8"))["traceEvents"]


def test_run_prints_the_profile_as_json():
    data = json.loads(septran("run", "softmax", "--on", "npu-cube", "--profile", "--json"))
    assert data["right"]
    assert data["profile"]["cycles"] >= data["profile"]["bound"]["cycles"]
    assert data["by_origin"][0]["cycles"] > 0


def test_run_shows_lanes_without_origins():
    text = septran("run", "gemm", "--on", "dsa-sim", "--timeline", *SIZES)
    assert len([line for line in text.splitlines() if line.count("|") == 2]) == 3
    assert "where the cycles come from" not in text


def test_a_measured_machine_has_no_cycles():
    text = septran("run", "gemm", "--on", "cpu-x86", "--profile", *SIZES, code=2)
    assert "--timeline shows what ran when" in " ".join(text.split())


@pytest.mark.parametrize("option", [("--profile",), ("--timeline",), ("--trace", "t.json")])
def test_an_interpreted_run_has_no_timeline(option):
    text = septran("run", "gemm", "--on", "dsa-sim", "--interpret", *option, *SIZES, code=2)
    assert "has no timeline" in " ".join(text.split())


def test_a_run_on_this_cpu_shows_its_threads(tmp_path):
    path = tmp_path / "gemm.json"
    words = ("run", "gemm", "--on", "cpu-x86", "--no-torch", "--timeline", "--trace", path)
    text = septran(*words, *SIZES)
    lanes = [line.split("|")[0].strip() for line in text.splitlines() if line.count("|") == 2]
    assert lanes
    assert all(lane.startswith("thread ") for lane in lanes)
    assert {event["ph"] for event in json.loads(path.read_text())["traceEvents"]} == {"M", "X"}
    data = json.loads(septran(*words, "--json", *SIZES))
    assert data["timeline"][0]["title"].startswith("thread ")


def test_explain_prints_the_cycles_that_a_run_takes():
    text = septran("explain", "gemm", "--on", "dsa-sim", "-f", "report", *SIZES)
    ran = json.loads(septran("run", "gemm", "--on", "dsa-sim", "--profile", "--json", *SIZES))
    assert f"  {ran['profile']['cycles']:,} cycles\n" in text
    assert "  compute (MMA): predicted " in text
    assert f"no schedule of it takes less than {ran['profile']['bound']['cycles']:,} " in text
    elsewhere = septran("explain", "gemm", "--on", "cpu-x86", "-f", "report", *SIZES)
    assert "cycles" not in elsewhere.split("Data movement")[0]

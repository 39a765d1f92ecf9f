"""The search of a mapping's values: what it refuses, runs, finds and writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.errors import SepTranError
from septran.tuning.tuner import NothingToTuneError, SearchLimits, search
from septran.tuning.tuning import NothingFoundError, Trial, Tuning

SHAPES = {"M": 64, "N": 64, "K": 64}
LIMITS = SearchLimits(runs=8, seconds=None, patience=120.0)
TRIED = {"block_M": [16, 32], "block_N": [32]}
TUNED = """
extends: dsa-sim.mapping.yaml   # as it comes
tunables:
  # how many rows at once
  block_width: !tune {type: choice, values: [64, 128]}
"""


@pytest.mark.slow
def test_on_a_simulated_dsa_the_fewest_cycles_win_and_the_file_gives_the_same_kernel(tmp_path):
    found = septran.tune("gemm", "dsa-sim", shapes=SHAPES, tried=TRIED, patience=120.0)
    assert found.complete
    assert [t.kind for t in found.trials] == ["measured", "measured"]
    assert found.best.cycles == min(t.cycles for t in found.trials)
    assert found.before.cycles > 0
    path = found.save(tmp_path / "best.mapping.yaml")
    text = path.read_text()
    assert (
        f"# Found by `septran tune` for gemm on dsa-sim: {found.best.seconds * 1e6:.4g} us" in text
    )
    assert "extends: dsa-sim.mapping.yaml" in text
    for mapping in (path, found.mapping):
        kernel = septran.compile("gemm", mapping, shapes=SHAPES)
        assert kernel.profile().cycles == found.best.cycles
    with pytest.raises(FileExistsError, match="another name"):
        replace(found, write=lambda _: "other").save(path)


@pytest.mark.slow
def test_on_the_cpu_all_that_is_right_is_timed_and_the_same_program_only_once():
    tried = {"block_M": [16, 32, 4096, 8192], "block_N": [32]}
    found = septran.tune("gemm", "cpu-x86", shapes=SHAPES, tried=tried, patience=120.0)
    kinds = [t.kind for t in found.trials]
    assert kinds == ["measured", "measured", "measured", "same"]
    assert found.trials[3].message == "the same program as that of 2"
    times = [t.seconds for t in found.ordered]
    assert times == sorted(times)
    assert all(t.predicted > 0 for t in found.ordered)
    assert "the mapping as it" in str(found)


def test_values_in_the_file_are_written_where_they_are_searched_and_comments_stay(tmp_path):
    path = tmp_path / "mine.mapping.yaml"
    path.write_text(TUNED)
    found = septran.tune("softmax", path, shapes={"M": 8, "N": 96}, measured=False)
    assert found.before is None
    text = found.to_yaml()
    assert "# how many rows at once" in text
    assert "!tune" not in text
    septran.compile("softmax", found.mapping, shapes={"M": 8, "N": 96})


def test_the_model_alone_decides_for_a_machine_that_is_not_here():
    found = septran.tune(
        "gemm", "nvidia-h200", dtypes="float16", measured=False,
        shapes={"M": 512, "N": 512, "K": 512}, tried={"block_M": [128, 64], "block_K": [64, 48]},
    )  # fmt: skip
    assert not found.measured
    assert {t.kind for t in found.trials} <= {"ranked", "invalid", "same"}
    assert found.best.seconds is None
    assert found.best.cost == min(t.predicted for t in found.trials if t.predicted)
    assert "by the model, not run" in found.to_yaml()


def test_what_the_machine_refuses_is_not_run_and_says_why():
    found = septran.tune(
        "gemm", "dsa-sim", shapes={"M": 512, "N": 128, "K": 64},
        tried={"block_M": [64, 512], "block_N": [128]}, measured=False,
    )  # fmt: skip
    assert [t.kind for t in found.trials] == ["ranked", "invalid"]
    assert found.trials[1].message


@pytest.mark.slow
def test_wrong_results_never_win(monkeypatch):
    found = search("gemm", "cpu-x86", shapes=SHAPES, tried={"block_M": [16, 32, 48]}, limits=LIMITS)
    ask = found.worker.ask
    seen = []

    def planted(request, seconds):
        answer = ask(request, seconds)
        if request["results"]:
            seen.append(request)
            file = Path(request["results"], "C")
            c = np.frombuffer(file.read_bytes(), np.float32).copy()
            if len(seen) == 2:
                c[7] += 1e-3
            if len(seen) == 3:
                c[9] = np.nan
            file.write_bytes(c.tobytes())
            if len(seen) in (2, 3):
                answer["seconds"] = 1e-12
        return answer

    monkeypatch.setattr(found.worker, "ask", planted)
    result = found.run()
    assert sorted(t.kind for t in result.trials) == ["measured", "wrong", "wrong"]
    assert result.best.kind == "measured"
    assert "wrong: block_M" in str(result)


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_found(monkeypatch):
    found = search("gemm", "cpu-x86", shapes=SHAPES, tried={"block_M": [16, 32, 48]}, limits=LIMITS)
    ask, seen = found.worker.ask, []

    def interrupted(request, seconds):
        seen.append(request)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return ask(request, seconds)

    monkeypatch.setattr(found.worker, "ask", interrupted)
    result = found.run()
    assert not result.complete
    assert result.counts["measured"] == 1
    assert "(stopped)" in str(result)
    assert result.mapping is not None


@pytest.mark.slow
def test_in_the_background_with_progress():
    job = septran.tune(
        "gemm", "dsa-sim", shapes=SHAPES, tried=TRIED, background=True, patience=120.0
    )
    result = job.result(300)
    assert isinstance(result, Tuning)
    assert result.complete
    assert job.progress.state == "done"
    assert job.progress.counts["measured"] == 2
    assert "best" in job.progress.note


def test_what_cannot_be_searched_is_said_at_once():
    with pytest.raises(NothingToTuneError, match="no task of gemm reads tunable 'blok_M'"):
        septran.tune("gemm", "cpu-x86", tried={"blok_M": [1]})


def test_nothing_found_says_what_became_of_all():
    none = Tuning("gemm", "x", True, (Trial(0, {"a": 1}, "invalid", message="too large"),), 1, True)
    with pytest.raises(NothingFoundError, match="1 invalid") as caught:
        none.to_yaml()
    assert caught.value.hint == "too large"
    assert isinstance(caught.value, SepTranError)


def test_a_result_is_text_data_and_html_and_names_are_escaped():
    trials = (
        Trial(0, {"a": 1}, "measured", 1e-3, 2e-3),
        Trial(1, {"a": 2}, "crashed", 1e-3, message="<script>x</script>"),
    )
    found = Tuning("<b>g</b>", "m", True, trials, 2, False, write=lambda _: "machine: <i>")
    assert json.loads(json.dumps(found.to_dict()))["best"] == 0
    shown = found._repr_mimebundle_()
    assert shown["text/plain"] == str(found)
    assert "2 ms" in shown["text/html"]
    for raw in ("<script>", "<b>g", "<i>"):
        assert raw not in shown["text/html"]

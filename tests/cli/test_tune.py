"""``septran tune``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from septran.cli import app
from septran.tuning import open_space

SMALL = ["-s", "M=64", "-s", "N=64", "-s", "K=64"]


def run(*words):
    return CliRunner().invoke(app, ["tune", *words])


def test_the_best_is_printed_and_written_as_a_mapping(tmp_path):
    path = tmp_path / "best.mapping.yaml"
    done = run("gemm", "--on", "dsa-sim", *SMALL, "--try", "block_M=16,64", "-o", str(path))
    assert done.exit_code == 0, done.output
    assert "2 combinations, 2 measured" in done.output
    assert "cycles" in done.output
    checked = CliRunner().invoke(app, ["lint", str(path)])
    assert checked.exit_code == 0, checked.output


def test_json_for_programs_and_the_model_alone():
    done = run("gemm", "--on", "nvidia-h200", "--dtype", "float16", "--model", "--json",
               "--try", "block_K=32,64")  # fmt: skip
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["measured"] is False
    assert data["best"] in (0, 1)
    assert [trial["values"] for trial in data["trials"]] == [{"block_K": 32}, {"block_K": 64}]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["gemm", "--try", "blok_M=1,2"], 1, "did you mean 'block_M'?"),
        (["gemm", "--try", "block_M"], 2, "is not NAME=VALUE"),
        pytest.param(
            ["gemm", "--on", "dsa-sim", "--try", "block_M=1048576", "--try", "block_N=1048576",
             "-s", "M=512", "-s", "N=512", "-s", "K=64"], 1, "no candidate for gemm",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_mistakes_are_told(words, code, says):
    done = run(*words)
    assert done.exit_code == code, done.output
    assert says in done.output


def told(done):
    """What a command printed, without the box around a mistake."""
    return " ".join(done.output.replace("│", " ").split())


def test_nothing_that_was_there_is_lost(monkeypatch, tmp_path):
    monkeypatch.setattr(open_space, "MOST_LOOKED_AT", 8)
    monkeypatch.chdir(tmp_path)  # whose long name would be broken across lines
    own, notes = Path("own.mapping.yaml"), Path("notes.txt")
    own.write_text("extends: dsa-sim\nrules: [{match: {task: gemm_block}, pipeline: 1}]\n")
    notes.write_text("mine")
    said = ["gemm", "-m", str(own), "--model", "-s", "M=8", "-s", "N=64", "-s", "K=64"]
    for output in (own, notes):
        before = output.read_text()
        done = run(*said, "-o", str(output))
        assert done.exit_code == 2, done.output
        assert f"{output} exists and would be lost" in told(done)
        assert output.read_text() == before
    Path("other").mkdir()
    done = run(*said, "-o", "other/best.mapping.yaml")
    assert done.exit_code == 2, done.output
    assert "beside that file" in told(done)


def test_a_mapping_that_was_found_can_be_searched_again(monkeypatch, tmp_path):
    monkeypatch.setattr(open_space, "MOST_LOOKED_AT", 40)
    first, second = tmp_path / "first.mapping.yaml", tmp_path / "second.mapping.yaml"
    said = ["--model", "-s", "M=64", "-s", "N=64"]
    assert run("gemm", "--on", "dsa-sim", *said, "-s", "K=64", "-o", str(first)).exit_code == 0
    for _ in range(2):  # what a search wrote may be written again
        done = run("gemm", "-m", str(first), *said, "-s", "K=512", "-o", str(second))
        assert done.exit_code == 0, done.output
    text = second.read_text()
    assert text.count("# Found by") == 1
    rules = [line.split("#")[0] for line in text.splitlines() if "- {match" in line]
    places = [re.sub(r": [^:{}]+}", "", rule) for rule in rules]
    assert len(places) == len(set(places)), text


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("M,N,K\n8,64\n", "2 sizes for 3 names"),
        ("M,N,K\n8,64,x\n", "sizes.csv:2: 'x' is no size of K"),
        ("M,N\n", "has no sizes"),
    ],
)
def test_mistakes_in_a_table_are_told_with_their_line(table, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("sizes.csv").write_text(table)
    done = run("gemm", "--on", "dsa-sim", "--model", "--shapes", "sizes.csv")
    assert done.exit_code == 2, done.output
    assert says in told(done)

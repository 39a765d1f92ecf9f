"""``septran tune``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from septran.cli import app

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
        (["gemm"], 1, "!tune nowhere"),
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

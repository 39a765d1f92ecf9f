"""What is no logic is told as what it is: a folder, another file, a file that is not there."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from septran.cli import app


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine.py").write_text("")
    (tmp_path / "mine.mapping.yaml").write_text("machine: cpu-x86\n")
    return tmp_path


@pytest.mark.parametrize(
    ("logic", "message", "hint"),
    [
        ("sub", "'sub' is a folder, not a logic file [SEP118]", "sub/mine.py"),
        ("./sub", "'./sub' is a folder, not a logic file", "sub/mine.py"),
        (".", "'.' is a folder, not a logic file", "name a file in it, such as"),
        ("mine.mapping.yaml", "'mine.mapping.yaml' is no logic file: the name of one ends in .py",
         "name a .py file, or an operator: gemm"),
        ("sub/mine", "'sub/mine' is no logic file", "did you mean "),
        ("sub/other.py", "no logic file 'other.py' in ", ""),
        ("gem", "no operator 'gem'", "did you mean 'gemm'?"),
    ],
)  # fmt: skip
def test_what_is_no_logic_is_told_as_what_it_is(folder, logic, message, hint):
    error = CliRunner().invoke(app, ["run", logic]).stderr
    assert message in error
    assert hint in error


@pytest.mark.parametrize("option", ["--on", "-m"])
def test_a_folder_is_no_mapping(folder, option):
    error = CliRunner().invoke(app, ["run", "gemm", option, "sub"]).stderr
    assert "'sub' is a folder, not a mapping file [SEP302]" in error

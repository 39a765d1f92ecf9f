"""Odd arguments of the command line: an exit code, a message, never a traceback."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from septran.cli import app

SIZES = ("-s", "M=8", "-s", "N=8", "-s", "K=8")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """A folder with things that are no logic, no mapping and no place to write to."""
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "ends.py").write_text("import sys; sys.exit(3)\n", encoding="utf-8")
    return tmp_path


def said(*words):
    """What a command says that is refused; an error of Python fails the test."""
    found = CliRunner().invoke(app, list(words))
    assert isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code in (1, 2), found.output
    return found.output


@pytest.mark.parametrize("path", ["folder", "nowhere/x", "file/x", ""])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "gemm", "--no-torch", *SIZES, "--trace"),
        ("run", "gemm", "--on", "dsa-sim", *SIZES, "--trace"),
        ("run", "gemm", "--on", "nvidia-h200", "--emulate", *SIZES, "--trace"),
        ("tune", "gemm", "--try", "block_M=8", "--model", *SIZES, "--output"),
        ("explain", "gemm", *SIZES, "--output"),
        ("schema", "machine", "--output"),
    ],
)
def test_where_nothing_can_be_written(command, path):
    assert "cannot be written" in said(*command, path)


@pytest.mark.parametrize("command", ["run", "tune"])
def test_it_is_said_before_the_work(command, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the logic was loaded")

    monkeypatch.setattr(f"septran.commands.{command}.request", never)
    option = "--trace" if command == "run" else "--output"
    assert option in said(command, "gemm", option, "folder")


def test_tutorials_go_into_a_folder():
    assert "cannot be written" in said("notebooks", "file")


def test_a_logic_that_ends_python():
    output = said("explain", "ends.py")
    assert "SystemExit while it was loaded: 3" in output
    assert "SEP118" in output


def test_empty_names_are_not_all():
    assert "no machine ''" in said("machines", "")
    assert "no operator ''" in said("ops", "")
    assert "no mapping ''" in said("explain", "gemm", "-m", "", *SIZES)


def test_a_static_flag_that_is_a_word():
    output = said("explain", "attention", "--static", "causal=no")
    assert "causal of attention is 'no', and must be true or false" in output


@pytest.mark.parametrize(
    ("option", "value"),
    [("--seconds", "-1"), ("--seconds", "nan"), ("--patience", "0"), ("--try", "block_N=,")],
)
def test_limits_of_a_search(option, value):
    name = "tried" if option == "--try" else option.removeprefix("--")
    assert name in said("tune", "gemm", "--try", "block_M=8", option, value, *SIZES)


def test_a_run_is_interpreted_or_emulated():
    assert "one of --interpret and --emulate" in said("run", "gemm", "--interpret", "--emulate")


def test_a_product_of_nothing_by_nothing_has_code():
    sizes = ("-s", "M=0", "-s", "N=0", "-s", "K=0")
    found = CliRunner().invoke(app, ["run", "gemm", "--no-torch", *sizes])
    assert found.exit_code == 0, found.output
    assert "C: right" in found.output

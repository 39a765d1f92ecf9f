"""The commands and the code that the manual shows work as they are written there."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import septran
from septran.cli import app
from septran.targets.cuda.run import toolchain

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/dsa.md", "docs/nvidia.md", "docs/emulator.md")
OWN = "my-dsa"
"""In commands on files of the reader's own."""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def commands() -> list[str]:
    """Each command of SepTran's in a block, as it is there, without notes."""
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    parts = [part.partition("#")[0].strip() for line in lines for part in line.split("&&")]
    return sorted({p for p in parts if p.startswith("septran ") and OWN not in p})


def test_the_manual_shows_commands():
    """Else nothing below would be tested."""
    found = commands()
    assert "septran run gemm --on cpu-x86" in found
    assert len(found) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_manual(command, tmp_path, monkeypatch):
    if "--part sass" in command and not toolchain.disassemblers():
        pytest.skip(f"no disassembler here: {toolchain.INSTALL_DISASSEMBLER}")
    if "--emulate" in command and not shutil.which("g++"):
        pytest.skip("the emulator needs g++")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert result.output


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
def test_the_emulators_python():
    """With the kernel and the arrays that the page takes for granted."""
    random = np.random.default_rng(0)
    names = {n: random.standard_normal((1, 1, 64, 64)).astype("float16") for n in "qkv"}
    with contextlib.redirect_stdout(io.StringIO()) as told:
        exec(blocks("docs/emulator.md", "python")[0], {**names, "septran": septran})
    assert "wgmma" in told.getvalue()


def test_the_language_pages_logic(tmp_path):
    logic = tmp_path / "gemm.py"
    logic.write_text(blocks("docs/language.md", "python")[0], encoding="utf-8")
    result = CliRunner().invoke(app, ["explain", str(logic), "--on", "cpu-x86"])
    assert result.exit_code == 0, result.output
    assert "gemm_tile" in result.output

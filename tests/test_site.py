"""The documentation site has every page of the manual; `.ci/run` makes all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from septran.cli import app

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"


def test_every_page_of_the_manual_is_in_the_site():
    pages = {p.stem for p in (ROOT / "docs").glob("*.md")}
    manual = re.search(r"MANUAL = \((.*?)\)", (SITE / "build.py").read_text("utf-8"), re.S)
    assert set(re.findall(r'"(\w+)"', manual[1])) == pages
    index = (SITE / "index.md").read_text("utf-8").splitlines()
    assert pages <= set(index)


def test_a_site_that_is_there_is_opened(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = tmp_path / "html" / "index.html"
    page.parent.mkdir()
    page.write_text("there")
    result = CliRunner().invoke(app, ["docs", "-o", str(tmp_path)])
    assert result.exit_code == 0
    assert opened == [page.resolve().as_uri()]
    assert page.read_text() == "there"


def test_tables_of_the_site_are_those_of_the_compiler():
    pytest.importorskip("sphinx", reason="septran[docs] is not installed")
    from docs.site import build

    assert "`rules.match.task`" in build.keys_page()
    assert "`memories.NAME.capacity`" in build.keys_page()
    assert "## dma_copy" in build.vendor_page()
    assert "## septran explain" in build.commands_page()
    assert "| `gemm` |" in build.library_page()

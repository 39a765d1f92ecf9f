"""The README's pictures of notebooks: made here with --update-golden, and looked at always."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
LARGEST = 160_000
"""Bytes of a picture."""
COLOURS = 128

EXPLORER = "import septran\nseptran.explore('attention', 'dsa-sim')"
TIMELINES = """
import septran
sizes = {"M": 256, "N": 256, "K": 256}
kernel = septran.compile("gemm", "dsa-sim", shapes=sizes)
kernel.timeline().explore()
"""


def test_the_explorer_with_one_copy_lit(open_notebook, picture):
    notebook = open_notebook(EXPLORER, width=1280, height=900)
    page = notebook.page
    line = page.locator("[data-pane=tile_program] .sep-code-line", has_text="= copy(").first
    line.click()
    lit = page.locator(".sep-code-line.sep-lit")
    panes = {one.locator("xpath=ancestor::*[@data-pane]").get_attribute("data-pane")
             for one in lit.all()}  # fmt: skip
    assert {"logic", "mapping", "tile_program", "source"} <= panes
    assert "so it is copied in" in page.locator(".sep-why").first.inner_text()
    picture(page.locator(".sep-explorer"), "explorer.png")


def test_the_timeline_with_one_command_explained(open_notebook, picture):
    notebook = open_notebook(TIMELINES, width=1300, height=900)
    page = notebook.page
    page.locator(".sep-plot").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert "so it is copied in" in page.locator(".sep-timeline .sep-why").inner_text()
    assert "gemm.py" in page.locator(".sep-timeline .sep-why").inner_text()
    picture(page.locator(".sep-timeline"), "timeline.png")


@pytest.fixture
def picture(request):
    """``picture(element, name)``: rewrites docs/images/NAME with --update-golden; checks it."""
    image = pytest.importorskip("PIL.Image")

    def check(element, name):
        shot = image.open(io.BytesIO(element.screenshot()))
        path = IMAGES / name
        if request.config.getoption("--update-golden"):
            shot.convert("RGB").quantize(COLOURS).save(path, optimize=True)
        with image.open(path) as kept:
            width, height = kept.size
        assert path.stat().st_size <= LARGEST
        assert abs(width - shot.width) <= 40  # fonts differ between systems
        assert width / height == pytest.approx(shot.width / shot.height, rel=0.25)
        for readme in ("README.md", "README.zh.md"):
            assert f"docs/images/{name}" in (ROOT / readme).read_text(encoding="utf-8")

    return check

"""The tutorials in a real JupyterLab: all cells run, every view comes alive, copies say why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
TUTORIALS = sorted(path.stem for path in FOLDER.glob("[0-9]*.ipynb"))
ERROR = "[data-mime-type='application/vnd.jupyter.error']"


def code(name):
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


@pytest.mark.parametrize("name", TUTORIALS)
def test_all_cells_run_and_views_come_alive(open_notebook, name):
    cells = code(name)
    notebook = open_notebook(*cells)
    page = notebook.page
    assert page.locator(ERROR).count() == 0
    views = sum(".explore()" in cell or "septran.explore(" in cell for cell in cells)
    page.wait_for_timeout(500)
    alive = page.locator(".septran-static").evaluate_all(
        "all => all.map(one => getComputedStyle(one).display === 'none')"
    )
    assert len(alive) == views or not alive  # a notebook draws cells that are far away later
    assert all(alive)


def test_a_click_on_a_copy_of_the_first_tour_says_why(open_notebook):
    notebook = open_notebook(*code("00_quickstart")[:2])
    page = notebook.page
    page.locator(".sep-explorer").wait_for(timeout=60_000)
    program = page.locator("[data-pane=tile_program]")
    program.locator(".sep-c-keyword", has_text="copy").first.click()
    why = page.locator(".sep-why").inner_text()
    assert "so it is copied in" in why
    lit = page.locator("[data-pane=logic] .sep-code-line.sep-lit").all_inner_texts()
    assert any("task.launch(tile" in text for text in lit)

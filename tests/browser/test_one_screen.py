"""What a view is for is on one screen of 1280 x 900, with JupyterLab's file browser open."""

from __future__ import annotations

import pytest

EXPLORER = "import septran\nseptran.explore('gemm', 'cpu-x86')"


@pytest.mark.parametrize("width", [1280, 900])
def test_four_panes_and_the_reason_are_on_one_screen(open_notebook, width):
    page = open_notebook(EXPLORER, width=width, height=900).page
    view = page.locator(".sep-explorer")
    view.wait_for()
    panes = view.locator(".sep-pane:visible")
    assert panes.evaluate_all("all => all.map(e => e.dataset.pane)") == [
        "logic", "mapping", "tile_program", "source",
    ]  # fmt: skip
    page.wait_for_timeout(300)
    assert view.evaluate("e => e.scrollWidth <= e.clientWidth")
    # JupyterLab leaves 780 of 900 pixels.
    assert view.bounding_box()["height"] <= 780


def test_panes_open_at_what_matters(open_notebook):
    page = open_notebook(EXPLORER, width=1280, height=900).page
    page.locator(".sep-explorer").wait_for()
    page.wait_for_timeout(300)

    def seen(pane, text):
        return page.locator(f"[data-pane={pane}] .sep-code").evaluate(
            """(body, text) => [...body.querySelectorAll('.sep-code-line')].some(line =>
              line.textContent.includes(text) && line.offsetTop >= body.scrollTop
              && line.offsetTop < body.scrollTop + body.clientHeight)""",
            text,
        )

    assert seen("logic", "def gemm(")
    assert seen("mapping", "level: entry")
    assert seen("tile_program", "for k")
    assert "assembly" in page.locator("[data-pane=source] [aria-selected=true]").inner_text()


def test_a_question_mark_shows_the_keys_and_escape_hides_them(open_notebook):
    page = open_notebook(EXPLORER, width=1280, height=900).page
    page.locator("[data-pane=logic] .sep-code").focus()
    page.keyboard.press("?")
    keys = page.locator(".sep-keys")
    assert keys.is_visible()
    assert "searches" in keys.inner_text()
    page.keyboard.press("Escape")
    assert not keys.is_visible()


def test_colours_of_a_change_stay_where_one_points(open_notebook):
    page = open_notebook(EXPLORER, width=1280, height=900).page
    program = page.locator("[data-pane=tile_program]")
    program.get_by_role("tab", name="pass by pass").click()
    line = program.locator(".sep-added[data-n]:visible").first
    before = line.evaluate("e => getComputedStyle(e).backgroundColor")
    line.evaluate("e => e.classList.add('sep-lit')")
    page.wait_for_timeout(200)
    assert line.evaluate("e => getComputedStyle(e).backgroundColor") == before


EDITOR = "import septran\nseptran.edit('gemm', 'dsa-sim', shapes={'M': 128, 'N': 128, 'K': 256})"


@pytest.mark.parametrize("width", [1280, 900])
def test_the_editor_is_on_one_screen_and_its_text_is_the_pane(open_notebook, width):
    page = open_notebook(EDITOR, width=width, height=900).page
    view = page.locator(".sep-editor")
    view.wait_for()
    panes = view.locator(".sep-pane:visible")
    assert panes.evaluate_all("all => all.map(e => e.dataset.pane)") == ["mapping", "tile_program"]
    assert view.locator("[data-pane=mapping] textarea").is_visible()
    page.wait_for_timeout(300)
    assert view.bounding_box()["height"] <= 780
    copy = view.locator("[data-pane=tile_program] .sep-code-line", has_text="= copy(").first
    copy.click()
    assert "mems" in view.locator("[data-pane=mapping] .sep-text-line.sep-lit").first.inner_text()
    assert "so it is copied in" in view.locator(".sep-why").inner_text()


LAYOUT = """
import septran
sizes = {"M": 256, "N": 256, "K": 256}
explained = septran.explain("gemm", "nvidia-h200", shapes=sizes, dtypes="float16")
explained.layout("A_SHARED").explore()
"""


@pytest.mark.parametrize("width", [1280, 900])
def test_a_layout_its_banks_and_its_reason_are_on_one_screen(open_notebook, width):
    page = open_notebook(LAYOUT, width=width, height=900).page
    view = page.locator(".sep-layout-view")
    view.wait_for()
    page.wait_for_timeout(300)
    assert view.bounding_box()["height"] <= 780
    told = view.locator(".sep-head [role=status]")
    assert "no bank conflict" in told.inner_text()
    view.get_by_label("A warp reads a").select_option("column")
    assert "4-way bank conflict: 32 elements in 8 banks" in told.inner_text()
    view.get_by_label("Lies", exact=True).select_option("rows")
    assert "32-way bank conflict: 32 elements in 1 banks" in told.inner_text()
    grids = view.locator(".sep-layout-grid canvas")
    boxes = [grid.bounding_box() for grid in grids.all()]
    assert (boxes[0]["y"] == boxes[1]["y"]) == (width == 1280)  # side by side where there is room

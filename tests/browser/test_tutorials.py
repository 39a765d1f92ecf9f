"""The tutorials in a real JupyterLab: all cells run, and every kind of view in them is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser.using import USES

FOLDER = Path(__file__).parents[2] / "notebooks"
ERROR = "[data-mime-type='application/vnd.jupyter.error']"
ROOTS = ".jp-OutputArea-output .sep-view:not(.sep-inner)"
LIVE = (".explore()", "septran.explore(", "septran.edit(")
VIEWS = {
    "00_quickstart": {"sep-explorer", "sep-timeline", "sep-comparison"},
    "10_write_logic": set(),
    "11_softmax_to_flash_attention": {"sep-explorer"},
    "12_test_against_reference": set(),
    "13_data_decides": set(),
    "14_port_a_triton_kernel": set(),
    "20_read_a_mapping": {
        "sep-ledger", "sep-memory", "sep-element-view", "sep-mapping-profile", "sep-editor",
    },
    "21_pipelining_on_a_dsa": {"sep-timeline"},
    "22_map_gemm_to_hopper": {"sep-layout-view", "sep-timeline"},
    "23_compare_mappings": {"sep-comparison", "sep-progress-view"},
    "24_describe_your_own_dsa": set(),
    "25_cpu_microkernels": set(),
    "26_debug_a_dsa": set(),
    "27_tune_for_my_machine": set(),
    "30_write_a_pass": {"sep-explorer"},
    "31_add_an_instruction": {"sep-timeline"},
    "40_a_real_model": set(),
    "41_a_decoder_on_every_machine": {"sep-timeline"},
    "42_gradients": set(),
    "43_deploy": set(),
}  # fmt: skip
"""The kinds of live views in each tutorial; those without are run by `notebooks/refresh.py`."""
USED = ("00_quickstart", "20_read_a_mapping", "22_map_gemm_to_hopper", "23_compare_mappings")
"""Tutorials that have every kind between them; `notebooks/refresh.py` runs the others' cells."""


def code(name):
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def test_each_tutorial_is_used_here():
    assert sorted(VIEWS) == sorted(path.stem for path in FOLDER.glob("[0-9]*.ipynb"))
    assert set().union(*(VIEWS[name] for name in USED)) == set().union(*VIEWS.values())


@pytest.mark.parametrize("name", USED)
def test_all_cells_run_and_each_kind_of_view_is_used(open_notebook, name, assert_accessible):
    cells = code(name)
    notebook = open_notebook(*cells, height=1400)
    page = notebook.page
    assert page.locator(ERROR).count() == 0
    _come_alive(page, sum(cell.count(word) for cell in cells for word in LIVE))
    kinds = page.locator(ROOTS).evaluate_all("all => all.map(one => one.classList[1])")
    assert set(kinds) == VIEWS[name]
    try:
        for dark in (False, True):
            notebook.theme(dark)
            for kind in sorted(set(kinds)):
                view = page.locator(f"{ROOTS}.{kind}").first
                view.scroll_into_view_if_needed()
                if not dark:
                    USES[kind](page, view)
                assert_accessible(page, f".{kind}")
            _axes_are_readable(page, dark)
    finally:
        notebook.theme(dark=False)  # it is the server's


def _come_alive(page, number):
    """All views are drawn, and each has taken the place of its static picture."""
    page.wait_for_function(
        "([roots, number]) => document.querySelectorAll(roots).length === number",
        arg=[ROOTS, number],
    )
    for one in page.locator(".septran-static").all():
        one.wait_for(state="hidden")


def _axes_are_readable(page, dark):
    """The numbers under timelines have a colour that is far from the paper's."""
    contrast = """([wanted]) => [...document.querySelectorAll('.sep-plot canvas')].every((one) => {
      if (!one.offsetParent) return true;  // in a tab that is not shown
      const high = Math.round(13 * devicePixelRatio);
      const data = one.getContext('2d').getImageData(0, one.height - high, one.width, high).data;
      const seen = [];
      for (let n = 0; n < data.length; n += 4) if (data[n + 3] > 200) seen.push(data[n]);
      return wanted ? Math.max(...seen) > 180 : Math.min(...seen) < 90;
    })"""
    page.wait_for_function(contrast, arg=[dark])


def test_a_click_on_a_copy_of_the_first_tour_says_why(open_notebook):
    notebook = open_notebook(*code("00_quickstart")[:2])
    page = notebook.page
    page.locator(".sep-explorer").wait_for()
    program = page.locator("[data-pane=tile_program]")
    program.locator(".sep-c-keyword", has_text="copy").first.click()
    why = page.locator(".sep-why").inner_text()
    assert "so it is copied in" in why
    lit = page.locator("[data-pane=logic] .sep-code-line.sep-lit").all_inner_texts()
    assert any("task.launch(tile" in text for text in lit)


def test_folded_parts_of_a_panel_open_by_mouse_and_by_keyboard(open_notebook):
    notebook = open_notebook("import septran\nseptran.explain('gemm', 'dsa-sim')")
    page = notebook.page
    heads = page.locator(".jp-OutputArea-output details > summary")
    heads.first.wait_for()
    for head in (heads.first, heads.nth(1)):
        inside = head.locator("xpath=..")
        was = inside.evaluate("e => e.open")
        head.click()
        assert inside.evaluate("e => e.open") != was
        head.press("Enter")
        assert inside.evaluate("e => e.open") == was

"""The stage explorer in JupyterLab: what lights up, by mouse and by keyboard."""

from __future__ import annotations

import pytest

PANES = ("logic", "task_tree", "mapping", "tile_program", "tensor_ir", "source")


def lit(page, pane):
    """The texts of a pane's lit lines."""
    return page.locator(f"[data-pane={pane}] .sep-code-line.sep-lit").all_inner_texts()


def line(page, pane, text, nth=0):
    return page.locator(f"[data-pane={pane}] .sep-code-line", has_text=text).nth(nth)


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
def test_a_held_copy_lights_every_pane(open_notebook, machine):
    notebook = open_notebook(f"import septran\nseptran.explore('gemm', {machine!r})")
    page = notebook.page
    page.locator(".sep-explorer").wait_for(timeout=60_000)
    copy = line(page, "tile_program", "= copy(B")
    copy.locator(".sep-c-keyword", has_text="copy").click()
    for pane in PANES:
        assert page.locator(f"[data-pane={pane}] .sep-lit").count() > 0, pane
    assert any("task.launch(" in text for text in lit(page, "logic"))
    why = page.locator(".sep-why")
    assert "so it is copied in" in why.inner_text()
    assert f"{machine}.mapping.yaml:" in why.inner_text()

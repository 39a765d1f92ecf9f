"""The stage explorer in JupyterLab: what lights up, by mouse and by keyboard."""

from __future__ import annotations

import re

import pytest

PANES = ("logic", "task_tree", "mapping", "tile_program", "tensor_ir", "source")
EXPLORE = "import septran\nseptran.explore({!r}, {!r})"


def lit(page, pane):
    """The texts of a pane's lit lines."""
    return page.locator(f"[data-pane={pane}] .sep-code-line.sep-lit").all_inner_texts()


def count(page, pane):
    return page.locator(f"[data-pane={pane}] .sep-lit").count()


def line(page, pane, text, nth=0):
    return page.locator(f"[data-pane={pane}] .sep-code-line", has_text=text).nth(nth)


def explorer(notebook):
    found = notebook.page.locator(".sep-explorer")
    found.wait_for()
    hidden = found.locator(".sep-choice[aria-pressed=false]")  # four panes are there at first
    while hidden.count():
        hidden.first.click()
    linked = found.get_by_role("tab", name=re.compile("^TensorIR for"))
    if linked.count():  # behind the assembly, which has no links
        linked.click()
    return found


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
def test_by_mouse(open_notebook, machine, assert_accessible):
    notebook = open_notebook(EXPLORE.format("gemm", machine))
    page, view = notebook.page, explorer(notebook)
    assert page.locator(".septran-static").is_hidden()
    copy = line(page, "tile_program", "= copy(B").locator(".sep-c-keyword", has_text="copy")

    copy.hover()  # from the program to all others
    assert all(count(page, pane) for pane in PANES)
    view.locator(".sep-title").hover()
    assert not any(count(page, pane) for pane in PANES)

    copy.click()  # and held, with the reason
    assert any("task.launch(" in text for text in lit(page, "logic"))
    assert any("mems:" in text for text in lit(page, "mapping"))
    word = "dma_copy" if machine == "dsa-sim" else "B_L2["
    assert any(word in text for text in lit(page, "source"))
    why = page.locator(".sep-why").inner_text()
    assert "so it is copied in" in why
    assert f"{machine}.mapping.yaml:" in why
    view.locator(".sep-title").hover()
    assert all(count(page, pane) for pane in PANES)
    assert int(notebook.state("len(_.selected)")) > 0
    page.keyboard.press("Escape")
    assert not any(count(page, pane) for pane in PANES)

    for pane in ("source", "tensor_ir", "mapping", "logic"):  # and back from each
        copy.click()
        near = f"[data-pane={pane}] .sep-code-line.sep-lit:not(.sep-around)"
        number = page.locator(near).last.get_attribute("data-n")
        page.keyboard.press("Escape")
        found = page.locator(f"[data-pane={pane}] .sep-code-line[data-n='{number}']")
        found.hover(position={"x": 8, "y": 6})
        assert any("= copy(B" in text for text in lit(page, "tile_program")), pane

    page.locator(".sep-drawing").dblclick(position={"x": 4, "y": 4})  # as it was at first
    page.locator("[data-pane=task_tree] g.node", has_text="task gemm").first.click()
    assert any("in A: float32[512, 512]" in text for text in lit(page, "tile_program"))
    page.keyboard.press("Escape")

    page.locator(".sep-why").scroll_into_view_if_needed()
    copy.click()
    page.locator(".sep-link", has_text="gemm.py").first.click()
    active = page.locator("[data-pane=logic] .sep-active")
    assert "task.launch(" in active.inner_text()
    assert_accessible(page, ".sep-explorer")
    notebook.theme(dark=True)
    copy.click()
    assert_accessible(page, ".sep-explorer")


def test_by_keyboard(open_notebook):
    notebook = open_notebook("1", EXPLORE.format("gemm", "dsa-sim"), "2")
    page = notebook.page
    explorer(notebook)
    page.locator(".sep-search").focus()
    page.keyboard.type("= copy(B")
    hits = page.locator(".sep-hits")
    assert hits.inner_text() == "1 of 2"
    page.keyboard.press("Enter")
    assert hits.inner_text() == "2 of 2"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")

    page.locator("[data-pane=logic] .sep-code").focus()
    cells = notebook.page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")
    page.keyboard.press("4")  # the tile program
    page.keyboard.press("Home")
    for _ in range(60):
        page.keyboard.press("ArrowDown")
        if "copy(B" in page.locator("[data-pane=tile_program] .sep-active").inner_text():
            break
    assert count(page, "source") > 0
    page.keyboard.press("Enter")
    assert "held" in page.locator(".sep-why").inner_text()
    page.keyboard.press("ArrowDown")  # a held light stays while one goes on
    assert any("= copy(B" in text for text in lit(page, "tile_program"))
    page.keyboard.press("Escape")

    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")  # the first word of the line: a buffer
    assert page.locator("[data-pane=tile_program] .sep-word.sep-active").inner_text() == "B_SPM"
    assert page.locator("[data-pane=source] .sep-word.sep-lit").count() > 1

    before = page.locator("[data-pane=logic] .sep-code").evaluate(
        "e => getComputedStyle(e).fontSize"
    )
    page.keyboard.press("+")
    after = page.locator("[data-pane=logic] .sep-code").evaluate(
        "e => getComputedStyle(e).fontSize"
    )
    assert after > before

    page.keyboard.press("2")  # the drawing
    box = "() => document.activeElement.getAttribute('aria-label')"
    assert "task gemm" in page.evaluate(box)
    page.keyboard.press("ArrowDown")
    assert "gemm_core" in page.evaluate(box)
    page.keyboard.press("+")
    page.keyboard.press("Enter")
    assert len(lit(page, "tile_program")) > 1

    # none of this went to the notebook
    now = notebook.page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")
    assert now == cells
    assert notebook.page.evaluate("() => jupyterapp.shell.currentWidget.content.mode") == "command"


WORDS = """body => {
  const same = (one) => !one.classList?.contains('sep-changed');
  const kept = (line) => [...line.childNodes].filter(same).map((one) => one.textContent).join('');
  return [...body.children].filter((line) => !line.classList.contains('sep-same')).map((line) => [
    line.classList.contains('sep-added'), kept(line), line.textContent]);
}"""
"""Of each line that a pass added or removed: whether added, what is not marked, and the whole."""


def test_changed_words_are_marked_and_their_lines_keep_their_colours(open_notebook):
    notebook = open_notebook(EXPLORE.format("gemm", "dsa-sim"))
    view = explorer(notebook)
    program = view.locator("[data-pane=tile_program]")
    program.get_by_role("tab", name="pass by pass").click()
    choice, body = program.locator("select"), program.locator(".sep-diff")
    marked = 0
    for n in range(choice.locator("option").count()):
        choice.select_option(index=n)
        lines = body.evaluate(WORDS)
        for is_added, kept, whole in lines:
            if kept == whole:
                continue
            marked += 1
            others = [rest for sign, rest, _ in lines if sign != is_added]
            assert kept in others, whole  # what is not marked is in both lines of a pair
            assert kept.strip()
    assert marked > 4
    line = body.locator(".sep-added").first
    before = line.evaluate("e => getComputedStyle(e).backgroundColor")
    line.hover()
    assert "sep-lit" in line.get_attribute("class")
    assert line.evaluate("e => getComputedStyle(e).backgroundColor") == before


def test_panes_passes_and_pages(open_notebook, tmp_path):
    notebook = open_notebook(EXPLORE.format("gemm", "dsa-sim"))
    page, view = notebook.page, explorer(notebook)
    program = view.locator("[data-pane=tile_program]")
    program.get_by_role("tab", name="pass by pass").click()
    choice = program.locator("select")
    choice.select_option(index=0)
    names = choice.locator("option").all_inner_texts()
    assert "instantiate" in names[0]
    for n, name in enumerate(names):
        choice.select_option(index=n)
        added = re.search(r"\+(\d+)", name)
        assert program.locator(".sep-added").count() == (int(added[1]) if added else 0)
    sync = next(n for n, name in enumerate(names) if "insert_sync" in name)
    choice.select_option(index=sync)
    wait = program.locator(".sep-added", has_text="wait(A_B_in").first
    wait.hover()
    assert count(page, "mapping") > 0
    program.locator(".sep-diff").focus()
    page.keyboard.press("ArrowLeft")
    assert choice.evaluate("e => e.selectedOptions[0].textContent") == names[sync - 1]

    view.get_by_role("button", name="TensorIR", exact=True).click()
    assert view.locator("[data-pane=tensor_ir]").is_hidden()
    view.locator("[data-pane=source] .sep-small", has_text="⤢").click()
    assert view.locator(".sep-pane:visible").count() == 1
    page.keyboard.press("Escape")
    assert view.locator(".sep-pane:visible").count() == 5

    with page.expect_download() as saved:
        view.locator("[data-pane=source] .sep-small", has_text="save").click()
    assert "vendor_lib_dma_copy" in saved.value.path().read_text()
    with page.expect_download() as saved:
        view.get_by_role("button", name="save page").click()
    target = tmp_path / "page.html"
    saved.value.save_as(target)
    notebook.page.goto(f"file://{target}")
    line(page, "tile_program", "= copy(B").locator(".sep-c-keyword", has_text="copy").hover()
    assert all(count(page, pane) for pane in PANES)
    notebook.external = [url for url in notebook.external if not url.startswith("file://")]


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
def test_attention_adds_less_than_a_megabyte(open_notebook, machine):
    """How long it takes to open is measured by ``python -m benchmarks.views``."""
    notebook = open_notebook(
        f"import septran, septran_widgets.explorer\ne = septran.explain('attention', {machine!r})"
    )
    empty = notebook.save()
    notebook.change(0, f"import septran\nview = septran.explore('attention', {machine!r})\nview")
    notebook.run_all()
    line(notebook.page, "source", "").first.wait_for()
    added = notebook.save() - empty
    state = int(notebook.state("len(__import__('json').dumps(view.get_state(), default=str))"))
    assert added > 10_000
    assert added + state < 1_000_000

"""Views in a real JupyterLab: they replace their static HTML, and clicks reach the kernel."""

from __future__ import annotations

SETUP = """
import septran, threading, time
kernel = septran.compile("gemm", "dsa-sim", shapes={"M": 256, "N": 128, "K": 256})
profile = kernel.profile()
explanation = septran.explain("gemm", "npu-cube", shapes={"M": 256, "N": 128, "K": 256})
"""
LATE = """
from IPython.display import HTML, display
display(HTML(f'<div class="septran-static {view.static_token}">a picture</div>'), "late")
"""
"""The picture of a view as a slow notebook draws it: after the view."""
SLOW = """
from septran.views.progress import in_background
def work(progress, keep):
    for n in progress.track(range(1000)):
        keep(n)
        if n == 3:
            go_on.wait(600)
go_on = threading.Event()
job = in_background(work, "slow work", 1000)
job.explore()
"""


def test_a_timeline_a_ledger_and_a_map_take_the_place_of_their_pictures(
    open_notebook, assert_accessible
):
    notebook = open_notebook(
        SETUP, "view = profile.explore()\nview", "explanation.ledger.explore()",
        "explanation.memory_map.explore()", LATE,
    )  # fmt: skip
    page = notebook.page
    for name in ("sep-timeline", "sep-ledger", "sep-memory"):
        page.locator(f".{name}").scroll_into_view_if_needed()
        page.locator(f".{name}").wait_for()
    page.get_by_text("late").last.wait_for(state="attached")
    assert page.locator(".septran-static").count() == 4
    assert not any(one.is_visible() for one in page.locator(".septran-static").all())

    page.locator(".sep-plot").focus()
    page.keyboard.press("ArrowRight")
    assert "so it is copied in" in page.locator(".sep-timeline .sep-why").inner_text()
    page.wait_for_timeout(500)
    assert any(key.startswith("logic:gemm.py:") for key in eval(notebook.state("view.selected")))

    notebook.theme(dark=True)
    page.wait_for_timeout(500)
    for name in ("sep-timeline", "sep-ledger", "sep-memory"):
        assert_accessible(page, f".{name}")


def test_another_element_and_another_block_are_asked_of_the_kernel(open_notebook):
    notebook = open_notebook(
        SETUP, 'explanation.follow("C", 37, 5).explore()', "explanation.accesses().explore()"
    )
    page = notebook.page
    view = page.locator(".sep-element-view")
    view.wait_for()
    assert "Where C[37, 5] comes from" in view.inner_text()
    view.get_by_label("A, index 0 of 256").fill("200")
    view.get_by_label("A, index 0 of 256").press("Enter")
    view.get_by_text("Where A[200, 0] goes to").wait_for()
    view.locator(".sep-picker", has_text="B float32").locator("canvas").click(
        position={"x": 20, "y": 30}
    )
    view.get_by_text("Where B[").wait_for()
    view.locator(".sep-step").first.click()
    assert "byte" in view.locator(".sep-why").inner_text()

    blocks = page.locator(".sep-access-view")
    blocks.scroll_into_view_if_needed()
    blocks.get_by_label("i of 2").fill("1")
    blocks.get_by_label("i of 2").press("Enter")
    page.wait_for_timeout(1000)
    assert blocks.get_by_label("i of 2").input_value() == "1"


def test_cancelling_does_not_wait_for_the_step_that_runs(open_notebook):
    notebook = open_notebook("import threading", SLOW)
    page = notebook.page
    view = page.locator(".sep-progress-view")
    view.get_by_text("3 of 1,000").wait_for()
    assert "left" in view.inner_text()
    button = view.get_by_role("button", name="cancel")
    button.focus()
    page.keyboard.press("Enter")
    view.get_by_text("cancelled").wait_for()
    assert notebook.state("job.result(1)") == "3"  # the fourth step still goes on
    assert notebook.state("job.progress.state") == "cancelled"
    assert notebook.state("go_on.set()") == "None"


def test_a_comparison_is_explored_and_exported(open_notebook, tmp_path, browser):
    path = tmp_path / "comparison.html"
    notebook = open_notebook(
        'import septran\nc = septran.compare("gemm", ["dsa-sim", "npu-cube"], '
        'shapes={"M": 128, "N": 128, "K": 128}).measure()',
        f"c.export_html({str(path)!r})\nc.explore()",
    )
    view = notebook.page.locator(".sep-comparison")
    view.get_by_role("tab", name="Timelines").click()
    assert view.locator(".sep-lane-title").count() == 2

    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.get_by_role("tab", name="Roofline").click()
    page.locator("svg.sep-roofline").wait_for()
    assert asked == [path.as_uri()]
    page.close()

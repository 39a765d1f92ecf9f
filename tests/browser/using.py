"""How each kind of view is used, by mouse and by keyboard, with what has to happen."""

from __future__ import annotations

from typing import Any

MOST_LINES = 120


def why(view: Any) -> str:
    """What a view's box says."""
    text: str = view.locator(".sep-why").last.inner_text()
    return text


def drawn(view: Any) -> str:
    """What is on a view's first canvas."""
    view.page.wait_for_timeout(120)  # it is drawn in the next frame
    text: str = view.locator("canvas").first.evaluate("e => e.toDataURL()")
    return text


def use_explorer(page: Any, view: Any) -> None:
    """A copy lights its logic, its mapping and its code; passes are stepped through."""
    program = view.locator("[data-pane=tile_program]")

    def lit(pane: str) -> int:
        return int(view.locator(f"[data-pane={pane}] .sep-lit").count())

    copy = program.locator(".sep-code-line", has_text="= copy(").first
    copy.locator(".sep-c-keyword", has_text="copy").first.click()
    assert all(lit(pane) for pane in ("logic", "mapping", "tile_program", "tensor_ir"))
    assert "held" in why(view)
    assert "copied" in why(view)
    page.keyboard.press("Escape")
    assert not any(lit(pane) for pane in ("logic", "mapping", "tile_program", "source"))

    view.locator("[data-pane=logic] .sep-code").focus()
    page.keyboard.press("4")
    page.keyboard.press("Home")
    for _ in range(MOST_LINES):
        page.keyboard.press("ArrowDown")
        if "= copy(" in program.locator(".sep-active").inner_text():
            break
    assert lit("logic")
    page.keyboard.press("Enter")
    assert "held" in why(view)
    page.keyboard.press("Escape")

    program.get_by_role("tab", name="pass by pass").click()
    choice = program.locator("select")
    first, second = choice.locator("option").all_inner_texts()[:2]
    choice.select_option(label=first)
    program.locator(".sep-diff").focus()
    page.keyboard.press("ArrowRight")
    assert choice.evaluate("e => e.selectedOptions[0].textContent") == second
    program.get_by_role("tab", name="program", exact=True).click()


def use_timeline(page: Any, view: Any) -> None:
    """A bar says what it is under the pointer, why when it is clicked, and so by keys."""
    plot, tip = view.locator(".sep-plot"), view.locator(".sep-tip")
    box = plot.locator("canvas").bounding_box()
    places = ((x, y) for y in range(8, int(box["height"]) - 24, 6) for x in range(2, 500, 9))
    for x, y in places:
        page.mouse.move(box["x"] + x, box["y"] + y)
        if tip.is_visible():
            break
    name = tip.locator("b").inner_text()
    page.mouse.down()
    page.mouse.up()
    assert name in why(view)
    assert "where" in why(view)
    before = drawn(view)
    view.get_by_role("button", name="Zoom in").click()
    assert drawn(view) != before
    view.get_by_role("button", name="Show all").click()

    plot.focus()
    page.keyboard.press("Escape")
    assert "Point at a bar" in why(view)
    page.keyboard.press("ArrowRight")
    first = why(view)
    assert "why" in first
    page.keyboard.press("ArrowRight")
    assert why(view) != first
    page.keyboard.press("+")
    larger = drawn(view)
    page.keyboard.press("0")
    assert drawn(view) != larger


def use_ledger(page: Any, view: Any) -> None:
    """A band says why its copy is there."""
    bands = view.locator(".sep-band")
    bands.first.click()
    assert bands.first.get_attribute("aria-pressed") == "true"
    first = why(view)
    assert "because" in first or "why" in first
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert bands.nth(1).get_attribute("aria-pressed") == "true"
    assert why(view) != first
    page.keyboard.press("Escape")
    view.locator("summary").first.press("Enter")
    assert view.locator("tbody tr").first.is_visible()


def use_memory(page: Any, view: Any) -> None:
    """A buffer lights the lines that touch it, and a line what it touches."""
    box = view.locator(".sep-box").first
    box.click()
    assert view.locator(".sep-line.sep-lit").count() > 1
    assert box.locator(".sep-box-name").inner_text() in why(view)
    page.keyboard.press("Escape")
    view.locator(".sep-line").first.focus()
    for _ in range(MOST_LINES):
        page.keyboard.press("ArrowDown")
        if view.locator(".sep-box.sep-chosen").count():
            break
    page.keyboard.press("Enter")
    assert view.locator(".sep-box.sep-chosen").count()
    assert "in use" in why(view)
    page.keyboard.press("Escape")
    toggle = view.get_by_role("button", name="fit to what is used")
    wide = box.bounding_box()["width"]
    toggle.press("Enter")
    assert view.locator(".sep-box").first.bounding_box()["width"] > wide
    toggle.click()


def use_comparison(page: Any, view: Any) -> None:
    """Each part by its tab; the timelines in it are alive."""
    tabs = view.get_by_role("tab")
    seen = set()
    for tab in tabs.all():
        tab.click()
        assert tab.get_attribute("aria-selected") == "true"
        seen.add(view.get_by_role("tabpanel").inner_text())
    assert len(seen) == tabs.count()
    assert view.locator(".sep-lane-title").count() > 1  # the last one: timelines
    view.locator(".sep-plot").focus()
    page.keyboard.press("ArrowRight")
    assert "why" in why(view)
    tabs.first.click()
    page.keyboard.press("ArrowRight")
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    assert view.locator(".sep-come, .sep-gone").count()
    page.keyboard.press("Home")


def use_element(page: Any, view: Any) -> None:
    """Another element by a click, one more by its numbers; a step says its addresses."""
    title = view.locator(".sep-title")
    first = title.inner_text()
    view.locator(".sep-picker canvas").nth(1).click(position={"x": 20, "y": 30})
    view.get_by_text("goes to").wait_for()
    box = view.locator(".sep-picker input").first
    box.fill("3")
    box.press("Enter")
    view.get_by_text("comes from").wait_for()
    assert title.inner_text() != first
    view.locator(".sep-step").first.click()
    step = why(view)
    assert "byte" in step
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert why(view) != step


def use_mapping_profile(page: Any, view: Any) -> None:
    """Columns sort, first the most."""
    column = view.locator("th", has=page.get_by_role("button", name="cycles"))
    column.get_by_role("button").click()
    assert column.get_attribute("aria-sort") == "descending"
    texts = view.locator("tbody tr td:nth-child(3)").all_inner_texts()
    numbers = [0 if text == "–" else int(text.replace(",", "")) for text in texts]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] > 0
    column.get_by_role("button").press("Enter")
    assert column.get_attribute("aria-sort") == "ascending"


def use_editor(page: Any, view: Any) -> None:
    """A knob changes text and program, a mistake is told at its line, and it runs."""
    area, program = view.locator("textarea"), view.locator("[data-pane=tile_program] .sep-code")
    text, was = area.input_value(), program.inner_text()
    view.get_by_role("slider").last.press("ArrowLeft")
    _until(page, lambda: area.input_value() != text and program.inner_text() != was)
    assert view.locator(".sep-change").count()

    area.click()
    area.evaluate("e => { const at = e.value.indexOf('CORE') + 4; e.setSelectionRange(at, at); }")
    page.keyboard.type("X")
    view.locator(".sep-mistakes li").first.wait_for()
    assert view.locator(".sep-squiggle").all_inner_texts() == ["COREX"]
    page.keyboard.press("Backspace")
    _until(page, lambda: not view.locator(".sep-mistakes li").count())
    view.get_by_role("button", name="run", exact=True).click()
    _until(page, lambda: "cycles" in view.locator(".sep-measured").inner_text())


def use_layout(page: Any, view: Any) -> None:
    """An element says where it lies; colours show something else when asked."""
    grid = view.locator(".sep-layout-grid").first
    grid.locator("canvas").hover(position={"x": 30, "y": 30})
    first = why(view)
    assert "element" in first
    grid.focus()
    page.keyboard.press("ArrowRight")
    assert why(view) != first
    page.keyboard.press("Escape")
    before = drawn(view)
    choice = view.get_by_label("Colours show")
    choice.select_option(index=0)
    shown = drawn(view)
    choice.select_option(index=1)
    assert before in (shown, drawn(view))
    assert shown != drawn(view)


def _until(page: Any, done: Any) -> None:
    for _ in range(600):
        if done():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it did not happen")


def use_progress(page: Any, view: Any) -> None:
    """It has come to its end, says what it found, and can no longer be cancelled."""
    del page
    view.get_by_role("status").get_by_text("done").wait_for()
    bar = view.locator("progress")
    assert bar.evaluate("e => e.value === e.max && e.max > 1")
    assert "best" in view.inner_text()
    assert view.get_by_role("button", name="cancel").is_hidden()


USES = {
    "sep-explorer": use_explorer, "sep-timeline": use_timeline, "sep-ledger": use_ledger,
    "sep-memory": use_memory, "sep-comparison": use_comparison, "sep-element-view": use_element,
    "sep-mapping-profile": use_mapping_profile, "sep-editor": use_editor,
    "sep-layout-view": use_layout, "sep-progress-view": use_progress,
}  # fmt: skip
"""By the class of a view's root."""

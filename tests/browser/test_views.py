"""Each view as a page of its own: by mouse, by keyboard, light, dark, and with hostile names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("anywidget", reason="septran[notebook] is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

SIZES = {"M": 256, "N": 128, "K": 256}
VIEWS = (
    "timeline", "ledger", "memory", "comparison", "element", "layout", "access",
    "mapping_profile", "progress",
)  # fmt: skip
HOSTILE = (
    "<script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>",
    "\"><svg onload=window.pwned=1>", "javascript:window.pwned=1", "'-window.pwned=1-'",
    "</script><script>window.pwned=1</script>", "<!--<script>window.pwned=1//", "${window.pwned=1}",
    "{{constructor.constructor('window.pwned=1')()}}", "&lt;img src=x onerror=window.pwned=1&gt;",
    "<iframe srcdoc='<script>parent.pwned=1</script>'>", "<a href=javascript:window.pwned=1>x</a>",
    "\u2028window.pwned=1\u2029", "`-window.pwned=1-`", "<details open ontoggle=window.pwned=1>",
    "x' style='background:url(//evil.example/x)", "<math><mtext></form><mglyph onerror=alert(1)>",
)  # fmt: skip
"""Words that would run if any view took text for markup."""


@pytest.fixture(scope="session")
def data() -> dict[str, Any]:
    """Real data for each view."""
    import septran
    from septran.views.comparisons.data import comparison_data
    from septran.views.dsa.timeline import timeline
    from septran.views.maps.mapping_profile import mapping_profile
    from septran.views.pictures.ledger_graph import ledger_graph
    from septran.views.progress import Progress
    from septran.views.timelines.timeline import timelines

    kernel = septran.compile("gemm", "dsa-sim", shapes=SIZES)
    profile = kernel.profile()
    explanation = septran.explain("gemm", "dsa-sim", shapes=SIZES)
    compared = septran.compare("gemm", ["dsa-sim", "npu-cube"], shapes=SIZES).measure()
    cube = compared.explanations[1]
    progress = Progress("measuring", 4)
    progress.step("first")
    return {
        "timeline": timelines(timeline(profile)),
        "ledger": ledger_graph(cube.ledger),
        "memory": cube.memory_map.to_dict(),
        "comparison": comparison_data(compared),
        "element": explanation.follow("C", 37, 5).to_dict(),
        "layout": cube.layout("A_L0A").to_dict(),
        "access": cube.accesses(i=0).to_dict(),
        "mapping_profile": mapping_profile(kernel.stages.mapping, profile).to_dict(),
        "progress": progress.to_dict(),
    }


@pytest.fixture
def show(browser: Any) -> Iterator[Any]:
    """``show(view, data)`` opens a view; nothing may be asked of a network or go wrong."""
    opened: list[tuple[Any, list[str]]] = []

    def start(view: str, data: dict[str, Any], *, dark: bool = False) -> Any:
        from septran_widgets.page import page as document

        page = browser.new_page(
            viewport={"width": 1100, "height": 900}, color_scheme="dark" if dark else "light"
        )
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: wrong.append(r.url) if r.url[:5] not in
                ("about", "data:", "blob:") else None)  # fmt: skip
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        page.set_content(document(view, view, data))
        page.locator(".sep-view").wait_for()
        page.wait_for_timeout(150)
        opened.append((page, wrong))
        return page

    yield start
    for page, wrong in opened:
        page.close()
        assert wrong == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible(view, dark, data, show, assert_accessible):
    page = show(view, data[view], dark=dark)
    for tab in page.get_by_role("tab").all() or [None]:
        if tab is not None:
            tab.click()
        assert_accessible(page, ".sep-view")


@pytest.mark.parametrize("view", VIEWS)
def test_names_that_are_markup_are_shown_as_text(view, data, show):
    number = iter(range(10_000_000))
    kept = ("kind", "way", "unit", "state", "hue", "pattern", "better", "dtype")

    def hostile(value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {k: hostile(v, k) for k, v in value.items()}
            case list():
                return [hostile(v, key) for v in value]
            case str() if value and key not in kept and not _is_code(view, key, value):
                return HOSTILE[next(number) % len(HOSTILE)]
        return value

    page = show(view, _consistent(view, hostile, data[view]))
    for tab in page.get_by_role("tab").all():
        tab.click()
    for item in page.locator("[tabindex='0']").all()[:12]:
        item.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    assert page.evaluate("window.pwned") is None
    assert page.locator(".sep-view img, .sep-view iframe, .sep-view script").count() == 0


def _is_code(view: str, key: str, value: str) -> bool:
    """Words that the data itself refers to: kinds of bars, signs of a diff."""
    return (view in ("timeline", "comparison") and key in ("what", "diffs")
            and len(value) < 9 and value.isascii() and " " not in value)  # fmt: skip


def _consistent(view: str, change: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Names that tie parts of the data together stay the same everywhere."""
    if view == "ledger":
        changed = change(data)
        changed["columns"] = data["columns"]
        for new, old in zip(changed["bands"], data["bands"], strict=True):
            new |= {"source": old["source"], "target": old["target"]}
        return changed
    if view == "element":
        changed = change(data)
        changed |= {"memories": data["memories"]}
        for new, old in zip(changed["steps"], data["steps"], strict=True):
            for end in ("source", "target"):
                if old[end]:
                    new[end]["memory"] = old[end]["memory"]
        return changed
    return change(data)


def why(page: Any) -> str:
    return page.locator(".sep-why").last.inner_text()


def test_a_timeline_by_keyboard(data, show):
    page = show("timeline", data["timeline"])
    page.locator(".sep-plot").focus()
    page.keyboard.press("ArrowRight")
    assert "dma_copy A" in why(page)
    page.keyboard.press("ArrowRight")
    assert "dma_copy B" in why(page)
    assert "gemm.py:" in why(page)
    assert "so it is copied in" in why(page)
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert "mma" in why(page)
    page.keyboard.press("Escape")
    assert "Point at a bar" in why(page)


def test_a_timeline_by_mouse(data, show):
    page = show("timeline", data["timeline"])
    box = page.locator(".sep-plot canvas").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 8)
    page.locator(".sep-tip").wait_for(state="visible")
    assert "dma_copy" in page.locator(".sep-tip").inner_text()
    before = page.locator(".sep-plot canvas").screenshot()
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_timeout(150)
    assert page.locator(".sep-plot canvas").screenshot() != before
    page.mouse.move(5, 5)
    page.get_by_role("button", name="Show all").click()
    page.mouse.click(box["x"] + 3, box["y"] + 8)
    assert "GLOBAL -> SPM" in why(page)


def test_bands_of_a_ledger_say_why(data, show):
    page = show("ledger", data["ledger"])
    bands = page.locator(".sep-band")
    assert bands.count() == len(data["ledger"]["bands"])
    bands.first.focus()
    assert data["ledger"]["bands"][0]["reason"] in why(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert bands.nth(1).get_attribute("aria-pressed") == "true"
    assert data["ledger"]["bands"][1]["reason"] in why(page)
    page.get_by_text("All").first.click()
    assert page.locator("tbody tr.sep-lit").count() == 1


def test_a_buffer_of_a_memory_map_lights_its_lines(data, show):
    page = show("memory", data["memory"])
    memory = data["memory"]["memories"][0]
    box = page.locator(".sep-box").first
    box.focus()
    assert page.locator(".sep-line.sep-lit").count() == len(memory["buffers"][0]["uses"])
    assert memory["buffers"][0]["name"] in why(page)
    page.locator(".sep-line").nth(memory["buffers"][0]["uses"][0]).click()
    assert box.evaluate("e => e.classList.contains('sep-chosen')")


def test_a_comparison_shows_all_its_parts(data, show):
    page = show("comparison", data["comparison"])
    assert page.get_by_role("row", name="measured cycles").count() == 1
    page.get_by_role("tab", name="Figures").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_text("block_K").count() > 0
    page.keyboard.press("ArrowRight")
    assert page.locator(".sep-come").count() > 5
    page.get_by_label("Stage", exact=True).select_option("Task tree")
    page.get_by_role("tab", name="Memory and bytes").click()
    assert page.locator(".sep-track").count() > 5
    page.get_by_role("tab", name="Roofline").click()
    label = page.locator("svg.sep-roofline").get_attribute("aria-label")
    assert "A dsa-sim" in label
    assert "measured" in label
    page.get_by_role("tab", name="Timelines").click()
    assert page.locator(".sep-lane-title").count() == 2


def test_what_a_block_touches_is_stepped_through(data, show):
    page = show("access", data["access"])
    assert "1 of" in page.locator(".sep-at").inner_text()
    page.get_by_role("button", name="Step on").click()
    page.get_by_role("slider").press("ArrowRight")
    assert page.locator(".sep-at").inner_text().startswith("3 of")
    assert data["access"]["steps"][2]["text"].split("  ")[0] in why(page)
    assert page.locator(".sep-access-one.sep-now").count() >= 2


def test_an_element_of_a_layout_is_found_in_memory(data, show):
    page = show("layout", data["layout"])
    page.locator(".sep-layout-grid").first.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    columns = data["layout"]["columns"]
    assert f"byte {data['layout']['offsets'][columns + 1]}," in why(page)


def test_entries_of_a_mapping_are_sorted_by_a_column(data, show):
    page = show("mapping_profile", data["mapping_profile"])
    page.get_by_role("button", name="cycles").click()
    most = max(data["mapping_profile"]["entries"], key=lambda e: e["cycles"])
    assert f"{most['cycles']:,}" in page.locator("tbody tr").first.inner_text()

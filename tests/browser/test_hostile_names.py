"""Names and messages that are markup or scripts stay text in the explorer and the editor."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache

import pytest

import septran
from septran.views.editing import draft, mapping_source
from septran.views.links import linked, linked_data

PAYLOADS = [
    "<script>window.hit=1</script>", "<img src=x onerror=window.hit=1>",
    "<svg onload=window.hit=1>", "<svg><script>window.hit=1</script></svg>",
    "'\"><script>window.hit=1</script>", "</script><script>window.hit=1</script>",
    "</style><script>window.hit=1</script>", "</textarea><script>window.hit=1</script>",
    "</title><script>window.hit=1</script>", "<!--<script>window.hit=1</script>-->",
    "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>", "javascript:window.hit=1",
    "<a href=javascript:window.hit=1 autofocus onfocus=window.hit=1>a</a>",
    "<input autofocus onfocus=window.hit=1>", "<details open ontoggle=window.hit=1>",
    "<body onload=window.hit=1>", "<video src=x onerror=window.hit=1>",
    "<audio src=x onerror=window.hit=1>", "<object data=javascript:window.hit=1>",
    "<embed src=javascript:window.hit=1>", "<math><mi xlink:href=javascript:window.hit=1>x",
    "<link rel=stylesheet href=javascript:window.hit=1>", "<base href=javascript:window.hit=1//>",
    "<style>@import 'javascript:window.hit=1'</style>", "<marquee onstart=window.hit=1>",
    "<select autofocus onfocus=window.hit=1>", "<keygen autofocus onfocus=window.hit=1>",
    "${window.hit=1}", "{{constructor.constructor('window.hit=1')()}}", "`${window.hit=1}`",
    "\\u003cscript\\u003ewindow.hit=1\\u003c/script\\u003e", "&lt;script&gt;window.hit=1",
    "\u2028window.hit=1//", "\u2029window.hit=1//", "\"-window.hit=1-\"", "';window.hit=1;//",
    "]]><script>window.hit=1</script>", "<x onclick=window.hit=1>click</x>",
    "<form action=javascript:window.hit=1><button>go", "%3Cscript%3Ewindow.hit=1%3C/script%3E",
]  # fmt: skip


@cache
def explorer_data():
    return linked_data(linked(septran.explain("gemm", "dsa-sim")))


def poisoned(value, payload):
    """Every text that is shown, with the payload before and after it."""
    if isinstance(value, dict):
        return {
            key: item if key in ("name", "language", "svg") else poisoned(item, payload)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [poisoned(item, payload) for item in value]
    return f"{payload}{value}{payload}" if isinstance(value, str) else value


def drawing(payload):
    """A picture that tries to run something, as a broken Graphviz might give it."""
    text = payload.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'viewBox="0 0 9 9" onload="window.hit=1"><script>window.hit=1</script>'
        "<style>*{background:url(http://example.org/x)}</style>"
        '<g class="node" onclick="window.hit=1">'
        f'<title>n1</title><a xlink:href="javascript:window.hit=1"><text>{text}</text></a>'
        '<foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="window.hit=1"/>'
        '</foreignObject><image xlink:href="http://example.org/y"/></g></svg>'
    )


@pytest.fixture
def watched(browser):
    page = browser.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    yield page
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    assert errors == []


def test_nothing_runs_in_the_explorer(watched, tmp_path):
    from septran_widgets.page import page as document

    for number, payload in enumerate(PAYLOADS):
        data = poisoned(explorer_data(), payload)
        data["keys"] = explorer_data()["keys"]
        tree = next(pane for pane in data["panes"] if pane["name"] == "task_tree")
        tree["graph"]["svg"] = drawing(payload)
        path = tmp_path / f"{number}.html"
        path.write_text(document(payload, "explorer", data), "utf-8")
        watched.goto(f"file://{path}")
        watched.locator("[data-pane=tile_program] .sep-lit, .sep-code-line").first.wait_for()
        watched.locator("[data-pane=tile_program] .sep-code-line").nth(14).click()
        watched.locator("g.node").first.dispatch_event("click")
        watched.get_by_role("tab", name="pass by pass").dispatch_event("click")
        assert watched.evaluate("() => window.hit") is None, payload
        if "\u2028" not in payload and "\u2029" not in payload:
            assert payload in watched.locator(".sep-explorer .sep-title").inner_text()
        kinds = "script, iframe, object, embed, image, foreignObject, a"
        assert watched.locator(".sep-explorer").locator(kinds).count() == 0


def test_nothing_runs_in_the_editor(watched, tmp_path):
    from septran_widgets.page import page as document

    text = mapping_source("dsa-sim")[0].replace("proc: CORE", "proc: CORK")
    found = draft(text, None, lambda mapping: septran.explain("gemm", mapping), {})
    plain = {
        "title": "t", "name": "n", "text": text, "seconds": 0.1, "late": True,
        "mistakes": [asdict(mistake) for mistake in found.mistakes],
        "knobs": [], "figures": [["time", "x", "", None]], "stages": None,
    }  # fmt: skip
    for number, payload in enumerate(PAYLOADS):
        data = poisoned(json.loads(json.dumps(plain)), payload)
        path = tmp_path / f"{number}.html"
        path.write_text(document(payload, "editor", data), "utf-8")
        watched.goto(f"file://{path}")
        watched.locator(".sep-mistakes li").first.wait_for()
        assert watched.evaluate("() => window.hit") is None, payload
        assert watched.locator(".sep-editor").locator("script, iframe, img, a, object").count() == 0

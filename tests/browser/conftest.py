"""A real JupyterLab in a real browser; skipped by name where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.browser.jupyter import BROWSERS, FLAGS, PATIENCE, Lab, Notebook


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them are slow tests; those of one worker share a server and a browser."""
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):  # all tests come by, and their parents are slow to list
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def executable() -> str:
    """The browser's program."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    pytest.importorskip("anywidget", reason="septran[notebook] is not installed")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no chromium here: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def browser(executable: str) -> Iterator[Any]:
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, headless=True, args=FLAGS)

        def new_page(**options: Any) -> Any:
            page = running.new_page(**options)
            page.set_default_timeout(PATIENCE)
            return page

        yield SimpleNamespace(new_page=new_page)
        running.close()


@pytest.fixture(scope="session")
def lab(executable: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab server with a folder of its own."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")
    server = Lab(tmp_path_factory.mktemp("lab"))
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@pytest.fixture
def open_notebook(lab: Lab, browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """``open_notebook(cell, ...)`` opens and runs a notebook; gives a `Notebook`.

    After the test nothing may have been asked of another server, and no error been logged.
    """
    opened: list[Notebook] = []

    def start(*cells: str, trusted: bool = True, width: int = 1500, height: int = 1000) -> Notebook:
        name = f"{request.node.name.replace('/', '_')[:60]}_{len(opened)}.ipynb"
        page = browser.new_page(viewport={"width": width, "height": height})
        notebook = Notebook(lab, page, name)
        opened.append(notebook)
        notebook.start(cells)
        return notebook

    yield start
    for notebook in opened:
        notebook.close()
    for notebook in opened:
        assert notebook.external == []
        assert notebook.errors == []


@pytest.fixture
def assert_accessible() -> Any:
    """``assert_accessible(page, selector)``: axe finds nothing serious there."""
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")

    def check(page: Any, selector: str) -> None:
        page.wait_for_timeout(300)  # until colours have faded in
        found = axe_module.Axe().run(page, context=selector).response["violations"]
        bad = [v for v in found if v["impact"] in ("serious", "critical")]
        told = [
            (v["id"], n["target"], [one["message"] for one in n["any"]])
            for v in bad
            for n in v["nodes"][:4]
        ]
        assert told == []

    return check

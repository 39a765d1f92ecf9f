"""A real JupyterLab in a real browser; skipped by name where there is none."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOKEN = "t0k"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PATIENCE = 120_000
"""Milliseconds to wait for anything: other tests share the machine."""
READY = """async () => {
  const app = window.jupyterapp;
  if (!app) return false;
  await app.restored;
  const shown = app.shell.currentWidget;
  if (!shown || !shown.context || !shown.sessionContext) return false;
  await shown.context.ready; await shown.revealed; await shown.sessionContext.ready;
  const kernel = shown.sessionContext.session && shown.sessionContext.session.kernel;
  if (!kernel) return false;
  await kernel.info;
  return kernel.status === 'idle' || kernel.status === 'busy';
}"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests of one worker share a server, so they stay together."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


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


class Lab:
    """The server and its folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        news = folder / "settings" / "@jupyterlab" / "apputils-extension"
        news.mkdir(parents=True)
        (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command(), env=self._environment(), stdout=log, stderr=log, cwd=folder
            )

    def _command(self) -> list[str]:
        return [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
            f"--port={self.port}", "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={self.notebooks}", "--expose-app-in-browser",
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        own = {
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython",
            "SEPTRAN_CACHE_DIR": "cache",
        }  # fmt: skip
        folders = {name: str(self.folder / folder) for name, folder in own.items()}
        (self.folder / "cache").mkdir(mode=0o700, exist_ok=True)
        paths = os.pathsep.join([str(ROOT), str(ROOT / "widgets")])
        return {**os.environ, **folders, "PYTHONPATH": paths}

    def wait(self) -> None:
        """Until it answers."""
        for _ in range(240):
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"{self.url}/api/status?token={TOKEN}", timeout=2).close()
                return
            except OSError:
                time.sleep(0.5)
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        """End it by its process."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Notebook:
    """An open notebook, and all that went wrong in it."""

    def __init__(self, lab: Lab, page: Any, name: str) -> None:
        self.lab, self.page, self.name = lab, page, name
        self.errors: list[str] = []
        self.external: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._heard)
        page.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(
            (self.lab.url, self.lab.url.replace("http", "ws"), "data:", "blob:")
        ):
            self.external.append(request.url)

    def start(self, cells: tuple[str, ...]) -> None:
        """Write the file, open it, run all cells."""
        import nbformat

        notebook = nbformat.v4.new_notebook()
        notebook.metadata["kernelspec"] = {
            "name": "python3", "display_name": "Python 3", "language": "python",
        }  # fmt: skip
        notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(notebook, self.lab.notebooks / self.name)
        self.open()
        self.run_all()

    def open(self) -> None:
        """Open the file and wait for its kernel."""
        address = f"{self.lab.url}/lab/tree/{self.name}?token={TOKEN}&reset"
        self.page.goto(address, wait_until="domcontentloaded")
        self.page.wait_for_function("() => !!window.jupyterapp", timeout=90_000)
        for _ in range(180):  # an async predicate would count as true at once
            if self.page.evaluate(READY):
                return
            self.page.wait_for_timeout(250)
        raise TimeoutError("no kernel")

    def close(self) -> None:
        """End its kernel, and leave."""
        heard = list(self.errors)
        if not self.page.url.startswith("file:"):
            self.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.close()
        self.errors = heard

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Carry out a command of JupyterLab."""
        code = "([name, given]) => window.jupyterapp.commands.execute(name, given)"
        return self.page.evaluate(code, [name, arguments or {}])

    def run_all(self) -> None:
        """Run all cells to their ends."""
        self.command("notebook:run-all-cells")

    def theme(self, dark: bool) -> None:
        """Change JupyterLab's theme."""
        name = "JupyterLab Dark" if dark else "JupyterLab Light"
        self.command("apputils:change-theme", {"theme": name})
        wanted = "false" if dark else "true"
        body = self.page.locator(f"body[data-jp-theme-light='{wanted}']")
        body.wait_for(state="attached", timeout=PATIENCE)  # it counts as hidden: it has no height

    def save(self) -> int:
        """Save the file; its size in bytes."""
        self.command("docmanager:save")
        return (self.lab.notebooks / self.name).stat().st_size

    def state(self, expression: str) -> str:
        """What a Python expression is in the kernel now, as its text."""
        code = """async ([code]) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const future = kernel.requestExecute({ code, store_history: false });
          let text = '';
          future.onIOPub = (m) => { if (m.header.msg_type === 'stream') text += m.content.text; };
          await future.done;
          return text;
        }"""
        told: str = self.page.evaluate(code, [f"print({expression}, end='')"])
        return told


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

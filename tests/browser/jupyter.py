"""A JupyterLab of one's own and a notebook in it, used by a browser."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

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
        self.page.wait_for_function("() => !!window.jupyterapp")
        for _ in range(480):  # an async predicate would count as true at once
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

    def change(self, number: int, code: str) -> None:
        """Write other code into a cell."""
        write = """([number, code]) => {
          const content = jupyterapp.shell.currentWidget.content;
          content.widgets[number].model.sharedModel.setSource(code);
        }"""
        self.page.evaluate(write, [number, code])

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

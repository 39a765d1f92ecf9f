"""How long the explorer of attention takes to open: ``python -m benchmarks.views``.

In a real JupyterLab and a real browser, from the command that runs the cell to the first
line that is drawn, the kernel compiled before: seconds, the median of some openings. Beside
it stands a cell that draws one word, which is what JupyterLab itself takes. The goal is two
seconds (design: notebooks). Needs chromium and ``septran[notebook,test]``.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.jupyter import BROWSERS, FLAGS, PATIENCE, Lab, Notebook

GOAL = 2.0
SETUP = (
    "import septran, septran_widgets.explorer\ne = septran.explain('attention', {!r})\ne.source;"
)
EXPLORER = ("e.explore()", ".sep-code-line")
WORD = ("from IPython.display import HTML\nHTML('<b class=a-word>word</b>')", ".a-word")


def opening(notebook: Notebook, code: str, drawn: str) -> float:
    """Seconds from running a cell of this code to its first drawn element."""
    notebook.change(1, "None")
    notebook.run_all()
    notebook.page.locator(drawn).first.wait_for(state="detached")
    notebook.change(1, code)
    start = time.perf_counter()
    notebook.command("notebook:run-cell")
    notebook.page.locator(drawn).first.wait_for()
    return time.perf_counter() - start


def main() -> None:
    """Print one line a machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="openings of each kind")
    times = parser.parse_args().times
    program = next(path for name in BROWSERS if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        lab = Lab(Path(folder))
        lab.wait()
        for machine in ("cpu-x86", "dsa-sim", "nvidia-h200"):
            page = browser.new_page(viewport={"width": 1500, "height": 1000})
            page.set_default_timeout(PATIENCE)
            notebook = Notebook(lab, page, f"{machine}.ipynb")
            notebook.start((SETUP.format(machine), "None"))
            pairs = [(opening(notebook, *WORD), opening(notebook, *EXPLORER)) for _ in range(times)]
            word, view = (statistics.median(one) for one in zip(*pairs, strict=True))
            told = "reached" if view <= GOAL else "missed"
            print(f"{machine:12} {view:.2f} s (a word {word:.2f} s): goal {GOAL} s {told}")
            notebook.close()
        lab.stop()
        browser.close()


if __name__ == "__main__":
    main()

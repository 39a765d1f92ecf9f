"""Make the notebooks of their sources: ``python notebooks/refresh.py [NAME...]``.

A source, ``sources/NAME.md``, has the text of both languages and the code once. Its code is
executed once, too, and stored with its outputs, small, in ``NAME.ipynb`` and ``zh/NAME.ipynb``;
only what lessons say is in the language of each.
``--text`` keeps the stored outputs, and executes nothing; ``--draw`` first makes the PNGs of the
pictures; ``--compare`` executes and writes nothing, and exits with 1 where outputs are stale.
"""

from __future__ import annotations

import base64
import copy
import difflib
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parent
IMAGES = FOLDER / "sources" / "images"
LANGUAGES = {"en": FOLDER, "zh": FOLDER / "zh"}
"""Where the notebooks of each language are."""
LARGEST = 600_000
"""Characters that the outputs of one notebook may have."""
WIDGET = "application/vnd.jupyter.widget-view+json"
TIMED = re.compile(r"\b(profile|timeline|tune|timings|timeit|perf_counter)\b")
"""In cells that measure: nothing lasting is expected of them."""
MEASURED = re.compile(r"[\d.,]+\s*(?:ns|us|ms|s|GFLOP/s|GB/s|op/s|x)\b|0\.\d+ of what")
LESSON = re.compile(r"\bexercise\b")
"""In every cell of a lesson: what it shows is in the notebook's language."""
MARK = re.compile(r"<!-- (en|zh) -->")
WIDE = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef\u201c\u201d\u2014\u2026"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


class SourceError(ValueError):
    """A source that is not written as `notebooks/README.md` says."""


@dataclass
class Cell:
    """Code, or a text in each language."""

    code: str = ""
    texts: dict[str, str] = field(default_factory=dict)


def cells_of(source: str) -> list[Cell]:
    """The cells of a source; raises SourceError where a text lacks one of the languages."""
    found: list[Cell] = []
    language, fence = "", ""
    for number, line in enumerate(source.splitlines(), 1):
        if fence:
            if line == "```":
                fence = ""
            else:
                found[-1].code += line + "\n"
        elif line == "```python":
            fence, language = "python", ""
            found.append(Cell())
        elif mark := MARK.fullmatch(line):
            language = mark[1]
            if not found or found[-1].code or language in found[-1].texts:
                found.append(Cell())
            found[-1].texts[language] = ""
        elif language:
            found[-1].texts[language] += line + "\n"
        elif line.strip():
            raise SourceError(f"line {number} is in no language: {line}")
    for cell in found:
        if not cell.code and set(cell.texts) != set(LANGUAGES):
            raise SourceError(f"one language is missing: {cell.texts}")
    return found


def notebook_of(cells: list[Cell], language: str) -> nbformat.NotebookNode:
    """A notebook without outputs."""
    made = nbformat.v4.new_notebook(metadata=KERNEL)
    for number, cell in enumerate(cells):
        if cell.code:
            node = nbformat.v4.new_code_cell(cell.code.strip("\n"))
        else:
            text = cell.texts[language].strip("\n")
            node = nbformat.v4.new_markdown_cell(joined(text) if language == "zh" else text)
            attach(node)
        node.id = f"cell-{number:02}"
        made.cells.append(node)
    return made


def joined(text: str) -> str:
    """Chinese lines of a paragraph as one: a line's end would be shown as a space."""
    return re.sub(rf"(?<=[{WIDE}])\n(?=[{WIDE}])", "", text)


def attach(node: nbformat.NotebookNode) -> None:
    """Take pictures, ``![what](images/x.svg)``, into the notebook, as PNG.

    JupyterLab shows no attachment of another kind than PNG, JPEG and GIF.
    """
    for name in re.findall(r"\]\(images/([\w.-]+)\.svg\)", node.source):
        data = base64.b64encode((IMAGES / f"{name}.png").read_bytes()).decode()
        node.setdefault("attachments", {})[f"{name}.png"] = {"image/png": data}
    node.source = re.sub(r"\]\(images/([\w.-]+)\.svg\)", r"](attachment:\1.png)", node.source)


def draw() -> None:
    """Make the PNG of each picture, twice as large, with the browser that the tests use."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(device_scale_factor=2)
        for picture in sorted(IMAGES.glob("*.svg")):
            page.set_content(f"<body style='margin: 0'>{picture.read_text(encoding='utf-8')}")
            page.locator("svg").screenshot(path=picture.with_suffix(".png"))
        browser.close()


def execute(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Run all cells, and keep of their outputs what reads well without a kernel.

    Gives the code cells as a Chinese notebook has them: lessons speak the reader's language.
    """
    folder = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(notebook, resources=folder, store_widget_state=False)
    os.environ["SEPTRAN_LANGUAGE"] = "en"
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        notebook.metadata = nbformat.from_dict(KERNEL)
        chinese = [in_chinese(client, n) for n, c in enumerate(notebook.cells) if is_code(c)]
    for cell in (*filter(is_code, notebook.cells), *chinese):
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            normalise(output)
        cell.outputs = [o for o in cell.outputs if not is_view(o)]
    return chinese


def in_chinese(client: NotebookClient, index: int) -> nbformat.NotebookNode:
    """A lesson's cell, run once more; any other one as it is."""
    cell = client.nb.cells[index]
    again = nbformat.from_dict(copy.deepcopy(dict(cell)))
    if LESSON.search(cell.source):
        again.source = f"__import__('os').environ['SEPTRAN_LANGUAGE'] = 'zh'\n{cell.source}"
        client.execute_cell(again, index, store_history=False)
        client.nb.cells[index] = cell
        for output in again.outputs:
            if "execution_count" in output:
                output.execution_count = cell.execution_count
    return again


def is_code(cell: nbformat.NotebookNode) -> bool:
    """Whether it is a cell that runs."""
    return bool(cell.cell_type == "code")


def is_view(output: nbformat.NotebookNode) -> bool:
    """Whether it is the live part of a view; its static part is an output before it."""
    return WIDGET in output.get("data", {})


def normalise(output: nbformat.NotebookNode) -> None:
    """Take out what differs from run to run and means nothing: addresses, tokens."""
    for data in (output.get("data", {}), output):
        for kind, text in data.items():
            if isinstance(text, str):
                text = re.sub(r"0x[0-9a-f]{8,}", "0x...", text)
                text = re.sub(r" septran-static-[0-9a-f]{12}", "", text)
                data[kind] = re.sub(r"/tmp/ipykernel_\d+/\d+\.py", "notebook", text)


def stored(notebook: nbformat.NotebookNode, old: Path) -> list[nbformat.NotebookNode]:
    """The cells with outputs of before; raises SourceError where the code has changed since."""
    kept = list(filter(is_code, nbformat.read(old, as_version=4).cells))
    if [c.source for c in kept] != [c.source for c in filter(is_code, notebook.cells)]:
        raise SourceError(f"{old.name}: its code has changed, so it has to be executed")
    return kept


def stale(name: str) -> list[str]:
    """Run the code of one source; which of the stored outputs are not those of today."""
    made = notebook_of(cells_of((FOLDER / "sources" / f"{name}.md").read_text("utf-8")), "en")
    old = stored(made, FOLDER / f"{name}.ipynb")
    try:
        execute(made)
    except CellExecutionError as error:  # the other notebooks are compared all the same
        return [f"{name}: {error}"]
    found = []
    for then, now in zip(old, filter(is_code, made.cells), strict=True):
        before, after = lasting(then.outputs), lasting(now.outputs)
        if not TIMED.search(now.source) and before != after:
            difference = difflib.unified_diff(before, after, "stored", "fresh", lineterm="", n=0)
            found.append("\n".join([f"{name}: cell {now.execution_count}", *difference]))
    return found


def lasting(outputs: list[nbformat.NotebookNode]) -> list[str]:
    """Lines of text that outputs show, without times and speeds."""
    text = "".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs
    )
    if "GFLOP/s" in text:  # tables of speeds: nothing else is in them
        return []
    return [re.sub(r"\s+", " ", MEASURED.sub("_", line)).strip() for line in text.splitlines()]


def refresh(name: str, text_only: bool = False) -> None:
    """Make both notebooks of one source."""
    cells = cells_of((FOLDER / "sources" / f"{name}.md").read_text(encoding="utf-8"))
    made = notebook_of(cells, "en")
    if text_only:
        runs = {k: stored(made, folder / f"{name}.ipynb") for k, folder in LANGUAGES.items()}
    else:
        chinese = execute(made)
        runs = {"en": list(filter(is_code, made.cells)), "zh": chinese}
    size = sum(len(str(cell.outputs)) for cell in runs["en"])
    if size > LARGEST:
        sys.exit(f"{name}: its outputs have {size:,} characters, more than {LARGEST:,}")
    for language, folder in LANGUAGES.items():
        twin = notebook_of(cells, language)
        for cell, run in zip(filter(is_code, twin.cells), runs[language], strict=True):
            cell.outputs, cell.execution_count = run.outputs, run.execution_count
        folder.mkdir(exist_ok=True)
        nbformat.write(twin, folder / f"{name}.ipynb")
    sys.stdout.write(f"{name}: {size:,} characters of output\n")


def names() -> list[str]:
    """Every source."""
    return sorted(p.stem for p in (FOLDER / "sources").glob("*.md"))


if __name__ == "__main__":
    wanted = [a for a in sys.argv[1:] if not a.startswith("--")]
    if unknown := set(sys.argv[1:]) - {*wanted, "--draw", "--compare", "--text"}:
        sys.exit(f"no option {min(unknown)}; there are --draw, --compare and --text")
    if "--draw" in sys.argv:
        draw()
    if "--compare" in sys.argv:
        sys.exit("\n".join(line for n in wanted or names() for line in stale(n)) or None)
    for source_name in wanted or names():
        refresh(source_name, "--text" in sys.argv)

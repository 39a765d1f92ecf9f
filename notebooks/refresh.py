"""Make the notebooks of their sources: ``python notebooks/refresh.py [NAME...]``.

A source, ``sources/NAME.md``, has the text of both languages and the code once. Its code is
executed once, too, and stored with its outputs, small, in ``NAME.ipynb`` and ``zh/NAME.ipynb``.
``--text`` keeps the stored outputs, and executes nothing.
"""

from __future__ import annotations

import base64
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
LANGUAGES = {"en": FOLDER, "zh": FOLDER / "zh"}
"""Where the notebooks of each language are."""
LARGEST = 600_000
"""Characters that the outputs of one notebook may have."""
WIDGET = "application/vnd.jupyter.widget-view+json"
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
    """Take pictures, ``![what](images/x.svg)``, into the notebook."""
    for name in re.findall(r"\]\(images/([\w.-]+\.svg)\)", node.source):
        data = base64.b64encode((FOLDER / "sources" / "images" / name).read_bytes()).decode()
        node.setdefault("attachments", {})[name] = {"image/svg+xml": data}
    node.source = re.sub(r"\]\(images/([\w.-]+\.svg)\)", r"](attachment:\1)", node.source)


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run all cells, and keep of their outputs what reads well without a kernel."""
    NotebookClient(
        notebook, resources={"metadata": {"path": str(FOLDER)}}, store_widget_state=False
    ).execute()
    notebook.metadata = nbformat.from_dict(KERNEL)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            for output in cell.outputs:
                normalise(output)
            cell.outputs = [o for o in cell.outputs if not is_view(o)]


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


def keep_outputs(notebook: nbformat.NotebookNode, old: Path) -> None:
    """The stored outputs of cells; raises SourceError where the code has changed since."""
    stored = [c for c in nbformat.read(old, as_version=4).cells if c.cell_type == "code"]
    fresh = [c for c in notebook.cells if c.cell_type == "code"]
    if [c.source for c in stored] != [c.source for c in fresh]:
        raise SourceError(f"{old.name}: its code has changed, so it has to be executed")
    for cell, before in zip(fresh, stored, strict=True):
        cell.outputs, cell.execution_count = before.outputs, before.execution_count


def refresh(name: str, text_only: bool = False) -> None:
    """Make both notebooks of one source."""
    cells = cells_of((FOLDER / "sources" / f"{name}.md").read_text(encoding="utf-8"))
    made = notebook_of(cells, "en")
    if text_only:
        keep_outputs(made, LANGUAGES["en"] / f"{name}.ipynb")
    else:
        execute(made)
    size = sum(len(str(cell.get("outputs", ""))) for cell in made.cells)
    if size > LARGEST:
        sys.exit(f"{name}: its outputs have {size:,} characters, more than {LARGEST:,}")
    for language, folder in LANGUAGES.items():
        twin = notebook_of(cells, language)
        for cell, run in zip(twin.cells, made.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = run.outputs, run.execution_count
        folder.mkdir(exist_ok=True)
        nbformat.write(twin, folder / f"{name}.ipynb")
    sys.stdout.write(f"{name}: {size:,} characters of output\n")


def names() -> list[str]:
    """Every source."""
    return sorted(p.stem for p in (FOLDER / "sources").glob("*.md"))


if __name__ == "__main__":
    wanted = [a for a in sys.argv[1:] if a != "--text"]
    for source_name in wanted or names():
        refresh(source_name, "--text" in sys.argv)

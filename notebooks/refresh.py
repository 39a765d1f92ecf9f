"""Run the notebooks and store their outputs, small: ``python notebooks/refresh.py``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
LARGEST = 400_000
"""Characters that the outputs of one notebook may have."""


def refresh(path: Path) -> None:
    """Execute one notebook in place."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(FOLDER)}}).execute()
    notebook.metadata.pop("language_info", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            normalise(output)
    size = sum(len(str(cell.get("outputs", ""))) for cell in notebook.cells)
    if size > LARGEST:
        sys.exit(f"{path.name}: its outputs have {size:,} characters, more than {LARGEST:,}")
    nbformat.write(notebook, path)
    sys.stdout.write(f"{path.name}: {size:,} characters of output\n")


def normalise(output: nbformat.NotebookNode) -> None:
    """Take out what differs from run to run and means nothing: addresses, cell numbers."""
    for data in (output.get("data", {}), output):
        for kind, text in data.items():
            if isinstance(text, str):
                text = re.sub(r"0x[0-9a-f]{8,}", "0x...", text)
                data[kind] = re.sub(r"/tmp/ipykernel_\d+/\d+\.py", "notebook", text)


if __name__ == "__main__":
    for notebook_path in sorted(FOLDER.glob("*.ipynb")):
        refresh(notebook_path)

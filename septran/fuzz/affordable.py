"""Cases that take seconds: tiles of one element make a hundred thousand steps of some programs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from septran.errors import SepTranError
from septran.fuzz.cases import RandomCase
from septran.runtime.work import steps
from septran.task.frontend.loader import load_entry
from septran.task.trace.chooser import DefaultChooser
from septran.task.trace.inference import complete
from septran.task.trace.tracing import trace

MOST = 1500
"""The greatest number of reference steps of a case: about a second."""
LARGEST = 256
"""The size of a tile that no tensor of a case exceeds."""


def affordable(case: RandomCase) -> RandomCase:
    """Double the smallest tiles of a case until the reference takes at most `MOST` steps."""
    tunables = dict(case.tunables)
    while tunables and _steps(case, tunables) > MOST:
        smallest = min(tunables, key=lambda name: tunables[name])
        if tunables[smallest] >= LARGEST:
            break
        tunables[smallest] *= 2
    return replace(case, tunables=tunables)


def _steps(case: RandomCase, tunables: Mapping[str, int]) -> int:
    """Return the steps of the logic with these tiles; 0 where it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "logic.py"
        file.write_text(case.logic, encoding="utf-8")
        try:
            task, chooser = load_entry(file), DefaultChooser(dict(tunables))
            shapes = {i.name: i.shape for i in case.inputs}
            kinds = {i.name: i.dtype for i in case.inputs}
            full, types = complete(task, shapes, kinds, chooser, case.static)
            return steps(trace(task, full, types, chooser, case.static, check=False))
        except SepTranError:
            return 0

"""The exercise of CONTRIBUTING.md: a new operator is one file, and runs on every machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import septran
from septran import operators
from septran.matrix import MACHINES, measure_cell

ROOT = Path(__file__).parents[2]


@pytest.fixture
def logic(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    file = tmp_path / "gelu.py"
    file.write_text(code, encoding="utf-8")
    return file


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
def test_the_file_runs_where_it_lies(logic, machine):
    kernel = septran.compile(str(logic), machine, shapes={"M": 40, "N": 70})
    check = kernel.check()
    assert check.right, str(check)
    x = torch.randn(40, 70, dtype=torch.float32)
    exact = torch.nn.functional.gelu(x.double())
    found = torch.as_tensor(kernel.reference(x))
    assert torch.all((found - exact).abs() <= 2.0**-50 * (x.abs() + 1))


@pytest.mark.slow
def test_the_file_in_the_library_is_an_operator_of_every_machine(logic, monkeypatch):
    monkeypatch.setattr(operators, "_FOLDER", logic.parent)
    monkeypatch.setattr(operators, "__path__", [str(logic.parent)])
    assert operators.names() == ("gelu",)
    cases = operators.cases("gelu")
    assert [case.dtype for case in cases] == ["float32", "float32", "float16"]
    for machine in MACHINES:
        for case in cases:
            cell = measure_cell(case, machine)
            assert cell.right, cell.message

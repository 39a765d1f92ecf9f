"""The examples of docs/torch.md run, and print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGE = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")


@pytest.mark.slow  # compiled by Inductor
@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_the_page(capsys):
    examples = [c for c in re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M) if "import" in c]
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.S | re.M)
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        for code in examples:
            exec(code, {})
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    printed = capsys.readouterr().out
    assert printed.endswith(shown)
    (schema,) = re.findall(r"print\(norm.schema\) +# (.*)", PAGE)
    assert printed.splitlines()[0] == schema
    assert len(examples) == 2

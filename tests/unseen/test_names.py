"""The shipped mappings hold for logic by what it does, not by what its tensors are called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from septran import operators

RENAMED = {
    "softmax": {"M": 40, "N": 70},
    "layer_norm": {"M": 40, "N": 70},
    "rms_norm": {"M": 40, "N": 70},
    "topk": {"M": 40, "N": 70},
    "gemm_bias_act": {"M": 40, "N": 70, "K": 50},
}
TENSORS = {
    "X": "Signal", "Y": "Result", "W": "Gain", "bias": "Shift", "C": "Total", "A": "Left",
    "B": "Right", "values": "Greatest", "indices": "Places",
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("operator", RENAMED)
def test_tensors_may_have_any_name(operator, machine, logic, right):
    source = Path(operators.load(operator).file).read_text()
    for old, new in TENSORS.items():
        source = re.sub(rf"\b{old}\b", new, source)
    right(logic(operator, source, header=""), machine, RENAMED[operator])

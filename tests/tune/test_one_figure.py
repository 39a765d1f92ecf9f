"""One mapping has one predicted time, whoever shows it."""

import pytest

import septran
from septran.format_units import time_text
from septran.request import CompileRequest
from septran.tuning.changes import propose
from septran.views.comparisons.comparison import Comparison
from septran.views.text.report import report

MACHINES = ("dsa-sim", "cpu-x86", "nvidia-h200", "amd-mi300x", "tpu-v5e", "opencl-generic")
SIZES = {"M": 64, "N": 128}


@pytest.mark.parametrize("machine", MACHINES)
def test_report_comparison_and_proposals_say_the_same(machine):
    explained = septran.explain("softmax", machine, shapes=SIZES)
    seconds = explained.prediction.seconds
    request = CompileRequest.of("softmax", machine, shapes=SIZES)
    assert propose(request, seconds=0).seconds == seconds
    assert f"predicted {time_text(seconds)}" in report(explained)
    compared = str(Comparison(("a", "b"), (explained, explained)))
    (row,) = (line for line in compared.splitlines() if line.startswith("predicted time"))
    assert row.count(time_text(seconds)) == 2

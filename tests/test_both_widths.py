"""No test of CPU code is for the host's vectors alone, but for those that say so."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

FOLDERS = ("tests/targets/cpu", "tests/operators/test_kernels.py")


@pytest.mark.slow
def test_no_test_of_cpu_code_is_for_the_host_alone():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not one_width"]
    run = subprocess.run(
        [*command, *FOLDERS], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    tests = set(re.findall(r"^(?:\S+)::.*$", run.stdout, re.MULTILINE))
    of = {bits: {t for t in tests if re.search(rf"::\w+\[{bits}[-\]]", t)} for bits in (256, 512)}
    tests = {t for t in tests if "test_group_dots.py" not in t}  # they name each host themselves
    assert len(tests) > 300
    assert len(of[256]) == len(of[512]) > 0.9 * len(tests) / 2

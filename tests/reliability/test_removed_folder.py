"""A working folder that is removed under a program is no obstacle."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import os, shutil, sys
import numpy as np, septran, torch
torch.get_num_threads()  # MKL, which starts then, wants a folder
from septran.errors import SepTranError
folder = sys.argv[1]
os.mkdir(folder)
os.chdir(folder)
shutil.rmtree(folder)
kernel = septran.compile("softmax", "cpu-x86", shapes={"X": (4, 8)})
assert (kernel(np.zeros((4, 8), "f4")) == 1 / 8).all()
assert "softmax.py" in str(septran.explain("softmax", "cpu-x86", shapes={"X": (4, 8)}))
for logic, mapping in (("logic.py", "cpu-x86"), ("softmax", "x.mapping.yaml")):
    try:
        septran.compile(logic, mapping)
    except SepTranError as error:
        print(error.code)
"""


@pytest.mark.slow
def test_kernels_are_made_in_a_folder_that_was_removed(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "gone")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["SEP118", "SEP302"]

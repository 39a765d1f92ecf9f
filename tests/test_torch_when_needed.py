"""Processes of SepTran's own compile and run without torch, and take it where a tensor is one."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMPILE = """
import sys
{first}
from septran.torch_when_needed import import_torch_when_needed
import_torch_when_needed()
import septran
kernel = septran.compile("gemm", "cpu-x86", shapes={{"M": 24, "N": 24, "K": 24}})
print("torch" in sys.modules)
assert kernel.check().right
{then}
"""
PRODUCT = """
import torch
a, b = torch.randn(24, 24), torch.randn(24, 24)
c = kernel(a, b)
assert isinstance(c, torch.Tensor)
bound = 24 * 2.0**-24 * (a.abs().double() @ b.abs().double())
assert ((c - a.double() @ b.double()).abs() <= bound).all()
"""


def run(text: str) -> str:
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_a_process_of_its_own_compiles_without_torch():
    assert run(COMPILE.format(first="", then="")) == "False"


@pytest.mark.slow
def test_torch_that_comes_later_is_served():
    assert run(COMPILE.format(first="", then=PRODUCT)) == "False"


@pytest.mark.slow
def test_torch_that_is_there_before_is_left_alone():
    then = "import torch, tvm_ffi\nassert tvm_ffi._convert.torch is torch\n"
    assert run(COMPILE.format(first="import torch", then=then + PRODUCT)) == "True"


@pytest.mark.slow
def test_a_program_of_others_has_torch_in_its_bindings():
    text = "import sys, septran, tvm_ffi; septran.task; print('torch' in sys.modules)"
    assert run(text) == "True"

"""Every operator in simulated time: right by the error bound, whatever hardware does when."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

import septran
from septran.machine.loader import mappings_root
from tests.tiers import slow_but

CASES = {
    "gemm": ("gemm", {"M": 70, "N": 45, "K": 150}, {}),
    "gemm turned": ("gemm", {"M": 70, "N": 45, "K": 150}, {"trans_a": True, "trans_b": True}),
    "gemm of one element": ("gemm", {"M": 1, "N": 1, "K": 1}, {}),
    "gemm without a sum": ("gemm", {"M": 5, "N": 4, "K": 0}, {}),
    "batched_gemm": ("batched_gemm", {"S": 3, "M": 33, "N": 20, "K": 65}, {}),
    "gemm_bias_act": ("gemm_bias_act", {"M": 70, "N": 45, "K": 50}, {"act": "gelu"}),
    "softmax": ("softmax", {"M": 70, "N": 45}, {}),
    "softmax of long rows": ("softmax", {"M": 3, "N": 5000}, {}),
    "attention": ("attention", {"B": 1, "H": 2, "G": 2, "M": 70, "N": 100, "D": 16}, {}),
    "causal attention": (
        "attention", {"B": 1, "H": 1, "G": 1, "M": 130, "N": 150, "D": 16}, {"causal": True}
    ),
    "conv2d": ("conv2d", {"B": 2, "C": 5, "H": 9, "W": 8, "O": 6, "R": 3, "S": 3}, {}),
    "strided conv2d": (
        "conv2d", {"B": 1, "C": 3, "H": 11, "W": 9, "O": 4, "R": 3, "S": 3},
        {"stride": 2, "padding": 1},
    ),
}  # fmt: skip
MACHINES = ("dsa-sim", "npu-cube")
MEMBERS = ("gemm", "gemm_bias_act", "softmax", "attention", "conv2d")


def check(operator, sizes, static, mapping, **options):
    """Compiled, simulated with all of the simulator's checks, and compared with float64."""
    result = septran.compile(operator, mapping, shapes=sizes, static=static, **options).check()
    assert result.right, str(result)


@pytest.mark.one_in(9, first=3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_an_operator_is_right(case, machine):
    check(*CASES[case], machine)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", MEMBERS)
def test_short_floats_are_right(case, dtype):
    check(*CASES[case], "dsa-sim", dtypes=dtype)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", MEMBERS)
@pytest.mark.parametrize("seed", slow_but([0], range(3)))
def test_no_delay_changes_a_result(case, machine, seed, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", str(seed))
    check(*CASES[case], machine)


def changed(tmp_path, *changes):
    """The simulated DSA with some lines of its file changed."""
    folder = mappings_root() / "machines"
    text = (folder / "dsa-sim.yaml").read_text()
    for old, new in changes:
        text, count = re.subn(old, new, text)
        assert count
    shutil.copy(folder / "dsa-sim.h", tmp_path)
    file = tmp_path / "changed.yaml"
    file.write_text(text)
    return str(file)


VARIANTS = {
    "two flags": [(r"\bflags: \d+", "flags: 2")],
    "one flag": [(r"\bflags: \d+", "flags: 1")],
    "few flags, short queues": [
        (r"\bflags: \d+", "flags: 4"),
        (r"queue_depth: \d+", "queue_depth: 1"),
    ],
    "no flags": [(r"\bflags: \d+", "flags: 0")],
    "copies that only sync waits for": [("completes_by: event", "completes_by: sync")],
    "three cores": [("count: 1", "count: 3")],
    "a queue for moves": [("queues: {vec_move: vec}", "queues: {}")],
    "one queue for all copies": [
        ("queues: {vec_move: vec}", "queues: {vec_move: dma_in, dma_out: dma_in}")
    ],
}


@pytest.mark.one_in(15)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", slow_but(["gemm_bias_act", "attention"], MEMBERS))
def test_a_machine_with_less_or_more_is_served(case, variant, tmp_path):
    check(*CASES[case], "dsa-sim", machine=changed(tmp_path, *VARIANTS[variant]))


def test_a_kernel_is_called_again_and_again():
    kernel = septran.compile("softmax", "dsa-sim", shapes={"M": 5, "N": 7})
    x = np.random.default_rng(0).standard_normal((5, 7)).astype("f4")
    wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    for _ in range(3):
        np.testing.assert_allclose(kernel(x), wanted, rtol=1e-5)

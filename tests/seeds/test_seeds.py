"""The example of the project's founding document, word for word, runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.tile.nodes import Copy, Wait, nodes

HERE = Path(__file__).parent
FILES = {
    "logic_file": HERE / "gemm_host_logic.py",
    "mapping_file": HERE / "gemm_on_nvidia_gpu.mapping.yaml",
}


def operands(m, n, k, dtype="float32"):
    rng = np.random.default_rng(m * n + k)
    return rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)


def within_bound(c, a, b):
    a, b = a.astype("float64"), b.astype("float64")
    k = a.shape[1]
    gamma = k * 2.0**-24 / (1 - k * 2.0**-24)
    return np.all(np.abs(c - a @ b) <= 2 * gamma * (np.abs(a) @ np.abs(b)))


@pytest.mark.parametrize("shape", [(256, 128, 64), (200, 260, 300), (1, 1, 1)], ids=str)
def test_it_runs_on_the_cpu_as_it_is(shape):
    a, b = operands(*shape)
    kernel = septran.compile(**FILES)
    assert within_bound(kernel(a, b), a, b)
    messages = " ".join(r.message for r in kernel.remarks)
    assert "the mapping names no machine, so cpu-x86 is taken" in messages
    assert "`pipeline` has no effect" in messages


def test_an_output_that_accumulates_can_be_passed():
    a, b = operands(64, 32, 16)
    c = np.ones((64, 32), "float32")
    septran.compile(**FILES)(a, b, out=c)
    exact = 1 + a.astype("float64") @ b
    size = 1 + np.abs(a.astype("float64")) @ np.abs(b)
    assert np.all(np.abs(c - exact) <= 2 * 17 * 2.0**-24 * size)


@pytest.mark.parametrize("order", ["early", "late", 0, 1])
def test_on_the_gpu_it_names_its_panels_are_streamed_through_three_stages(order):
    a, b = operands(160, 256, 2048, "float16")
    stages = septran.produce_stages(
        FILES["logic_file"], FILES["mapping_file"], machine="nvidia-h200",
        shapes={"C": (160, 256), "A": a.shape, "B": b.shape},
        dtypes={"A": "float16", "B": "float16", "C": "float32"},
    )  # fmt: skip
    program = stages.tile_program
    septran.verify(program, full=True)
    assert {program.buffer(n).stages for n in ("A_SHARED", "B_SHARED")} == {3}
    assert any("in steps of" in r.message for r in program.remarks)
    assert any(isinstance(n, Wait) for n in nodes(program.body))
    for node in nodes(program.body):
        if isinstance(node, Copy):
            assert node.origin.logic is not None
            assert node.origin.mapping is not None
    given = {"C": np.zeros((160, 256), "float32"), "A": a, "B": b}
    c = septran.interpret(program, given, order=order)["C"]
    assert within_bound(c, a, b)


def test_its_own_call_runs_as_printed(monkeypatch, tmp_path):
    # The document leaves the host's task out of its logic file, and its mapping names it.
    printed, host = (HERE / name for name in ("gemm_logic.py", "gemm_host_logic.py"))
    host_task = host.read_text().partition("from gemm_logic import gemm_block_logic\n")[2]
    (tmp_path / "gemm_logic.py").write_text(printed.read_text() + host_task)
    shutil.copy(FILES["mapping_file"], tmp_path)
    monkeypatch.chdir(tmp_path)
    import septran_compiler as stc

    # 编译：逻辑 + 映射 → 高性能代码
    kernel = stc.compile(
        logic_file="gemm_logic.py",
        mapping_file="gemm_on_nvidia_gpu.mapping.yaml"
    )  # fmt: skip
    a, b = operands(32, 48, 16)
    assert within_bound(kernel(a, b), a, b)
    assert stc.compile is septran.compile

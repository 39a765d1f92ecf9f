"""Threads trace and load at the same time, each its own logic."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from septran import task
from septran.operators import load
from septran.task.frontend.loader import load_entry
from septran.task.trace.tracing import trace

LOGIC = """
import time
import task_lang as task
from beside import NAME

@task.define(leaf=True)
def rows(Y, X):
    time.sleep(0.002)
    Y[:, :] = X * {number}.0
assert NAME == "{number}"
"""


@pytest.fixture(autouse=True)
def _switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_traces_of_several_threads_do_not_meet():
    logics = [
        (load("softmax"), {"X": (30, 40), "Y": (30, 40)}),
        (load("gemm"), {"A": (30, 40), "B": (40, 20), "C": (30, 20)}),
    ]
    alone = [str(trace(logic, shapes)) for logic, shapes in logics]
    with ThreadPoolExecutor(4) as pool:
        for turn, text in enumerate(pool.map(lambda n: str(trace(*logics[n % 2])), range(24))):
            assert text == alone[turn % 2]


def test_logic_files_are_loaded_side_by_side(tmp_path):
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "logic.py").write_text(LOGIC.format(number=number))
        (folder / "beside.py").write_text(f"NAME = '{number}'\n")
    names, path = set(sys.modules), list(sys.path)

    def loaded(number):
        return str(
            trace(load_entry(tmp_path / str(number) / "logic.py"), {"X": (2, 3), "Y": (2, 3)})
        )

    with ThreadPoolExecutor(8) as pool:
        for number, text in enumerate(pool.map(loaded, range(8))):
            assert f"{number}.0" in text
    assert not {"task_lang", "tasklang", "beside"} & (set(sys.modules) - names)
    assert sys.path == path
    assert task.define

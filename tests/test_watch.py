"""A run of the suite ends, whatever becomes of the processes that test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
import ctypes, os, signal, time
import pytest

@pytest.mark.parametrize("number", range(12))
def test_it(number):
    if number == 2:
        {accident}
"""
ACCIDENTS = {
    "native code does not return":  # and it holds the GIL
        "lock = ctypes.PyDLL(None).pthread_mutex_lock; m = bytes(64); lock(m); lock(m)",
    "a crash": "os.kill(os.getpid(), signal.SIGSEGV)",
    "a crash, and a child has the pipe":
        "os.fork() or time.sleep(40); os.kill(os.getpid(), signal.SIGSEGV)",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("accident", ACCIDENTS)
def test_a_lost_worker_does_not_stop_the_run_for_ever(accident, tmp_path):
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(TESTS.format(accident=ACCIDENTS[accident]))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    own = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n2", "--dist=worksteal", "--stuck-after=12", "-p",
         "no:cacheprovider", "--timeout=5"],
        cwd=tmp_path, env=own, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode != 0, done.stdout
    # xdist names the test that ran, or the worker between two tests; it stops itself where it
    # asks a worker for tests that has just gone (`INTERNALERROR`, in all of its schedulers).
    said = ("crashed while running", "node down: Not properly terminated", "cannot send (already",
            "Timeout (0:00:")  # fmt: skip
    assert any(words in done.stdout + done.stderr for words in said), done.stdout + done.stderr


@pytest.mark.slow
def test_a_plain_run_has_workers_that_have_none(tmp_path):
    """They read the same configuration, and once started workers of their own, without end."""
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = suite\n")
    (tmp_path / "suite").mkdir()
    worker = 'import os\n\ndef test_it():\n    assert os.environ["PYTEST_XDIST_WORKER"] == "gw0"\n'
    (tmp_path / "suite" / "test_it.py").write_text(worker)
    own = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    own["PYTEST_XDIST_AUTO_NUM_WORKERS"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path, env=own, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr

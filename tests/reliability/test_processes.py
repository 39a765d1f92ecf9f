"""Threads, processes, kills, forks and interrupts around real kernels and one cache."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.runtime.cache import Cache

WORKERS = Path(__file__).with_name("workers.py")


@pytest.fixture
def run(tmp_path):
    """Run a job of workers.py with a cold cache, and if asked without coverage's own locks."""

    def run(*job, measured=True):
        kept = (name for name in os.environ if measured or not name.startswith("COVERAGE_PROCESS"))
        environment = {name: os.environ[name] for name in kept}
        found = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", WORKERS, *map(str, job)],
            env=environment | {"SEPTRAN_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        assert "Error" not in found.stderr

    return run


@pytest.mark.slow
def test_processes_and_threads_build_each_kernel_once(run, tmp_path):
    run("race", tmp_path / "builds")
    built = Counter((tmp_path / "builds").read_text().splitlines())
    assert len(built) == 6
    assert set(built.values()) == {1}
    assert Cache(tmp_path / "cache").info().entries == 6


@pytest.mark.slow
def test_killed_compilers_leave_whole_entries_only(run):
    run("kill", 15)


@pytest.mark.slow
def test_kernels_run_in_a_forked_process(run):
    run("fork")


@pytest.mark.slow
def test_an_interrupted_compilation_can_be_repeated(run):
    run("interrupt", 8, measured=False)  # a SIGINT inside coverage's tracer leaves its lock taken


def test_one_kernel_is_called_from_many_threads():
    kernel = septran.compile("gemm", "cpu-x86")
    rng = np.random.default_rng(0)
    pairs = [
        (rng.integers(-4, 5, (m, 40)).astype("f4"), rng.integers(-4, 5, (40, 30)).astype("f4"))
        for m in (1, 7, 64, 130)
    ]

    def calls(number):
        for turn in range(50):
            a, b = pairs[(number + turn) % len(pairs)]
            assert (kernel(a, b) == a @ b).all()
            out = np.empty((len(a), 30), "f4")
            kernel(a[::-1], b, out=out)
            assert (out == a[::-1] @ b).all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(calls, range(8)))
    assert len(kernel.specialisations) == len(pairs)

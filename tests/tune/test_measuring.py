"""Whatever a candidate does, the session goes on and says what it was."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from septran.tuning.measuring import MeasuringWorker, Stopped
from tests.tiers import slow_where

COMMAND = (sys.executable, str(Path(__file__).with_name("planted.py")))
PATIENT = 120.0
"""Seconds for what must answer, on a busy machine."""


@pytest.fixture
def worker():
    with MeasuringWorker(COMMAND) as made:
        yield made


def ask(worker, kernel, seconds=PATIENT, results=None):
    return worker.ask({"kernel": kernel, "results": results}, seconds)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("planted", "kind", "says"),
    slow_where(
        lambda case: case[0] in ("abort", "exit", "memory"),
        [
            ("segv", "crashed", "SIGSEGV"),
            ("abort", "crashed", "SIGABRT"),
            ("exit", "crashed", "code 0"),
            ("deaf", "crashed", "code 0"),
            ("memory", "crashed", "out of memory"),
            ("error", "failed", "RuntimeError: planted"),
            ("flood", "measured", ""),
        ],
    ),
)
def test_what_is_planted_is_told_by_its_kind_and_others_still_run(worker, planted, kind, says):
    answer = ask(worker, planted)
    assert answer["kind"] == kind
    assert says in answer.get("message", "")
    assert ask(worker, "good")["kind"] == "measured"


def test_one_process_serves_many_candidates_and_goes_at_the_end(worker):
    first = ask(worker, "good")["pid"]
    assert ask(worker, "good")["pid"] == first
    worker.close()
    assert not alive(first)


@pytest.mark.slow
def test_what_takes_too_long_is_ended_with_all_that_it_started(worker, tmp_path):
    ask(worker, "good")
    file = tmp_path / "pids"
    answer = ask(worker, "forks", 10.0, str(file))
    assert answer["kind"] == "timed out"
    children = [int(word) for word in file.read_text().split()]
    assert len(children) == 3
    assert not any(map(alive, children))
    pid = ask(worker, "good")["pid"]
    assert ask(worker, "loop", 0.5)["kind"] == "timed out"
    assert not alive(pid)


def test_someone_who_stops_does_not_wait_for_the_candidate():
    worker = MeasuringWorker(COMMAND, stopped=lambda: True)
    with pytest.raises(Stopped):
        ask(worker, "loop", 600)
    assert worker._process is None


def alive(pid):
    """Whether a process runs; one that has ended may wait a moment for its new parent."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True

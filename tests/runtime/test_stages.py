"""Stages are made when asked for, once, and timed without what came before."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from septran.runtime.stages import NAMES
from tests.runtime.fakes import made_by


def stages(log=None):
    log = [] if log is None else log

    def step(name, earlier=None):
        def make(s):
            if earlier:
                getattr(s, earlier)
            log.append(name)
            return name

        return make

    return made_by(
        task_tree=step("task_tree"),
        mapping=step("mapping", "task_tree"),
        tile_program=step("tile_program", "mapping"),
    )


def test_only_what_is_needed_is_made_and_only_once():
    log = []
    s = stages(log)
    assert s.mapping == "mapping"
    assert s.made == ("task_tree", "mapping")
    assert s.tile_program == s["tile_program"] == "tile_program"
    assert log == ["task_tree", "mapping", "tile_program"]
    assert repr(s) == "Stages(task_tree, mapping, tile_program)"


def test_a_step_is_timed_without_those_before_it():
    def slow(s):
        time.sleep(0.05)
        return 1

    s = made_by(task_tree=slow, mapping=lambda s: s.task_tree + 1)
    assert s.mapping == 2
    assert s.timings["task_tree"] >= 0.05
    assert s.timings["mapping"] < 0.04


def test_an_unknown_stage_gets_a_suggestion():
    with pytest.raises(KeyError, match="did you mean 'mapping'"):
        stages()["maping"]
    assert NAMES == ("task_tree", "mapping", "tile_program", "tensor_ir", "source")


def test_a_failed_step_can_be_tried_again():
    answers = [ValueError("no"), 3]

    def step(s):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    s = made_by(task_tree=step)
    with pytest.raises(ValueError, match="no"):
        _ = s.task_tree
    assert s.task_tree == 3


def test_threads_share_one_step():
    calls = []

    def step(s):
        calls.append(1)
        time.sleep(0.02)
        return len(calls)

    s = made_by(task_tree=step)
    threads = [threading.Thread(target=lambda: s.task_tree) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]


def test_the_source_is_the_executables():
    executable = SimpleNamespace(source="text")
    assert made_by(executable=lambda s: executable).source == "text"

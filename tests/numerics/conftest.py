"""Everything that computes a logic, so that corner values can be tried on all of them alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import septran
from septran import task

Run = Callable[..., Any]
"""Gives the outputs of an entry task for some arrays."""


def _reference(entry: Any, *arrays: Any) -> Any:
    return task.run(entry, *arrays)


def _interpreted(entry: Any, *arrays: Any) -> Any:
    return septran.compile(entry, "cpu-x86").interpret(*arrays)


def _narrow_cpu(entry: Any, *arrays: Any) -> Any:
    machine = replace(septran.load_machine("cpu-x86"), arch="avx2")
    return septran.compile(entry, "cpu-x86", machine=machine)(*arrays)


def _on(machine: str, emulate: bool = False) -> Run:
    return lambda entry, *arrays: septran.compile(entry, machine, emulate=emulate)(*arrays)


_SLOW = pytest.mark.slow
_EMULATOR = (_SLOW, pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++"))
EXECUTORS = [
    pytest.param(_reference, id="reference"),
    pytest.param(_interpreted, id="interpreter"),
    pytest.param(_on("cpu-x86"), id="cpu"),
    pytest.param(_narrow_cpu, id="cpu-avx2", marks=_SLOW),
    pytest.param(_on("dsa-sim"), id="dsa-sim"),
    pytest.param(_on("npu-cube"), id="npu-cube", marks=_SLOW),
    pytest.param(_on("nvidia-h200", True), id="h200", marks=_EMULATOR),
    pytest.param(_on("nvidia-a100", True), id="a100", marks=_EMULATOR),
]


@pytest.fixture(params=EXECUTORS)
def run(request: pytest.FixtureRequest) -> Run:
    """One executor after the other."""
    found: Run = request.param
    return found

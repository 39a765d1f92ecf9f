"""What a program reads as an index or a count is awaited as any other read is, and verified."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran import task
from septran.tile.nodes import Wait, nodes, writes
from septran.tile.verify.names import UnknownNodeNameError, UnwrittenBufferError
from septran.tile.verify.sync import OrderError
from septran.tile.verify.verifier import verify
from tests.computed_indices import KEYS, SHAPES, X, take, turn


@task.define
def choose(Y, X, key):
    """Rows that a temporary chooses."""
    at = task.empty(key.shape, task.int64, name="at")
    task.launch(turn, at, key)
    task.launch(take, Y, X[at])


@task.define
def chosen(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]):
    """All in one core."""
    task.launch(choose, Y, X, key)


@task.define(leaf=True)
def add(total, x):
    """One row more."""
    total[...] = total + x


@task.define
def sum_rows(Y, X, key):
    """As many rows' sum as a temporary says."""
    at = task.empty(key.shape, task.int64, name="at")
    task.launch(turn, at, key)
    total = task.zeros(Y.shape, name="total")
    for r in task.sequential_range(task.count(at[0], most=X.shape[0])):
        task.launch(add, total, X[r])
    task.copy(Y, total)


@task.define
def counted(Y: task.Tensor["D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]):
    """All in one core."""
    task.launch(sum_rows, Y, X, key)


MAPPING = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {task: TASK}, proc: CORE, mems: {"*": GLOBAL, total: SPM}}
  - {match: {task: turn}, mems: {"*": SPM}}
  - {match: {task: take}, mems: {"*": SPM}}
  - {match: {task: add}, mems: {"*": SPM}}
"""


@pytest.fixture(params=["rows", "iterations"])
def example(request, tmp_path):
    """A program of one core that reads `at` once it is written, and its result."""
    logic, inner, result = {
        "rows": (chosen, "choose", X[5 - KEYS]),
        "iterations": (counted, "sum_rows", X[:2].sum(0)),
    }[request.param]
    mapping = tmp_path / "m.mapping.yaml"
    mapping.write_text(MAPPING.replace("TASK", inner))
    shapes = {**SHAPES, "Y": result.shape}
    kinds = {"X": "float32", "key": "int64"}
    return septran.produce_stages(logic, mapping, shapes=shapes, dtypes=kinds).tile_program, result


def table(program):
    """The buffer of `at` in main memory."""
    return next(b.name for b in program.buffers if b.name.endswith("at") and b.memory == "GLOBAL")


@pytest.mark.parametrize("order", ["early", "late", 1, 3])
def test_a_store_of_indices_has_landed_before_they_are_read(example, order):
    program, result = example
    assert np.array_equal(septran.interpret(program, [X, KEYS], order=order)["Y"], result)


def test_a_read_of_indices_before_the_wait_is_found(example):
    program, _ = example
    name = table(program)
    channel = next(n.channel for n in nodes(program.body) for r in writes(n) if r.buffer == name)
    waits = tuple(n for n in program.body if isinstance(n, Wait) and n.channel == channel)
    assert len(waits) == 1
    late = (*(n for n in program.body if n not in waits), *waits)
    with pytest.raises(OrderError, match="nothing orders the two"):
        verify(replace(program, body=late))


def test_indices_that_nobody_writes_are_found(example):
    program, _ = example
    name = table(program)
    body = tuple(n for n in program.body if all(r.buffer != name for r in writes(n)))
    assert len(body) == len(program.body) - 1
    with pytest.raises(UnwrittenBufferError, match=f"{name} holds indices or counts, and is read"):
        verify(replace(program, body=body))


def test_indices_in_no_buffer_are_found(example):
    program, _ = example
    name = table(program)
    kept = tuple(b for b in program.buffers if b.name != name)
    body = tuple(n for n in program.body if all(r.buffer != name for r in writes(n)))
    with pytest.raises(UnknownNodeNameError, match=f"names buffer '{name}'"):
        verify(replace(program, buffers=kept, body=body))

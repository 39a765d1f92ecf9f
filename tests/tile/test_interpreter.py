"""Tile programs run on NumPy give what their logic means, under every schedule."""

from __future__ import annotations

import numpy as np
import pytest

from septran.tile.execution import ADVERSARIES
from septran.tile.interpreter import interpret

ORDERS = [*ADVERSARIES, "early", "late", 0, 1, 2]


def operands(m, n, k, seed=0):
    """Small integers: products and sums are exact, so results must be equal."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    return a.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_synchronous_gemm(programs, order):
    a, b = operands(20, 12, 40)
    assert np.array_equal(interpret(programs.plain_gemm(), [a, b], order=order)["C"], a @ b)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("k", [8, 19, 40, 41])
@pytest.mark.parametrize("stages", [2, 3])
def test_pipelined_gemm(programs, order, k, stages):
    a, b = operands(20, 12, k)
    program = programs.pipelined_gemm(stages, k)
    assert np.array_equal(interpret(program, [a, b], order=order)["C"], a @ b)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_gemm_by_producer_and_consumer(programs, order, stages):
    a, b = operands(20, 12, 40)
    program = programs.roles_gemm(stages)
    assert np.array_equal(interpret(program, [a, b], order=order)["C"], a @ b)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_asynchronous_copy_out(programs, order, stages):
    x = np.arange(160, dtype=np.float32).reshape(20, 8)
    assert np.array_equal(interpret(programs.copy_out(stages), [x], order=order)["Y"], x)

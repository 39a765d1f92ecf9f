"""Fixtures of the runtime's tests."""

from __future__ import annotations

import pytest

from septran.task.tree import ScalarParam
from tests.runtime.fakes import make_kernel


@pytest.fixture
def gemm():
    return make_kernel()[0]


@pytest.fixture
def alpha():
    return ScalarParam("alpha", "float32", 1.0)

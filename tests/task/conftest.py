"""What the tests of Task Lang share: one way to run a logic on a real target."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.dtypes import is_float


def run_on_cpu(logic, *arrays, tunables=None, **keywords):
    """Compile for this CPU, run, and compare with the reference; returns the outputs.

    Floats must be within the bound that rounding allows, all else must be equal.
    """
    scalars = {k.name for k in logic.keywords if not k.static}
    static = {n: v for n, v in keywords.items() if n not in scalars}
    given = {n: v for n, v in keywords.items() if n in scalars}
    kernel = septran.compile(logic, "cpu-x86", static=static, tunables=tunables)
    results = kernel(*arrays, **given)
    wanted = task.run(logic, *arrays, **keywords)
    several = isinstance(results, tuple)
    for found, right in zip(*((r if several else (r,)) for r in (results, wanted)), strict=True):
        assert found.shape == right.shape
        assert found.dtype == right.dtype
        if not is_float(str(right.dtype)):
            assert np.array_equal(found, right)
    check = kernel.check(*arrays, **given)
    assert check.right, str(check)
    return results


@pytest.fixture(name="on_cpu")
def on_cpu_fixture():
    """`run_on_cpu`."""
    return run_on_cpu


@pytest.fixture(name="raises_at")
def raises_at_fixture():
    """Expects a mistake of a class at the line that ends in ``# <here>``."""

    def expect(error, match, action, here="# here"):
        with pytest.raises(error, match=match or None) as caught:
            action()
        where = caught.value.where
        assert where is not None
        assert where.text.endswith(here), f"{where}: {where.text}"
        return caught.value

    return expect

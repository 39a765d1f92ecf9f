"""Operators and functions against torch's own samples for its own operators (OpInfo)."""

from __future__ import annotations

import pytest

pytest.importorskip("expecttest", reason="torch's samples need expecttest, of the extra `test`")

from tests.oracles import opinfo
from tests.oracles.judging import Outcome, joined, judge

DTYPES = (*opinfo.FLOATS, *opinfo.INTEGERS, "bool")
FAST = ("exp", "softmax", "mm")
SAMPLED = (
    "add", "exp", "floor_divide", "maximum", "where", "sum", "softmax",
    "nn.functional.rms_norm", "mm", "topk", "nn.functional.scaled_dot_product_attention",
)  # fmt: skip
"""What is run on every executor."""
ELSEWHERE = 8
"""Calls of an operator on each of those."""
FEW = 6
"""Calls that are made in every type; of more it is a third in each, in turn."""


def compared(name: str, dtype: str, *executors: str, part: slice = slice(None)) -> Outcome:
    made, left = opinfo.samples(name, dtype)
    assert made or left or not list(opinfo.calls(name, dtype))
    each = joined(made)
    return judge(each if len(each) <= FEW else each[part], executors)


def assert_same(outcome: Outcome) -> None:
    assert not outcome.differences, "\n".join(map(str, outcome.differences[:10]))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FAST)
def test_float32_is_as_torch_has_it(name):
    outcome = compared(name, "float32", "cpu", "reference")
    assert outcome.samples
    assert_same(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("name", opinfo.ADAPTERS)
def test_every_type_is_as_torch_has_it(name):
    """By the reference; its code in a third of the types and calls, by their place in turn.

    What each function is in each type `tests/numerics` and `tests/targets/cpu` have.
    """
    total, place = Outcome(), [*opinfo.ADAPTERS].index(name)
    for number, dtype in enumerate(DTYPES):
        runs = ("cpu", "reference") if (place + number) % 3 == 0 else ("reference",)
        total += compared(name, dtype, *runs, part=slice((number + number // 3) % 3, None, 3))
    assert total.samples
    assert_same(total)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["interpreter", "avx2", "dsa-sim", "npu-cube"])
@pytest.mark.parametrize("name", SAMPLED)
def test_other_executors_are_as_torch_has_it(name, executor):
    assert_same(compared(name, "float32", executor, part=slice(ELSEWHERE)))


def test_names_are_torchs():
    assert set(opinfo.ADAPTERS) <= set(opinfo.database())

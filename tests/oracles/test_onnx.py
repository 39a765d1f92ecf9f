"""Operators and functions against ONNX's node test cases.

All are slow tests, as ONNX takes ten seconds to make its cases; torch's samples and NumPy's corner
values judge the same in the fast ones.
"""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="ONNX's cases come with the package onnx, of the extra `test`")

from tests.oracles import onnx_cases
from tests.oracles.judging import joined, judge

SAMPLED = ("Add", "Cast", "Softmax", "LayerNormalization", "RotaryEmbedding", "TopK", "Gemm")


def check(operator: str, *executors: str) -> None:
    made, _ = onnx_cases.samples(operator)
    outcome = judge(joined(made), executors)
    assert outcome.samples
    assert not outcome.differences, "\n".join(map(str, outcome.differences[:10]))


@pytest.mark.slow
@pytest.mark.parametrize("operator", onnx_cases.ADAPTERS)
def test_every_operator_is_as_onnx_has_it(operator):
    check(operator, "cpu", "reference")


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["interpreter", "avx2"])
@pytest.mark.parametrize("operator", SAMPLED)
def test_other_executors_are_as_onnx_has_them(operator, executor):
    check(operator, executor)


@pytest.mark.slow
def test_most_cases_are_covered():
    """What is left out has a reason; that not all of an operator is, is a mistake of ours."""
    for operator in onnx_cases.ADAPTERS:
        made, left = onnx_cases.samples(operator)
        assert made, f"{operator}: {left}"

"""Errors of operators for torch."""

from __future__ import annotations

from septran.errors import CallError


class OperatorNameError(CallError):
    """The name of a torch operator is none, or belongs to another operator."""

    code = "SEP695"


class NoGradientError(CallError):
    """A gradient was asked for of an operator whose logic names none."""

    code = "SEP696"


class GradientLogicError(CallError):
    """The logic that computes a gradient takes or returns what the operator does not have."""

    code = "SEP697"

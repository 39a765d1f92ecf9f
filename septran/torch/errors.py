"""Errors of operators for torch."""

from __future__ import annotations

from septran.errors import CallError


class OperatorNameError(CallError):
    """The name of a torch operator or of its arguments is none, or belongs to another operator."""

    code = "SEP695"


class NoGradientError(CallError):
    """A derivative was asked for that no logic computes."""

    code = "SEP696"


class GradientLogicError(CallError):
    """The logic that computes a gradient takes or returns what the operator does not have."""

    code = "SEP697"

"""Kernels as operators of torch: with fake tensors, gradients, vmap and autocast.

import septran.torch

attention = septran.torch.op("attention", "cpu-x86", name="mylib::attention")
attention(q, k, v)                   # also torch.ops.mylib.attention(q, k, v)
torch.compile(model, fullgraph=True) # takes it without a graph break
"""

from __future__ import annotations

from septran.torch.errors import GradientLogicError, NoGradientError, OperatorNameError
from septran.torch.operator import Operator, op
from septran.torch.use import ReplacementReport, use

__all__ = [
    "GradientLogicError", "NoGradientError", "Operator", "OperatorNameError",
    "ReplacementReport", "op", "use",
]  # fmt: skip

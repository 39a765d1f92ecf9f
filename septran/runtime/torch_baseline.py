"""What torch offers for the operators of the library, to measure kernels beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.runtime.duel import Duel, duel

SECONDS = 1.0
"""How long the two sides alternate."""


@dataclass(frozen=True)
class Beside:
    """A kernel and torch's function for the same operator, measured in turns."""

    function: str
    """``torch.mm``."""
    version: str
    duel: Duel


def beside_torch(
    operator: str,
    ours: Callable[..., Any],
    inputs: Sequence[Any],
    static: Mapping[str, Any],
    *,
    threads: int | None = None,
    seconds: float = SECONDS,
) -> Beside | None:
    """Time `ours` and torch's function on the same tensors; None where torch has none.

    `inputs` are NumPy arrays in the order of the operator's parameters. torch keeps to
    `threads` from then on, where they are given.
    """
    import numpy as np
    import torch

    if operator not in _FUNCTIONS:
        return None
    name, function = _FUNCTIONS[operator](static)
    if threads is not None:
        torch.set_num_threads(threads)
    tensors = [_tensor(torch, np.ascontiguousarray(array)) for array in inputs]
    try:
        with torch.inference_mode():
            function(*tensors)
    except (RuntimeError, TypeError, IndexError):
        return None  # torch does not take these dtypes or sizes on this device
    result = ours(*tensors)
    with torch.inference_mode():
        found = duel(lambda: ours(*tensors, out=result), lambda: function(*tensors), seconds)
    return Beside(name, torch.__version__, found)


def _tensor(torch: Any, array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


_Named = tuple[str, Callable[..., Any]]


def _gemm(static: Mapping[str, Any]) -> _Named:
    import torch

    def call(a: Any, b: Any) -> Any:
        _require_floats(a)
        return torch.mm(a.T if static.get("trans_a") else a, b.T if static.get("trans_b") else b)

    return "torch.mm", call


def _batched_gemm(_: Mapping[str, Any]) -> _Named:
    import torch

    def call(a: Any, b: Any) -> Any:
        _require_floats(a)
        return torch.bmm(a, b)

    return "torch.bmm", call


def _require_floats(tensor: Any) -> None:
    if not tensor.is_floating_point():
        raise TypeError("torch sums int8 in int8, which is another operator")


def _gemm_bias_act(static: Mapping[str, Any]) -> _Named:
    import torch

    act = static.get("act", "relu")
    activation = {"relu": torch.relu_, "none": lambda x: x}.get(
        act, getattr(torch.nn.functional, act, None)
    )
    if activation is None:
        raise KeyError(act)
    return f"torch.addmm, {act}", lambda a, b, bias: activation(torch.addmm(bias, a, b))


def _softmax(_: Mapping[str, Any]) -> _Named:
    import torch

    return "torch.softmax", lambda x: torch.softmax(x, 1)


def _attention(static: Mapping[str, Any]) -> _Named:
    import torch

    def call(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=bool(static.get("causal")), scale=static.get("scale")
        )

    return "torch scaled_dot_product_attention", call


def _conv2d(static: Mapping[str, Any]) -> _Named:
    import torch

    def call(x: Any, f: Any) -> Any:
        return torch.nn.functional.conv2d(x, f, **static)

    return "torch conv2d", call


_FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], _Named]] = {
    "attention": _attention,
    "batched_gemm": _batched_gemm,
    "conv2d": _conv2d,
    "gemm": _gemm,
    "gemm_bias_act": _gemm_bias_act,
    "softmax": _softmax,
}

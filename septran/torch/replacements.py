"""What a library operator needs to stand in for a function of torch.

Each function here takes the arguments of one of torch's functions and returns the operator's call:
the operator, its static flags, its tensors, and what is left to do with its result. It raises
`Unsuitable` with the reason where the operator cannot do what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class Unsuitable(Exception):
    """The reason why an operator cannot stand in for one call of torch's function."""


@dataclass(frozen=True)
class Replacement:
    """One call of an operator of the library in place of a call of torch."""

    operator: str
    tensors: tuple[Tensor, ...]
    static: Mapping[str, Any] = field(default_factory=dict)
    scalars: Mapping[str, Any] = field(default_factory=dict)
    finish: Callable[[Any], Any] = lambda result: result
    """What makes torch's result of the operator's: a reshape, mostly."""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Replacement:
    """torch.nn.functional.scaled_dot_product_attention by `attention` or `attention_bias`."""
    _refuse(dropout_p != 0.0, "it has dropout")
    _refuse(not query.dim() == key.dim() == value.dim() == 4, "its tensors do not have four axes")
    _refuse(key.shape[1] != query.shape[1] and not enable_gqa, "its heads differ in number")
    _refuse(value.shape[-1] != query.shape[-1], "values have another head size than queries")
    flags = {} if scale is None else {"scale": float(scale)}
    if attn_mask is None:
        # torch counts keys from the first on, the library's operator from the last.
        _refuse(is_causal and query.shape[2] != key.shape[2], "it is causal, but not square")
        causal = {"causal": True} if is_causal else {}
        return Replacement("attention", (query, key, value), flags | causal)
    _refuse(is_causal, "it is causal and has a mask")
    shape = (*query.shape[:3], key.shape[2])
    if attn_mask.dtype is torch.bool:
        hidden = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = hidden.masked_fill_(~attn_mask, -math.inf)
    # The operator's bias has all heads; a mask that heads share is repeated for them.
    bias = attn_mask.to(query.dtype).expand(shape).contiguous()
    return Replacement("attention_bias", (query, key, value, bias), flags)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Replacement:
    """torch.nn.functional.linear by `gemm_bias_act`, or by `gemm` without a bias."""
    rows = _rows(input)

    def finish(result: Tensor) -> Tensor:
        return result.reshape(*input.shape[:-1], weight.shape[0])

    if bias is None:
        return Replacement("gemm", (rows, weight), {"trans_b": True}, finish=finish)
    flags = {"act": "none", "trans_b": True}
    return Replacement("gemm_bias_act", (rows, weight, bias), flags, finish=finish)


def matmul(input: Tensor, other: Tensor) -> Replacement:
    """torch.matmul by `gemm` or `batched_gemm`."""
    if other.dim() == 2 and input.dim() >= 2:
        shape = (*input.shape[:-1], other.shape[1])
        return Replacement("gemm", (_rows(input), other), finish=lambda x: x.reshape(shape))
    same = input.dim() == other.dim() >= 3 and input.shape[:-2] == other.shape[:-2]
    _refuse(not same, "its batches are not alike")
    shape = (*input.shape[:-1], other.shape[-1])
    a, b = (x.reshape(-1, *x.shape[-2:]) for x in (input, other))
    return Replacement("batched_gemm", (a, b), finish=lambda x: x.reshape(shape))


def mm(input: Tensor, mat2: Tensor) -> Replacement:
    """torch.mm by `gemm`."""
    _refuse(not input.dim() == mat2.dim() == 2, "its tensors are no matrices")
    return matmul(input, mat2)


def bmm(input: Tensor, mat2: Tensor) -> Replacement:
    """torch.bmm by `batched_gemm`."""
    _refuse(not input.dim() == mat2.dim() == 3, "its tensors do not have three axes")
    return matmul(input, mat2)


def softmax(input: Tensor, dim: int | None = None, *more: Any, **named: Any) -> Replacement:
    """torch.softmax along the last axis."""
    _refuse(not input.is_floating_point(), "it is of integers")
    _refuse(dim not in (-1, input.dim() - 1), "it is not along the last axis")
    _refuse(named.get("dtype") is not None or any(isinstance(x, torch.dtype) for x in more),
            "it changes the dtype")  # fmt: skip
    return _by_rows("softmax", input)


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Replacement:
    """torch.nn.functional.layer_norm along the last axis."""
    _refuse(not input.is_floating_point(), "it is of integers")
    _refuse(tuple(normalized_shape) != (input.shape[-1],), "it is not along the last axis alone")
    w = input.new_ones(input.shape[-1]) if weight is None else weight
    b = input.new_zeros(input.shape[-1]) if bias is None else bias
    return _by_rows("layer_norm", input, w, b, eps=float(eps))


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Replacement:
    """torch.nn.functional.rms_norm along the last axis."""
    _refuse(not input.is_floating_point(), "it is of integers")
    _refuse(tuple(normalized_shape) != (input.shape[-1],), "it is not along the last axis alone")
    w = input.new_ones(input.shape[-1]) if weight is None else weight
    small = torch.finfo(input.dtype).eps if eps is None else eps
    return _by_rows("rms_norm", input, w, eps=float(small))


def function_of_elements(name: str) -> Callable[..., Replacement]:
    """Return the replacement of an activation by `elementwise`."""

    def replacement(input: Tensor, *more: Any, **named: Any) -> Replacement:
        plain = all(x is False or x is None or x == "none" for x in (*more, *named.values()))
        _refuse(not plain, "it works in place or approximates")
        _refuse(not input.is_floating_point(), "it is of integers")
        order = _order_in_memory(input)
        if order is None:
            return _by_rows("elementwise", input, static={"function": name})
        # Elements are taken as they lie, and the result lies as they do: as torch's does.
        back = tuple(order.index(n) for n in range(input.dim()))
        call = _by_rows("elementwise", input.permute(order), static={"function": name})
        return replace(call, finish=lambda y: call.finish(y).permute(back))

    return replacement


def _order_in_memory(x: Tensor) -> tuple[int, ...] | None:
    """Return the order of axes in which the tensor is contiguous; None where it is as it is."""
    if x.is_contiguous():
        return None
    strides = x.stride()
    order = tuple(sorted(range(x.dim()), key=lambda n: (strides[n], x.shape[n]), reverse=True))
    return order if x.permute(order).is_contiguous() else None


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Replacement:
    """torch.nn.functional.embedding: rows of the weights."""
    _refuse(weight.dim() != 2, "its weights are no matrix")
    _refuse(input.dtype not in (torch.int32, torch.int64), "its indices are no integers of torch's")
    _refuse(max_norm is not None, "it renormalises its weights")
    special = padding_idx is not None or scale_grad_by_freq or sparse
    trained = torch.is_grad_enabled() and weight.requires_grad
    _refuse(special and trained, "its weights' gradient is scaled, sparse or without a row")
    shape = (*input.shape, weight.shape[1])
    index = input.reshape(-1).to(torch.int64)
    _refuse(_leaves(index, weight.shape[0]), "an index is out of range")
    return Replacement("embedding", (weight, index), finish=lambda x: x.reshape(shape))


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Replacement:
    """torch.nn.functional.conv2d; a bias is added by torch."""
    _refuse(input.dim() != 4, "its input does not have four axes")
    _refuse(isinstance(padding, str), "its padding is a word")
    _refuse(bias is not None and bias.shape != weight.shape[:1], "its bias is not one a channel")
    flags = {"groups": groups}
    for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        flags[name] = _of_both_axes(name, value)
    for extent, size in zip(input.shape[2:], weight.shape[2:], strict=True):
        window = flags["dilation"] * (size - 1) + 1
        _refuse(extent + 2 * flags["padding"] < window, "its filter is larger than the input")

    def finish(result: Tensor) -> Tensor:
        return result if bias is None else result + bias[:, None, None]

    return Replacement("conv2d", (input, weight), flags, finish=finish)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Replacement:
    """torch.nn.functional.max_pool2d by `pool2d`."""
    _refuse(return_indices, "it returns places")
    return _max_pool2d("pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Replacement:
    """torch.nn.functional.max_pool2d with places, by `max_pool2d_indices`."""
    operator = "max_pool2d_indices"
    return _max_pool2d(operator, input, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool2d(
    operator: str,
    input: Tensor,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Replacement:
    _refuse(_of_both_axes("dilation", dilation) != 1, "its windows have gaps")
    return _pooled(operator, input, size, stride, padding, ceil_mode)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Replacement:
    """torch.nn.functional.avg_pool2d by `pool2d`."""
    call = _pooled("pool2d", input, kernel_size, stride, padding, ceil_mode)
    outside = call.static["padding"] > 0 and not count_include_pad
    _refuse(outside or divisor_override is not None, "it divides by another number")
    return replace(call, static={**call.static, "function": "mean"})


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Replacement:
    """torch.nn.functional.adaptive_avg_pool2d by `pool2d`, where windows are alike and apart."""
    _refuse(input.dim() not in (3, 4), "its input does not have three or four axes")
    pair = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size)
    wanted = [
        n if count is None else count for n, count in zip(input.shape[-2:], pair, strict=True)
    ]
    unlike = any(count < 1 or n % count for n, count in zip(input.shape[-2:], wanted, strict=True))
    _refuse(unlike, "its windows are not alike")
    sizes = [n // count for n, count in zip(input.shape[-2:], wanted, strict=True)]
    return avg_pool2d(input, sizes)


def _pooled(
    operator: str, input: Tensor, size: Any, stride: Any, padding: Any, ceil_mode: bool
) -> Replacement:
    """Return the call on an input of three or four axes; torch's stride may be left out."""
    _refuse(input.dim() not in (3, 4), "its input does not have three or four axes")
    _refuse(ceil_mode, "it has windows that begin inside and end outside")
    absent = stride is None or (not isinstance(stride, int) and len(stride) == 0)
    given = {"size": size, "stride": size if absent else stride, "padding": padding}
    flags = {name: _of_both_axes(name, value) for name, value in given.items()}
    smallest = min(input.shape[-2:]) + 2 * flags["padding"]
    _refuse(smallest < flags["size"], "its window is larger than the input")
    too_much = 2 * flags["padding"] > flags["size"]
    _refuse(too_much, "its padding is more than half of its window")
    if input.dim() == 4:
        return Replacement(operator, (input,), flags)

    def finish(result: Any) -> Any:
        return tuple(y[0] for y in result) if isinstance(result, tuple) else result[0]

    return Replacement(operator, (input[None],), flags, finish=finish)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Replacement:
    """torch.nn.functional.cross_entropy of rows and their classes; torch sums over the rows."""
    _refuse(not input.dim() == 2 == target.dim() + 1, "its logits are no matrix")
    _refuse(target.dtype is not torch.int64, "its targets are no classes")
    _refuse(weight is not None or label_smoothing != 0, "its classes have weights, or are smoothed")
    _refuse(size_average is not None or reduce is not None, "it has arguments of old versions")
    _refuse(reduction not in ("mean", "sum", "none"), f"its reduction is {reduction!r}")
    _refuse(0 <= ignore_index < input.shape[1], "it ignores a class")
    counted = target != ignore_index
    # A class that there is, where nothing is asked for.
    _refuse(_leaves(target.where(counted, 0), input.shape[1]), "a target is out of range")

    def finish(losses: Tensor) -> Tensor:
        if reduction == "none":
            return losses
        return losses.sum() / counted.sum() if reduction == "mean" else losses.sum()

    return Replacement("cross_entropy", (input, target), finish=finish)


@dataclass(frozen=True)
class StandIn:
    """What can stand in for a function of torch."""

    operators: tuple[str, ...]
    """The operators of the library that it may call."""
    replace: Callable[..., Replacement]
    """Takes the arguments of torch's function."""


_ATTENTION = StandIn(("attention", "attention_bias"), attention)
_LINEAR = StandIn(("gemm_bias_act", "gemm"), linear)
_MATMUL = StandIn(("gemm", "batched_gemm"), matmul)
_MM, _BMM = StandIn(("gemm",), mm), StandIn(("batched_gemm",), bmm)
_SOFTMAX = StandIn(("softmax",), softmax)
_CONV2D = StandIn(("conv2d",), conv2d)
_MAX_POOL2D = StandIn(("pool2d",), max_pool2d)
_MAX_POOL2D_INDICES = StandIn(("max_pool2d_indices",), max_pool2d_with_indices)


def _activation(name: str) -> StandIn:
    return StandIn(("elementwise",), function_of_elements(name))


KNOWN: Mapping[Callable[..., Any], StandIn] = {
    functional.scaled_dot_product_attention: _ATTENTION,
    functional.linear: _LINEAR,
    torch.matmul: _MATMUL,
    torch.mm: _MM,
    Tensor.mm: _MM,
    torch.bmm: _BMM,
    Tensor.bmm: _BMM,
    Tensor.matmul: _MATMUL,
    Tensor.__matmul__: _MATMUL,
    functional.softmax: _SOFTMAX,
    torch.softmax: _SOFTMAX,
    Tensor.softmax: _SOFTMAX,
    functional.layer_norm: StandIn(("layer_norm",), layer_norm),
    functional.rms_norm: StandIn(("rms_norm",), rms_norm),
    functional.gelu: _activation("gelu"),
    functional.relu: _activation("relu"),
    functional.silu: _activation("silu"),
    torch.relu: _activation("relu"),
    Tensor.relu: _activation("relu"),
    torch.sigmoid: _activation("sigmoid"),
    Tensor.sigmoid: _activation("sigmoid"),
    torch.tanh: _activation("tanh"),
    Tensor.tanh: _activation("tanh"),
    functional.embedding: StandIn(("embedding",), embedding),
    functional.conv2d: _CONV2D,
    torch.conv2d: _CONV2D,
    functional.max_pool2d: _MAX_POOL2D,
    torch.max_pool2d: _MAX_POOL2D,
    functional.max_pool2d_with_indices: _MAX_POOL2D_INDICES,
    functional.avg_pool2d: StandIn(("pool2d",), avg_pool2d),
    functional.adaptive_avg_pool2d: StandIn(("pool2d",), adaptive_avg_pool2d),
    functional.cross_entropy: StandIn(("cross_entropy",), cross_entropy),
}
"""The functions of torch that the library can stand in for."""

MODULES: Mapping[type[torch.nn.Module], Callable[..., Any]] = {
    torch.nn.Linear: functional.linear,
    torch.nn.Softmax: functional.softmax,
    torch.nn.LayerNorm: functional.layer_norm,
    torch.nn.RMSNorm: functional.rms_norm,
    torch.nn.GELU: functional.gelu,
    torch.nn.ReLU: functional.relu,
    torch.nn.SiLU: functional.silu,
    torch.nn.Embedding: functional.embedding,
    torch.nn.Conv2d: functional.conv2d,
    torch.nn.MaxPool2d: functional.max_pool2d,
    torch.nn.AvgPool2d: functional.avg_pool2d,
    torch.nn.AdaptiveAvgPool2d: functional.adaptive_avg_pool2d,
    torch.nn.CrossEntropyLoss: functional.cross_entropy,
}
"""The function that a module's forward calls, by which a module is replaced."""


def _of_both_axes(name: str, value: Any) -> int:
    """Return what a window has along each axis."""
    pair = (value, value) if isinstance(value, int) else tuple(value)
    _refuse(len(set(pair)) != 1, f"its {name} differs between the axes")
    _refuse(pair[0] < (0 if name == "padding" else 1), f"its {name} is {pair[0]}")
    return int(pair[0])


def _leaves(index: Tensor, size: int) -> bool:
    """Return whether an index is known to be none of 0 to size - 1."""
    if not index.numel() or not _has_values(index):
        return False
    low, high = (int(x) for x in index.aminmax())
    return low < 0 or high >= size


def _has_values(x: Tensor) -> bool:
    """Return whether values can be looked at: not in graphs, under vmap or on another device."""
    traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return type(x) is Tensor and x.device.type == "cpu" and not traced


def _rows(x: Tensor) -> Tensor:
    """Return the tensor as a matrix, all axes but the last in one."""
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


def _by_rows(
    operator: str, x: Tensor, *more: Tensor, static: Mapping[str, Any] = {}, **scalars: Any
) -> Replacement:
    _refuse(x.dim() == 0, "it is of a scalar")
    tensors = (_rows(x), *more)
    return Replacement(operator, tensors, static, scalars, lambda y: y.reshape(x.shape))


def _refuse(condition: bool, reason: str) -> None:
    if condition:
        raise Unsuitable(reason)

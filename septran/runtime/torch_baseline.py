"""torch's functions for the operators of the library, as a baseline of measurements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.runtime.arrays import TORCH
from septran.runtime.beside_torch import gradients
from septran.runtime.beside_torch.experts import grouped_gemm, moe, moe_layer, route
from septran.runtime.beside_torch.interleaved_timing import InterleavedTiming, time_interleaved
from septran.runtime.beside_torch.pages import paged_attention, paged_prefill
from septran.runtime.beside_torch.quantised import fp8_gemm
from septran.runtime.beside_torch.recurrence import (
    gated_delta_rule,
    linear_recurrence,
    linear_recurrence_backward,
    ssd,
)

SECONDS = 1.0
"""The number of seconds for which the two sides alternate."""


@dataclass(frozen=True)
class TorchTiming:
    """A kernel and torch's function for the same operator, timed alternately."""

    function: str
    """The name of torch's function: ``torch.mm``."""
    version: str
    """The version of torch that was timed."""
    timing: InterleavedTiming
    """The times of both, torch's as `theirs`."""


def time_against_torch(
    operator: str,
    ours: Callable[..., Any],
    inputs: Sequence[Any],
    static: Mapping[str, Any],
    *,
    threads: int | None = None,
    seconds: float = SECONDS,
) -> TorchTiming | None:
    """Time `ours` and torch's function on the same tensors; None where torch has none.

    `inputs` are NumPy arrays in the order of the operator's parameters. torch keeps to `threads`
    from then on, where they are given.
    """
    import numpy as np
    import torch

    found = torch_function(operator, static)
    if found is None:
        return None
    name, function = found
    if threads is not None:
        torch.set_num_threads(threads)
    tensors = [TORCH.like_numpy(np.ascontiguousarray(array)) for array in inputs]
    try:
        with torch.inference_mode():
            function(*tensors)
    except (RuntimeError, TypeError, IndexError):
        return None  # torch does not take these dtypes or sizes on this device
    result = ours(*tensors)
    with torch.inference_mode():
        timing = time_interleaved(
            lambda: ours(*tensors, out=result), lambda: function(*tensors), seconds
        )
    return TorchTiming(name, torch.__version__, timing)


_NamedFunction = tuple[str, Callable[..., Any]]


def _gemm(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(a: Any, b: Any) -> Any:
        _require_floats(a)
        return torch.mm(a.T if static.get("trans_a") else a, b.T if static.get("trans_b") else b)

    return "torch.mm", call


def _batched_gemm(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(a: Any, b: Any) -> Any:
        _require_floats(a)
        return torch.bmm(a, b)

    return "torch.bmm", call


def _require_floats(tensor: Any) -> None:
    if not tensor.is_floating_point():
        raise TypeError("torch sums int8 in int8, which is another operator")


def _gemm_bias_act(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    act = static.get("act", "relu")
    activation = {"relu": torch.relu_, "none": lambda x: x}.get(
        act, getattr(torch.nn.functional, act, None)
    )
    if activation is None:
        raise KeyError(act)

    def call(a: Any, b: Any, bias: Any) -> Any:
        return activation(torch.addmm(bias, a, b.T if static.get("trans_b") else b))

    return f"torch.addmm, {act}", call


def _softmax(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    return "torch.softmax", lambda x: torch.softmax(x, 1)


def _softmax_backward(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    backward = torch.ops.aten._softmax_backward_data
    return "torch's gradient of softmax", lambda y, dy: backward(dy, y, 1, y.dtype)


def _gemm_backward(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    trans_a, trans_b = static.get("trans_a"), static.get("trans_b")

    def call(a: Any, b: Any, dc: Any) -> tuple[Any, Any]:
        _require_floats(a)
        da = (dc, b if trans_b else b.T)
        db = (a if trans_a else a.T, dc)
        return (
            torch.mm(da[1].T, da[0].T) if trans_a else torch.mm(*da),
            torch.mm(db[1].T, db[0].T) if trans_b else torch.mm(*db),
        )

    return "torch.mm, twice", call


def _gradient(
    title: str, forward: Callable[..., Any], inputs: Callable[..., tuple[Any, ...]]
) -> _NamedFunction:
    """Return torch's gradient of a function, which is run, too: ours compute the same again.

    `inputs` takes the tensors of a call but the last, and returns those to differentiate by.
    """
    import torch

    def call(*tensors: Any) -> tuple[Any, ...] | Any:
        with torch.inference_mode(mode=False), torch.enable_grad():
            given = [x.detach().requires_grad_() for x in tensors[:-1]]
            found = torch.autograd.grad(forward(*given), inputs(*given), tensors[-1])
        return found if len(found) > 1 else found[0]

    return f"torch.autograd of {title}, with its forward", call


def _rms_norm_backward(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def forward(x: Any, w: Any) -> Any:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-6)

    return _gradient("rms_norm", forward, lambda x, w: (x, w))


def _layer_norm_backward(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def gradients(x: Any, w: Any, dy: Any) -> Any:
        _, mean, scale = torch.ops.aten.native_layer_norm(x, x.shape[-1:], w, w, 1e-5)
        return torch.ops.aten.native_layer_norm_backward(
            dy, x, x.shape[-1:], mean, scale, w, w, [True, True, True]
        )

    return "torch's gradient of layer_norm, with its forward", gradients


def _elementwise_backward(static: Mapping[str, Any]) -> _NamedFunction:
    name, function = _elementwise(static)
    return _gradient(name, function, lambda x: (x,))


def _gemm_bias_act_backward(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    act = static.get("act", "relu")
    activation = getattr(torch.nn.functional, act) if act != "none" else lambda x: x

    def forward(a: Any, b: Any, bias: Any) -> Any:
        return activation(torch.addmm(bias, a, b.T if static.get("trans_b") else b))

    return _gradient(f"addmm, {act}", forward, lambda a, b, bias: (a, b, bias))


def _attention(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        m, n, causal = q.shape[2], k.shape[2], bool(static.get("causal"))
        if causal and m != n:  # torch's is_causal counts keys from the first, ours from the last
            bias = torch.ones(m, n, dtype=torch.bool).tril(n - m)
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, bias, is_causal=causal and m == n, scale=static.get("scale"),
            enable_gqa=q.shape[1] != k.shape[1],
        )  # fmt: skip

    return "torch scaled_dot_product_attention", call


def _flash(
    static: Mapping[str, Any], q: Any, k: Any, v: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return keys and values for each head of queries, and the flags of torch's flash attention."""
    import torch

    heads = q.shape[1] // k.shape[1]
    if heads > 1:
        k, v = (x.repeat_interleave(heads, 1) for x in (k, v))
    m, n = q.shape[2], k.shape[2]
    causal, mask = bool(static.get("causal")), None
    if causal and m != n:  # torch's own mask has its corner at the first query
        causal, seen = False, torch.ones(m, n, dtype=torch.bool, device=q.device).tril(n - m)
        mask = torch.zeros(m, n, dtype=q.dtype, device=q.device).masked_fill_(~seen, -torch.inf)
    flags = {"is_causal": causal, "attn_mask": mask, "scale": static.get("scale"), "dropout_p": 0.0}
    return (k, v), flags


def _attention_lse(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
        (k, v), flags = _flash(static, q, k, v)
        o, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, **flags)
        mask = flags["attn_mask"]
        if mask is not None:  # torch has 0 where a query sees no key
            lse.masked_fill_((mask == -torch.inf).all(1), -torch.inf)
        return o, lse

    return "torch's flash attention", call


def _attention_backward(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any) -> tuple[Any, ...]:
        groups = k.shape[1]
        (k, v), flags = _flash(static, q, k, v)
        backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        lse = lse.to(torch.promote_types(q.dtype, lse.dtype))
        dq, dk, dv = backward(do, q, k, v, o, lse, **flags)
        if groups < k.shape[1]:
            dk, dv = (x.unflatten(1, (groups, -1)).sum(2) for x in (dk, dv))
        return dq, dk, dv

    return "torch's gradient of flash attention", call


def _sliding_attention(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    window, cap = static.get("window", 128), static.get("cap")

    def call(q: Any, k: Any, v: Any) -> Any:
        m, n = q.shape[2], k.shape[2]
        seen = torch.ones(m, n, dtype=torch.bool).tril(n - m).triu(n - m - window + 1)
        if cap is None:
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, seen, scale=static.get("scale"), enable_gqa=q.shape[1] != k.shape[1]
            )
        shared = q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(shared, 1) for x in (k, v))
        scores = q @ keys.transpose(2, 3) * (static.get("scale") or q.shape[3] ** -0.5)
        scores = (cap * torch.tanh(scores / cap)).masked_fill(~seen, -torch.inf)
        return torch.softmax(scores, 3) @ values

    return "torch scaled_dot_product_attention with a mask, or its steps", call


def _attention_varlen(static: Mapping[str, Any]) -> _NamedFunction:
    _, attend = _attention(static)

    def call(q: Any, k: Any, v: Any, starts: Any, key_starts: Any) -> Any:
        found = q.new_zeros(q.shape)
        ends = [itertools.pairwise(x) for x in (starts.tolist(), key_starts.tolist())]
        for (low, high), (key_low, key_high) in zip(*ends, strict=True):
            if low < high:
                rows = q[low:high], k[key_low:key_high], v[key_low:key_high]
                found[low:high] = attend(*(x.transpose(0, 1)[None] for x in rows))[0].transpose(
                    0, 1
                )
        return found

    return "torch scaled_dot_product_attention of each sequence", call


def _block_sparse_attention(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    blocks = static.get("rows", 64), static.get("columns", 64)

    def call(q: Any, k: Any, v: Any, mask: Any) -> Any:
        m, n = q.shape[2], k.shape[2]
        rows, columns = (torch.arange(size) // b for size, b in zip((m, n), blocks, strict=True))
        seen = mask.bool()[:, :, rows][..., columns]
        if static.get("causal"):
            seen = seen & torch.ones(m, n, dtype=torch.bool).tril(n - m)
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, seen, scale=static.get("scale"), enable_gqa=q.shape[1] != k.shape[1]
        )

    return "torch scaled_dot_product_attention with a mask", call


def _attention_decode(static: Mapping[str, Any]) -> _NamedFunction:
    name, attend = _attention(static)
    return name, lambda q, k, v: attend(q[:, :, None], k, v)[:, :, 0]


def _mla_decode(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    scale = static.get("scale") or 192**-0.5

    def call(q: Any, r: Any, latents: Any, p: Any) -> Any:
        keys = latents[:, None]
        found = torch.nn.functional.scaled_dot_product_attention(
            torch.cat((q, r), -1)[:, :, None], torch.cat((keys, p[:, None]), -1), keys,
            scale=scale, enable_gqa=True,
        )  # fmt: skip
        return found[:, :, 0]

    return "torch.cat, scaled_dot_product_attention", call


def _linear_attention(_: Mapping[str, Any]) -> _NamedFunction:
    return "torch.matmul, tril", lambda q, k, v: (q @ k.transpose(-1, -2)).tril() @ v


def _conv2d(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(x: Any, f: Any) -> Any:
        return torch.nn.functional.conv2d(x, f, **static)

    return "torch conv2d", call


def _conv2d_nhwc(static: Mapping[str, Any]) -> _NamedFunction:
    name, convolve = _conv2d(static)

    def call(x: Any, f: Any) -> Any:
        return convolve(x.permute(0, 3, 1, 2), f.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)

    return f"{name}, channels last", call


def _dequant_gemm(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    bits, group = static.get("bits", 4), static.get("group", 64)

    def call(a: Any, w: Any, scale: Any, zero: Any) -> Any:
        if bits == 8:
            unpacked = w.view(torch.int8).view(-1, group, w.shape[1])
        else:
            halves = w.view(-1, group // 2, w.shape[1])
            unpacked = torch.cat((halves & 15, halves >> 4), 1)
        wide = (unpacked.to(a.dtype) - zero[:, None]) * scale[:, None]
        return torch.mm(a, wide.view(-1, w.shape[1]))

    return "dequantised, then torch.mm", call


def _w4a8_gemm(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    group, row_group = static.get("group", 64), static.get("row_group", 0)

    def call(a: Any, w: Any, scale: Any) -> Any:
        pieces = a.view(a.shape[0], -1, row_group or a.shape[1])
        s = pieces.abs().amax(2, keepdim=True) / 127
        rows = torch.where(s > 0, torch.round(pieces / s) * s, 0).view(a.shape)
        halves = w.view(-1, group // 2, w.shape[1])
        wide = (torch.cat((halves & 15, halves >> 4), 1).to(a.dtype) - 8) * scale[:, None]
        return torch.mm(rows, wide.view(-1, w.shape[1]))

    return "rounded, dequantised, then torch.mm", call


def _elementwise(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    name = static.get("function", "silu")
    found = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    return f"torch {name}", found


def _elementwise_binary(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    name = static.get("function", "silu_mul")
    if name == "silu_mul":
        return "torch silu, mul", lambda a, b: torch.nn.functional.silu(a) * b
    return f"torch.{name}", getattr(torch, name)


def _reduce(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    name = static.get("function", "sum")
    if name == "sum_of_squares":
        return "torch.linalg.vecdot", lambda x: torch.linalg.vecdot(x, x)
    function = getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
    return f"torch.{function.__name__}", lambda x: function(x, 1)


def _rms_norm(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    eps = static.get("eps", 1e-6)
    norm = torch.nn.functional.rms_norm
    return "torch rms_norm", lambda x, w: norm(x, x.shape[1:], w, eps)


def _layer_norm(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    eps = static.get("eps", 1e-5)
    norm = torch.nn.functional.layer_norm
    return "torch layer_norm", lambda x, w, bias: norm(x, x.shape[1:], w, bias, eps)


def _rope(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(x: Any, cos: Any, sin: Any) -> Any:
        low, high = x.chunk(2, -1)
        cos, sin = cos[:, None], sin[:, None]
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)

    return "torch.mul, cat", call


def _topk(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    return "torch.topk", lambda x: torch.topk(x, static.get("k", 4), 1)


def _cumsum(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    reverse, exclusive = static.get("reverse", False), static.get("exclusive", False)

    def call(x: Any) -> Any:
        found = torch.cumsum(x.flip(1) if reverse else x, 1)
        found = found.flip(1) if reverse else found
        return found - x if exclusive else found

    return "torch.cumsum", call


def _embedding(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    function = torch.nn.functional.embedding
    return "torch.nn.functional.embedding", lambda w, index: function(index, w)


def _embedding_backward(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    backward = torch.ops.aten.embedding_dense_backward

    def call(w: Any, index: Any, dy: Any) -> Any:
        return backward(dy, index, len(w), padding_idx=-1, scale_grad_by_freq=False)

    return "torch's gradient of embedding", call


def _logsumexp(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    return "torch.logsumexp", lambda x: torch.logsumexp(x, 1)


def _cross_entropy(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(x: Any, target: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, target, reduction="none", ignore_index=-100)

    return "torch cross_entropy", call


def _pool2d(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    flags = {"size": 3, "stride": 2, "padding": 0, **static}
    name = {"max": "max_pool2d", "mean": "avg_pool2d"}[flags.get("function", "max")]
    function = getattr(torch.nn.functional, name)
    return f"torch {name}", lambda x: function(x, flags["size"], flags["stride"], flags["padding"])


def _max_pool2d_indices(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    flags = {"size": 3, "stride": 2, "padding": 0, **static}

    def call(x: Any) -> Any:
        function, given = torch.nn.functional.max_pool2d, list(flags.values())
        return function(x, *given, return_indices=True)

    return "torch max_pool2d with indices", call


def _causal_conv1d(static: Mapping[str, Any]) -> _NamedFunction:
    import torch

    functional = torch.nn.functional
    act = functional.silu if static.get("act", "silu") == "silu" else lambda x: x

    def call(x: Any, f: Any, bias: Any) -> Any:
        count, taps = f.shape
        found = functional.conv1d(x, f[:, None], bias, padding=taps - 1, groups=count)
        return act(found[..., : x.shape[2]])

    return "torch conv1d, silu", call


def _swiglu(_: Mapping[str, Any]) -> _NamedFunction:
    import torch

    def call(x: Any, w: Any, v: Any) -> Any:
        return torch.nn.functional.silu(torch.mm(x, w)) * torch.mm(x, v)

    return "torch.mm, twice, silu, mul", call


def _permute(static: Mapping[str, Any]) -> _NamedFunction:
    order = static.get("order", (0, 2, 1, 3))
    return "torch permute, contiguous", lambda x: x.permute(order).contiguous()


def _transpose(_: Mapping[str, Any]) -> _NamedFunction:
    return "torch transpose, contiguous", lambda x: x.transpose(1, 2).contiguous()


_FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], _NamedFunction]] = {
    "attention": _attention,
    "attention_backward": _attention_backward,
    "attention_bias": _attention,
    "attention_decode": _attention_decode,
    "attention_lse": _attention_lse,
    "attention_varlen": _attention_varlen,
    "batched_gemm": _batched_gemm,
    "block_sparse_attention": _block_sparse_attention,
    "causal_conv1d": _causal_conv1d,
    "conv2d": _conv2d,
    "conv2d_backward": gradients.conv2d_backward,
    "conv2d_nhwc": _conv2d_nhwc,
    "cross_entropy": _cross_entropy,
    "cross_entropy_backward": gradients.cross_entropy_backward,
    "cumsum": _cumsum,
    "cumsum_backward": gradients.cumsum_backward,
    "dequant_gemm": _dequant_gemm,
    "elementwise": _elementwise,
    "elementwise_backward": _elementwise_backward,
    "elementwise_binary": _elementwise_binary,
    "embedding": _embedding,
    "embedding_backward": _embedding_backward,
    "fp8_gemm": fp8_gemm,
    "gated_delta_rule": gated_delta_rule,
    "gemm": _gemm,
    "gemm_backward": _gemm_backward,
    "gemm_bias_act": _gemm_bias_act,
    "gemm_bias_act_backward": _gemm_bias_act_backward,
    "gemm_splitk": _gemm,
    "grouped_gemm": grouped_gemm,
    "moe": moe,
    "moe_layer": moe_layer,
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "linear_attention": _linear_attention,
    "linear_attention_backward": gradients.linear_attention_backward,
    "linear_recurrence": linear_recurrence,
    "linear_recurrence_backward": linear_recurrence_backward,
    "logsumexp": _logsumexp,
    "logsumexp_backward": gradients.logsumexp_backward,
    "max_pool2d_indices": _max_pool2d_indices,
    "max_pool2d_indices_backward": gradients.max_pool2d_indices_backward,
    "mla_decode": _mla_decode,
    "paged_attention": paged_attention,
    "paged_prefill": paged_prefill,
    "pool2d": _pool2d,
    "pool2d_backward": gradients.pool2d_backward,
    "reduce": _reduce,
    "rms_norm": _rms_norm,
    "rms_norm_backward": _rms_norm_backward,
    "rope": _rope,
    "rope_backward": gradients.rope_backward,
    "route": route,
    "sliding_attention": _sliding_attention,
    "softmax": _softmax,
    "softmax_backward": _softmax_backward,
    "ssd": ssd,
    "swiglu": _swiglu,
    "swiglu_backward": gradients.swiglu_backward,
    "swiglu_gates": gradients.swiglu_gates,
    "topk": _topk,
    "permute": _permute,
    "transpose": _transpose,
    "w4a8_gemm": _w4a8_gemm,
}


def torch_function(operator: str, static: Mapping[str, Any]) -> _NamedFunction | None:
    """Return the name of torch's function for an operator, and the function; None without one."""
    return _FUNCTIONS[operator](static) if operator in _FUNCTIONS else None

"""What SepTran's GPU kernels are measured beside, and what their results may deviate by.

Only torch is needed here, and Triton where it is installed. Bounds are of rounding: sums in
float32 of products that are exact, one rounding of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as nn

Tensors = Mapping[str, torch.Tensor]
Call = Callable[[], torch.Tensor]
SINGLE = 2.0**-24
"""Unit roundoff of float32. Tensor cores truncate, so that sums count it twice."""
HALF = {
    torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: SINGLE,
    torch.float8_e4m3fn: 2.0**-4,
}  # fmt: skip


def exact(meta: Mapping[str, Any], given: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """The result in float64, and how far one in the operator's dtypes may be from it."""
    return _EXACT[meta["operator"]](meta, given)


def rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    """Calls of the same operator by name; the first is what ratios are of."""
    return _RIVALS[meta["operator"]](meta, given)


def _product(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, loose: float = 0.0) -> Any:
    """A @ B and its bound; `loose` is a relative error of B's elements."""
    a, b = a.double(), b.double()
    result = a @ b
    sums = (2 * a.shape[-1] * SINGLE + loose) * (a.abs() @ b.abs())
    return result, sums * (1 + HALF[dtype]) + HALF[dtype] * result.abs() + 2.0**-24


def _operands(meta: Mapping[str, Any], given: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """A [M, K] and B [K, N], views of what is stored."""
    flags = meta.get("static", {})
    a, b = given["A"], given["B"]
    return a.T if flags.get("trans_a") else a, b.T if flags.get("trans_b") else b


def _gemm_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    a, b = _operands(meta, given)
    if a.dtype == torch.int8:  # exact, in float64 too
        result = a.double() @ b.double()
        return result, torch.full_like(result, 2.0**-24)
    # Tensor cores add products of 8-bit floats with about 14 bits: DeepSeek-V3's report, 3.3.2.
    loose = 2.0**-13 if a.dtype == torch.float8_e4m3fn else 0.0
    return _product(a, b, a.dtype, loose)


def _gemm_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    a, b = _operands(meta, given)
    if a.dtype == torch.int8:
        return {"cuBLASLt int8": lambda: torch._int_mm(a, b)}
    if a.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device=a.device)
        return {
            "cuBLASLt fp8": lambda: torch._scaled_mm(
                a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True
            )
        }
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    found: dict[str, Call] = {"cuBLAS": lambda: torch.mm(a, b, out=out)}
    with_triton = _triton() if meta.get("family") == "gemm" else None  # its tuning takes long
    if with_triton is not None:
        found["Triton"] = lambda: with_triton.matmul(a, b, out)
    return found


def _fused_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    a, b = _operands(meta, given)
    product, bound = _product(a, b, torch.float32)
    bias = given["bias"].double()
    result = nn.gelu(product + bias)
    # gelu's slope is at most 1.13, and its own rounding is of some of its argument's size.
    bound = 1.13 * (bound + SINGLE * bias.abs()) + 16 * SINGLE * (product.abs() + bias.abs())
    return result, bound + HALF[a.dtype] * (result.abs() + bound)


def _fused_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    (a, b), bias = _operands(meta, given), given["bias"]
    return {
        "cuBLAS, gelu": lambda: nn.gelu(torch.addmm(bias, a, b)),
        "cuBLASLt epilogue (tanh)": lambda: torch._addmm_activation(bias, a, b, use_gelu=True),
    }


def _batched_rivals(_: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    a, b = given["A"], given["B"]
    out = torch.empty(*a.shape[:2], b.shape[2], dtype=a.dtype, device=a.device)
    return {"cuBLAS": lambda: torch.bmm(a, b, out=out)}


def _decode_exact(_: Mapping[str, Any], given: Tensors) -> Any:
    q, k, v = (given[name] for name in "QKV")
    each = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1])
    results, bounds = torch.empty_like(q, dtype=torch.float64), torch.empty_like(q).double()
    for b in range(q.shape[0]):
        for g in range(k.shape[1]):
            heads = slice(g * each, (g + 1) * each)
            one = (q[b, heads].double(), k[b, g].double(), v[b, g].double())
            results[b, heads], bounds[b, heads] = _head(*one, scale, q.dtype, causal=False)
    return results, bounds


def _decode_rivals(_: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    q, k, v = given["Q"][:, :, None], given["K"], given["V"]
    return {"SDPA": lambda: nn.scaled_dot_product_attention(q, k, v, enable_gqa=True)}


_FUNCTIONS = {"silu": nn.silu, "gelu": nn.gelu}


def _elementwise_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    x = given["X"].double()
    result = _FUNCTIONS[meta["static"]["function"]](x)
    near = 16 * SINGLE * (1 + x.abs()) * result.abs() + 16 * SINGLE * x.abs()
    return result, near + HALF[given["X"].dtype] * result.abs() + 2.0**-24


def _elementwise_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    x, function = given["X"], _FUNCTIONS[meta["static"]["function"]]
    return {"copy": _copy(x), "torch": lambda: function(x)}


def _reduce_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    x = given["X"].double()
    if meta["static"]["function"] == "max":
        return x.amax(1), torch.full_like(x[:, 0], 2.0**-24)
    result = x.sum(1)
    sums = 2 * x.shape[1] * SINGLE * x.abs().sum(1)
    return result, sums * 2 + HALF[given["X"].dtype] * result.abs() + 2.0**-24


def _reduce_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    x = given["X"]
    return {"torch": lambda: x.amax(1) if meta["static"]["function"] == "max" else x.sum(1)}


def _attention_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    q, k, v = (given[name] for name in "QKV")
    scale, dtype = 1 / math.sqrt(q.shape[-1]), q.dtype
    results, bounds = torch.empty_like(q, dtype=torch.float64), torch.empty_like(q).double()
    for b in range(q.shape[0]):  # scores of one head at a time
        for h in range(q.shape[1]):
            one = (x[b, h].double() for x in (q, k, v))
            results[b, h], bounds[b, h] = _head(*one, scale, dtype, meta["static"]["causal"])
    return results, bounds


def _head(q: Any, k: Any, v: Any, scale: float, dtype: torch.dtype, causal: bool) -> Any:
    scores = q @ k.T * scale
    wrong = 2 * q.shape[-1] * SINGLE * scale * (q.abs() @ k.abs().T).amax(1, keepdim=True)
    if causal:
        rows, columns = scores.shape
        hidden = torch.ones(rows, columns, dtype=torch.bool, device=q.device)
        scores.masked_fill_(hidden.triu(columns - rows + 1), -math.inf)
    weights = scores.softmax(1)
    # Each weight is off by its score's error, by exp, and by its rounding to 16 bits.
    relative = 2 * wrong + 32 * SINGLE + 2 * HALF[dtype] + 2 * k.shape[0] * SINGLE
    result = weights @ v
    return result, 2 * relative * (weights @ v.abs()) + HALF[dtype] * result.abs() + 2.0**-24


def _attention_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (given[name] for name in "QKV")

    def call(backend: SDPBackend) -> Call:
        def run() -> torch.Tensor:
            with sdpa_kernel(backend):
                return nn.scaled_dot_product_attention(q, k, v, is_causal=meta["static"]["causal"])

        return run

    return {
        "cuDNN SDPA": call(SDPBackend.CUDNN_ATTENTION),
        "flash SDPA": call(SDPBackend.FLASH_ATTENTION),
    }


def _softmax_exact(_: Mapping[str, Any], given: Tensors) -> Any:
    x = given["X"].double()
    result = x.softmax(1)
    away = x.amax(1, keepdim=True) - x
    relative = (x.shape[1] + 8 * (1 + away)) * 2 * SINGLE + HALF[given["X"].dtype]
    return result, relative * result + 2.0**-24


def _copy(x: torch.Tensor) -> Call:
    out = torch.empty_like(x)
    return lambda: out.copy_(x)


def _softmax_rivals(_: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    x = given["X"]
    out = torch.empty_like(x)
    return {"copy": _copy(x), "torch": lambda: torch.softmax(x, 1, out=out)}


def _norm_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    x, w = given["X"].double(), given["W"].double()
    n = x.shape[1]
    if meta["operator"] == "layer_norm":
        exact = nn.layer_norm(x, (n,), w, given["bias"].double(), 1e-5)
        scale = torch.rsqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5)
        extra = given["bias"].double().abs() * SINGLE
    else:
        exact = nn.rms_norm(x, (n,), w, 1e-6)
        scale, extra = torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6), 0.0
    size = x.abs() + x.abs().mean(1, keepdim=True)
    sums = 2 * (n + 8) * SINGLE * scale * w.abs() * size
    return exact, 2 * sums + extra + HALF[given["X"].dtype] * exact.abs() + 2.0**-24


def _norm_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    x, w, n = given["X"], given["W"], given["X"].shape[1]
    if meta["operator"] == "layer_norm":
        return {"copy": _copy(x), "torch": lambda: nn.layer_norm(x, (n,), w, given["bias"])}
    return {"copy": _copy(x), "torch": lambda: nn.rms_norm(x, (n,), w, 1e-6)}


def unpacked(meta: Mapping[str, Any], given: Tensors) -> torch.Tensor:
    """The weights of a quantised product, in float64."""
    w, group = given["W"], meta["static"]["group"]
    rows, n = w.shape
    blocks = w.reshape(rows * 2 // group, group // 2, n)
    whole = torch.cat((blocks & 15, blocks >> 4), 1).double()
    scale, zero = (given[name].double()[:, None, :] for name in ("scale", "zero"))
    return ((whole - zero) * scale).reshape(rows * 2, n)


def _quantised_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    dtype = given["A"].dtype
    return _product(given["A"], unpacked(meta, given), dtype, 2 * HALF[dtype])


def _quantised_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    a = given["A"]
    b = unpacked(meta, given).to(a.dtype)
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    return {"cuBLAS fp16": lambda: torch.mm(a, b, out=out)}


def _convolution_exact(meta: Mapping[str, Any], given: Tensors) -> Any:
    x, f, dtype = given["X"], given["F"], given["X"].dtype
    r, s, c, o = f.shape
    static = meta["static"]
    columns = nn.unfold(
        x.double().permute(0, 3, 1, 2), (r, s), padding=static["padding"], stride=static["stride"]
    )  # [B, C*R*S, P*Q]
    weights = f.permute(2, 0, 1, 3).reshape(c * r * s, o)
    result, bound = _product(columns.transpose(1, 2), weights, dtype)
    p = (x.shape[1] + 2 * static["padding"] - r) // static["stride"] + 1
    return result.reshape(x.shape[0], p, -1, o), bound.reshape(x.shape[0], p, -1, o)


def _convolution_rivals(meta: Mapping[str, Any], given: Tensors) -> dict[str, Call]:
    torch.backends.cudnn.benchmark = True
    x = given["X"].permute(0, 3, 1, 2)  # channels last in memory
    f = given["F"].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    static = meta["static"]
    return {"cuDNN": lambda: nn.conv2d(x, f, None, static["stride"], static["padding"])}


def _triton() -> Any:
    try:
        from benchmarks import gpu_triton
    except ImportError:
        return None
    return gpu_triton


_EXACT = {
    "gemm": _gemm_exact, "attention": _attention_exact, "softmax": _softmax_exact,
    "layer_norm": _norm_exact, "rms_norm": _norm_exact, "dequant_gemm": _quantised_exact,
    "conv2d_nhwc": _convolution_exact, "gemm_bias_act": _fused_exact,
    "batched_gemm": _gemm_exact, "attention_decode": _decode_exact,
    "elementwise": _elementwise_exact, "reduce": _reduce_exact,
}  # fmt: skip
_RIVALS = {
    "gemm": _gemm_rivals, "attention": _attention_rivals, "softmax": _softmax_rivals,
    "layer_norm": _norm_rivals, "rms_norm": _norm_rivals, "dequant_gemm": _quantised_rivals,
    "conv2d_nhwc": _convolution_rivals, "gemm_bias_act": _fused_rivals,
    "batched_gemm": _batched_rivals, "attention_decode": _decode_rivals,
    "elementwise": _elementwise_rivals, "reduce": _reduce_rivals,
}  # fmt: skip

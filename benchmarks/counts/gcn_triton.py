"""Triton's kernels for AMD GPUs as listings, without a GPU.

    python -m benchmarks.counts.gcn_triton FOLDER gfx942

needs Triton alone. Of tiles and stages several are compiled, and all are written: `benchmarks.gcn`
compares with the least.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

LANES = 64


@triton.jit
def matmul(
    A, B, C, M, N, K, sa, sb, sc, KIND: tl.constexpr, TRANS: tl.constexpr,  # noqa: ANN001, N803
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
) -> None:  # fmt: skip
    """C = A @ B, whole tiles; B lies along the sum if `TRANS`."""
    i, j, k = tl.program_id(0) * BM, tl.program_id(1) * BN, tl.arange(0, BK)
    rows, columns = i + tl.arange(0, BM), j + tl.arange(0, BN)
    a = A + rows[:, None] * sa + k[None, :]
    b = B + (columns[None, :] * sb + k[:, None] if TRANS else k[:, None] * sb + columns[None, :])
    total = tl.zeros((BM, BN), dtype=KIND)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a), tl.load(b), total, out_dtype=KIND)
        a += BK
        b += BK if TRANS else BK * sb
    out = C + rows[:, None] * sc + columns[None, :]
    tl.store(out, total.to(C.dtype.element_ty))


@triton.jit
def attention(
    Q, K, V, O, N, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,  # noqa: ANN001, E741, N803
) -> None:  # fmt: skip
    """Attention of one head, with the running maximum of each row."""
    head = tl.program_id(1).to(tl.int64) * N * D
    d, rows = tl.arange(0, D), tl.program_id(0) * BM + tl.arange(0, BM)
    q = tl.load(Q + head + rows[:, None] * D + d[None, :])
    best = tl.full((BM,), float("-inf"), dtype=tl.float32)
    norm = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, D), dtype=tl.float32)
    for n in range(0, N, BN):
        keys = n + tl.arange(0, BN)
        k = tl.load(K + head + keys[None, :] * D + d[:, None])
        s = tl.dot(q, k)
        now = tl.maximum(best, tl.max(s, 1) * scale)
        p = tl.math.exp2(s * scale - now[:, None])
        less = tl.math.exp2(best - now)
        norm = norm * less + tl.sum(p, 1)
        v = tl.load(V + head + keys[:, None] * D + d[None, :])
        total = tl.dot(p.to(v.dtype), v, total * less[:, None])
        best = now
    out = O + head + rows[:, None] * D + d[None, :]
    tl.store(out, (total / norm[:, None]).to(O.dtype.element_ty))


@triton.jit
def softmax(X, Y, N: tl.constexpr) -> None:  # noqa: ANN001, N803
    """One row a program."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + at).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(Y + at, (e / tl.sum(e, 0)).to(Y.dtype.element_ty))


@triton.jit
def layer_norm(X, W, B, Y, eps, N: tl.constexpr) -> None:  # noqa: ANN001, N803
    """One row a program."""
    along = tl.arange(0, N)
    x = tl.load(X + tl.program_id(0) * N + along).to(tl.float32)
    x -= tl.sum(x, 0) / N
    y = x * tl.rsqrt(tl.sum(x * x, 0) / N + eps)
    y = y * tl.load(W + along).to(tl.float32) + tl.load(B + along).to(tl.float32)
    tl.store(Y + tl.program_id(0) * N + along, y.to(Y.dtype.element_ty))


@triton.jit
def rms_norm(X, W, Y, eps, N: tl.constexpr) -> None:  # noqa: ANN001, N803
    """One row a program."""
    along = tl.arange(0, N)
    x = tl.load(X + tl.program_id(0) * N + along).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / N + eps) * tl.load(W + along).to(tl.float32)
    tl.store(Y + tl.program_id(0) * N + along, y.to(Y.dtype.element_ty))


PRODUCTS = {
    "gemm_f16": ("fp16", "fp16", tl.float32, 2, True),
    "gemm_f16_rows": ("fp16", "fp16", tl.float32, 2, False),
    "gemm_bf16": ("bf16", "bf16", tl.float32, 2, True),
    "gemm_fp8": ("fp8e4b8", "fp16", tl.float32, 1, True),
    "gemm_int8": ("i8", "i32", tl.int32, 1, True),
    "gemm_int8_rows": ("i8", "i32", tl.int32, 1, False),
    "gemm_f32": ("fp32", "fp32", tl.float32, 4, False),
}
"""Operands' and result's types, the sums', bytes, and whether B lies along the sum."""
TILES = ((128, 128), (256, 128), (256, 256))
DEPTH_BYTES, ROW = 128, 4096


def kernels() -> Iterator[tuple[str, str, Any, dict[str, str], dict[str, Any], dict[str, Any]]]:
    """Family, name, function, its arguments' types, its constants, options."""
    numbers = {"M": "i32", "N": "i32", "K": "i32", "sa": "i32", "sb": "i32", "sc": "i32"}
    for family, (kind, result, sums, size, trans) in PRODUCTS.items():
        types = {"A": f"*{kind}", "B": f"*{kind}", "C": f"*{result}", **numbers}
        for m, n in TILES:
            given = {"KIND": sums, "TRANS": trans, "BM": m, "BN": n, "BK": DEPTH_BYTES // size}
            options = {"num_warps": 4 if m * n < 2**16 else 8, "num_stages": 2}
            yield family, f"triton{m}x{n}", matmul, types, given, options
    types = {**dict.fromkeys("QKVO", "*fp16"), "N": "i32", "scale": "fp32"}
    for d in (64, 128):
        given = {"BM": 128, "BN": 64, "D": d}
        yield f"attention_{d}", "triton", attention, types, given, {"num_warps": 4, "num_stages": 2}
    rows = {"X": "*fp16", "Y": "*fp16"}
    yield "softmax", "triton", softmax, rows, {"N": ROW}, {"num_warps": 4}
    rows = {"X": "*fp16", "W": "*fp16", "B": "*fp16", "Y": "*fp16", "eps": "fp32"}
    yield "layer_norm", "triton", layer_norm, rows, {"N": ROW}, {"num_warps": 4}
    del rows["B"]
    yield "rms_norm", "triton", rms_norm, rows, {"N": ROW}, {"num_warps": 4}


def main(folder: str, arch: str) -> None:
    """Write a listing for each kernel that this architecture has types for."""
    for family, name, made in compiled(kernels(), GPUTarget("hip", arch, LANES)):
        Path(folder, f"{arch}.{family}.{name}.s").write_text(made.asm["amdgcn"], encoding="utf-8")


def compiled(
    chosen: Iterable[tuple[str, str, Any, dict[str, str], dict[str, Any], dict[str, Any]]],
    target: GPUTarget,
) -> Iterator[tuple[str, str, Any]]:
    """Family, name, and what Triton made; a line is printed of what it cannot compile."""
    for family, name, function, types, given, options in chosen:
        aligned = {
            (n,): [["tt.divisibility", 16]] for n, t in enumerate(types.values()) if t != "fp32"
        }
        signature = {**types, **dict.fromkeys(given, "constexpr")}
        source = ASTSource(fn=function, signature=signature, constexprs=given, attrs=aligned)
        try:
            yield family, name, triton.compile(source, target=target, options=options)
        except Exception as error:  # of whichever of Triton's own parts
            print(f"{family} {name}: {type(error).__name__}: {str(error)[:200]}")


if __name__ == "__main__":
    main(*sys.argv[1:])

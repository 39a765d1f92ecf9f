"""Triton's kernels for NVIDIA GPUs as PTX, without a GPU.

    python -m benchmarks.counts.sass_triton FOLDER sm_90a

needs Triton alone, beside which this folder's parent is on the path. Of tiles, stages and ways to
specialise warps several are compiled, and all are written with what a launch of them takes:
`benchmarks.sass` compares with the least. Products and attention are by tensor descriptors (TMA),
as Triton's tutorials write them for Hopper; rows are those of `benchmarks.counts.gcn_triton`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from benchmarks.counts.gcn_triton import ROW, compiled, layer_norm, rms_norm, softmax

LANES = 32


@triton.jit
def matmul(
    A, B, C, M, N, K, KIND: tl.constexpr, TRANS: tl.constexpr,  # noqa: ANN001, N803
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCKS: tl.constexpr,  # noqa: N803
    SPECIAL: tl.constexpr,  # noqa: N803
) -> None:  # fmt: skip
    """C = A @ B by blocks that stay; B lies along the sum if `TRANS`."""
    a = tl.make_tensor_descriptor(A, [M, K], [K, 1], [BM, BK])
    if TRANS:
        b = tl.make_tensor_descriptor(B, [N, K], [K, 1], [BN, BK])
    else:
        b = tl.make_tensor_descriptor(B, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(C, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * across
    for tile in tl.range(
        tl.program_id(0), tiles, BLOCKS, flatten=not SPECIAL, warp_specialize=SPECIAL
    ):
        m, n = tile // across * BM, tile % across * BN
        total = tl.zeros((BM, BN), dtype=KIND)
        for k in range(0, tl.cdiv(K, BK)):
            left = a.load([m, k * BK])
            right = b.load([n, k * BK]).T if TRANS else b.load([k * BK, n])
            total = tl.dot(left, right, total, out_dtype=KIND)
        c.store([m, n], total.to(C.dtype.element_ty))


@triton.jit
def products(
    A, B, C, M, N, K, KIND: tl.constexpr, TRANS: tl.constexpr,  # noqa: ANN001, N803
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
) -> None:  # fmt: skip
    """One tile of C = A @ B a block."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_tensor_descriptor(A, [M, K], [K, 1], [BM, BK])
    if TRANS:
        b = tl.make_tensor_descriptor(B, [N, K], [K, 1], [BN, BK])
    else:
        b = tl.make_tensor_descriptor(B, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(C, [M, N], [N, 1], [BM, BN])
    total = tl.zeros((BM, BN), dtype=KIND)
    for k in range(0, tl.cdiv(K, BK)):
        left = a.load([m, k * BK])
        right = b.load([n, k * BK]).T if TRANS else b.load([k * BK, n])
        total = tl.dot(left, right, total, out_dtype=KIND)
    c.store([m, n], total.to(C.dtype.element_ty))


@triton.jit
def attention(
    Q, K, V, O, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,  # noqa: ANN001, E741, N803
    SPECIAL: tl.constexpr,  # noqa: N803
) -> None:  # fmt: skip
    """Attention of one head, with the running maximum of each row; `scale` has log2(e) in it."""
    start, rows = tl.program_id(0) * BM, tl.program_id(1) * N
    q_ = tl.make_tensor_descriptor(Q + rows * D, [N, D], [D, 1], [BM, D])
    k_ = tl.make_tensor_descriptor(K + rows * D, [N, D], [D, 1], [BN, D])
    v_ = tl.make_tensor_descriptor(V + rows * D, [N, D], [D, 1], [BN, D])
    o_ = tl.make_tensor_descriptor(O + rows * D, [N, D], [D, 1], [BM, D])
    q = q_.load([start, 0])
    most = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for n in tl.range(0, N, BN, warp_specialize=SPECIAL):
        s = tl.dot(q, k_.load([n, 0]).T)
        now = tl.maximum(most, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - now[:, None])
        less = tl.exp2(most - now)
        norm = norm * less + tl.sum(p, 1)
        total = tl.dot(p.to(tl.float16), v_.load([n, 0]), total * less[:, None])
        most = now
    o_.store([start, 0], (total / norm[:, None]).to(tl.float16))


PRODUCTS = {
    "gemm_f16": ("fp16", "fp16", tl.float32, 2, True),
    "gemm_f16_rows": ("fp16", "fp16", tl.float32, 2, False),
    "gemm_bf16": ("bf16", "bf16", tl.float32, 2, True),
    "gemm_fp8": ("fp8e4nv", "fp16", tl.float32, 1, True),
    "gemm_int8": ("i8", "i32", tl.int32, 1, True),
}
"""As `benchmarks.counts.gcn_triton.PRODUCTS`."""
TILES = ((128, 128, 4, 4), (128, 256, 8, 3), (64, 256, 4, 4))
"""Rows, columns, warps, stages."""
DEPTH_BYTES, BLOCKS = 128, 132
PTX = 88
"""The version that is written, times ten: what an assembler of CUDA 12.9 and later reads."""


def kernels() -> Iterator[tuple[str, str, Any, dict[str, str], dict[str, Any], dict[str, Any]]]:
    """Family, name, function, its arguments' types, its constants, options."""
    numbers = {"M": "i32", "N": "i32", "K": "i32"}
    for family, (kind, result, sums, size, trans) in PRODUCTS.items():
        types = {"A": f"*{kind}", "B": f"*{kind}", "C": f"*{result}", **numbers}
        for m, n, warps, stages in TILES:
            given = {"KIND": sums, "TRANS": trans, "BM": m, "BN": n, "BK": DEPTH_BYTES // size}
            options = {"num_warps": warps, "num_stages": stages}
            yield family, f"triton{m}x{n}", products, types, given, options
            stays = {**given, "BLOCKS": BLOCKS, "SPECIAL": False}
            yield family, f"triton{m}x{n}stays", matmul, types, stays, options
            if m >= 128:  # two warpgroups share the rows
                options = {**options, "num_warps": 4, "num_stages": stages - 1}
                roles = {**stays, "SPECIAL": True}
                yield family, f"triton{m}x{n}roles", matmul, types, roles, options
    types = {**dict.fromkeys("QKVO", "*fp16"), "N": "i32", "scale": "fp32"}
    for d in (64, 128):
        for n, stages, special in ((64, 3, False), (128, 2, False), (128, 2, True)):
            given = {"D": d, "BM": 128, "BN": n, "SPECIAL": special}
            name = f"triton128x{n}" + "roles" * special
            options = {"num_warps": 4 if special else 8, "num_stages": stages}
            yield f"attention_{d}", name, attention, types, given, options
    half = {"X": "*fp16", "W": "*fp16", "B": "*fp16", "Y": "*fp16", "eps": "fp32"}
    for warps in (4, 8):
        given, options = {"N": ROW}, {"num_warps": warps}
        for name, function, words in (
            ("softmax", softmax, ("X", "Y")), ("layer_norm", layer_norm, tuple(half)),
            ("rms_norm", rms_norm, ("X", "W", "Y", "eps")),
        ):  # fmt: skip
            yield name, f"triton{warps}warps", function, {w: half[w] for w in words}, given, options


def main(folder: str, arch: str) -> None:
    """Write PTX, and a launch's threads and shared memory, for each kernel that Triton compiles."""
    number = int("".join(filter(str.isdigit, arch)))
    chosen = ((*case, {**options, "ptx_version": PTX}) for *case, options in kernels())
    for family, name, made in compiled(chosen, GPUTarget("cuda", number, LANES)):
        place = Path(folder, f"{arch}.{family}.{name}")
        warps = getattr(made.metadata, "warp_specialization_warps", 0) or made.metadata.num_warps
        facts = {
            "threads": warps * LANES, "shared": made.metadata.shared,
            "stages": made.metadata.num_stages,
        }  # fmt: skip
        place.with_name(f"{place.name}.ptx").write_text(made.asm["ptx"], encoding="utf-8")
        place.with_name(f"{place.name}.json").write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

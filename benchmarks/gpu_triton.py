"""Triton's matrix product as its tutorial writes it; importing this needs Triton and a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_stages=stages, num_warps=warps)
    for bm, bn, bk, stages, warps in (
        (128, 256, 64, 3, 8),
        (128, 128, 64, 4, 8),
        (64, 256, 32, 4, 4),
        (128, 64, 64, 4, 4),
        (64, 64, 64, 5, 4),
        (16, 128, 128, 4, 4),
    )
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def _kernel(  # noqa: ANN202
    A, B, C, M, N, K, sa, sb, sc,  # noqa: ANN001, N803
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,  # noqa: N803
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = GROUP * columns
    first = pid // band * GROUP
    height = min(rows - first, GROUP)
    m, n = first + pid % band % height, pid % band // height
    om = (m * BM + tl.arange(0, BM)) % M
    on = (n * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    a, b = A + om[:, None] * sa + ok[None, :], B + ok[:, None] * sb + on[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = tl.load(a, mask=ok[None, :] < K - k * BK, other=0.0)
        right = tl.load(b, mask=ok[:, None] < K - k * BK, other=0.0)
        total = tl.dot(left, right, total)
        a += BK
        b += BK * sb
    om, on = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    mask = (om[:, None] < M) & (on[None, :] < N)
    tl.store(C + om[:, None] * sc + on[None, :], total.to(C.dtype.element_ty), mask=mask)


def matmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """A @ B into `out`."""
    m, k = a.shape
    n = b.shape[1]

    def grid(config: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]),)

    _kernel[grid](a, b, out, m, n, k, a.stride(0), b.stride(0), out.stride(0))
    return out

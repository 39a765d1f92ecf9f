"""Compile a Triton kernel for sm_80 or sm_90 without a GPU: its PTX and what its launch needs.

    python triton_kernels.py matmul OUT    # writes OUT.ptx and OUT.json

It runs where Triton is, which need not be where the tests run.
"""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tensor descriptors that the kernel itself makes: tensormap.replace, TMA, wgmma."""
    pm, pn = tl.program_id(0), tl.program_id(1)
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(a.load([pm * BM, k * BK]), b.load([k * BK, pn * BN]), acc)
    c.store([pm * BM, pn * BN], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def pointers(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Plain pointers with masks: cp.async, and ldmatrix with mma.sync on sm_80."""
    pm, pn = tl.program_id(0), tl.program_id(1)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, K, BK):
        a = tl.load(
            a_ptr + m[:, None] * K + (at + k)[None, :],
            mask=(m[:, None] < M) & ((at + k)[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            b_ptr + (at + k)[:, None] * N + n[None, :],
            mask=((at + k)[:, None] < K) & (n[None, :] < N),
            other=0.0,
        )
        acc = tl.dot(a, b, acc)
    tl.store(
        c_ptr + m[:, None] * N + n[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=(m[:, None] < M) & (n[None, :] < N),
    )


@triton.jit
def persistent(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    BLOCKS: tl.constexpr,
    SPECIAL: tl.constexpr,
):
    """Each block computes several tiles; with `SPECIAL` its warps are specialised."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * across
    for tile in tl.range(
        tl.program_id(0), tiles, BLOCKS, flatten=not SPECIAL, warp_specialize=SPECIAL
    ):
        m, n = tile // across * BM, tile % across * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        c.store([m, n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """Causal attention by online softmax, one head a program of axis 1."""
    start, head = tl.program_id(0) * BM, tl.program_id(1)
    rows = head * N
    q_ = tl.make_tensor_descriptor(q_ptr + rows * D, [N, D], [D, 1], [BM, D])
    k_ = tl.make_tensor_descriptor(k_ptr + rows * D, [N, D], [D, 1], [BN, D])
    v_ = tl.make_tensor_descriptor(v_ptr + rows * D, [N, D], [D, 1], [BN, D])
    o_ = tl.make_tensor_descriptor(o_ptr + rows * D, [N, D], [D, 1], [BM, D])
    q = q_.load([start, 0])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    i = start + tl.arange(0, BM)
    for at in range(0, start + BM, BN):
        s = tl.dot(q, k_.load([at, 0]).T) * (scale * 1.4426950408889634)
        j = at + tl.arange(0, BN)
        s = tl.where((j[None, :] <= i[:, None]) & (j[None, :] < N), s, -float("inf"))
        new = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        change = tl.exp2(most - new)
        total = total * change + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v_.load([at, 0]), acc * change[:, None])
        most = new
    o_.store([start, 0], (acc / total[:, None]).to(tl.float16))


HALF = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16"}
BYTE = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "c_ptr": "*fp32"}
HEADS = {"q_ptr": "*fp16", "k_ptr": "*fp16", "v_ptr": "*fp16", "o_ptr": "*fp16"}
TILE = {"BM": 128, "BN": 128, "BK": 64}
KERNELS = {
    "matmul": (matmul, HALF, TILE, 90, 8, 3),
    "pointers_sm80": (pointers, HALF, {"BM": 64, "BN": 64, "BK": 32}, 80, 4, 3),
    "pointers_sm90": (pointers, HALF, {"BM": 64, "BN": 64, "BK": 32}, 90, 4, 3),
    "float8": (persistent, BYTE, {**TILE, "BLOCKS": 2, "SPECIAL": False}, 90, 4, 3),
    "persistent": (persistent, HALF, {**TILE, "BLOCKS": 2, "SPECIAL": False}, 90, 8, 3),
    "specialised": (persistent, HALF, {**TILE, "BLOCKS": 2, "SPECIAL": True}, 90, 4, 2),
    "attention": (attention, HEADS, {"D": 64, "BM": 128, "BN": 64}, 90, 8, 2),
}
"""The function, its pointers, its constants, the architecture, warps, stages."""


def main(name, out):
    function, pointers_, constants, arch, warps, stages = KERNELS[name]
    signature = {}
    for argument in function.arg_names:
        kind = "constexpr" if argument in constants else "fp32" if argument == "scale" else "i32"
        signature[argument] = pointers_.get(argument, kind)
    # Pointers and numbers are multiples of 16, as Triton's launcher finds most to be.
    known = [
        n for n, a in enumerate(function.arg_names) if signature[a] not in ("constexpr", "fp32")
    ]
    attributes = {(n,): [["tt.divisibility", 16]] for n in known}
    compiled = triton.compile(
        ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes),
        target=GPUTarget("cuda", arch, 32),
        options={"num_warps": warps, "num_stages": stages},
    )
    facts = compiled.metadata
    Path(f"{out}.ptx").write_text(compiled.asm["ptx"])
    told = {
        "name": facts.name, "shared": facts.shared, "threads": 32 * facts.num_warps,
        "scratch": facts.global_scratch_size, "version": triton.__version__,
    }  # fmt: skip
    Path(f"{out}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Lower a TileLang kernel for sm_90a without a GPU: its CUDA text, and the tensor maps it takes.

    python tilelang_kernels.py gemm OUT       # writes OUT.cu and OUT.json
    python tilelang_kernels.py FILE.py OUT    # of the one kernel in that module

It runs where TileLang is, which must not be where the tests run: it brings its own TVM.
"""

import importlib.util
import json
import sys
from pathlib import Path

import tilelang
import tilelang.language as T  # noqa: N812  (as everybody calls it)
from tilelang import tvm


def gemm(M=256, N=128, K=192, BM=128, BN=128, BK=64):
    """C = A B by TMA, mbarriers and wgmma, with a warpgroup that loads."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=256) as (bx, by):
            left, right = T.alloc_shared((BM, BK), "float16"), T.alloc_shared((BK, BN), "float16")
            acc = T.alloc_fragment((BM, BN), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
                T.copy(A[by * BM, k * BK], left)
                T.copy(B[k * BK, bx * BN], right)
                T.gemm(left, right, acc)
            T.copy(acc, C[by * BM, bx * BN])

    return kernel


def attention(H=2, S=256, D=64, BM=128, BN=64):
    """Attention without a mask, by online softmax; a head a block of axis 1."""
    scale = (1.0 / D) ** 0.5 * 1.44269504

    @T.prim_func
    def kernel(
        Q: T.Tensor((H, S, D), "float16"), K: T.Tensor((H, S, D), "float16"),
        V: T.Tensor((H, S, D), "float16"), Out: T.Tensor((H, S, D), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(S, BM), H, threads=256) as (bx, by):
            q, k = T.alloc_shared((BM, D), "float16"), T.alloc_shared((BN, D), "float16")
            v = T.alloc_shared((BN, D), "float16")
            s, p = T.alloc_fragment((BM, BN), "float32"), T.alloc_fragment((BM, BN), "float16")
            o = T.alloc_fragment((BM, D), "float32")
            most, before = T.alloc_fragment((BM,), "float32"), T.alloc_fragment((BM,), "float32")
            change, part = T.alloc_fragment((BM,), "float32"), T.alloc_fragment((BM,), "float32")
            total = T.alloc_fragment((BM,), "float32")
            T.copy(Q[by, bx * BM : (bx + 1) * BM, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity("float32"))
            for n in T.Pipelined(T.ceildiv(S, BN), num_stages=2):
                T.copy(K[by, n * BN : (n + 1) * BN, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                for i in T.Parallel(BM):
                    change[i] = T.exp2(before[i] * scale - most[i] * scale)
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.exp2(s[i, j] * scale - most[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(BM):
                    total[i] = total[i] * change[i] + part[i]
                T.copy(s, p)
                for i, j in T.Parallel(BM, D):
                    o[i, j] *= change[i]
                T.copy(V[by, n * BN : (n + 1) * BN, :], v)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BM, D):
                o[i, j] /= total[i]
            T.copy(o, Out[by, bx * BM : (bx + 1) * BM, :])

    return kernel


def kernel_of(file):
    """The kernel in a module of TileLang's, and the architecture that its first line names."""
    spec = importlib.util.spec_from_file_location("module", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [v for v in vars(module).values() if isinstance(v, tvm.tirx.PrimFunc)]
    return found[0], "sm_80" if "a100" in module.__doc__ else "sm_90a"


def main(name, out):
    if name.endswith(".py"):
        program, arch = kernel_of(name)
    else:
        program, arch = {"gemm": gemm, "attention": attention}[name](), "sm_90a"
    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    with target:
        lowered = tilelang.lower(program, target=target)
    Path(f"{out}.cu").write_text(lowered.kernel_source)
    host = lowered.host_mod.script()
    Path(f"{out}.json").write_text(
        json.dumps({"host": host, "version": tilelang.__version__, "arch": arch})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Speed on this CPU beside torch's: ``python -m benchmarks.cpu``.

Both sides work on the same tensors, alternate in one process, and are compared by the
median of the pairs' ratios; a ratio above 1 means that SepTran is faster.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention as dot_attention

import septran
from septran.runtime.duel import Duel, duel
from septran.targets.cpu.isa import host_arch
from septran.targets.cpu.threads import set_threads, usable_cores

ALL = ("gemm", "softmax", "attention", "attention_decode", "mla_decode", "linear_attention")
GEMMS = (
    *((n, n, n) for n in (128, 256, 512, 1024, 2048)),
    (1000, 777, 333),
    (64, 4096, 1024),
    (333, 777, 1000),
)
"""M, N, K."""
ATTENTIONS = (
    (1, 8, 8, 512, 64),
    (1, 4, 4, 1024, 128),
    (1, 32, 8, 512, 128),  # Llama-3 8B: 32 heads of queries, 8 of keys, of 128
    (1, 12, 12, 1024, 64),  # GPT-2 small
    (1, 12, 12, 197, 64),  # ViT-B/16
)
"""B, heads of queries, heads of keys, M = N, D; each in full and causal."""
DECODES = ((1, 32, 8, 4096, 128), (4, 8, 8, 1024, 64))
"""B, heads of queries, heads of keys, N, D; the first is Llama-3 8B's."""
MLAS = ((1, 128, 1024), (1, 16, 2048))
"""B, H, N at a latent of 512 and 64 rotary elements; DeepSeek-V2 has 128 heads, its Lite 16."""
LINEARS = ((1, 8, 2048, 64), (1, 16, 1024, 128))
"""B, H, N, D."""
SOFTMAXES = ((4096, 64), (4096, 256), (1024, 1024), (128, 8192), (1000, 777))


@dataclass(frozen=True)
class Case:
    """One operator on one shape, ours and torch's, checked against float64."""

    operator: str
    shape: tuple[int, ...]
    ours: Callable[[], object]
    theirs: Callable[[], object]
    error: float
    """Greatest deviation of ours from a float64 result."""
    work: float
    """Floating-point operations, or bytes (softmax), of one run."""


def gemm(m: int, n: int, k: int) -> Case:
    """C = A @ B in float32."""
    a, b = torch.randn(m, k), torch.randn(k, n)
    c, other = torch.empty(m, n), torch.empty(m, n)
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": m, "N": n, "K": k})
    kernel(a, b, out=c)
    error = (c.double() - a.double() @ b.double()).abs().max().item()
    return Case(
        "gemm", (m, n, k), lambda: kernel(a, b, out=c), lambda: torch.mm(a, b, out=other),
        error, 2.0 * m * n * k,
    )  # fmt: skip


def softmax(m: int, n: int) -> Case:
    """Softmax along the last axis in float32."""
    x, y, other = torch.randn(m, n) * 4, torch.empty(m, n), torch.empty(m, n)
    kernel = septran.compile("softmax", "cpu-x86", shapes={"M": m, "N": n})
    kernel(x, out=y)
    error = (y.double() - torch.softmax(x.double(), 1)).abs().max().item()
    return Case(
        "softmax", (m, n), lambda: kernel(x, out=y), lambda: torch.softmax(x, 1, out=other),
        error, 8.0 * m * n,
    )  # fmt: skip


def attention(b: int, h: int, g: int, n: int, d: int, causal: bool) -> Case:
    """Scaled dot-product attention in float32."""
    q, k, v = torch.randn(b, h, n, d), torch.randn(b, g, n, d), torch.randn(b, g, n, d)
    o, name = torch.empty_like(q), "attention causal" if causal else "attention full"
    kernel = septran.compile("attention", "cpu-x86", static={"causal": causal})
    kernel(q, k, v, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        return dot_attention(*operands, is_causal=causal, enable_gqa=h != g)

    error = (o.double() - torchs(q.double(), k.double(), v.double())).abs().max().item()
    return Case(
        name, (b, h, g, n, d), lambda: kernel(q, k, v, out=o), lambda: torchs(q, k, v),
        error, 4.0 * b * h * n * n * d * (0.5 if causal else 1.0),
    )  # fmt: skip


def attention_decode(b: int, h: int, g: int, n: int, d: int) -> Case:
    """One new query a head over `n` keys."""
    q, k, v = torch.randn(b, h, d), torch.randn(b, g, n, d), torch.randn(b, g, n, d)
    o = torch.empty_like(q)
    kernel = septran.compile("attention_decode", "cpu-x86")
    kernel(q, k, v, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        query, *cache = operands
        return dot_attention(query[:, :, None], *cache, enable_gqa=h != g)[:, :, 0]

    error = (o.double() - torchs(q.double(), k.double(), v.double())).abs().max().item()
    return Case(
        "attention_decode", (b, h, g, n, d), lambda: kernel(q, k, v, out=o),
        lambda: torchs(q, k, v), error, 4.0 * b * h * n * d,
    )  # fmt: skip


def mla_decode(b: int, h: int, n: int) -> Case:
    """DeepSeek's latent attention; torch has no operator for it, so products and softmax."""
    q, r, o = torch.randn(b, h, 512), torch.randn(b, h, 64), torch.empty(b, h, 512)
    latent, rotary = torch.randn(b, n, 512), torch.randn(b, n, 64)
    kernel = septran.compile("mla_decode", "cpu-x86")
    kernel(q, r, latent, rotary, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        q, r, latent, rotary = operands
        scores = torch.baddbmm(q @ latent.transpose(1, 2), r, rotary.transpose(1, 2))
        return torch.softmax(scores / math.sqrt(192), -1) @ latent

    exact = torchs(*(x.double() for x in (q, r, latent, rotary)))
    return Case(
        "mla_decode", (b, h, n), lambda: kernel(q, r, latent, rotary, out=o),
        lambda: torchs(q, r, latent, rotary), (o.double() - exact).abs().max().item(),
        2.0 * b * h * n * (512 + 64 + 512),
    )  # fmt: skip


def linear_attention(b: int, h: int, n: int, d: int, chunk: int = 64) -> Case:
    """Causal linear attention, beside the same chunked form in torch."""
    q, k, v = (torch.randn(b, h, n, d) * 0.1 for _ in range(3))
    o, mask = torch.empty_like(q), torch.tril(torch.ones(chunk, chunk))
    kernel = septran.compile("linear_attention", "cpu-x86")
    kernel(q, k, v, out=o)

    def torchs(*operands: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.view(b, h, n // chunk, chunk, d) for x in operands)
        added = k.transpose(-1, -2) @ v
        before = torch.cumsum(added, 2) - added
        own = (q @ k.transpose(-1, -2)) * mask.to(q.dtype)
        return (own @ v + q @ before).view(b, h, n, d)

    error = (o.double() - torchs(q.double(), k.double(), v.double())).abs().max().item()
    return Case(
        "linear_attention", (b, h, n, d), lambda: kernel(q, k, v, out=o),
        lambda: torchs(q, k, v), error, 4.0 * b * h * n * d * (chunk + d),
    )  # fmt: skip


def cases(operators: Iterable[str]) -> Iterator[Case]:
    """All cases of the operators asked for."""
    if "gemm" in operators:
        yield from (gemm(*shape) for shape in GEMMS)
    if "softmax" in operators:
        yield from (softmax(*shape) for shape in SOFTMAXES)
    if "attention" in operators:
        yield from (attention(*s, causal) for causal in (False, True) for s in ATTENTIONS)
    if "attention_decode" in operators:
        yield from (attention_decode(*shape) for shape in DECODES)
    if "mla_decode" in operators:
        yield from (mla_decode(*shape) for shape in MLAS)
    if "linear_attention" in operators:
        yield from (linear_attention(*shape) for shape in LINEARS)


def run(operators: Iterable[str], threads: Iterable[int], seconds: float) -> None:
    """Print the table, a geometric mean for each operator and number of threads last."""
    print(f"SepTran {septran.__version__} (TVM {importlib.metadata.version('apache-tvm')})", end="")
    print(f" beside torch {torch.__version__} on {platform.machine()} {host_arch()},", end=" ")
    print(f"{usable_cores()} cores")
    print("| operator | shape | threads | ratio | SepTran | torch | unit | error | pairs |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios: dict[tuple[str, int], list[float]] = {}
    for case in cases(operators):
        for count in threads:
            set_threads(count)
            torch.set_num_threads(count)
            result = duel(case.ours, case.theirs, seconds)
            ratios.setdefault((case.operator, count), []).append(result.ratio)
            print(_line(case, count, result), flush=True)
    for (operator, count), values in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"geometric mean of {operator} on {count} thread(s): {mean:.3f}")


def _line(case: Case, count: int, result: Duel) -> str:
    shape = "x".join(map(str, case.shape))
    ours, theirs = (case.work / t / 1e9 for t in (result.ours_seconds, result.theirs_seconds))
    unit = "GB/s" if case.operator == "softmax" else "GFLOP/s"
    return (
        f"| {case.operator} | {shape} | {count} | {result.ratio:.3f} | {ours:.1f} | {theirs:.1f} "
        f"| {unit} | {case.error:.1e} | {result.pairs} |"
    )


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=["gemm", "softmax"])
    parser.add_argument("--all", action="store_true", help="every operator that is listed here")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each line of the table")
    parser.add_argument("--threads", type=int, nargs="*", default=None)
    options = parser.parse_args()
    threads = options.threads or sorted({1, min(2, usable_cores())})
    run(ALL if options.all else options.operators, threads, options.seconds)


if __name__ == "__main__":
    main()

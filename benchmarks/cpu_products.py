"""Products of matrices and convolutions of real models, ours and torch's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.nn.functional import conv2d as torchs_conv2d
from torch.nn.functional import gelu

from benchmarks import cpu_llama
from benchmarks.cpu_case import Case, Run, by, compiled, deviation
from septran.targets.cpu.run.isa import native

GEMMS = (
    *((n, n, n) for n in (256, 512, 1024, 2048)),
    (64, 4096, 1024),
    (512, 1536, 5120),  # DeepSeek-V2: compressed queries of 512 tokens
    (512, 576, 5120),  # DeepSeek-V2: the latent and the rotary key
)
"""M, N, K."""
LINEARS = (
    (128, 4096, 4096),  # Llama-3 8B: queries of 128 tokens
    (128, 1024, 4096),  # Llama-3 8B: keys
    (32, 14336, 4096),  # Llama-3 8B: the gate of the feed-forward layer
    (197, 3072, 768),  # ViT-B/16
)
"""M, N, K of products with a transposed matrix of weights, as torch's linear layers have."""
SMALL = (
    (17, 33, 65),
    (64, 64, 64),
    (100, 100, 100),
    (128, 128, 128),
    (31, 257, 129),
    (1000, 777, 333),
    (333, 777, 1000),
    (77, 1000, 333),
    (7, 512, 512),
)
FEW = (
    (1, 4096, 4096),  # Llama-3 8B: one token's queries
    (1, 14336, 4096),  # and its gate
    (4, 4096, 4096),
    (16, 4096, 4096),
    (1, 512, 512),
)
"""M, N, K of products with a token, or a few."""
FEW_INT8 = (*FEW, (1, 4096, 11008))  # Llama 2 7B: one token's way out of the feed-forward layer
BATCHED = ((32, 128, 128, 64), (12, 197, 197, 64), (8, 256, 256, 256))
"""S, M, N, K."""
INT8 = (
    *((n, n, n) for n in (128, 256, 512, 1024, 2048, 4096)),
    (1, 4096, 4096),
    (4, 4096, 4096),
    (64, 4096, 4096),
    (128, 4096, 1024),
    (197, 3072, 768),
)
BFLOAT16 = (
    *((n, n, n) for n in (128, 256, 512, 1024, 2048, 4096)),
    (4, 4096, 4096),
    (128, 4096, 1024),
    (197, 3072, 768),
)
DOTS_OF_BYTES = {"avx512vnni", "avxvnni", "dotprod"}
"""Features of processors with dot products of bytes."""
SPLITS = ((64, 64, 4096), (32, 128, 8192))
EPILOGUES = ((128, 3072, 768, "gelu"), (512, 512, 512, "relu"))
QUANTISED = (
    (1, 4096, 4096),  # Llama-3 8B: one token's queries
    (1, 14336, 4096),  # and its gate
    (4, 4096, 4096),
    (16, 4096, 4096),
    (64, 4096, 4096),
    (64, 1024, 4096),
    (128, 4096, 1024),
)
CONVOLUTIONS = (  # ResNet-50, from the first layer to the last
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (128, 56, 128, 3, 2),
    (128, 28, 128, 3, 1),
    (128, 28, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (256, 14, 256, 3, 1),
    (1024, 14, 256, 1, 1),
    (512, 7, 512, 3, 1),
    (512, 7, 2048, 1, 1),
)
FIRST_LAYERS = (  # few channels, large images
    (3, 224, 64, 7, 2),  # ResNet-50
    (3, 224, 64, 5, 1),
    (3, 224, 64, 3, 1),  # VGG-16
    (3, 224, 96, 11, 4),  # AlexNet, but for its padding
    (8, 112, 64, 3, 1),
    (16, 112, 64, 3, 1),
)
"""C, H = W, O, R = S, stride, padded by half the filter."""


def gemm(
    family: str, m: int, n: int, k: int, transposed: bool = False, dtype: str = "float32"
) -> Case:
    """C = A @ B, B given as [N, K] where `transposed`."""
    kind = getattr(torch, dtype)
    a, b = torch.randn(m, k).to(kind), torch.randn(*((n, k) if transposed else (k, n))).to(kind)
    c, other = torch.empty(m, n, dtype=kind), torch.empty(m, n, dtype=kind)
    flags = {"trans_b": True} if transposed else {}
    shapes = {"M": m, "N": n, "K": k}
    kernel = compiled("gemm", shapes=shapes, static=flags, dtypes=dtype)
    plain = b.t() if transposed else b
    kernel(a, b, out=c)
    return Case(
        family, "gemm with B [N, K]" if transposed else "gemm",
        by(m, n, k) + (f" {dtype}" if dtype != "float32" else ""),
        lambda: kernel(a, b, out=c), (lambda: torch.mm(a, plain, out=other),),
        deviation(c, a.double() @ plain.double()), 2.0 * m * n * k,
        kernel=kernel,
    )  # fmt: skip


def batched_gemm(s: int, m: int, n: int, k: int) -> Case:
    """A product for each of a batch."""
    a, b = torch.randn(s, m, k), torch.randn(s, k, n)
    c, other = torch.empty(s, m, n), torch.empty(s, m, n)
    kernel = compiled("batched_gemm")
    kernel(a, b, out=c)
    return Case(
        "batched_gemm", "batched_gemm", by(s, m, n, k), lambda: kernel(a, b, out=c),
        (lambda: torch.bmm(a, b, out=other),), deviation(c, a.double() @ b.double()),
        2.0 * s * m * n * k,
        kernel=kernel,
    )  # fmt: skip


def int8(m: int, n: int, k: int, family: str = "gemm int8") -> Case:
    """Products of int8 summed in int32; exact. Torch's B by rows or by columns.

    Without dot products of bytes torch has no kernel, but a loop over elements: there it multiplies
    in float32, though that is exact for sums of 1024 products at most.
    """
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
    columns = b.t().contiguous().t()
    c, other = (torch.empty(m, n, dtype=torch.int32) for _ in range(2))
    kernel = compiled("gemm", dtypes="int8", shapes={"M": m, "N": n, "K": k})
    kernel(a, b, out=c)
    ways: tuple[Run, ...] = (lambda: other.copy_(torch.mm(a.float(), b.float())),)
    if DOTS_OF_BYTES & native().features:
        ways = tuple(lambda x=x: torch._int_mm(a, x, out=other) for x in (b, columns))
    return Case(
        family, "gemm int8", by(m, n, k), lambda: kernel(a, b, out=c), ways,
        deviation(c, a.double() @ b.double()), 2.0 * m * n * k, "GOP/s",
        kernel=kernel,
    )  # fmt: skip


def gemm_splitk(m: int, n: int, k: int) -> Case:
    """Few rows and columns, a long K."""
    a, b = torch.randn(m, k), torch.randn(k, n)
    c, other = torch.empty(m, n), torch.empty(m, n)
    kernel = compiled("gemm_splitk")
    kernel(a, b, out=c)
    return Case(
        "gemm_splitk", "gemm_splitk", by(m, n, k), lambda: kernel(a, b, out=c),
        (lambda: torch.mm(a, b, out=other),), deviation(c, a.double() @ b.double()),
        2.0 * m * n * k,
        kernel=kernel,
    )  # fmt: skip


def epilogue(m: int, n: int, k: int, act: str) -> Case:
    """A product, a bias and an activation."""
    a, b, bias, c = torch.randn(m, k), torch.randn(k, n), torch.randn(n), torch.empty(m, n)
    kernel = compiled("gemm_bias_act", static={"act": act})
    function = {"gelu": gelu, "relu": torch.relu}[act]
    kernel(a, b, bias, out=c)
    exact = function(torch.addmm(bias.double(), a.double(), b.double()))
    return Case(
        "gemm_bias_act", f"gemm_bias_act {act}", by(m, n, k), lambda: kernel(a, b, bias, out=c),
        (lambda: function(torch.addmm(bias, a, b)),), deviation(c, exact), 2.0 * m * n * k,
        kernel=kernel,
    )  # fmt: skip


def dequant_gemm(m: int, n: int, k: int, bits: int, group: int = 64) -> Case:
    """Quantised weights, beside torch's kernels for them, and dequantising them and a product.

    Of the kernels that for 8 bits knows one scale for each column, and no groups: it does less.
    """
    weights = torch.randint(0, 256, (k * bits // 8, n), dtype=torch.uint8)
    a, scale = torch.randn(m, k), torch.rand(k // group, n)
    zero, c = torch.full((k // group, n), 8.0 if bits == 4 else 0.0), torch.empty(m, n)
    kernel = compiled("dequant_gemm", static={"bits": bits, "group": group})
    kernel(a, weights, scale, zero, out=c)

    def torchs(a: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        if bits == 4:
            halves = weights.view(k // group, group // 2, n)
            wide = torch.cat([halves & 15, halves >> 4], 1).to(a.dtype)
        else:
            wide = weights.view(torch.int8).view(k // group, group, n).to(a.dtype)
        return a @ ((wide - zero[:, None]) * scale[:, None]).view(k, n)

    exact = torchs(a.double(), scale.double(), zero.double())
    family = f"dequant_gemm int{bits}"
    return Case(
        family, family, by(m, n, k), lambda: kernel(a, weights, scale, zero, out=c),
        (lambda: torchs(a, scale, zero), packed(a, n, bits, group)), deviation(c, exact),
        2.0 * m * n * k,
        kernel=kernel,
    )  # fmt: skip


def packed(a: torch.Tensor, n: int, bits: int, group: int) -> Run:
    """Torch's own kernel for as many weights, in its own packing."""
    k = a.shape[1]
    if bits == 8:
        bytes_, scale = torch.randint(-128, 128, (n, k), dtype=torch.int8), torch.rand(n)
        return lambda: torch._weight_int8pack_mm(a, bytes_, scale)
    whole = torch.randint(0, 16, (n, k), dtype=torch.int32)
    halves, both = torch._convert_weight_to_int4pack_for_cpu(whole, 1), torch.rand(k // group, n, 2)
    return lambda: torch._weight_int4pack_mm_for_cpu(a, halves, group, both)


def beside_llama(one: Case, m: int, n: int, k: int, kind: str) -> Iterator[Case]:
    """The same kernel beside llama.cpp's with as many bits, where that is there.

    It rounds the rows to int8 in blocks of 32, has a scale for each 32 weights and no zero points.
    """
    ways = cpu_llama.products(m, n, k, kind)
    if ways:
        peer = f"llama.cpp {kind}"
        yield replace(one, family=f"{one.family} / {peer}", theirs=ways, peer=peer)


def w4a8_gemm(m: int, n: int, k: int, group: int = 64) -> Case:
    """Rows rounded to int8 times weights of 4 bits; torch's kernel rounds no rows."""
    weights = torch.randint(0, 256, (k // 2, n), dtype=torch.uint8)
    a, scale, c = torch.randn(m, k), torch.rand(k // group, n), torch.empty(m, n)
    kernel = compiled("w4a8_gemm", static={"group": group})
    kernel(a, weights, scale, out=c)
    size = a.abs().amax(1, keepdim=True) / 127
    halves = weights.view(k // group, group // 2, n)
    wide = (torch.cat([halves & 15, halves >> 4], 1).double() - 8) * scale.double()[:, None]
    exact = (torch.round(a / size).double() @ wide.view(k, n)) * size.double()
    return Case(
        "w4a8_gemm", "w4a8_gemm", by(m, n, k), lambda: kernel(a, weights, scale, out=c),
        (packed(a, n, 4, group),), deviation(c, exact), 2.0 * m * n * k, "GOP/s",
        kernel=kernel,
    )  # fmt: skip


def conv2d(c: int, h: int, o: int, r: int, stride: int, last: bool, family: str = "conv2d") -> Case:
    """A convolution; torch's in both layouts."""
    x, f = torch.randn(1, c, h, h), torch.randn(o, c, r, r)
    flags = {"stride": stride, "padding": r // 2}
    kernel = compiled("conv2d_nhwc" if last else "conv2d", static=flags)
    both = [(x, f), tuple(t.to(memory_format=torch.channels_last) for t in (x, f))]
    own = (x.permute(0, 2, 3, 1), f.permute(2, 3, 1, 0)) if last else (x, f)
    mine = [t.contiguous() for t in own]
    y = kernel(*mine)
    exact = torchs_conv2d(x.double(), f.double(), **flags)
    return Case(
        f"{family} nhwc" if last else family, "conv2d_nhwc" if last else "conv2d",
        f"{by(c, h, h)} to {o}, {by(r, r)}/{stride}", lambda: kernel(*mine, out=y),
        tuple(lambda p=p: torchs_conv2d(*p, **flags) for p in both),
        deviation(y.permute(0, 3, 1, 2) if last else y, exact), 2.0 * exact.numel() * c * r * r,
        kernel=kernel,
    )  # fmt: skip


def cases(names: set[str]) -> Iterator[Case]:
    """All cases of the operators asked for, each made when it is reached."""
    if "gemm" in names:
        yield from (gemm("gemm", *s) for s in GEMMS)
        yield from (gemm("gemm", *s, transposed=True) for s in LINEARS)
    if "small" in names:
        yield from (gemm("gemm small and odd", *s) for s in SMALL)
    if "few" in names:
        yield from (gemm("gemm few rows", *s, transposed=t) for t in (False, True) for s in FEW)
        for dtype in ("bfloat16", "float16"):
            yield from (gemm("gemm few rows, 16 bits", *s, True, dtype) for s in FEW)
        yield from (int8(*s, family="gemm few rows, int8") for s in FEW_INT8)
    if "batched_gemm" in names:
        yield from (batched_gemm(*s) for s in BATCHED)
    if "int8" in names:
        yield from (int8(*s) for s in INT8)
    if "bfloat16" in names:
        yield from (gemm("gemm bfloat16", *s, dtype="bfloat16") for s in BFLOAT16)
    if "gemm_splitk" in names:
        yield from (gemm_splitk(*s) for s in SPLITS)
    if "gemm_bias_act" in names:
        yield from (epilogue(*s) for s in EPILOGUES)
    yield from _quantised(names)
    yield from _convolutions(names)


def _convolutions(names: set[str]) -> Iterator[Case]:
    if "conv2d" in names:
        yield from (conv2d(*s, last=last) for last in (False, True) for s in CONVOLUTIONS)
    if "first_layers" in names:
        for last in (False, True):
            yield from (conv2d(*s, last=last, family="first layers") for s in FIRST_LAYERS)


def _quantised(names: set[str]) -> Iterator[Case]:
    if "dequant_gemm" in names:
        for bits, kind in ((4, "Q4_0"), (8, "Q8_0")):
            for shape in QUANTISED:
                one = dequant_gemm(*shape, bits=bits)
                yield one
                yield from beside_llama(one, *shape, kind)
    if "w4a8_gemm" in names:
        for shape in QUANTISED:
            one = w4a8_gemm(*shape)
            yield one
            yield from beside_llama(one, *shape, "Q4_0")

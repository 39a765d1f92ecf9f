"""What `benchmarks.gpu` measures: operators, sizes, and steps of a ladder of mappings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SQUARES = (1024, 2048, 4096, 8192, 16384)
ODD = (
    *((m, 4096, 4096) for m in (1, 16, 17, 33, 64, 100, 128, 200, 256, 300, 384, 512)),
    *((m, 11008, 4096) for m in (16, 64, 128, 256, 512)),
    *((m, 4096, 11008) for m in (16, 64, 128, 256, 512)),
    (1000, 1000, 1000), (1111, 2222, 3333), (2049, 2049, 2049), (4095, 4097, 4096),
    (3000, 5000, 700), (8192, 512, 8192), (512, 8192, 8192), (128, 128, 16384),
)  # fmt: skip
"""M, N, K: 30 shapes that no tile divides, or with few rows."""
SEQUENCES = (1024, 2048, 4096, 8192, 16384)
ROWS = ((32768, 1024), (16384, 2048), (8192, 4096), (4096, 8192), (2048, 16384))
NORMS = ((16384, 2048), (8192, 4096), (4096, 8192))
QUANTISED = tuple((m, 8192, 8192) for m in (1, 8, 16))
CONVOLUTIONS = (
    (32, 56, 56, 64, 3, 3, 64, 1, 1),
    (32, 28, 28, 128, 3, 3, 128, 1, 1),
    (32, 14, 14, 256, 3, 3, 256, 1, 1),
    (32, 7, 7, 512, 3, 3, 512, 1, 1),
    (32, 56, 56, 256, 1, 1, 64, 1, 0),
    (32, 56, 56, 128, 3, 3, 128, 2, 1),
)
"""B, H, W, C, R, S, O, stride, padding: ResNet-50's, channels last."""


@dataclass(frozen=True)
class GpuCase:
    """One operator on one shape, with the mapping that it is measured with."""

    family: str
    """What it is averaged with in the summary."""
    operator: str
    dims: Mapping[str, int]
    dtype: str
    static: Mapping[str, Any] = field(default_factory=dict)
    tunables: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    """Rules, as YAML, that go before those of the machine's mapping."""
    label: str = ""
    """Which step of the ladder it is."""

    @property
    def name(self) -> str:
        """A name for its folder."""
        sizes = "x".join(str(size) for size in self.dims.values())
        given = [(name, value) for name, value in self.static.items() if value is not False]
        flags = [name if value is True else f"{name}_{value}" for name, value in given]
        words = [self.operator, *flags, sizes, self.dtype, self.label]
        return re.sub(r"\W+", "_", " ".join(word for word in words if word)).strip("_")

    def mapping(self, machine: str) -> str:
        """The machine's mapping, or one that extends it."""
        if not self.rules:
            return machine
        rules = "".join(f"  - {rule}\n" for rule in self.rules)
        return f"extends: {machine}.mapping.yaml\nrules:\n{rules}"


def gemm(m: int, n: int, k: int, dtype: str = "bfloat16", family: str = "") -> GpuCase:
    """C = A @ B."""
    return GpuCase(family or "gemm", "gemm", {"M": m, "N": n, "K": k}, dtype)


def attention(n: int, causal: bool, heads: int = 16, d: int = 128) -> GpuCase:
    """Attention of 16k tokens in all, as FlashAttention's authors measure it."""
    dims = {"B": 16384 // n, "H": heads, "G": heads, "M": n, "N": n, "D": d}
    family = "attention causal" if causal else "attention"
    return GpuCase(family, "attention", dims, "float16", {"causal": causal})


LIBRARY = "library"
"""The family that is checked, element by element, and not timed."""
BLOCK = "match: {loops: parallel}"
GRID = "match: {holds: parallel}"
PRODUCT = "match: {primitive: gemm}"
PLAIN = f"{{{BLOCK}, pipeline: 1, warpspecialize: false}}"
DEEP = f"{{{BLOCK}, pipeline: 4, warpspecialize: false}}"
ROLES = f"{{{BLOCK}, pipeline: 4, warpspecialize: true}}"
ROUND = f"{{{GRID}, persistent: false, raster: 1}}"
STAYS = f"{{{GRID}, persistent: true, raster: 1}}"
GROUPS = f"{{{GRID}, persistent: true, raster: 8}}"
CLUSTERS = f"{{{GRID}, persistent: true, raster: 8, cluster: 2}}"
SMALL = {"block_M": 64, "block_N": 64, "block_K": 32}
MIDDLE = {"block_M": 128, "block_N": 128, "block_K": 64}
LARGE = {"block_M": 128, "block_N": 256, "block_K": 64}

LADDER: tuple[tuple[str, Mapping[str, int], tuple[str, ...]], ...] = (
    ("FMA units", SMALL, (f"{{{PRODUCT}, binding: {{gemm: simt}}}}", PLAIN, ROUND)),
    ("mma_sync", SMALL, (f"{{{PRODUCT}, binding: {{gemm: mma_sync}}}}", PLAIN, ROUND)),
    ("wgmma", SMALL, (PLAIN, ROUND)),
    ("tile 128x128", MIDDLE, (PLAIN, ROUND)),
    ("4 stages", MIDDLE, (DEEP, ROUND)),
    ("roles", MIDDLE, (ROLES, ROUND)),
    ("tile 128x256", LARGE, (ROLES, ROUND)),
    ("persistent", LARGE, (ROLES, STAYS)),
    ("raster 8", LARGE, (ROLES, GROUPS)),
    ("cluster 2", LARGE, (ROLES, CLUSTERS)),
)
"""Label, tunables and rules; each step adds one thing to the one before."""


def ladder(size: int = 8192, dtype: str = "bfloat16") -> Iterator[GpuCase]:
    """One product under mappings that differ in one field each."""
    for place, (label, tunables, rules) in enumerate(LADDER):
        yield GpuCase(
            "ladder", "gemm", {"M": size, "N": size, "K": size}, dtype, {}, tunables, rules,
            f"{place:02} {label}",
        )  # fmt: skip


def cases(family: str) -> Iterator[GpuCase]:
    """All cases of a family; KeyError where there is no such family."""
    yield from FAMILIES[family]()


def _squares() -> Iterator[GpuCase]:
    for dtype in ("bfloat16", "float16"):
        yield from (gemm(n, n, n, dtype) for n in SQUARES)


def _odd() -> Iterator[GpuCase]:
    yield from (gemm(*shape, family="gemm odd") for shape in ODD)


def _attention() -> Iterator[GpuCase]:
    yield from (attention(n, causal) for causal in (False, True) for n in SEQUENCES)


def _rows() -> Iterator[GpuCase]:
    for m, n in ROWS:
        yield GpuCase("softmax", "softmax", {"M": m, "N": n}, "float16")


def _norms() -> Iterator[GpuCase]:
    for operator in ("layer_norm", "rms_norm"):
        for m, n in NORMS:
            yield GpuCase("norm", operator, {"M": m, "N": n}, "float16")


def _quantised() -> Iterator[GpuCase]:
    for m, n, k in QUANTISED:
        dims = {"M": m, "N": n, "K": k}
        yield GpuCase("w4a16", "dequant_gemm", dims, "float16", {"bits": 4, "group": 128})


def _convolutions() -> Iterator[GpuCase]:
    for *sizes, stride, padding in CONVOLUTIONS:
        dims = dict(zip("BHWCRSO", sizes, strict=True))
        static = {"stride": stride, "padding": padding}
        yield GpuCase("conv2d", "conv2d_nhwc", dims, "float16", static)


def _types() -> Iterator[GpuCase]:
    flags = {"trans_b": True}  # K after K in both, as 8-bit products of tensor cores want it
    for n in (4096, 8192):
        sizes = {"M": n, "N": n, "K": n}
        yield GpuCase("gemm 8 bits", "gemm", sizes, "float8_e4m3fn", flags)
        yield GpuCase("gemm 8 bits", "gemm", sizes, "int8", flags)
    yield gemm(4096, 4096, 4096, "float32", "gemm float32")


def _transposed() -> Iterator[GpuCase]:
    for flags in ({"trans_a": True}, {"trans_b": True}, {"trans_a": True, "trans_b": True}):
        sizes = {"M": 4096, "N": 4096, "K": 4096}
        yield GpuCase("gemm transposed", "gemm", sizes, "bfloat16", flags)


def _fused() -> Iterator[GpuCase]:
    for m in (512, 4096):
        sizes = {"M": m, "N": 4096, "K": 4096}
        yield GpuCase("gemm fused", "gemm_bias_act", sizes, "bfloat16", {"act": "gelu"})
    yield GpuCase(
        "gemm batched", "batched_gemm", {"S": 64, "M": 512, "N": 512, "K": 512}, "float16"
    )


def _decode() -> Iterator[GpuCase]:
    for b, n in ((1, 16384), (16, 4096), (16, 16384)):
        sizes = {"B": b, "H": 32, "G": 8, "N": n, "D": 128}
        yield GpuCase("decode", "attention_decode", sizes, "float16")


def _streams() -> Iterator[GpuCase]:
    for function in ("silu", "gelu"):
        sizes = {"M": 8192, "N": 8192}
        yield GpuCase("elementwise", "elementwise", sizes, "float16", {"function": function})
    for m, n in ((8192, 8192), (4096, 14336)):
        for function in ("sum", "max"):
            sizes = {"M": m, "N": n}
            yield GpuCase("reduce", "reduce", sizes, "float16", {"function": function})


def _library() -> Iterator[GpuCase]:
    """What `septran matrix` runs, and the first case of each operator in 16 bits."""
    from septran import operators

    for name in operators.names():
        own = operators.cases(name)
        for case in own:
            yield GpuCase(LIBRARY, name, case.sizes, case.dtype, case.static)
        given = {case.dtype for case in own}
        for dtype in ("float16", "bfloat16"):
            if dtype not in given:
                yield GpuCase(LIBRARY, name, own[0].sizes, dtype, own[0].static)


def _examples() -> Iterator[GpuCase]:
    """The operators' own sizes, for more than one tile and several turns of each ring."""
    from septran import operators

    for name in operators.names():
        own = operators.module(name)
        flags = {k: v for k, v in own.EXAMPLE.items() if not isinstance(v, int)}
        sizes = {k: v for k, v in own.EXAMPLE.items() if k not in flags}
        yield GpuCase(LIBRARY, name, sizes, "float16", flags, label="example")


FAMILIES = {
    "gemm": _squares, "odd": _odd, "attention": _attention, "softmax": _rows, "norm": _norms,
    "w4a16": _quantised, "conv2d": _convolutions, "types": _types, "transposed": _transposed,
    "fused": _fused, "decode": _decode, "streams": _streams, "ladder": ladder,
    "library": _library, "examples": _examples,
}  # fmt: skip
QUICK = {
    "gemm": 1, "odd": 1, "attention": 1, "softmax": 1, "norm": 1, "w4a16": 1, "conv2d": 1,
    "types": 2, "transposed": 1, "fused": 1, "decode": 1, "streams": 1, "ladder": len(LADDER),
    "library": 1, "examples": 1,
}  # fmt: skip
"""How many cases of each name of a family a quick run takes."""
GOALS = {
    "gemm": (1.00, 1.04), "gemm odd": (1.05, 1.15), "attention": (1.00, 1.07),
    "attention causal": (1.00, 1.07), "softmax": (0.95, 0.98), "norm": (0.95, 0.98),
    "w4a16": (2.6, 3.4), "conv2d": (1.10, 1.30),
}  # fmt: skip
"""Ratio to the vendor's library (to a copy, for softmax and norms): must, aim."""

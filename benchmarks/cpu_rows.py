"""Norms, softmax and functions of elements on rows of real models, ours and torch's.

Ours fill an output that is there. So do some of torch's ways, as the memory of a new one has to be
mapped page by page; those that end in a copy are for torch.compile, which makes none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import layer_norm, rms_norm, silu

import septran
from benchmarks.cpu_case import Case, Run, by, compiled, deviation

IN_CACHE = (
    (32, 4096),  # Llama-3 8B: 32 tokens
    (512, 4096),  # 512 tokens, 8 MiB
    (197, 768),  # ViT-B/16
    (1024, 1024),
    (1000, 777),
    (4096, 64),
)
"""M, N."""
FROM_DRAM = ((8192, 4096), (2048, 16384))
"""M, N; 256 MiB read and written."""
ELEMENTS = ((512, 1024), (128, 14336), (4096, 14336))
"""M, N; the gate of Llama-3 8B's feed-forward layer, last from DRAM."""
LOGIC = str(Path(__file__).with_name("functions") / "logic.py")
FUNCTIONS = {
    "log": lambda x, out=None: torch.log(x, out=out),
    "log2": lambda x, out=None: torch.log2(x, out=out),
    "exp": lambda x, out=None: torch.exp(x, out=out),
    "sin": lambda x, out=None: torch.sin(x, out=out),
    "cos": lambda x, out=None: torch.cos(x, out=out),
    "tanh": lambda x, out=None: torch.tanh(x, out=out),
    "power": lambda x, out=None: torch.pow(x, 1.25, out=out),
}
"""Functions of one element, as torch calculates them."""
TOPKS = ((64, 512, 4), (512, 160, 6))
"""M, N, k; the last is DeepSeek-V2's routing of tokens."""

Sides = tuple[septran.Kernel, Run, tuple[Run, ...], torch.Tensor, torch.Tensor]
"""Our kernel and its call, torch's, our result and the exact one."""


def _softmax(x: torch.Tensor) -> Sides:
    y, other, kernel = torch.empty_like(x), torch.empty_like(x), compiled("softmax")
    kernel(x, out=y)
    ways = (lambda: torch.softmax(x, 1, out=other), lambda: torch.softmax(x, 1))
    return kernel, lambda: kernel(x, out=y), ways, y, torch.softmax(x.double(), 1)


def _rms_norm(x: torch.Tensor) -> Sides:
    w, y, kernel = torch.randn(x.shape[1]), torch.empty_like(x), compiled("rms_norm")
    other = torch.empty_like(x)
    kernel(x, w, out=y)
    exact = rms_norm(x.double(), x.shape[1:], w.double(), 1e-6)
    ways = (
        lambda: rms_norm(x, x.shape[1:], w, 1e-6),
        lambda: other.copy_(rms_norm(x, x.shape[1:], w, 1e-6)),
    )
    return kernel, lambda: kernel(x, w, out=y), ways, y, exact


def _layer_norm(x: torch.Tensor) -> Sides:
    w, b = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    y, kernel = torch.empty_like(x), compiled("layer_norm")
    others = torch.empty_like(x), torch.empty(x.shape[0], 1), torch.empty(x.shape[0], 1)
    kernel(x, w, b, out=y)
    into = partial(torch.ops.aten.native_layer_norm.out, x, x.shape[1:], w, b, 1e-5)
    ways = (
        lambda: layer_norm(x, x.shape[1:], w, b, 1e-5),
        lambda: into(out0=others[0], out1=others[1], out2=others[2]),
        lambda: others[0].copy_(layer_norm(x, x.shape[1:], w, b, 1e-5)),
    )
    exact = layer_norm(x.double(), x.shape[1:], w.double(), b.double(), 1e-5)
    return kernel, lambda: kernel(x, w, b, out=y), ways, y, exact


ROWS = {"softmax": _softmax, "rms_norm": _rms_norm, "layer_norm": _layer_norm}


def rows(name: str, m: int, n: int, far: bool) -> Iterator[Case]:
    """Softmax or a norm beside torch's; from DRAM beside a copy, too."""
    x = torch.randn(m, n) * 4
    kernel, ours, theirs, y, exact = ROWS[name](x)
    error, work = deviation(y, exact), 8.0 * m * n
    del exact
    family = "rows from DRAM" if far else "rows in cache"
    yield Case(family, name, by(m, n), ours, theirs, error, work, "GB/s", kernel=kernel)
    if far:
        other = torch.empty_like(x)
        copy = (lambda: other.copy_(x),)
        yield Case(
            f"{family} / copy", name, by(m, n), ours, copy, error, work, "GB/s", kernel=kernel
        )


def elementwise(m: int, n: int) -> Case:
    """SiLU of each element."""
    x, y, kernel = torch.randn(m, n), torch.empty(m, n), compiled("elementwise")
    other = torch.empty(m, n)
    kernel(x, out=y)
    into = partial(torch.ops.aten.silu.out, x, out=other)
    ways = (lambda: silu(x), into, lambda: other.copy_(silu(x)))
    return Case(
        "elementwise", "silu", by(m, n), lambda: kernel(x, out=y), ways,
        deviation(y, silu(x.double())), 8.0 * m * n, "GB/s",
        kernel=kernel,
    )  # fmt: skip


def elementwise_binary(m: int, n: int) -> Case:
    """The gate of Llama's feed-forward layer."""
    a, b, y = torch.randn(m, n), torch.randn(m, n), torch.empty(m, n)
    kernel, other = compiled("elementwise_binary"), torch.empty(m, n)
    kernel(a, b, out=y)
    into = partial(torch.ops.aten.silu.out, a, out=other)
    return Case(
        "elementwise_binary", "silu_mul", by(m, n), lambda: kernel(a, b, out=y),
        (
            lambda: silu(a) * b, lambda: silu(a).mul_(b), lambda: into().mul_(b),
            lambda: other.copy_(silu(a) * b),
        ),
        deviation(y, silu(a.double()) * b.double()), 12.0 * m * n, "GB/s",
        kernel=kernel,
    )  # fmt: skip


def function(m: int, n: int, name: str) -> Case:
    """One function of each element, from 0.5 to 1.5, by a logic of one line."""
    x, y, other = torch.rand(m, n) + 0.5, torch.empty(m, n), torch.empty(m, n)
    kernel, theirs = compiled(LOGIC, static={"function": name}), FUNCTIONS[name]
    kernel(x, out=y)
    return Case(
        "functions", name, by(m, n), lambda: kernel(x, out=y), (lambda: theirs(x, out=other),),
        deviation(y, theirs(x.double())), m * n, "Gelements/s",
        kernel=kernel,
    )  # fmt: skip


def reduce(m: int, n: int, function: str) -> Case:
    """A sum or maximum of each row."""
    x, y = torch.randn(m, n), torch.empty(m)
    kernel = compiled("reduce", static={"function": function})
    kernel(x, out=y)
    theirs = {"sum": lambda t: t.sum(1), "max": lambda t: t.amax(1)}[function]
    return Case(
        "reduce", f"reduce {function}", by(m, n), lambda: kernel(x, out=y), (lambda: theirs(x),),
        deviation(y, theirs(x.double())), 4.0 * m * n, "GB/s",
        kernel=kernel,
    )  # fmt: skip


def rope(s: int, h: int, d: int) -> Case:
    """Rotary positions, beside the usual way of writing them in torch."""
    x, y, kernel = torch.randn(s, h, d), torch.empty(s, h, d), compiled("rope")
    angles = torch.rand(s, d // 2) * 6
    cos, sin = angles.cos(), angles.sin()
    kernel(x, cos, sin, out=y)

    def torchs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        cos, sin = cos[:, None], sin[:, None]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    exact = torchs(x.double(), cos.double(), sin.double())
    return Case(
        "rope", "rope", by(s, h, d), lambda: kernel(x, cos, sin, out=y),
        (lambda: torchs(x, cos, sin),), deviation(y, exact), 8.0 * s * h * d, "GB/s",
        kernel=kernel,
    )  # fmt: skip


def topk(m: int, n: int, k: int) -> Case:
    """The greatest of each row."""
    x = torch.randn(m, n)
    kernel = compiled("topk", static={"k": k})
    values, indices = kernel(x)
    return Case(
        "topk", f"topk {k}", by(m, n), lambda: kernel(x, out=(values, indices)),
        (lambda: torch.topk(x, k),), deviation(values, torch.topk(x.double(), k)[0]),
        4.0 * m * n, "GB/s",
        kernel=kernel,
    )  # fmt: skip


def cases(names: set[str]) -> Iterator[Case]:
    """All cases of the operators asked for, each made when it is reached."""
    for name in ROWS:
        if name in names:
            for far, shapes in ((False, IN_CACHE), (True, FROM_DRAM)):
                for shape in shapes:
                    yield from rows(name, *shape, far)
    if "elementwise" in names:
        yield from (elementwise(*s) for s in ELEMENTS)
        yield from (elementwise_binary(*s) for s in ELEMENTS)
    if "functions" in names:
        yield from (function(64, 1024, name) for name in FUNCTIONS)
    if "reduce" in names:
        yield from (reduce(*s, function) for s in ELEMENTS for function in ("sum", "max"))
    if "rope" in names:
        yield from (rope(*s) for s in ((512, 32, 128), (1024, 12, 64)))
    if "topk" in names:
        yield from (topk(*s) for s in TOPKS)

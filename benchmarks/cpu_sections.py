"""Operators whose data decide what is computed: groups of rows, packed sequences, masks of blocks.

Beside torch's fastest expression for the same: a product or an attention for each section, or one
attention with a mask of elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.cpu_case import Case, Run, by, compiled, deviation
from septran.runtime.torch_baseline import torch_function

GROUPED = (
    (512, 8, 512, 512),
    (512, 8, 2048, 1024),
    (64, 8, 1024, 1024),
    (2048, 8, 1024, 1024),
    (128, 32, 512, 512),
)
"""Tokens, experts, K, N: prompts and a few tokens of mixtures of experts."""
VARLEN = ((1024, 8, 8, 8, 64), (1024, 4, 32, 8, 128), (2048, 2, 8, 8, 64), (256, 16, 12, 12, 64))
"""Tokens, sequences, heads of queries and of keys, elements of a head."""
SPARSE = ((1024, 8, 8, 64, 0.25), (2048, 8, 2, 64, 0.25), (1024, 8, 8, 64, 0.6))
"""Tokens, heads of queries and of keys, elements of a head, the share of blocks with scores."""


def sections(rows: int, count: int) -> torch.Tensor:
    """Ends of sections of random lengths, from 0 to `rows`."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(count, generator=generator) + 0.2
    ends = (shares.cumsum(0) / shares.sum() * rows).round().long()
    return torch.cat((torch.zeros(1, dtype=torch.int64), ends))


def beside(
    operator: str,
    shape: str,
    inputs: tuple[torch.Tensor, ...],
    work: float,
    others: tuple[Run, ...],
    unit: str = "GFLOP/s",
    **flags: Any,
) -> Case:
    """One call of the library's operator, checked against torch's in float64."""
    kernel, theirs = compiled(operator, static=flags), torch_function(operator, flags)
    assert theirs is not None
    y = kernel(*inputs)
    exact = theirs[1](*(x.double() if x.is_floating_point() else x for x in inputs))
    several = isinstance(y, tuple)
    error = max(map(deviation, y, exact)) if several else deviation(y, exact)
    return Case(
        operator, operator, shape, lambda: kernel(*inputs, out=y),
        (lambda: theirs[1](*inputs), *others), error, work, unit, kernel=kernel,
    )  # fmt: skip


def grouped_gemm(t: int, e: int, k: int, n: int) -> Case:
    """A product for each group of rows."""
    inputs = torch.randn(t, k), torch.randn(e, k, n), sections(t, e)
    return beside("grouped_gemm", by(t, e, k, n), inputs, 2.0 * t * k * n, ())


def attention_varlen(t: int, count: int, h: int, g: int, d: int) -> Case:
    """Sequences one behind the other, each by itself; also as a batch with padding."""
    starts = sections(t, count)
    q, k, v = torch.randn(t, h, d), torch.randn(t, g, d), torch.randn(t, g, d)
    lengths = starts.diff()
    longest = int(lengths.max())
    there = torch.arange(longest) < lengths[:, None]

    def padded() -> torch.Tensor:
        wide = [x.new_zeros(count, longest, *x.shape[1:]) for x in (q, k, v)]
        for x, whole in zip((q, k, v), wide, strict=True):
            whole[there] = x
        queries, keys, values = (x.transpose(1, 2) for x in wide)
        found = torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, there[:, None, None], enable_gqa=h != g
        )
        return found.transpose(1, 2)[there]

    work = 4.0 * h * d * float((lengths.double() ** 2).sum())
    inputs = q, k, v, starts, starts
    return beside("attention_varlen", by(t, count, h, g, d), inputs, work, (padded,))


def block_sparse_attention(t: int, h: int, g: int, d: int, share: float) -> Case:
    """Blocks of 64 x 64 scores, of which a share is computed; those of the diagonal always."""
    q, k, v = torch.randn(1, h, t, d), torch.randn(1, g, t, d), torch.randn(1, g, t, d)
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(1, h, t // 64, t // 64, generator=generator) < share
    mask |= torch.eye(t // 64, dtype=torch.bool)
    work = 4.0 * d * 64 * 64 * float(mask.sum())
    inputs = q, k, v, mask.to(torch.uint8)
    seen = mask.repeat_interleave(64, 2).repeat_interleave(64, 3)
    bias = torch.zeros(seen.shape).masked_fill_(~seen, -torch.inf)
    attend = partial(torch.nn.functional.scaled_dot_product_attention, enable_gqa=h != g)
    others = (lambda: attend(q, k, v, seen), lambda: attend(q, k, v, bias))
    shape = f"{by(t, h, g, d)}, {share:.0%}"
    return beside("block_sparse_attention", shape, inputs, work, others)


def cases(names: set[str]) -> Iterator[Case]:
    """All cases of the operators asked for, each made when it is reached."""
    if "grouped_gemm" in names:
        yield from (grouped_gemm(*s) for s in GROUPED)
    if "attention_varlen" in names:
        yield from (attention_varlen(*s) for s in VARLEN)
    if "block_sparse_attention" in names:
        yield from (block_sparse_attention(*s) for s in SPARSE)

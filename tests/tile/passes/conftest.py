"""Tiled programs as they are before the passes that make them asynchronous."""

from __future__ import annotations

import numpy as np
import pytest

from septran.ir.index import Index, Var, ceil_div

TILE = 8


@pytest.fixture
def gemm(build, part):
    """C = A @ B by tiles: `pipeline` over the summed axis, `outer` over the tiles of a row."""

    def make(m=20, n=12, k=40, *, pipeline=1, outer=1, **asked):
        b, t = build, TILE
        shapes = (("C", (m, n)), ("A", (m, k)), ("B", (k, n)))
        c, a, b_ = (b.buffer(x, "DRAM", s) for x, s in shapes)
        tiles = [b.buffer(x, "SPM", (t, t)) for x in ("Cs", "As", "Bs")]
        i, j, p = (Index.of(Var(v)) for v in "ijp")
        home = [
            part(c, (i * t, j * t), (t, t)),
            part(a, (i * t, p * t), (t, t)),
            part(b_, (p * t, j * t), (t, t)),
        ]
        held = [part(x, valid=h.valid) for x, h in zip(tiles, home, strict=True)]
        load = [b.copy(held[1], home[1], "DMA_IN"), b.copy(held[2], home[2], "DMA_IN")]
        step = b.loop("p", ceil_div(k, t), *load, b.gemm(*held), pipeline=pipeline, **asked)
        store = b.copy(home[0], held[0], "DMA_OUT")
        row = b.loop("j", ceil_div(n, t), b.fill(part(tiles[0])), step, store, pipeline=outer)
        loop = b.loop("i", ceil_div(m, t), row, kind="parallel", over="CORE")
        return b.program("CAB", "C", loop, name="gemm")

    return make


@pytest.fixture
def operands():
    """Small integers: products and sums are exact, so results must be equal."""

    def make(m, n, k):
        rng = np.random.default_rng(0)
        a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
        return a.astype(np.float32), b.astype(np.float32)

    return make

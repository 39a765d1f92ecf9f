"""Attention where scores are so large that one key has the row, and where a scale is tiny."""

from __future__ import annotations

import numpy as np
import pytest

import septran

SIZE = 3e4
"""Of normal queries and keys: scores reach 4e9, and rounding them moves them by hundreds."""
SHAPES = {
    "attention": {"B": 1, "H": 2, "G": 2, "M": 137, "N": 137, "D": 24},
    "attention_lse": {"B": 1, "H": 2, "G": 2, "M": 137, "N": 137, "D": 24},
    "attention_decode": {"B": 40, "H": 2, "G": 2, "N": 137, "D": 24},
    "sliding_attention": {"B": 1, "H": 2, "G": 2, "M": 137, "N": 137, "D": 24},
}
STATIC = {"sliding_attention": {"window": 400}}


def alone(Q, K, V, seen):
    """For each query the values of its greatest score, and whether that is beyond all doubt."""
    Q, K = Q.astype("float64"), K.astype("float64").swapaxes(-1, -2)
    scores, doubt = np.where(seen, Q @ K, -np.inf), 1e-5 * (np.abs(Q) @ np.abs(K)).max(-1)
    second, first = np.moveaxis(np.partition(scores, -2)[..., -2:], -1, 0)
    return np.take_along_axis(V, scores.argmax(-1)[..., None], axis=-2), first - second > doubt


@pytest.mark.parametrize("name", SHAPES)
def test_the_greatest_of_huge_scores_has_the_row(name, vectors):
    shapes = SHAPES[name]
    kernel = septran.compile(name, "cpu-x86", shapes=shapes, static=STATIC.get(name, {}))
    rng = np.random.default_rng(3)
    batch, heads = shapes["B"], shapes["H"]
    queries = (batch, heads, shapes["M"]) if "M" in shapes else (batch, heads, 1)
    Q = (SIZE * rng.standard_normal((*queries, shapes["D"]))).astype("float32")
    K = (SIZE * rng.standard_normal((batch, heads, shapes["N"], shapes["D"]))).astype("float32")
    V = rng.standard_normal(K.shape).astype("float32")
    seen = np.tri(137, dtype=bool) if name == "sliding_attention" else True
    wanted, clear = alone(Q, K, V, seen)
    given = Q if "M" in shapes else Q[:, :, 0]
    found = kernel(given, K, V)
    out = np.asarray(found[0] if isinstance(found, tuple) else found).reshape(wanted.shape)
    assert clear.mean() > 0.9
    assert np.isfinite(out).all()
    assert np.abs(out - wanted)[clear].max() < 1e-6


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
@pytest.mark.parametrize("scale", [1e-46, 1e-44, 0.0, -0.5])
def test_no_scale_makes_a_number_of_a_key_that_is_not_seen(scale, machine):
    shapes = {"B": 1, "H": 2, "G": 1, "M": 9, "N": 12, "D": 12}
    static = {"scale": scale, "causal": True}
    kernel = septran.compile("attention", machine, shapes=shapes, static=static)
    arrays = kernel.sample(0)
    assert np.isfinite(np.asarray(kernel(*arrays.values()))).all()
    assert kernel.check(*arrays.values()).right

"""Rings whose fills lie a number of iterations ahead that data decides, on the emulator."""

from __future__ import annotations

import numpy as np

import septran


def test_a_causal_mask_of_blocks_with_blocks_of_keys_in_parts():
    """The distance between a fill and its wait is known by the range of their own loop's index."""
    shapes = {"B": 1, "H": 2, "G": 2, "M": 32, "N": 130, "D": 64}
    kernel = septran.compile(
        "block_sparse_attention", "nvidia-a100", shapes=shapes, static={"causal": True},
        tunables={"block_rows": 16, "block_N": 16, "block_K": 32}, emulate=True,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    inputs = kernel.signature.inputs
    given = [
        np.ones((1, 2, 1, 3), "uint8") if tensor.dtype == "uint8"
        else rng.standard_normal((1, 2, shapes["M" if n == 0 else "N"], 64)).astype("float32")
        for n, tensor in enumerate(inputs)
    ]  # fmt: skip
    check = kernel.check(*given)
    assert check.right, str(check)

"""The decoder with weights of 4 bits, beside float64 with what their numbers mean, and others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from benchmarks.models import decoder, decoder_int4, llama
from benchmarks.models.decoder import TINY, Next, weights
from benchmarks.models.decoder_int4 import Kernels, Quantised
from benchmarks.models.int4 import GROUP, ZERO, Int4

PROMPT = (3, 141, 59, 26)


@pytest.fixture(scope="module")
def model() -> Quantised:
    """A small model, rounded."""
    return Quantised.of(*weights(TINY, torch.float32))


class RoundedRows(decoder.InTorch):
    """In functions of torch, each product of rows that were rounded to 8 bits."""

    @staticmethod
    def linear(x: Tensor, weights: Tensor) -> Tensor:
        """The rounding of `w4a8_gemm`, as its documentation states it."""
        step = x.abs().amax(1, keepdim=True) / 127
        return (x / step).round() @ weights.t() * step


def decided(model: Quantised) -> list[int]:
    """Tokens of whose vectors no element is half way between two steps of 8 bits.

    Numbers of 4 bits are often so: half of the largest is 63.5 steps. Which step it becomes is left
    to the last bit of a norm.
    """
    vectors = model.words.wide(torch.float64)
    steps = 127 * vectors / vectors.abs().amax(0)
    ties = ((steps.frac().abs() - 0.5).abs() < 1e-3).any(0)
    return (~ties).nonzero()[:, 0].tolist()


def deviations(exact: Next, *ways: Next, prompt: Sequence[int] = PROMPT) -> list[float]:
    """The greatest of the logits of each way from the exact ones, over a prompt."""
    greatest = [0.0] * len(ways)
    for position, token in enumerate(prompt):
        wanted = exact(token, position)
        off = ((way(token, position).double() - wanted).abs().max().item() for way in ways)
        greatest = [max(pair) for pair in zip(greatest, off, strict=True)]
    return greatest


def test_logits_are_as_near_to_float64_as_those_of_torch_in_float32(model: Quantised) -> None:
    exact = decoder.InTorch(TINY, *model.wide(torch.float64))
    other = decoder.InTorch(TINY, *model.wide(torch.float32))
    ours, theirs = deviations(exact, Kernels(TINY, model, round_rows=False), other)
    assert 0 < ours < 2 * size_of_terms(model) * theirs


def size_of_terms(model: Quantised) -> float:
    """How much larger numbers of 0 to 15 are than what they mean, as the root of mean squares.

    Kernels sum products of the former and take the zero point from the sum (docs/semantics.md);
    rounding is of the size of the terms.
    """
    numbers = model.words.numbers.double()
    return float(numbers.square().mean().sqrt() / (numbers - ZERO).square().mean().sqrt())


@pytest.mark.slow
def test_a_scale_for_each_group_of_a_row_rounds_less(model: Quantised) -> None:
    exact = decoder.InTorch(TINY, *model.wide(torch.float64))
    rows, groups = deviations(
        exact, *(Kernels(TINY, model, round_rows=True, row_group=g) for g in (0, GROUP))
    )
    assert 0 < groups < rows


@pytest.mark.slow
def test_rows_of_8_bits_are_rounded_as_documented(model: Quantised) -> None:
    exact = RoundedRows(TINY, *model.wide(torch.float64))
    other = RoundedRows(TINY, *model.wide(torch.float32))
    tokens = decided(model)[:4]
    assert len(tokens) == 4
    kernels = Kernels(TINY, model, round_rows=True)
    ours, theirs = deviations(exact, kernels, other, prompt=tokens)
    assert 0 < ours < 2 * theirs


def test_torchs_kernel_takes_the_same_weights(model: Quantised) -> None:
    exact = decoder.InTorch(TINY, *model.wide(torch.float64))
    unpacked = decoder.InTorch(TINY, *model.wide(torch.bfloat16))
    packed, wide = deviations(exact, decoder_int4.InTorch(TINY, model), unpacked)
    # Its products are in bfloat16, too, but the weights are not rounded to that.
    assert 0 < packed < 2 * wide


def test_numbers_of_4_bits_are_those_of_ggml() -> None:
    quants = pytest.importorskip("gguf").quants
    from gguf import GGMLQuantizationType

    torch.manual_seed(0)
    w = torch.randn(3 * GROUP, 10)
    w[:GROUP, 0] = 0
    made = Int4.of(w)
    wanted = torch.from_numpy(quants.quantize(w.t().numpy(), GGMLQuantizationType.Q4_0))
    assert made.for_ggml().equal(wanted)
    back = torch.from_numpy(quants.dequantize(wanted.numpy(), GGMLQuantizationType.Q4_0))
    assert made.wide(torch.float32).t().equal(back)


@pytest.mark.slow
def test_llama_cpp_has_the_same_logits_up_to_rows_of_8_bits(model: Quantised, tmp_path) -> None:
    if not llama.there():
        pytest.skip(llama.MISSING)
    exact = decoder.InTorch(TINY, *model.wide(torch.float64))
    llama.write(tmp_path / "model.gguf", TINY, model)
    foreign = llama.InLlamaCpp(tmp_path / "model.gguf", TINY, llama.FLOAT32)
    try:
        theirs, ours = deviations(exact, foreign, RoundedRows(TINY, *model.wide(torch.float64)))
    finally:
        foreign.close()
    # Its rows have a scale for each 32 elements, ours one for all.
    assert 0 < theirs < ours

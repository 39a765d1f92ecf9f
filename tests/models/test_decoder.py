"""The decoder: each part right by the bound on every machine, its tokens those of torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import septran
from benchmarks.models import decoder, decoder_logic
from benchmarks.models.decoder import TINY, InTorch, Kernels, generated, weights
from septran.runtime.kernel import Kernel

PROMPT = (3, 141, 59, 26)
MACHINES = (
    "cpu-x86",
    pytest.param("dsa-sim", marks=pytest.mark.slow),
    pytest.param("npu-cube", marks=pytest.mark.slow),
)


def test_tokens_are_those_of_torch() -> None:
    layers, around = weights(TINY, torch.float32)
    found = generated(Kernels(TINY, layers, around), PROMPT, 12)
    wanted = generated(InTorch(TINY, layers, around), PROMPT, 12)
    assert found == wanted
    assert len(set(found)) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.one_in(2)
def test_logits_are_as_near_to_float64_as_those_of_torch(dtype: torch.dtype) -> None:
    layers, around = weights(TINY, dtype)
    wide = [{n: w.double() for n, w in each.items()} for each in layers]
    exact = InTorch(TINY, wide, {n: w.double() for n, w in around.items()})
    ours, other = Kernels(TINY, layers, around), InTorch(TINY, layers, around)
    for position, token in enumerate(PROMPT):
        found = [model(token, position).double() for model in (exact, ours, other)]
    off = [(each - found[0]).abs().max() for each in found[1:]]
    assert 0 < off[0] < 2 * off[1]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("position", [0, 17])
@pytest.mark.one_in(2, first=1)
def test_a_token_joins_the_cache_and_sees_it(machine: str, position: int) -> None:
    torch.manual_seed(1)
    (keys, values), *_ = TINY.caches(torch.float16)
    a = torch.randn(1, TINY.queries_keys_values).half()
    q = torch.randn(TINY.heads, TINY.each).half()
    keys.normal_(), values.normal_()
    put, attend = (
        septran.compile(logic, machine) for logic in (decoder_logic.append, decoder_logic.attend)
    )
    out = (torch.empty_like(q), keys, values)
    for check in (
        put.check(a, *TINY.angles(torch.float16), position, out=out),
        attend.check(q, keys, values, position),
    ):
        assert check.right
        assert "unknown" not in str(check)


def layer_on(machine: str, position: int) -> tuple[Kernel, torch.Tensor]:
    """A layer's kernel, and the activations that it makes."""
    torch.manual_seed(1)
    (w, *_), _ = weights(TINY, torch.float32)
    (keys, values), *_ = TINY.caches(torch.float32)
    keys.normal_(), values.normal_()
    kernel = septran.compile(decoder_logic.layer(TINY.size), machine)
    x = torch.randn(1, TINY.size)
    rest = [w[n] for n in ("out", "norm2", "gate", "up", "down")]
    given = (x, w["norm1"], w["qkv"], *TINY.angles(torch.float32), position, *rest)
    out = (keys, values, torch.empty_like(x))
    kernel(*given, out=out, eps=decoder.EPS)
    return kernel, out[-1]


@pytest.mark.parametrize("machine", ["dsa-sim", pytest.param("npu-cube", marks=pytest.mark.slow)])
def test_a_layer_is_one_program_on_a_dsa_with_the_result_of_the_processor(machine: str) -> None:
    kernel, found = layer_on(machine, 9)
    _, wanted = layer_on("cpu-x86", 9)
    # Two orders of the same sums of a hundred terms, in float32.
    assert (found - wanted).abs().max() < 192 * torch.finfo(torch.float32).eps * wanted.abs().max()
    assert kernel.stages.tile_program.name == "decoder_layer"


def test_one_kernel_serves_every_length() -> None:
    shape = replace(TINY, layers=1)
    model = Kernels(shape, *weights(shape, torch.float32))
    first = model(5, 0).clone()
    assert not torch.equal(model(5, 1), first)
    assert len(model.layer.specialisations) == 1

"""Tokens a second of the decoder in kernels, in torch and in llama.cpp, and how right they are."""

from __future__ import annotations

import platform
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.models import decoder, decoder_int4, llama
from benchmarks.models.decoder import Next, Shape, Weights, weights
from benchmarks.models.decoder_int4 import Quantised
from benchmarks.models.int4 import GROUP

OURS = ("kernels", "kernels, int8 rows", "kernels, int8 groups")
"""What is compared with the fastest of the others."""
JUDGED = {"layers": 2, "words": 4096}
"""So much of the model is computed in float64, too."""
WARM = 3
"""Tokens that are not timed; `torch.compile` takes two until it knows that places differ."""
PLACES = 8
"""Tokens whose logits are compared."""


def in_bfloat16(shape: Shape, layers: Sequence[Weights], around: Weights) -> dict[str, Next]:
    """All ways of the model with weights as they are."""
    plain = decoder.InTorch(shape, layers, around)
    return {
        "kernels": decoder.Kernels(shape, layers, around),
        "torch": plain,
        "torch.compile": decoder.compiled(plain),
    }


def in_int4(shape: Shape, model: Quantised, folder: Path, start: int = 0) -> dict[str, Next]:
    """All ways of the model with rounded weights; llama.cpp's, where it is there."""
    ways: dict[str, Next] = {
        "kernels": decoder_int4.Kernels(shape, model, round_rows=False),
        "kernels, int8 rows": decoder_int4.Kernels(shape, model, round_rows=True),
        "kernels, int8 groups": decoder_int4.Kernels(
            shape, model, round_rows=True, row_group=GROUP
        ),
        "torch": decoder_int4.InTorch(shape, model),
    }
    if llama.there():
        path = folder / "model.gguf"
        llama.write(path, shape, model)
        other = ways["llama.cpp"] = llama.InLlamaCpp(path, shape)
        # The others take the zeros that their caches begin with for keys.
        if start:
            other.read(range(start), 0)
    return ways


def errors(shape: Shape, kind: str, folder: Path) -> dict[str, float]:
    """How far the logits of each way are from float64's with the same weights, of their norm."""
    few = replace(shape, **JUDGED)
    layers, around = weights(few, torch.bfloat16)
    if kind == "int4":
        model = Quantised.of(layers, around)
        ways, wide = in_int4(few, model, folder), model.wide(torch.float64)
    else:
        ways = in_bfloat16(few, layers, around)
        wide = ([{n: w.double() for n, w in each.items()} for each in layers],
                {n: w.double() for n, w in around.items()})  # fmt: skip
    exact, found = decoder.InTorch(few, *wide), dict.fromkeys(ways, 0.0)
    for position in range(PLACES):
        wanted = exact(position, position)
        for name, way in ways.items():
            off = (way(position, position).double() - wanted).norm() / wanted.norm()
            found[name] = max(found[name], float(off))
    return found


def medians(ways: Mapping[str, Next], tokens: int, start: int) -> dict[str, float]:
    """Seconds a token of each way, single tokens in turns, after `start` places."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for n in range(-WARM, tokens):
        for name, way in ways.items():
            begin = time.perf_counter()
            way(n + WARM, start + n)
            if n >= 0:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}


@torch.no_grad()
def run(
    shape: Shape, threads: Sequence[int], tokens: int, kinds: Sequence[str], start: int = 128
) -> None:
    """Print for each kind of weights how right each way is, and tokens a second at `start`."""
    print(f"{shape}\ntorch {torch.__version__}, {platform.machine()}")
    if "int4" in kinds and not llama.there():
        print(f"llama.cpp is not there: {llama.MISSING}")
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            _print_kind(shape, threads, tokens, kind, start, Path(folder))


def _print_kind(
    shape: Shape, threads: Sequence[int], tokens: int, kind: str, start: int, folder: Path
) -> None:
    print(f"\nWeights in {kind}; logits of {JUDGED['layers']} layers beside float64:", end=" ")
    print(", ".join(f"{n} {off:.1e}" for n, off in errors(shape, kind, folder).items()) + "\n")
    layers, around = weights(shape, torch.bfloat16)
    if kind == "int4":
        ways = in_int4(shape, Quantised.of(layers, around), folder, start)
    else:
        ways = in_bfloat16(shape, layers, around)
    print(f"| threads | {' | '.join(f'{name}, tokens/s' for name in ways)} | best / best other |")
    print("| --- |" + " --- |" * (len(ways) + 1))
    for count in threads:
        torch.set_num_threads(count)
        torch._dynamo.reset()  # a graph is for one number of threads
        found = medians(ways, tokens, start)
        ours, others = (
            min(t for name, t in found.items() if (name in OURS) == mine) for mine in (True, False)
        )
        cells = " | ".join(f"{1 / t:.2f}" for t in found.values())
        print(f"| {count} | {cells} | {others / ours:.2f} |", flush=True)

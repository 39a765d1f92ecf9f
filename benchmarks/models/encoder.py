"""Sentences a second of all-MiniLM-L6-v2: kernels beside torch and onnxruntime."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import septran.torch
from benchmarks.models import minilm
from benchmarks.models.minilm import MiniLM, Weights, padded
from benchmarks.models.onnx_encoder import OnnxEncoder, graph
from benchmarks.models.packed import Batch, PackedMiniLM
from benchmarks.models.texts import TEXTS

Tokens = Sequence[Sequence[int]]
Run = Callable[[], Tensor]
GROUP = 8
"""Sentences of similar lengths that are filled up to one length together."""


@dataclass(frozen=True)
class Case:
    """A batch, and how many sentences and tokens it has."""

    name: str
    tokens: Tokens

    def __str__(self) -> str:
        lengths = sorted(map(len, self.tokens))
        spread = f"{lengths[0]} to {lengths[-1]}" if lengths[0] < lengths[-1] else f"{lengths[0]}"
        return f"{self.name}: {len(lengths)} x {spread} tokens"


def cases(words: minilm.Words) -> list[Case]:
    """One sentence, short, middling and long, and batches of unequal and of equal lengths."""
    tokens = [words(text) for text in TEXTS]
    by_length = sorted(tokens, key=len)
    short, middling, longest = by_length[4], by_length[len(tokens) // 2], by_length[-1]
    return [
        *(Case("one", [one]) for one in (short, middling, longest)),
        Case("ragged", tokens),
        Case("even", [longest[:32]] * 32),
    ]


class Contest:
    """The model in all ways, with so many threads."""

    def __init__(self, weights: Weights, threads: int, alone: bool = False) -> None:
        torch.set_num_threads(threads)
        self.torch_model = MiniLM(weights)
        self.kernels = PackedMiniLM(weights)
        torch._dynamo.reset()  # it gives up on a function after eight shapes
        self.compiled = torch.compile(self.torch_model, dynamic=False)
        known = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
        self.onnx = OnnxEncoder(graph(weights), threads, alone) if known else None

    def ways(self, tokens: Tokens) -> Mapping[str, Run]:
        """All of them by name, ours first."""
        batch, ids, lengths = Batch.of(tokens), *padded(tokens)
        # What all take as they are needs no mask.
        given = (ids,) if bool((lengths == ids.shape[1]).all()) else (ids, lengths)

        def used() -> Tensor:
            with septran.torch.use(mapping="cpu-x86"):
                return self.torch_model(*given)

        found: dict[str, Run] = {
            "kernels": lambda: self.kernels(batch),
            "use": used,
            "torch": lambda: self.torch_model(*given),
            "torch.compile": lambda: self.compiled(*given),
        }
        onnx = self.onnx
        if onnx is not None:
            found["onnxruntime"] = lambda: onnx(ids, lengths)
            if len(given) > 1:
                found["onnxruntime, sorted"] = in_groups(onnx, ids, lengths)
        return found


def in_groups(model: Callable[[Tensor, Tensor], Tensor], ids: Tensor, lengths: Tensor) -> Run:
    """Run groups of similar lengths one after another, each filled up to its own longest."""
    order = lengths.argsort().split(GROUP)
    groups = [(ids[g, : int(lengths[g].max())].contiguous(), lengths[g]) for g in order]
    back = torch.cat(order).argsort()
    return lambda: torch.cat([model(*group) for group in groups])[back]


def medians(ways: Mapping[str, Run], seconds: float, alone: bool = False) -> dict[str, float]:
    """The median time of a call of each; single calls alternate, or each way has its own turn."""
    if alone:
        share = seconds / len(ways)
        return {name: medians({name: way}, share)[name] for name, way in ways.items()}
    for way in ways.values():
        way(), way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 7:
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}


def ranking(vectors: Tensor) -> Tensor:
    """For each text the others, the most similar first."""
    return (vectors @ vectors.T).argsort(1, descending=True)


@torch.no_grad()
def run(threads: Sequence[int], seconds: float, alone: bool = False) -> None:
    """Print how right each way is, and a table of sentences a second."""
    place = minilm.folder()
    if place is None:
        print(f"The weights are not there: {minilm.MISSING}", file=sys.stderr)
        raise SystemExit(1)
    weights, words = minilm.load(place), minilm.Words(place)
    onnx = importlib.util.find_spec("onnxruntime")
    there = importlib.metadata.version("onnxruntime") if onnx else "not installed"
    print(f"torch {torch.__version__}, onnxruntime {there}, {platform.machine()}\n")
    _print_errors(Contest(weights, 1), weights, [words(text) for text in TEXTS])
    columns = ("kernels", "use", "torch", "torch.compile", "onnxruntime", "onnxruntime, sorted")
    print(f"| batch | threads | {' | '.join(columns)} | kernels / best |")
    print("| --- |" + " --- |" * (len(columns) + 2))
    for count in threads:
        contest = Contest(weights, count, alone)
        for case in cases(words):
            times = medians(contest.ways(case.tokens), seconds, alone)
            best = min(t for name, t in times.items() if name not in ("kernels", "use"))
            rates = [f"{len(case.tokens) / times[c]:.0f}" if c in times else "" for c in columns]
            ratio = best / times["kernels"]
            print(f"| {case} | {count} | {' | '.join(rates)} | {ratio:.2f} |", flush=True)


def _print_errors(contest: Contest, weights: Weights, tokens: Tokens) -> None:
    """Print each way's greatest deviation from float64, and whether it ranks texts alike."""
    exact = MiniLM({name: w.double() for name, w in weights.items()}).double()(*padded(tokens))
    wanted = ranking(exact)
    for name, way in contest.ways(tokens).items():
        found = way().double()
        alike = "the same ranking" if ranking(found).equal(wanted) else "ANOTHER RANKING"
        print(f"{name}: {(found - exact).abs().max():.1e} from float64, {alike}")
    print()

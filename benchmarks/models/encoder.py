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
from functools import partial

import torch
from torch import Tensor

import septran.torch
from benchmarks.models import minilm
from benchmarks.models.minilm import MiniLM, Weights, padded
from benchmarks.models.onnx_encoder import OnnxEncoder, graph, rounded
from benchmarks.models.packed import Batch, PackedMiniLM
from benchmarks.models.rounded import RoundedMiniLM
from benchmarks.models.texts import TEXTS

Tokens = Sequence[Sequence[int]]
Run = Callable[[], Tensor]
WIDE = ("torch", "torch.compile", "onnxruntime", "onnxruntime, sorted")
"""Ways of others, in float32."""
ROUNDED = ("onnxruntime int8", "onnxruntime int8, sorted")
"""Those with weights of 8 bits."""
COLUMNS = ("kernels", "kernels int8", "use", *WIDE, *ROUNDED)
RATIOS = {
    "kernels / best": ("kernels", WIDE),
    "int8 / best": ("kernels int8", WIDE),
    "int8 / int8": ("kernels int8", ROUNDED),
}
"""Which of ours is set beside the best of which others."""
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
        self.rounded = RoundedMiniLM(weights)
        torch._dynamo.reset()  # it gives up on a function after eight shapes
        self.compiled = torch.compile(self.torch_model, dynamic=False)
        known = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
        self.onnx: dict[str, OnnxEncoder] = {}
        if known:
            whole = graph(weights)
            models = {"onnxruntime": whole, "onnxruntime int8": rounded(whole)}
            self.onnx = {n: OnnxEncoder(m, threads, alone) for n, m in models.items()}

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
            "kernels int8": lambda: self.rounded(batch),
            "use": used,
            "torch": lambda: self.torch_model(*given),
            "torch.compile": lambda: self.compiled(*given),
        }
        for name, onnx in self.onnx.items():
            found[name] = partial(onnx, ids, lengths)
            if len(given) > 1:
                found[f"{name}, sorted"] = in_groups(onnx, ids, lengths)
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
    print(f"| batch | threads | {' | '.join((*COLUMNS, *RATIOS))} |")
    print("| --- |" + " --- |" * (len(COLUMNS) + len(RATIOS) + 1))
    for count in threads:
        contest = Contest(weights, count, alone)
        for case in cases(words):
            times = medians(contest.ways(case.tokens), seconds, alone)
            cells = [f"{len(case.tokens) / times[c]:.0f}" if c in times else "" for c in COLUMNS]
            cells += [ratio(times, *pair) for pair in RATIOS.values()]
            print(f"| {case} | {count} | {' | '.join(cells)} |", flush=True)


def ratio(times: Mapping[str, float], ours: str, theirs: Sequence[str]) -> str:
    """How many times as fast as the best of others one way is; empty where there are none."""
    others = [times[name] for name in theirs if name in times]
    return f"{min(others) / times[ours]:.2f}" if others else ""


def swapped(found: Tensor, exact: Tensor) -> tuple[int, float]:
    """How many texts have another nearest one, and the farthest two that change their order.

    Of two texts whose similarities to a third one differ by more, the nearer one stays so.
    """
    nearest = (ranking(found)[:, 1] != ranking(exact)[:, 1]).sum().item()
    similar = exact @ exact.T
    ranked = similar.gather(1, ranking(found))
    # Each behind the best of those that come after it.
    ahead = ranked.flip(1).cummax(1).values.flip(1) - ranked
    return int(nearest), ahead.max().item()


def _print_errors(contest: Contest, weights: Weights, tokens: Tokens) -> None:
    """Print each way's greatest deviation from float64, and how it ranks texts."""
    exact = MiniLM({name: w.double() for name, w in weights.items()}).double()(*padded(tokens))
    for name, way in contest.ways(tokens).items():
        found = way().double()
        alike = "the same ranking"
        if not ranking(found).equal(ranking(exact)):
            others, least = swapped(found, exact)
            alike = (
                f"{others} other nearest texts, no order changed of similarities {least:.1e} apart"
            )
        print(f"{name}: {(found - exact).abs().max():.1e} from float64, {alike}")
    print()

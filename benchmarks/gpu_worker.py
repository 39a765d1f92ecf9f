"""Check and time the kernels of a bundle, one after another: needs a GPU, torch and no SepTran.

    python -m benchmarks.gpu_worker FOLDER [--check-only] CASE ...

Without cases their names come from the standard input, a line each. Each is answered by one line
of JSON. A process that a kernel has broken ends, as nothing that it says afterwards could be
believed; `benchmarks.gpu` starts another one.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu_bundle import Loaded
from benchmarks.gpu_rivals import exact, rivals

FLUSH_BYTES = 256 << 20
ROUNDS = 30
ISSUED, ISSUED_SECONDS = 500, 0.02
"""Calls in a row, for the host's share of one: what fits into the GPU's queue and this time."""
SEED = 2026
POISON = 0xFF
"""Of the bytes of outputs before a call: NaN in floats, so that what is never written is found."""


def torch_type(name: str) -> torch.dtype:
    """The element type of that name."""
    found: torch.dtype = getattr(torch, name)
    return found


def output(shape: Sequence[int], dtype: str, role: str, device: str) -> torch.Tensor:
    """A tensor to be written: zeros where a kernel adds to it, else poisoned."""
    kind = torch_type(dtype)
    size = math.prod(shape) * kind.itemsize
    fill = 0 if role == "summed" else POISON
    raw = torch.full((max(size, 1),), fill, dtype=torch.uint8, device=device)
    return raw[:size].view(kind).reshape(tuple(shape))


def made(meta: Mapping[str, Any], device: str) -> dict[str, torch.Tensor]:
    """Random inputs; bytes for quantised weights."""
    torch.manual_seed(SEED)
    found = {}
    for name, shape, dtype, role in meta["tensors"]:
        if role != "input":
            continue
        kind = torch_type(dtype)
        if not kind.is_floating_point:
            low, high = (-128, 128) if kind == torch.int8 else (0, 256)
            found[name] = torch.randint(low, high, shape, dtype=kind, device=device)
        elif name == "zero":
            found[name] = torch.randint(4, 12, shape, device=device).to(kind)
        else:
            scale = 0.5 if kind.itemsize == 1 else 1.0  # so that sums have the range of 8 bits
            found[name] = (scale * torch.randn(shape, device=device)).to(kind)
    return found


def kept(meta: Mapping[str, Any], arrays: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The inputs that a bundle has."""
    found = {}
    for name, shape, dtype, role in meta["tensors"]:
        if role == "input" or f"in {name}" in arrays:
            raw = torch.from_numpy(arrays[f"in {name}"].copy()).to(device)
            found[name] = raw.view(torch_type(dtype)).reshape(shape)
    return found


def arguments(meta: Mapping[str, Any], given: Mapping[str, Any], device: str) -> list[Any]:
    """What a kernel is called with: tensors in order, then scalars."""
    tensors = [
        given[name].clone() if role == "summed" and name in given
        else given[name] if role == "input" else output(shape, dtype, role, device)
        for name, shape, dtype, role in meta["tensors"]
    ]  # fmt: skip
    return [*tensors, *meta["scalars"]]


def error_of_bound(found: torch.Tensor, value: Any, allowed: Any) -> tuple[float, str]:
    """The greatest deviation as a part of what rounding allows, and words if that is too much.

    It is infinite for a NaN that is not in the exact result.
    """
    actual = found.double()
    same = (actual == value) | (actual.isnan() & value.isnan())
    away = (actual - value).abs() / allowed
    away = torch.where(same | allowed.isinf(), 0.0, away)
    away = torch.where(away.isnan(), math.inf, away)
    if not away.numel():
        return 0.0, ""
    worst = float(away.max())
    if worst <= 1:
        return worst, ""
    at = int(away.argmax())
    got, want = (float(x.expand_as(away).reshape(-1)[at]) for x in (actual, value))
    return worst, f"{int((away > 1).sum())} of {away.numel()} wrong; {got:g}, not {want:g} at {at}"


def against(
    arrays: Mapping[str, Any], name: str, found: torch.Tensor, device: str
) -> tuple[float, str]:
    """The same for the elements of an output that a bundle has."""
    at, value, allowed = (
        torch.from_numpy(np.ascontiguousarray(arrays[f"{what} {name}"])).to(device)
        for what in ("at", "exact", "allowed")
    )
    return error_of_bound(found.reshape(-1)[at], value.double(), allowed.double())


def run(case: Loaded, device: str = "cuda", check_only: bool = False) -> dict[str, Any]:
    """Check one kernel against float64, and time it beside its rivals if it has any."""
    meta, arrays = case.meta, case.arrays()
    given = made(meta, device) if arrays is None else kept(meta, arrays, device)
    called = arguments(meta, given, device)
    case.function(*called)
    torch.cuda.synchronize()
    outputs = [(t[0], x) for t, x in zip(meta["tensors"], called, strict=False) if t[3] != "input"]
    if arrays is None:
        name, first = outputs[0]
        errors = {name: error_of_bound(first, *exact(meta, given))}
    else:
        errors = {name: against(arrays, name, x, device) for name, x in outputs}
    wrong = {name: words for name, (_, words) in errors.items() if words}
    worst = max(error for error, _ in errors.values())
    result: dict[str, Any] = {"name": case.place.name, "error": worst, "wrong": wrong}
    if check_only or arrays is not None:
        return result
    sides = {"SepTran": lambda: case.function(*called), **_usable(rivals(meta, given))}
    seconds = interleaved(sides)
    host = host_seconds(sides["SepTran"], seconds["SepTran"])
    return {**result, "seconds": seconds, "host_seconds": host}


def _usable(calls: Mapping[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
    """Those that run here: cuDNN and Triton refuse some sizes."""
    found = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:  # whatever a library refuses with
            print(f"{name} is left out: {str(error).splitlines()[:1]}", file=sys.stderr)
            continue
        found[name] = call
    return found


def interleaved(
    sides: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
) -> dict[str, float]:
    """Median seconds of each side, in turns of random order, each with cold caches."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    shuffled, chance = list(sides), random.Random(SEED)
    events: dict[str, list[Any]] = {name: [] for name in sides}
    for turn in range(rounds + 3):
        chance.shuffle(shuffled)
        for name in shuffled:
            pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            flush.zero_()
            pair[0].record()
            sides[name]()
            pair[1].record()
            if turn >= 3:  # the first ones warm up
                events[name].append(pair)
    torch.cuda.synchronize()
    return {
        name: statistics.median(a.elapsed_time(b) for a, b in pairs) * 1e-3
        for name, pairs in events.items()
    }


def host_seconds(call: Callable[[], object], seconds: float) -> float:
    """What issuing one call costs the host; the GPU takes so many seconds for it."""
    best, count = math.inf, max(3, min(ISSUED, int(ISSUED_SECONDS / seconds)))
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    torch.cuda.synchronize()
    return best


def answers(folder: Path, names: Iterator[str], check_only: bool) -> Iterator[dict[str, Any]]:
    """One answer for each case; after a broken kernel, its answer is the last."""
    for name in names:
        try:
            yield run(Loaded.of(folder / name), check_only=check_only)
        except Exception as error:  # whatever goes wrong in one case
            said = (str(error).strip().splitlines() or [""])[0]
            yield {"name": name, "failed": f"{type(error).__name__}: {said}"}
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                return


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and the standard input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--check-only", action="store_true")
    options = parser.parse_intermixed_args(words)
    names = iter(options.cases) if options.cases else (line.strip() for line in sys.stdin)
    for answer in answers(options.folder, names, options.check_only):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

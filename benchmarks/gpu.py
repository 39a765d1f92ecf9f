"""Speed on an NVIDIA GPU beside cuBLAS, cuDNN, FlashAttention and Triton.

    python -m benchmarks.gpu --dry-run            # no GPU: compile, count, predict
    python -m benchmarks.gpu --export FOLDER      # no GPU: write what a bare machine needs
    python -m benchmarks.gpu FOLDER               # on a GPU: build, check, measure
    python -m benchmarks.gpu                      # on a GPU with SepTran: all of it at once

The third needs nvcc, torch, apache-tvm-ffi and this folder (``benchmarks``), and neither SepTran
nor TVM. Every result is checked against float64 by a bound on rounding first. Times are CUDA
events' with the second-level cache flushed; all sides alternate in one process, and medians are
compared. A ratio above 1 means that SepTran is faster.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.gpu_cases import FAMILIES, GOALS, QUICK, GpuCase, cases

META = "case.json"
LADDER_FAMILY = "ladder"
FLUSH_BYTES = 256 << 20
ROUNDS = 30
CALLS = 2000
"""Of a kernel in a row, for the host's share of a call."""
SEED = 2026


@dataclass(frozen=True)
class Measured:
    """One case on this GPU."""

    meta: Mapping[str, Any]
    error_of_bound: float
    """Greatest deviation as a part of what rounding allows: right below 1."""
    seconds: Mapping[str, float]
    """Medians by side; SepTran's is the first, the library's the second."""
    host_seconds: float
    """What issuing a call costs the host."""

    @property
    def ours(self) -> float:
        """SepTran's median."""
        return next(iter(self.seconds.values()))

    @property
    def ratio(self) -> float:
        """Speed as a multiple of the library's."""
        return list(self.seconds.values())[1] / self.ours


def exported(folder: Path) -> list[Path]:
    """The cases in `folder`; exits where there are none, or no GPU to run them on."""
    found = sorted(path.parent for path in folder.glob(f"*/{META}"))
    if not found:
        raise SystemExit(f"there is nothing in {folder}; write it with --export {folder}")
    needs_a_gpu()
    return found


def needs_a_gpu() -> None:
    """Exit where torch finds none."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("torch finds no NVIDIA GPU here; --dry-run needs none")


def wanted(found: Sequence[Path], families: Sequence[str], quick: bool) -> list[Path]:
    """Of exported cases those that are asked for; exits where none is."""
    names = {case.name for case in chosen(families, quick)}
    kept = [path for path in found if path.name in names]
    if not kept:
        raise SystemExit(f"no case of {', '.join(families)} is among {len(found)} in the folder")
    return kept


def measure_all(found: Sequence[Path], jobs: int) -> Iterator[Measured]:
    """Build the cases, then check and measure each."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for place, said in zip(found, pool.map(build, found), strict=True):
            if said:
                print(f"<!-- {place.name} does not build: {said[-400:]} -->", file=sys.stderr)
    for place in found:
        if (place / f"{_operator(place)}.so").exists():
            yield measure(place)


def _operator(place: Path) -> str:
    return str(json.loads((place / META).read_text())["operator"])


def build(place: Path) -> str:
    """Run the folder's build script; what it said where it failed."""
    if (place / f"{_operator(place)}.so").exists():
        return ""
    done = subprocess.run(
        ["sh", str(place / "build.sh")], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )  # fmt: skip
    return done.stderr + done.stdout if done.returncode else ""


def load(place: Path) -> Any:
    """The folder's loader as a module."""
    spec = importlib.util.spec_from_file_location(f"exported_{place.name}", place / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs(module: Any, device: str) -> dict[str, Any]:
    """Random tensors for what the loader takes; bytes for quantised weights."""
    import torch

    torch.manual_seed(SEED)
    made = {}
    for name, (shape, dtype, role) in module.TENSORS.items():
        if role != "input":
            continue
        kind = getattr(torch, dtype)
        if not kind.is_floating_point:
            made[name] = torch.randint(0, 256, shape, dtype=kind, device=device)
        elif name == "zero":
            made[name] = torch.randint(4, 12, shape, device=device).to(kind)
        else:
            made[name] = torch.randn(shape, device=device).to(kind)
    return made


def measure(place: Path, device: str = "cuda") -> Measured:
    """Check one exported kernel against float64, then time it beside its rivals."""
    import torch

    from benchmarks.gpu_rivals import exact, rivals

    meta = json.loads((place / META).read_text(encoding="utf-8"))
    module = load(place)
    given = inputs(module, device)
    outs = [
        torch.full(shape, math.nan, dtype=getattr(torch, dtype), device=device)
        for shape, dtype, role in module.TENSORS.values()
        if role == "output"
    ]
    slots, values = iter(outs), iter(given.values())
    roles = [role for *_, role in module.TENSORS.values()]
    tensors = [next(slots) if role == "output" else next(values) for role in roles]

    def ours() -> None:
        module.launch(*tensors)

    ours()
    wanted, bound = exact(meta, given)
    away = (outs[0].double() - wanted).abs() / bound
    error = math.inf if bool(away.isnan().any()) else float(away.max())
    del wanted, bound, away
    sides: dict[str, Callable[[], object]] = {"SepTran": ours, **_usable(rivals(meta, given))}
    return Measured(meta, error, interleaved(sides), host_seconds(ours))


def _usable(calls: Mapping[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
    """Those that run here: cuDNN and Triton refuse some sizes."""
    found = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:  # whatever a library refuses with
            print(f"<!-- {name} is left out: {str(error).splitlines()[0]} -->", file=sys.stderr)
            continue
        found[name] = call
    return found


def interleaved(
    sides: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
) -> dict[str, float]:
    """Median seconds of each side, in turns of random order, each with cold caches."""
    import torch

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


def host_seconds(call: Callable[[], object]) -> float:
    """What issuing one call costs the host, by calls that fit into the GPU's queue."""
    import torch

    best = math.inf
    for _ in range(5):
        torch.cuda.synchronize()
        count = min(CALLS, 500)
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    torch.cuda.synchronize()
    return best


def report(measured: Iterable[Measured], head: str) -> Iterator[str]:
    """The result page: a table of all cases, the ladder, and means beside their goals."""
    yield head
    yield ""
    yield "| case | right | us | TFLOP/s | GB/s | of the model | ratio | beside | host us |"
    yield "|" + " --- |" * 9
    ratios: dict[str, list[float]] = {}
    steps: list[Measured] = []
    for row in measured:
        if row.meta["family"] == LADDER_FAMILY:
            steps.append(row)
            continue
        yield line(row)
        if row.error_of_bound <= 1 and len(row.seconds) > 1:
            ratios.setdefault(row.meta["family"], []).append(row.ratio)
    yield ""
    yield "| family | shapes | geometric mean | worst | must | aim |"
    yield "|" + " --- |" * 6
    for family, values in ratios.items():
        if family in GOALS:
            mean = math.exp(statistics.fmean(map(math.log, values)))
            must, aim = GOALS[family]
            yield f"| {family} | {len(values)} | {mean:.3f} | {min(values):.3f} | {must} | {aim} |"
    if steps:
        yield ""
        yield from climbed(steps)


def climbed(steps: Sequence[Measured]) -> Iterator[str]:
    """The ladder: each step beside the one before it and the library."""
    yield "| step of the mapping | right | us | TFLOP/s | times the step before | of the library |"
    yield "|" + " --- |" * 6
    before = 0.0
    for row in sorted(steps, key=lambda row: str(row.meta["label"])):
        label = str(row.meta["label"]).partition(" ")[2]
        right = f"{row.error_of_bound:.2f}" if row.error_of_bound <= 1 else "**WRONG**"
        gain = f"{before / row.ours:.2f}" if before else ""
        ratio = f"{row.ratio:.3f}" if len(row.seconds) > 1 else ""
        rate = row.meta["flops"] / row.ours / 1e12
        yield f"| {label} | {right} | {row.ours * 1e6:.1f} | {rate:.1f} | {gain} | {ratio} |"
        before = row.ours


def line(row: Measured) -> str:
    """One case as a row."""
    right = f"{row.error_of_bound:.2f}" if row.error_of_bound <= 1 else "**WRONG**"
    others = ", ".join(f"{n} {s * 1e6:.1f} us" for n, s in list(row.seconds.items())[1:])
    ratio = f"{row.ratio:.3f}" if len(row.seconds) > 1 else ""
    meta = row.meta
    title = " ".join(
        [meta["operator"], "x".join(map(str, meta["dims"].values())), meta["dtype"]]
        + [name for name, value in meta["static"].items() if value is True]
        + ([meta["label"]] if meta["label"] else [])
    )
    return (
        f"| {title} | {right} | {row.ours * 1e6:.1f} | {meta['flops'] / row.ours / 1e12:.1f} "
        f"| {meta['bytes_moved'] / row.ours / 1e9:.0f} "
        f"| {meta['predicted_seconds'] / row.ours:.0%} | {ratio} | {others} "
        f"| {row.host_seconds * 1e6:.2f} |"
    )


def chosen(families: Sequence[str], quick: bool) -> Iterator[GpuCase]:
    """The cases of the families asked for."""
    for family in families:
        yield from islice(cases(family), QUICK[family] if quick else None)


def _prepared(options: argparse.Namespace) -> Iterator[str]:
    from benchmarks.gpu_prepare import ladder_table, prepare, table

    def made(families: Sequence[str]) -> Iterator[Any]:
        for case in chosen(families, options.quick):
            yield prepare(case, options.machine, options.export)

    yield f"`python -m benchmarks.gpu --dry-run`: compiled for {options.machine}, run nowhere."
    yield (
        "Counts are of PTX instructions in the text. Predictions are bounds by peak figures of the "
        "machine file; compile times depend on what else ran."
    )
    plain = [family for family in options.families if family != LADDER_FAMILY]
    if plain:
        yield ""
        yield from table(made(plain))
    if LADDER_FAMILY in options.families:
        yield ""
        yield "## What each field of the mapping brings: gemm"
        yield ""
        yield from ladder_table(made([LADDER_FAMILY]))


def _measured(options: argparse.Namespace) -> Iterator[str]:
    """The page of the cases in a folder that are asked for."""
    found = wanted(exported(options.folder), options.families, options.quick)
    yield from report(measure_all(found, options.jobs), _here())


def _at_once(options: argparse.Namespace) -> Iterator[str]:
    """Write the kernels to a folder of its own, then measure them."""
    needs_a_gpu()
    with tempfile.TemporaryDirectory(prefix="septran-benchmark-") as folder:
        there = {**vars(options), "export": Path(folder), "folder": Path(folder)}
        both = argparse.Namespace(**there)
        for _ in _prepared(both):
            pass
        yield from _measured(both)


def _here() -> str:
    import torch

    properties = torch.cuda.get_device_properties(0)
    return (
        f"`python -m benchmarks.gpu` on one {properties.name} ({time.strftime('%Y-%m-%d')}), "
        f"torch {torch.__version__}, CUDA {torch.version.cuda}. Ratios above 1 mean that SepTran "
        "is faster; interleaved medians, cold second-level cache."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="what --export wrote")
    parser.add_argument("--dry-run", action="store_true", help="compile and count; needs no GPU")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write kernels as source")
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--quick", action="store_true", help="one case of each family")
    parser.add_argument("--machine", default="nvidia-h200")
    parser.add_argument("--output", type=Path, help="also write the page to this file")
    parser.add_argument("--jobs", type=int, default=8, help="nvcc processes at a time")
    options = parser.parse_args(arguments)
    if options.dry_run or options.export:
        lines = _prepared(options)
    elif options.folder:
        lines = _measured(options)
    else:
        lines = _at_once(options)
    page = []
    for text in lines:
        print(text, flush=True)
        page.append(text)
    if options.output:
        options.output.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Speed on an NVIDIA GPU beside cuBLAS, cuDNN, FlashAttention and Triton.

    python -m benchmarks.gpu --dry-run            # no GPU: compile, count, predict
    python -m benchmarks.gpu --export FOLDER      # no GPU: write what a bare machine needs
    python -m benchmarks.gpu FOLDER               # on a GPU: check, measure
    python -m benchmarks.gpu                      # on a GPU with SepTran: all of it at once

The third needs a C compiler, torch, apache-tvm-ffi and this folder (``benchmarks``), and neither
SepTran nor TVM. Every result is checked against float64 by a bound on rounding first. Times are
CUDA events' with the second-level cache flushed; all sides alternate in one process, and medians
are compared. A ratio above 1 means that SepTran is faster. A kernel that hangs or faults costs its
own case only: a worker process that does not answer is ended, and another one takes what is left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.gpu_bundle import META
from benchmarks.gpu_cases import FAMILIES, GOALS, QUICK, GpuCase, cases

LADDER_FAMILY = "ladder"
RESULTS = "results.jsonl"
"""In a bundle: every answer as soon as it is there."""
START_SECONDS = 60
"""What a worker's start may take, beside its first case."""
WORKER = ["-m", "benchmarks.gpu_worker"]


@dataclass(frozen=True)
class Measured:
    """One case on this GPU."""

    meta: Mapping[str, Any]
    error_of_bound: float
    """Greatest deviation as a part of what rounding allows: right up to 1."""
    seconds: Mapping[str, float]
    """Medians by side; SepTran's is the first, the library's the second. Empty if only checked."""
    host_seconds: float = 0.0
    """What issuing a call costs the host."""
    failed: str = ""
    """Why there is no result: an error, a fault, or no answer in time."""

    @property
    def right(self) -> bool:
        """Whether there is a result within the bound."""
        return not self.failed and self.error_of_bound <= 1

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
    """Of exported cases those that are asked for, family by family; exits where none is."""
    kept = []
    for family in families:
        own = [(meta, path) for path in found if (meta := facts(path))["section"] == family]
        own.sort(key=lambda pair: int(pair[0]["place"]))
        kept += [path for _, path in own[: QUICK.get(family) if quick else None]]
    if not kept:
        raise SystemExit(f"no case of {', '.join(families)} is among {len(found)} in the folder")
    return kept


def facts(place: Path) -> dict[str, Any]:
    """What an exported case says of itself."""
    found: dict[str, Any] = json.loads((place / META).read_text(encoding="utf-8"))
    return found


def measure_all(
    found: Sequence[Path], seconds: float, check_only: bool = False
) -> Iterator[Measured]:
    """Check and measure each case within so many seconds, in workers that may break."""
    worker, limit = None, seconds
    with (found[0].parent / RESULTS).open("a", encoding="utf-8") as log:
        for place in found:
            if worker is None:
                worker, limit = Worker(place.parent, check_only), seconds + START_SECONDS
            answer = worker.answer(place.name, limit)
            limit = seconds
            log.write(json.dumps(answer) + "\n")
            log.flush()
            if not worker.alive:
                worker = None
            yield Measured(
                facts(place), answer.get("error", math.inf), answer.get("seconds", {}),
                answer.get("host_seconds", 0.0), answer.get("failed", ""),
            )  # fmt: skip
    if worker is not None:
        worker.end()


class Worker:
    """A process that checks and measures the cases it is told."""

    def __init__(self, folder: Path, check_only: bool) -> None:
        command = [sys.executable, *WORKER, str(folder)]
        self.process = subprocess.Popen(
            command + ["--check-only"] * check_only, stdin=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE, cwd=Path(__file__).parents[1], start_new_session=True,
        )  # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        self.alive = True
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                self.lines.put(line)
        self.lines.put("")

    def answer(self, name: str, seconds: float) -> dict[str, Any]:
        """What the worker says of a case; what became of it where it says nothing."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=seconds)
        except (queue.Empty, BrokenPipeError):
            line, why = "", f"no answer within {seconds:g} s"
        else:
            why = "the process ended"
        if line:
            found: dict[str, Any] = json.loads(line)
            # After a fault that lasts the worker ends by itself, as nothing it says would count.
            self.alive = "failed" not in found
            if not self.alive:
                self.end()
            return found
        self.end()
        return {"name": name, "failed": why}

    def end(self) -> None:
        """End the process, whatever it does."""
        self.alive = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.reader.join()


def report(measured: Iterable[Measured], head: str) -> Iterator[str]:
    """The result page: a table of all cases, the ladder, and means beside their goals."""
    yield head
    yield ""
    yield "| case | right | us | TFLOP/s | GB/s | of the model | ratio | beside | host us |"
    yield "|" + " --- |" * 9
    ratios: dict[str, list[float]] = {}
    steps: list[Measured] = []
    for row in measured:
        if row.meta["family"] == LADDER_FAMILY and not row.failed:
            steps.append(row)
            continue
        yield line(row)
        if row.right and len(row.seconds) > 1:
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
    right = row.failed or (f"{row.error_of_bound:.2f}" if row.right else "**WRONG**")
    if not row.seconds:
        return f"| {row.meta['name']} | {right} |" + " |" * 7
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
        yield from islice(cases(family), QUICK.get(family) if quick else None)


def _prepared(options: argparse.Namespace) -> Iterator[str]:
    from benchmarks.gpu_prepare import ladder_table, prepare, table

    def made(families: Sequence[str]) -> Iterator[Any]:
        for family in families:
            for place, case in enumerate(chosen([family], options.quick)):
                where = {"section": family, "place": place}
                yield prepare(case, options.machine, options.export, where)

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
    yield from report(measure_all(found, options.seconds, options.check_only), _here())


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
    parser.add_argument("--check-only", action="store_true", help="no times")
    parser.add_argument("--seconds", type=float, default=60.0, help="what one case may take")
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

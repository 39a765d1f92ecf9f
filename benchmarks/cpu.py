"""Speed on this CPU beside torch's: ``python -m benchmarks.cpu``.

Both sides work on the same tensors, alternate in one process, and are compared by the
median of the pairs' ratios; a ratio above 1 means that SepTran is faster. Where torch has
several ways (a convolution's layouts, with ``--compile`` those of `torch.compile`), the fastest
counts, and a column says which. Quantised products are set beside llama.cpp's, too, where it is
there (``cpu_llama``). The shapes are those of real models, named beside them in
``cpu_products``, ``cpu_attention``, ``cpu_rows``, ``cpu_sections`` and ``cpu_logic``. With the word
``mixed``, kernels and torch's operations in turns (``cpu_mixed``).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence

import torch

import septran
from benchmarks import (
    cpu_attention,
    cpu_llama,
    cpu_logic,
    cpu_mixed,
    cpu_peak,
    cpu_products,
    cpu_rows,
    cpu_sections,
)
from benchmarks.cpu_case import BARS, NEAR, Case, Machine, Run, near, predicted_seconds
from septran.runtime.beside_torch.interleaved_timing import (
    InterleavedTiming,
    seconds_of,
    time_interleaved,
)
from septran.targets.cpu.run.isa import host_arch, processor
from septran.targets.cpu.run.threads import set_threads, usable_cores

ALL = (
    "gemm", "small", "few", "int8", "bfloat16", "batched_gemm", "gemm_splitk", "gemm_bias_act",
    "dequant_gemm", "w4a8_gemm", "conv2d", "first_layers", "attention", "attention_bias",
    "attention_decode", "mla_decode", "linear_attention", "softmax", "rms_norm", "layer_norm",
    "elementwise", "functions", "reduce", "rope", "topk", "grouped_gemm", "attention_varlen",
    "block_sparse_attention", *cpu_logic.NAMES,
)  # fmt: skip
TRIALS = 5
"""Runs of each of torch's ways, of which the fastest decides."""


def cases(operators: Iterable[str]) -> Iterator[Case]:
    """All cases of the operators asked for."""
    for module in (cpu_products, cpu_attention, cpu_rows, cpu_sections, cpu_logic):
        yield from module.cases(set(operators))


def compiled(way: Run) -> Run | None:
    """What `torch.compile` makes of one of torch's ways; None where it cannot."""
    made: Run = torch.compile(way, dynamic=False)
    try:
        made()
    except Exception as error:  # of many kinds, by torch's own parts
        print(f"torch.compile: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    return made


def fastest(ways: tuple[Run, ...], compiling: bool = False) -> tuple[Run, str]:
    """The one with the shortest of some runs, and what makes it."""
    named = [(way, "eager") for way in ways]
    if compiling:
        torch._dynamo.reset()
        made = ((compiled(way), "torch.compile") for way in ways)
        named += [(way, name) for way, name in made if way is not None]

    def shortest(way: Run) -> float:
        way()
        return min(seconds_of(way) for _ in range(TRIALS))

    return named[0] if len(named) == 1 else min(named, key=lambda one: shortest(one[0]))


def run(
    operators: Sequence[str],
    threads: Sequence[int],
    seconds: float,
    rounds: int = 1,
    compiling: bool = False,
) -> None:
    """Print the table, then a geometric mean for each family and number of threads.

    Of several rounds, one after another over all cases, each line is the one in the middle:
    a machine that others share has slow and quick minutes.
    """
    _print_versions()
    if any(name in ("dequant_gemm", "w4a8_gemm") for name in operators):
        print(cpu_llama.version() or f"No llama.cpp: {cpu_llama.MISSING}", end="\n\n")
    for dtype in ("int8", "bfloat16"):
        if dtype in set(operators) and (rate := cpu_peak.peak(dtype)):
            print(f"The instruction for {dtype} alone, one thread: {rate:.0f} GOP/s\n")
    print("| operator | shape | threads | ratio | SepTran | torch | unit | error | pairs ", end="")
    print("| torch's way | predicted / measured |")
    print("| --- |" + " --- |" * 10)
    # With one round, a case and its tensors are gone before the next is made.
    chosen = cases(operators) if rounds == 1 else list(cases(operators))
    found: dict[tuple[str, str, str, int], list[InterleavedTiming]] = {}
    predicted: dict[tuple[str, str, int], tuple[str, float]] = {}
    for number in range(rounds):
        for case in chosen:
            for count in threads:
                use_threads(count)
                key = (case.family, case.operator, case.shape, count)
                some = found.setdefault(key, [])
                theirs, way = fastest(case.theirs, compiling and not case.peer)
                way = case.peer or way
                some.append(time_interleaved(case.ours, theirs, seconds))
                if number == rounds - 1:
                    one = middle(some)
                    share = predicted_seconds(case.kernel, count) / one.ours_seconds
                    # A kernel that has two lines, beside torch and beside a copy, counts once.
                    predicted.setdefault((case.operator, case.shape, count), (case.family, share))
                    print(f"{_line(case, count, one, way)} {share:.2f} |", flush=True)
    ratios: dict[str, dict[int, list[float]]] = {}
    for (family, _, _, count), some in found.items():
        ratios.setdefault(family, {}).setdefault(count, []).append(middle(some).ratio)
    _print_means(ratios, list(threads))
    _print_predictions(list(predicted.values()))


def _print_versions() -> None:
    print(f"SepTran {septran.__version__} (TVM {importlib.metadata.version('apache-tvm')})", end="")
    print(
        f" beside torch {torch.__version__} on {platform.machine()} {processor(host_arch())},",
        end=" ",
    )
    print(f"{usable_cores()} cores, {str(torch.get_default_dtype()).removeprefix('torch.')}\n")


def use_threads(count: int) -> None:
    """For both sides."""
    set_threads(count)
    torch.set_num_threads(count)


def run_mixed(
    operators: Iterable[str], threads: Sequence[int], seconds: float, spinning: int
) -> None:
    """Print the tables of `cpu_mixed`, those of each number of threads apart."""
    _print_versions()
    for count in threads:
        use_threads(count)
        with cpu_mixed.spinning(spinning):
            cpu_mixed.run((c for c in cases(operators) if not c.peer), count, seconds)


def middle(some: Sequence[InterleavedTiming]) -> InterleavedTiming:
    """The one with the median ratio (of an even number, the lower one)."""
    return sorted(some, key=lambda one: one.ratio)[(len(some) - 1) // 2]


def _print_means(ratios: dict[str, dict[int, list[float]]], threads: list[int]) -> None:
    columns = " | ".join(f"{n} thread{'s' if n > 1 else ''}" for n in threads)
    print(f"\n| family: geometric means | {columns} | must | aim |")
    print("| --- |" + " --- |" * (len(threads) + 2))
    for family, counts in ratios.items():
        means = [math.exp(sum(map(math.log, v)) / len(v)) for v in counts.values()]
        bars = [f"{bar:.2f}" for bar in BARS.get(family, ())] or ["", ""]
        print("| " + " | ".join([family, *(f"{m:.2f}" for m in means), *bars]) + " |")


def _print_predictions(predicted: Sequence[tuple[str, float]]) -> None:
    """How near the performance model is to what was measured, family by family."""
    families: dict[str, list[float]] = {}
    for family, share in predicted:
        families.setdefault(family, []).append(share)
    print(
        f"\n| predicted / measured | lines | within {NEAR}x | geometric mean | least | greatest |"
    )
    print("| --- |" + " --- |" * 5)
    for family, shares in {**families, "all": [share for _, share in predicted]}.items():
        inside, mean = sum(map(near, shares)), math.exp(sum(map(math.log, shares)) / len(shares))
        print(
            f"| {family} | {len(shares)} | {inside / len(shares):.0%} | {mean:.2f} "
            f"| {min(shares):.2f} | {max(shares):.2f} |"
        )


def _line(case: Case, count: int, result: InterleavedTiming, way: str) -> str:
    ours, theirs = (case.work / t / 1e9 for t in (result.ours_seconds, result.theirs_seconds))
    return (
        f"| {case.operator} | {case.shape} | {count} | {result.ratio:.3f} | {ours:.1f} "
        f"| {theirs:.1f} | {case.unit} | {case.error:.1e} | {result.pairs} | {way} |"
    )


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "operators", nargs="*",
        help=f"of {', '.join(ALL)}; where none is named, gemm and softmax. "
        "After the word mixed: in turns with torch's operations; where none is named, all",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="every operator")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each line of the table")
    parser.add_argument("--threads", type=int, nargs="*", default=None)
    parser.add_argument("--rounds", type=int, default=1, help="of which the middle one counts")
    parser.add_argument("--compile", action="store_true", help="torch.compile's ways count, too")
    parser.add_argument("--spinning", type=int, default=0, help="processes beside mixed calls")
    parser.add_argument("--on", default=Machine.name, help="a machine or its file, for both")
    parser.add_argument(
        "--predict-on", default="", help="the machine whose figures predict, if another one"
    )
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "float16", "bfloat16"),
        help="of tensors, in the families whose name has no type of its own",
    )  # fmt: skip
    options = parser.parse_args()
    Machine.name, Machine.predicted = options.on, options.predict_on
    torch.set_default_dtype(getattr(torch, options.dtype))
    mixed = options.operators[:1] == ["mixed"]
    named = options.operators[1:] if mixed else options.operators
    threads = options.threads or sorted({1, min(2, usable_cores())})
    chosen = ALL if options.all or (mixed and not named) else named or ("gemm", "softmax")
    for name in chosen:
        if name not in ALL:
            parser.error(f"unknown operator {name!r}; there are {', '.join(ALL)}")
    if mixed:
        run_mixed(chosen, threads, options.seconds, options.spinning)
    else:
        run(chosen, threads, options.seconds, options.rounds, options.compile)


if __name__ == "__main__":
    main()

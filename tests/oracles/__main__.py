"""All comparisons as a table: ``python -m tests.oracles [torch] [onnx] [numpy]``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator

from tests.oracles import arrays, onnx_cases, opinfo
from tests.oracles.judging import Outcome, Sample, joined, judge

EXECUTORS = ("cpu", "interpreter", "reference")
Found = tuple[str, list[Sample], list[str]]


def torch_samples() -> Iterator[Found]:
    for name in opinfo.ADAPTERS:
        for dtype in (*opinfo.FLOATS, *opinfo.INTEGERS, "bool"):
            yield (f"{name} {dtype}", *opinfo.samples(name, dtype))


def onnx_samples() -> Iterator[Found]:
    for operator in onnx_cases.ADAPTERS:
        yield (operator, *onnx_cases.samples(operator))


def numpy_samples() -> Iterator[Found]:
    for dtype in arrays.DTYPES:
        yield dtype, list(arrays.samples(dtype, *arrays.pairs(dtype))), []


ORACLES: dict[str, Callable[[], Iterator[Found]]] = {
    "torch": torch_samples, "onnx": onnx_samples, "numpy": numpy_samples,
}  # fmt: skip


def compare(oracle: str) -> Outcome:
    """Everything that an oracle has; prints what differs, and the figures."""
    total, groups, reasons = Outcome(), 0, Counter[str]()
    for _, made, left in ORACLES[oracle]():
        outcome = judge(joined(made), EXECUTORS)
        for difference in outcome.differences:
            print(difference)
        groups += bool(made)
        reasons.update(text.split(": ", 1)[1] for text in left)
        total += outcome
    print(
        f"{oracle}: {total.samples:,} samples of {groups} operators and types, "
        f"{total.elements:,} elements on {', '.join(EXECUTORS)}; {len(total.differences)} differ, "
        f"worst {total.worst:.2g} of the bound, {total.unknown} unknown"
    )
    for reason, count in sorted(reasons.items()):
        print(f"  {count} not covered: {reason}")
    return total


if __name__ == "__main__":
    asked = sys.argv[1:] or list(ORACLES)
    if not set(asked) <= set(ORACLES):
        sys.exit(f"an oracle is one of {', '.join(ORACLES)}")
    sys.exit(any([compare(oracle).differences for oracle in asked]))

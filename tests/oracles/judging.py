"""Samples of what somebody else says a logic gives, and the judge of what we give.

An expected value is exact: an integer, or computed by the other project in float64. What an
executor of ours finds is compared with it by the error bound of our own program in the
sample's element types; NaN and infinities have to be at the same places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import septran
from septran import task
from septran.dtypes import is_float
from septran.runtime.accuracy import SAFETY, compare, error_bounds
from septran.runtime.kernel import Kernel
from septran.runtime.rounding import Bounded, cast, exact

Array = np.ndarray[Any, Any]
Flags = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Sample:
    """One call of a logic, and what another project says it gives."""

    origin: str
    """Where it is from: ``torch add 3``."""
    logic: task.Task
    inputs: tuple[Array, ...]
    wanted: tuple[Array, ...]
    """Of each output: float64, or integers and truth values."""
    outputs: tuple[str, ...]
    """The element types of the outputs."""
    static: Flags = ()
    scalars: Flags = ()
    joined: str = "no"
    """Whether samples can be laid side by side: ``elements``, ``rows`` or ``no``."""
    parts: tuple[tuple[str, int], ...] = ()
    """Of joined samples each origin, and where along the first axis it ends."""
    count: int = 1
    """How many samples it is."""

    def at(self, row: int) -> str:
        """The origin of what lies at `row`."""
        return next((name for name, end in self.parts if row < end), self.origin)


@dataclass(frozen=True)
class Finding:
    """An output that is not as it should be, or about which the bound says nothing."""

    origin: str
    executor: str
    text: str

    def __str__(self) -> str:
        return f"{self.origin} on {self.executor}: {self.text}"


@dataclass(frozen=True)
class Outcome:
    """What the comparison of some samples has shown."""

    samples: int = 0
    elements: int = 0
    unknown: int = 0
    """Elements that differ, and for which rounding allows anything."""
    worst: float = 0.0
    """The greatest error as a share of what rounding allows."""
    differences: tuple[Finding, ...] = ()

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.samples + other.samples,
            self.elements + other.elements,
            self.unknown + other.unknown,
            max(self.worst, other.worst),
            self.differences + other.differences,
        )


LENGTH = 4099
"""Elements of a call of a function of elements: all oracles share its compilation."""


def joined(samples: Iterable[Sample]) -> list[Sample]:
    """Samples of one logic, flags and types side by side, as each shape is a compilation."""
    groups: dict[Any, list[Sample]] = {}
    for number, sample in enumerate(samples):
        types = tuple(str(x.dtype) for x in sample.inputs)
        key: tuple[Any, ...] = (sample.logic, sample.static, sample.scalars, types, sample.outputs)
        if sample.joined == "elements":
            sample = _flat(sample)
        elif sample.joined == "rows":
            key += tuple(x.shape[1:] for x in sample.inputs)
        else:
            key = (number,)
        groups.setdefault(key, []).append(sample)
    made = []
    for group in groups.values():
        whole = _side_by_side(group)
        made += list(_pieces(whole)) if whole.joined == "elements" else [whole]
    return made


def _flat(sample: Sample) -> Sample:
    """The same with one axis."""
    inputs, wanted = (
        tuple(x.reshape(-1) for x in arrays) for arrays in (sample.inputs, sample.wanted)
    )
    return replace(sample, inputs=inputs, wanted=wanted)


def _side_by_side(group: list[Sample]) -> Sample:
    if len(group) == 1:
        return group[0]
    ends = np.cumsum([sample.inputs[0].shape[0] for sample in group])
    return replace(
        group[0],
        origin=f"{group[0].origin} and {len(group) - 1} more",
        inputs=tuple(map(np.concatenate, zip(*(s.inputs for s in group), strict=True))),
        wanted=tuple(map(np.concatenate, zip(*(s.wanted for s in group), strict=True))),
        parts=tuple((s.origin, int(end)) for s, end in zip(group, ends, strict=True)),
        count=len(group),
    )


def _pieces(whole: Sample) -> Iterator[Sample]:
    """Calls of `LENGTH` elements; the last one begins anew with what is left of it."""
    size = whole.inputs[0].size
    if not size:
        yield whole
    for start in range(0, size, LENGTH):
        parts = tuple((name, end - start) for name, end in whole.parts if end > start)
        yield replace(
            whole,
            inputs=tuple(np.resize(x[start : start + LENGTH], LENGTH) for x in whole.inputs),
            wanted=tuple(np.resize(x[start : start + LENGTH], LENGTH) for x in whole.wanted),
            parts=parts,
            count=0 if start else whole.count,
        )


@functools.cache
def kernel(logic: task.Task, machine: str, static: Flags, outputs: tuple[str, ...]) -> Kernel:
    """The logic on a machine; ``cpu-avx2`` is this CPU without its wider vectors."""
    names = (name for name, _ in logic.tensors)
    model = None
    if machine == "cpu-avx2":
        machine, model = "cpu-x86", replace(septran.load_machine("cpu-x86"), arch="avx2")
    return septran.compile(
        logic,
        machine,
        machine=model,
        static=dict(static),
        dtypes=dict(zip(names, outputs, strict=False)),
    )


def by_kernel(machine: str) -> Callable[[Sample], tuple[Array, ...]]:
    """Compiled for a machine, and run on it or on its simulator."""
    return lambda sample: _called(sample, machine, lambda k: k)


def _called(
    sample: Sample, machine: str, how: Callable[[Kernel], Callable[..., Any]]
) -> tuple[Array, ...]:
    made = kernel(sample.logic, machine, sample.static, sample.outputs)
    found = how(made)(*sample.inputs, **dict(sample.scalars))
    return found if isinstance(found, tuple) else (found,)


EXECUTORS: Mapping[str, Callable[[Sample], tuple[Array, ...]]] = {
    "cpu": by_kernel("cpu-x86"),
    "avx2": by_kernel("cpu-avx2"),
    "interpreter": lambda s: _called(s, "cpu-x86", lambda k: k.interpret),
    "reference": lambda s: _called(
        s, "cpu-x86", lambda k: functools.partial(k.reference, dtype=None)
    ),
    "dsa-sim": by_kernel("dsa-sim"),
    "npu-cube": by_kernel("npu-cube"),
}


@np.errstate(all="ignore")  # NaN and infinities are values like others
def judge(samples: Iterable[Sample], executors: Iterable[str]) -> Outcome:
    """Run joined samples on executors, and compare."""
    total = Outcome()
    for sample in samples:
        expected = bounded(sample)
        for executor in executors:
            found = EXECUTORS[executor](sample)
            total += _compared(sample, executor, found, expected)
        total += Outcome(samples=sample.count)
    return total


def bounded(sample: Sample) -> list[Bounded]:
    """The expected values, each with the error that our program's rounding allows."""
    made = kernel(sample.logic, "cpu-x86", sample.static, sample.outputs)
    shapes, kinds = zip(*((x.shape, str(x.dtype)) for x in sample.inputs), strict=True)
    names = [t.name for t in made.signature.inputs]
    known = made.specialise(
        dict(zip(names, shapes, strict=True)), dict(zip(names, kinds, strict=True))
    )
    arrays = dict(zip(names, sample.inputs, strict=True))
    ours = error_bounds(known.stages.task_tree, arrays, dict(sample.scalars))
    return [_theirs(value, own) for value, own in zip(sample.wanted, ours.values(), strict=True)]


def _theirs(wanted: Array, own: Bounded) -> Bounded:
    """Their value with our bound."""
    if not is_float(own.dtype):
        return Bounded(wanted.astype(own.value.dtype), own.error, own.dtype)
    value = cast(exact(wanted), own.dtype)
    return Bounded(value.value, np.maximum(own.error, value.error), own.dtype)


def _compared(
    sample: Sample, executor: str, found: tuple[Array, ...], expected: list[Bounded]
) -> Outcome:
    elements, unknown, worst, differences = 0, 0, 0.0, []
    for n, (array, wanted) in enumerate(zip(found, expected, strict=True)):
        if array.shape != wanted.value.shape:
            text = f"shape {array.shape} instead of {wanted.value.shape}"
            differences.append(Finding(sample.origin, executor, text))
            continue
        verdict = compare(f"output {n}", array, wanted)
        elements += verdict.elements
        unknown += verdict.unknown
        worst = max(worst, verdict.worst)
        if not verdict.right:
            differences += _told(sample, executor, array, wanted)
    worst = worst if not differences else 0.0  # of what is right
    return Outcome(0, elements, unknown, worst, tuple(differences))


def _told(sample: Sample, executor: str, found: Array, expected: Bounded) -> list[Finding]:
    """Each wrong element with its inputs; of many the first few."""
    actual, value = found.astype(np.float64), expected.value.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (found == expected.value) | (np.isnan(actual) & np.isnan(value))
        allowed = SAFETY * expected.error
        wrong = ~same & ~(np.abs(actual - value) <= allowed) & ~np.isinf(allowed)
    findings = []
    for place in np.argwhere(wrong)[:8]:
        at = tuple(int(n) for n in place)
        given = [_beside(x, at, found.shape) for x in sample.inputs]
        text = f"[{at}] is {found[at]} instead of {expected.value[at]} for {given}"
        flags = dict(sample.static)
        kinds = [str(x.dtype) for x in sample.inputs]
        findings.append(Finding(f"{sample.at(at[0])} {flags} {kinds}", executor, text))
    return findings


def _beside(x: Array, at: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if x.shape == shape:
        return x[at]
    return x[at[0]] if x.ndim and x.shape[0] == shape[0] else x.shape

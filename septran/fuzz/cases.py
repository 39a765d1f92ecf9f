"""Random cases: a logic, a mapping, a machine, shapes and inputs, all from one seed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from septran import operators
from septran.backends import backend_of
from septran.dtypes import is_float, numpy_dtype
from septran.errors import LogicError, SepTranError
from septran.fuzz import (
    counts,
    edits,
    gathers,
    integers,
    nested_products,
    nests,
    programs,
    scans,
    sections,
    slices,
    steps,
)
from septran.fuzz.choices import Choices, Trace
from septran.fuzz.programs import EXTENTS, Input, RandomLogic
from septran.fuzz.renaming import renamed
from septran.machine.loader import load_machine
from septran.request import extents
from septran.runtime.work import steps as steps_of
from septran.task.frontend.definition import Task
from septran.task.frontend.loader import load_entry
from septran.task.trace.chooser import DefaultChooser
from septran.task.trace.dims import named_dims
from septran.task.trace.inference import complete, written
from septran.task.trace.tracing import trace

MACHINES = (
    "cpu-x86", "dsa-sim", "npu-cube", "nvidia-h200", "nvidia-a100", "amd-mi300x", "opencl-generic",
    "tpu-v5e",
)  # fmt: skip
FAMILIES = (
    programs.rows, programs.elementwise, programs.products, programs.chains, programs.moves,
    nests.grams, nests.scans, nests.statistics, nests.pairs, slices.slices, slices.windows,
    gathers.gathers, scans.prefixes, scans.joins, scans.parts, scans.scatters,
    nested_products.nested_products, counts.counts, sections.sections, steps.orders, steps.solves,
    integers.integers,
)  # fmt: skip
_FREE: Mapping[str, tuple[str, ...]] = {
    "attention": ("M", "N"), "attention_bias": ("M", "N"), "attention_decode": ("N",),
    "batched_gemm": ("M", "N", "K"), "conv2d": ("H", "W", "O"), "conv2d_nhwc": ("H", "W", "O"),
    "causal_conv1d": ("C", "N"), "cross_entropy": ("T", "V"),
    "cumsum": ("M", "N"),
    "dequant_gemm": ("M", "N"), "elementwise": ("M", "N"), "elementwise_binary": ("M", "N"),
    "embedding": ("T", "V", "D"), "embedding_backward": ("T", "V", "D"),
    "logsumexp": ("M", "N"), "pool2d": ("C", "H", "W"), "swiglu": ("M", "N", "K"),
    "grouped_gemm": ("T", "K", "N"), "sliding_attention": ("M", "N"),
    "permute": ("A", "B", "C"), "transpose": ("B", "M", "N"), "paged_attention": ("P", "S"),
    "paged_prefill": ("T", "P", "S"),
    "fp8_gemm": ("M", "N", "K"), "gated_delta_rule": (), "ssd": (), "moe": ("T", "D", "F"),
    "moe_layer": ("T", "D", "F"), "route": ("T",),
    "gemm": ("M", "N", "K"), "gemm_backward": ("M", "N", "K"), "softmax_backward": ("M", "N"),
    "gemm_bias_act": ("M", "N", "K"), "gemm_splitk": ("M", "N", "K"),
    "layer_norm": ("M", "N"), "linear_attention": (), "mla_decode": (), "reduce": ("M", "N"),
    "rms_norm": ("M", "N"), "rope": (), "softmax": ("M", "N"), "topk": ("M",),
    "w4a8_gemm": ("M", "N"), "elementwise_backward": ("M", "N"),
    "gemm_bias_act_backward": ("M", "N", "K"), "layer_norm_backward": ("M", "N"),
    "rms_norm_backward": ("M", "N"), "attention_lse": ("M", "N"), "attention_backward": ("M", "N"),
    "attention_varlen": ("T", "S"), "block_sparse_attention": ("M", "N"),
    "conv2d_backward": ("H", "W", "O"), "cross_entropy_backward": ("T", "V"),
    "cumsum_backward": ("M", "N"), "linear_attention_backward": (), "rope_backward": (),
    "linear_recurrence": ("B", "T", "D"), "linear_recurrence_backward": (),
    "max_pool2d_indices": ("C", "H", "W"),
    "max_pool2d_indices_backward": ("C", "H", "W"),
    "logsumexp_backward": ("M", "N"), "swiglu_gates": ("M", "N", "K"),
    "swiglu_backward": ("M", "N", "K"), "pool2d_backward": ("C", "H", "W"),
}  # fmt: skip
"""The dimensions of the library's operators that may have any extent."""


@dataclass(frozen=True)
class RandomCase:
    """The data that is needed to repeat one run."""

    seed: int
    trace: Trace
    """The draws of `Choices`; a case is a function of them."""
    kind: str
    """A family of `programs`, or the operator of the library that was renamed."""
    logic: str
    """The text of a logic file."""
    machine: str
    """The machine whose generated code or tile program runs besides the CPU's."""
    mappings: Mapping[str, str]
    """The text of a mapping file for cpu-x86 and for `machine`."""
    machine_text: str | None
    """The text of a machine file to use for `machine`; None for the shipped one."""
    inputs: tuple[Input, ...]
    values: str
    """The kind of inputs: ``normal``, ``corners`` or ``exact``.

    Corners are the least and greatest numbers, zeros of both signs, NaN and infinities; exact ones
    are small integers, of which every float sum is exact.
    """
    static: Mapping[str, Any]
    tunables: Mapping[str, int]
    dynamic: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The dimensions that calls tell, each with its least and greatest extent."""

    def __str__(self) -> str:
        shapes = ", ".join(f"{i.name} {i.dtype}{list(i.shape)}" for i in self.inputs)
        told = f" for any {', '.join(self.dynamic)}" if self.dynamic else ""
        what = f"{self.kind} ({shapes}) {dict(self.tunables)}{told}"
        return f"seed {self.seed}: {what} on {self.machine}"

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the inputs by name; equal cases give equal ones."""
        rng = np.random.default_rng(self.seed)
        return {i.name: _array(rng, i, self.values) for i in self.inputs}


def make_case(seed: int, trace: Trace | None = None) -> RandomCase:
    """Return the case of a seed, or of the draws in `trace`; equal arguments give equal cases."""
    c = Choices(seed, trace)
    source = c.of(FAMILIES)(c) if c.chance(65) else _library(c)
    machine = c.of(MACHINES)
    tunables = edits.tunables(c)
    mappings = {name: edits.mapping(c, name) for name in dict.fromkeys(("cpu-x86", machine))}
    text = edits.machine(c, machine)
    values = c.of(("normal", "exact", "corners"))
    if source.kind in ("rows", *operators.names()) and values == "corners":
        values = "normal"  # one infinity makes whole rows NaN, and says nothing
    told = c.chance(25) and backend_of(load_machine(machine).backend).dynamic
    dynamic = _dynamic(c, source, tunables) if told else {}
    return RandomCase(
        seed, c.trace, source.kind, source.text, machine, mappings, text, source.inputs, values,
        dict(source.static), tunables, dynamic,
    )  # fmt: skip


def _dynamic(
    c: Choices, source: RandomLogic, tunables: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Return one or two of the dimensions that may be any for this logic, with ranges."""
    shapes, kinds = ({i.name: getattr(i, k) for i in source.inputs} for k in ("shape", "dtype"))
    with loaded(source.text) as logic:
        try:
            full, types = complete(logic, shapes, kinds, static=source.static)
            known = sorted(named_dims(logic, full, source.static).items())
        except SepTranError:  # sizes that the logic is not for: the run is refused, too
            return {}
        found: dict[str, tuple[int, int]] = {}
        for name, extent in sorted(known, key=lambda _: c.between(0, 99)):
            more = found | {name: (1, extent + c.of((0, 0, 1, 40)))}
            if len(found) == 2 or not extent:
                continue
            chooser, least = DefaultChooser(dict(tunables)), dict.fromkeys(more, 1)
            with suppress(SepTranError):  # not every dimension may be any
                trace(logic, full, types, chooser, source.static, check=False, dynamic=least)
                found = more
    return found


@contextmanager
def loaded(text: str) -> Iterator[Task]:
    """The entry task of a logic file's text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "logic.py"
        file.write_text(text, encoding="utf-8")
        yield load_entry(file)


def _library(c: Choices) -> RandomLogic:
    """Return an operator of the library under other names, in its own sizes or any."""
    operator = c.of(tuple(_FREE))
    case = c.of(operators.cases(operator))
    sizes = {d: c.of(EXTENTS) if d in _FREE[operator] else n for d, n in case.sizes.items()}
    if "stride" in case.static or operator.startswith("conv2d"):
        sizes |= {d: max(n, 7) for d, n in sizes.items() if d in ("H", "W")}
    task = operators.load(operator)
    sizes = bounded(task, sizes, _FREE[operator], case.static)
    kinds = {n: k.dtype or case.dtype for n, k in task.tensors}
    shapes, dtypes = complete(
        task, extents(task, sizes, case.static), kinds, static=dict(case.static)
    )
    new = renamed(operator)
    outputs = _outputs(operator, tuple(case.static.items()))
    places = _places(task, shapes, dtypes, case.static)
    inputs = tuple(
        Input(new.tensors[n], shapes[n], dtypes[n], places.get(n))
        for n, _ in task.tensors
        if n not in outputs
    )
    return RandomLogic(new.text, inputs, case.static, operator)


@cache
def _outputs(operator: str, static: tuple[tuple[str, Any], ...]) -> frozenset[str]:
    """Return what an operator writes, which a trace shows: once for all cases that are drawn."""
    return written(operators.load(operator), dict(static))


def bounded(
    logic: Task, sizes: Mapping[str, int], free: Sequence[str], static: Mapping[str, Any]
) -> dict[str, int]:
    """Return the sizes with the greatest of the `free` ones halved while a tensor is too large."""
    bounded = dict(sizes)
    while max(map(math.prod, extents(logic, bounded, static).values())) > MOST_ELEMENTS:
        longest = max(free, key=lambda d: bounded.get(d, 0), default="")
        if bounded.get(longest, 0) <= _SHORT:
            break
        bounded[longest] = (bounded[longest] + 1) // 2
    return bounded


def _places(
    logic: Task, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str],
    static: Mapping[str, Any],
) -> dict[str, int | None]:  # fmt: skip
    """Return for each parameter of how many places its elements are one, if they are indices."""
    try:
        tree = trace(logic, shapes, dtypes, None, static, check=False)
    except LogicError:  # sizes that the logic is not for: the run is refused, too
        return {}
    return {p.name: p.places for p in tree.root.params}


_FLOAT_CORNERS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-40, 6e4, -1e30)


def _array(rng: np.random.Generator, tensor: Input, values: str) -> np.ndarray[Any, Any]:
    kind = numpy_dtype(tensor.dtype)
    if not is_float(tensor.dtype):
        limits = np.iinfo(kind)
        # An index of a short type reaches no further than its type does.
        if tensor.places is not None:
            return rng.integers(0, min(tensor.places, limits.max + 1), tensor.shape).astype(kind)
        corners = [limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1, 2]
        corners += [-1] if limits.min < 0 else []
        if values == "corners":
            return rng.choice(np.array(corners, kind), tensor.shape)
        low, high = (max(limits.min, -100), min(limits.max, 100))
        return rng.integers(low, high, tensor.shape, endpoint=True).astype(kind)
    if values == "corners":
        with np.errstate(over="ignore"):
            return rng.choice(np.array(_FLOAT_CORNERS).astype(kind), tensor.shape)
    if values == "exact":
        return rng.integers(-3, 3, tensor.shape, endpoint=True).astype(kind)
    return rng.standard_normal(tensor.shape).astype(kind)


MOST_ELEMENTS = 1 << 16
"""The greatest number of elements of a tensor of an operator of the library, if sizes allow."""
_SHORT = 8
"""What is at most this long is not made shorter: windows and convolutions have to fit."""
MOST_STEPS = 1500
"""The greatest number of reference steps of a case: about a second."""
FEW_STEPS: Mapping[str, int] = {"tpu-v5e": 150}
"""The same for machines whose code is interpreted: JAX takes half a second for some of them."""
LARGEST_TILE = 256
"""The size of a tile that no tensor of a case exceeds."""


def affordable(case: RandomCase) -> RandomCase:
    """Double the smallest tiles of a case until the reference takes few enough steps."""
    tunables, most = dict(case.tunables), FEW_STEPS.get(case.machine, MOST_STEPS)
    while tunables and _steps(case, tunables) > most:
        # The smallest tile costs most steps, and doubling it halves their number.
        smallest = min(tunables, key=lambda name: tunables[name])
        if tunables[smallest] >= LARGEST_TILE:
            break
        tunables[smallest] *= 2
    return replace(case, tunables=tunables)


def _steps(case: RandomCase, tunables: Mapping[str, int]) -> int:
    """Return the steps of the logic with these tiles; 0 where it is refused."""
    with loaded(case.logic) as task:
        try:
            chooser = DefaultChooser(dict(tunables))
            shapes = {i.name: i.shape for i in case.inputs}
            kinds = {i.name: i.dtype for i in case.inputs}
            full, types = complete(task, shapes, kinds, chooser, case.static)
            return steps_of(trace(task, full, types, chooser, case.static, check=False))
        except SepTranError:
            return 0

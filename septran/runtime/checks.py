"""Checking one run of a kernel: results by the error bound, writes by guard zones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.dtypes import POISON, itemsize, numpy_dtype
from septran.runtime.accuracy import (
    Accuracy,
    ProductRules,
    WrongResultError,
    compare,
    error_bounds,
)
from septran.runtime.signature import Specialisation, TensorParam
from septran.tile.nodes import Compute, TileProgram, nodes

GUARD = 64
"""The number of bytes before and after each tensor that a kernel must not change."""
_MARK = 0xA5


@dataclass(frozen=True)
class Check:
    """The verdict on one run of a kernel."""

    name: str
    outputs: tuple[Accuracy, ...]
    touched: tuple[str, ...] = ()
    """Sentences on memory that was written to and should not have been."""

    @property
    def right(self) -> bool:
        """Whether nothing is wrong."""
        return not self.touched and all(accuracy.right for accuracy in self.outputs)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.outputs), *self.touched])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the words instead of the fields in a notebook."""
        del cycle
        printer.text(str(self))

    def raise_if_wrong(self) -> Check:
        """Return the check itself; raises WrongResultError where anything is wrong."""
        if self.right:
            return self
        wrong = [str(a) for a in self.outputs if not a.right]
        raise WrongResultError(f"{self.name}: {'; '.join([*wrong, *self.touched])}")


def check(
    name: str,
    specialisation: Specialisation,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    scalars: Sequence[float | int | bool],
    launch: Callable[[Sequence[np.ndarray[Any, Any]]], Sequence[str] | None],
) -> Check:
    """Run on copies of `arrays` between guard zones, and compare with the exact result.

    Outputs that are not given are filled with NaN first, so that an element that is never written
    is found. `launch` runs the kernel on arrays in the parameters' order, and returns sentences on
    wrong accesses that only it can see.
    """
    guarded = {t.name: Guarded.of(t, arrays.get(t.name)) for t in specialisation.tensors}
    touched = list(launch([g.array for g in guarded.values()]) or ())
    numbers = {s.name: v for s, v in zip(specialisation.scalars, scalars, strict=True)}
    rules = product_rules(specialisation.stages.tile_program)
    bounds = error_bounds(specialisation.stages.task_tree, arrays, numbers, rules)
    for tensor in specialisation.tensors:
        if guarded[tensor.name].overrun():
            touched.append(f"memory beside {tensor.name} was written to")
        if not tensor.writes:
            before = arrays[tensor.name]
            # By their bytes, as a NaN is unequal to itself.
            if guarded[tensor.name].array.tobytes() != before.tobytes():
                touched.append(f"input {tensor.name} was written to")
    outputs = tuple(compare(n, guarded[n].array, bound) for n, bound in bounds.items())
    return Check(name, outputs, tuple(touched))


def product_rules(program: TileProgram) -> ProductRules:
    """How the instructions that a program's products are mapped to depart from exact terms."""
    flushed: set[str] = set()
    bits: dict[str, int] = {}
    for node in nodes(program.body):
        if not isinstance(node, Compute):
            continue
        options = program.machine.instruction(node.instruction).options
        types = {program.buffer(operand.buffer).dtype for operand in node.operands[1:]}
        if options.get("flushes"):
            flushed |= types
        if kept := options.get("sum_bits"):
            bits |= {dtype: min(kept, bits.get(dtype, kept)) for dtype in types}
    return ProductRules(frozenset(flushed), bits)


@dataclass(frozen=True)
class Guarded:
    """An array with guard zones around it."""

    raw: np.ndarray[Any, Any]
    array: np.ndarray[Any, Any]

    @staticmethod
    def of(tensor: TensorParam, content: np.ndarray[Any, Any] | None) -> Guarded:
        """Return a copy of `content`; without one zeros, or NaN where nothing may be read."""
        shape, dtype = tensor.shape or (), tensor.dtype or ""
        size = math.prod(shape) * itemsize(dtype)
        raw = np.full(size + 3 * GUARD, _MARK, np.uint8)
        # The array begins at a multiple of 64 bytes, with at least a whole guard zone before it.
        start = GUARD - raw.ctypes.data % GUARD + GUARD
        inside = raw[start : start + size]
        inside[:] = 0 if tensor.reads else POISON
        array = inside.view(numpy_dtype(dtype)).reshape(shape)
        if content is not None:
            array[...] = content
        return Guarded(raw, array)

    def overrun(self) -> bool:
        """Return whether a byte outside of the array has changed."""
        start = self.array.ctypes.data - self.raw.ctypes.data
        before, after = self.raw[:start], self.raw[start + self.array.nbytes :]
        return bool((before != _MARK).any() or (after != _MARK).any())


def sample(specialisation: Specialisation, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return random arrays for every tensor that is only read."""
    random = np.random.default_rng(seed)
    return {t.name: _random(random, t) for t in specialisation.tensors if not t.writes}


def _random(random: np.random.Generator, tensor: TensorParam) -> np.ndarray[Any, Any]:
    shape, dtype = tensor.shape or (), tensor.dtype or ""
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        if tensor.span is not None:
            low, high = tensor.span
            if tensor.places is not None:  # of those that choose a row, as many as there are
                high = min(high, tensor.places - 1)
            return random.integers(low, max(low, high), shape, endpoint=True).astype(kind)
        if tensor.places is not None:
            most = min(tensor.places, np.iinfo(kind).max + 1)
            return random.integers(0, max(1, most), shape).astype(kind)
        low = 0 if kind.kind == "u" else -8
        return random.integers(low, 9, shape).astype(kind)
    return random.standard_normal(shape).astype(np.float32).astype(kind)

"""Buffers as NumPy arrays, and regions as windows onto them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from septran.dtypes import is_float, itemsize, numpy_dtype
from septran.errors import TileError
from septran.ir.atoms import Atom, CallExtent, Element, ExtentProduct, FloorDiv, Max, Min, Mod
from septran.ir.index import Index, Var, axis
from septran.tile.analyses.loops import affine
from septran.tile.interpret.channel_state import located
from septran.tile.nodes import Buffer, Origin, Region

Array = np.ndarray[Any, Any]
FRESH_INTEGER = 0xAA
"""The byte that fresh integers consist of; fresh floats are NaN."""
NEVER = 1
"""The mark of an element that nobody has written."""


class OutOfBoundsError(TileError):
    """A region leaves its buffer."""

    code = "SEP420"
    of_passes = True


class ExtentError(TileError):
    """The extents of two regions, or of a region and its shape, do not fit."""

    code = "SEP431"
    of_passes = True


class CapacityError(TileError):
    """The buffers that live at one time need more than their memory has."""

    code = "SEP424"


@dataclass(eq=False)
class Store:
    """The bytes of one instance of a buffer, all stages."""

    buffer: Buffer
    bytes: Array
    """The storage as uint8."""
    strides: tuple[int, ...] = ()
    """The stride of each axis, in bytes."""
    stage_bytes: int = 0
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype("uint8"))
    marks: Store | None = None
    """For each element 0 if it is written, else `NEVER` or its read's number; None if all are."""

    @staticmethod
    def of(buffer: Buffer, room: Array | None = None) -> Store:
        """Return storage for `buffer`, in `room` (uint8) if given."""
        width, strides = itemsize(buffer.dtype), []
        for extent in reversed(buffer.shape):
            strides.append(width)
            width *= extent
        total = width * buffer.stages
        held = np.empty(total, np.uint8) if room is None else room[:total]
        dtype = numpy_dtype(buffer.dtype)
        return Store(buffer, held, tuple(reversed(strides)), width, dtype)

    def array(self) -> Array:
        """Return all elements: stages first, then the buffer's axes."""
        shape = (self.buffer.stages, *self.buffer.shape)
        return np.ndarray(shape, self.dtype, self.bytes)

    def marked(self) -> Store:
        """Return the marks, which are made where all elements were written up to now."""
        if self.marks is None:
            self.marks = Store.of(replace(self.buffer, dtype="int32"))
            self.marks.array()[...] = 0
        return self.marks

    def poison(self) -> None:
        """Make the content undefined, visibly."""
        self.marked().array()[...] = NEVER
        if is_float(self.buffer.dtype):
            self.array()[...] = np.nan
        else:
            self.bytes[...] = FRESH_INTEGER


class PreparedRegion:
    """A region prepared for many accesses: its map split into starts and strides."""

    def __init__(self, region: Region, origin: Origin | None) -> None:
        self.region, self.origin = region, origin
        self.rows = affine(region)

    def extents(self, values: Mapping[Var, int]) -> tuple[int, ...]:
        """Return the extents that exist; raises ExtentError where they exceed the nominal ones."""
        found: list[int] = []
        for nominal, valid in zip(self.region.shape, self.region.valid, strict=True):
            extent = valid.evaluate(values) if valid.terms else valid.constant
            if extent > nominal:
                raise self._error(ExtentError, f"has {extent} of {nominal} elements", values)
            found.append(max(0, extent))
        return tuple(found)

    def box(self, values: Mapping[Var, int], extents: Sequence[int]) -> list[tuple[int, int]]:
        """Return first and last coordinate along each axis of the buffer, for an affine map."""
        found: list[tuple[int, int]] = []
        for start, factors in self.rows or ():
            low = high = start.evaluate(values)
            for n, factor in factors:
                reach = (extents[n] - 1) * factor
                low, high = (low + reach, high) if factor < 0 else (low, high + reach)
            found.append((low, high))
        return found

    def read(self, store: Store, values: Mapping[Var, int]) -> Array:
        """Return the elements that exist, as a window onto the store where that is possible."""
        extents = self.extents(values)
        window = self._window(store, extents, values)
        return self._gather(store, extents, values) if window is None else window

    def write(
        self, store: Store, values: Mapping[Var, int], data: Array, *, clip: bool = False
    ) -> None:
        """Round `data` once and store it; `clip` writes the leading part that `data` has."""
        extents = self.extents(values)
        if clip:
            extents = tuple(map(min, extents, data.shape))
        window = self._window(store, extents, values)
        try:
            if window is not None:
                window[...] = data
                return
            coordinates, inside = self._coordinates(store, extents, values)
            if not inside.all():
                raise self._error(OutOfBoundsError, "is written outside of its buffer", values)
            place: Any = (self._stage(store, values), *coordinates)
            store.array()[place] = data
        except ValueError as error:
            message = f"cannot take {data.shape} in {extents}"
            raise self._error(ExtentError, message, values) from error

    def _stage(self, store: Store, values: Mapping[Var, int]) -> int:
        stage = self.region.stage.evaluate(values)
        if not 0 <= stage < store.buffer.stages:
            message = f"names stage {stage} of {store.buffer.stages}"
            raise self._error(OutOfBoundsError, message, values)
        return stage

    def _window(
        self, store: Store, extents: tuple[int, ...], values: Mapping[Var, int]
    ) -> Array | None:
        """Return a NumPy view; None where the map is not affine or reaches into padding."""
        offset = self._stage(store, values) * store.stage_bytes
        # A region without elements touches nothing, wherever it begins.
        if 0 in extents:
            return np.empty(extents, store.dtype)
        if self.rows is None:
            return None
        strides = [0] * len(extents)
        for (start, factors), size, width in zip(
            self.rows, store.buffer.shape, store.strides, strict=True
        ):
            low = high = start.evaluate(values) if start.terms else start.constant
            # A negative factor walks backwards: the window begins at the start, `low` and `high`
            # only bound it.
            offset += low * width
            for n, factor in factors:
                strides[n] += factor * width
                reach = (extents[n] - 1) * factor
                low, high = (low + reach, high) if factor < 0 else (low, high + reach)
            if low < 0 or high >= size:
                if self.region.padded:
                    return None
                raise self._outside(store, low, high, size, values)
        return np.ndarray(extents, store.dtype, store.bytes, offset, tuple(strides))

    def _gather(self, store: Store, extents: tuple[int, ...], values: Mapping[Var, int]) -> Array:
        coordinates, inside = self._coordinates(store, extents, values)
        if not self.region.padded and not inside.all():
            raise self._error(OutOfBoundsError, "is read outside of its buffer", values)
        if 0 in store.buffer.shape:
            return np.zeros(extents, store.dtype)
        found: Array = store.array()[(self._stage(store, values), *coordinates)]
        return np.where(inside, found, np.zeros((), store.dtype))

    def _coordinates(
        self, store: Store, extents: tuple[int, ...], values: Mapping[Var, int]
    ) -> tuple[list[Array], Array]:
        """Return clipped coordinates along each of the buffer's axes, and which were inside."""
        inside = np.ones(extents, bool)
        clipped: list[Array] = []
        for entry, size in zip(self.region.index, store.buffer.shape, strict=True):
            at = grid(entry, extents, values)
            inside &= (at >= 0) & (at < size)
            # Clipped so that NumPy can index by them; the caller drops or zeroes what was outside.
            clipped.append(np.clip(at, 0, max(0, size - 1)))
        return clipped, inside

    def _outside(
        self, store: Store, low: int, high: int, size: int, values: Mapping[Var, int]
    ) -> TileError:
        return self._error(
            OutOfBoundsError,
            f"reaches from {low} to {high} of {store.buffer.name}, which has 0 to {size - 1}",
            values,
        )

    def _error(self, kind: type[TileError], message: str, values: Mapping[Var, int]) -> TileError:
        names = {v for e in (*self.region.index, *self.region.valid) for v in e.variables()}
        at = ", ".join(f"{v}={values[v]}" for v in sorted(names, key=str) if v in values)
        return located(kind, f"{self.region} {message}{f' at {at}' if at else ''}", self.origin)


def grid(entry: Index, extents: tuple[int, ...], values: Mapping[Var, int]) -> Array:
    """Return an index entry at every element of a view of `extents`."""
    known: dict[Var, Any] = dict(values)
    rank = len(extents)
    for n, extent in enumerate(extents):
        known[axis(n)] = np.arange(extent).reshape([-1 if k == n else 1 for k in range(rank)])
    return np.broadcast_to(np.asarray(evaluate_index(entry, known)), extents)


def evaluate_index(entry: Index, values: Mapping[Var, Any]) -> Any:
    """Return `Index.evaluate` for variables that are arrays."""
    total: Any = entry.constant
    for atom, coefficient in entry.terms:
        total = total + coefficient * _atom(atom, values)
    return total


def _atom(atom: Atom, values: Mapping[Var, Any]) -> Any:
    match atom:
        case Var():
            return values[atom]
        case FloorDiv(value, divisor):
            return evaluate_index(value, values) // divisor
        case Mod(value, divisor):
            return evaluate_index(value, values) % divisor
        case Min(operands):
            return _fold(np.minimum, operands, values)
        case Max(operands):
            return _fold(np.maximum, operands, values)
        case Element():
            most = None if atom.most is None else evaluate_index(atom.most, values)
            at = [evaluate_index(c, values) for c in atom.at]
            return atom.look_up(values[atom.table], at, most)
        case CallExtent():
            return values.get(atom.table, atom.most)
        case ExtentProduct(value, size):
            return evaluate_index(value, values) * _atom(size, values)


def _fold(function: Any, operands: tuple[Index, ...], values: Mapping[Var, Any]) -> Any:
    result, *rest = (evaluate_index(o, values) for o in operands)
    for other in rest:
        result = function(result, other)
    return result


def size_bytes(buffer: Buffer) -> int:
    """Return the bytes that a buffer takes in its layout, all stages."""
    width = itemsize(buffer.dtype)
    elements = buffer.layout.elements(buffer.shape, width) if buffer.shape else 1
    return elements * width * buffer.stages

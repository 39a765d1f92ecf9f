"""Views: rectangular windows onto a tensor through an index map, without any copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from septran.ir.atoms import Element
from septran.ir.index import Index, IndexLike, Var, axis, is_axis, minimum

V = TypeVar("V", bound="View")


@dataclass(frozen=True)
class View:
    """Element ``(d0, d1, ...)`` of the view is ``tensor[index]`` with ``$k = dk``.

    A tile of A at (64*i, 64*k) is ``View("A", (64*i + $0, 64*k + $1), (64, 64), ...)``,
    its transpose has ``$1`` and ``$0`` exchanged, a convolution's sliding window has
    ``stride*$0 + dilation*$2 - padding``. A view is thus closed under slicing,
    transposing, windowing and merging of axes.
    """

    tensor: str
    """A parameter or temporary of the enclosing task (in Tile IR: a buffer)."""
    index: tuple[Index, ...]
    """An entry for each axis of the tensor, over loop indices and axis variables."""
    shape: tuple[int, ...]
    """The nominal extents: the size of a full tile."""
    valid: tuple[Index, ...]
    """The extents that exist: at most `shape`, less at a ragged edge; over loop indices."""
    padded: bool = False
    """Whether elements outside of the tensor may be read, as zeros (windows)."""

    @staticmethod
    def whole(tensor: str, shape: tuple[int, ...], valid: tuple[Index, ...] | None = None) -> View:
        """Return a view of all of `tensor`."""
        index = tuple(Index.of(axis(n)) for n in range(len(shape)))
        return View(tensor, index, shape, valid or tuple(map(Index.of, shape)))

    @property
    def is_plain(self) -> bool:
        """Whether the view's axes are the tensor's own, each from its beginning."""
        return self.index == tuple(Index.of(axis(n)) for n in range(self.rank))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def ragged(self) -> bool:
        """Whether some extent may be less than the nominal one."""
        return any(v != Index.of(n) for v, n in zip(self.valid, self.shape, strict=True))

    def substitute(self: V, values: Mapping[Var, IndexLike]) -> V:
        """Return the view with loop indices replaced in its map and extents."""
        return replace(
            self,
            index=tuple(i.substitute(values) for i in self.index),
            valid=tuple(v.substitute(values) for v in self.valid),
        )

    def compose(self: V, inner: View) -> V:
        """Return `inner`, a view of this view's elements, as a view of this view's tensor.

        The extents that exist in the result are those of `inner`: it was made from this view and
        is already clipped to its extents.
        """
        axes = {axis(n): entry for n, entry in enumerate(inner.index)}
        return replace(
            self,
            index=tuple(entry.substitute(axes) for entry in self.index),
            shape=inner.shape,
            valid=inner.valid,
            padded=self.padded or inner.padded,
        )

    def at(self, coordinates: tuple[IndexLike, ...]) -> tuple[Index, ...]:
        """Return the tensor's coordinates of one element of the view."""
        values = {axis(n): c for n, c in enumerate(coordinates)}
        return tuple(entry.substitute(values) for entry in self.index)

    def origin(self) -> tuple[Index, ...]:
        """Return the tensor's coordinates of the view's first element."""
        return self.at((0,) * self.rank)

    def block(self: V, offsets: tuple[IndexLike, ...], extents: tuple[int, ...]) -> V:
        """Return the sub-view of `extents` at `offsets`, clipped to what exists."""
        index = tuple(Index.of(axis(n)) + o for n, o in enumerate(offsets))
        valid = tuple(_clip(e, v - o) for e, v, o in zip(extents, self.valid, offsets, strict=True))
        return self.compose(View("", index, extents, valid))

    def transposed(self: V, order: tuple[int, ...]) -> V:
        """Return the view with its axes in another order, as `numpy.transpose`."""
        index: list[Index] = [Index()] * self.rank
        for new, old in enumerate(order):
            index[old] = Index.of(axis(new))
        shape = tuple(self.shape[o] for o in order)
        return self.compose(View("", tuple(index), shape, tuple(self.valid[o] for o in order)))

    def without(self: V, position: int, at: IndexLike) -> V:
        """Return the view with one axis fixed at a coordinate and dropped."""
        index = [Index.of(axis(n if n < position else n - 1)) for n in range(self.rank)]
        index[position] = Index.of(at)
        shape = self.shape[:position] + self.shape[position + 1 :]
        valid = self.valid[:position] + self.valid[position + 1 :]
        return self.compose(View("", tuple(index), shape, valid))

    def gathered(self: V, position: int, of: View, element: Index) -> V:
        """The axis at `position` replaced by those of `of`; there its coordinate is `element`.

        `element` is over the axes of `of`. Nothing of `of` means that nothing is there.
        """
        own = {axis(n): axis(position + n) for n in range(of.rank)}
        later = {axis(n): axis(n + of.rank - 1) for n in range(position + 1, self.rank)}
        index = [Index.of(later.get(axis(n), axis(n))) for n in range(self.rank)]
        index[position] = element.substitute(own)
        shape, valid = list(self.shape), list(self.valid)
        shape[position : position + 1] = of.shape
        valid[position : position + 1] = of.valid
        return self.compose(View("", tuple(index), tuple(shape), tuple(valid)))

    def elements(self) -> tuple[Element, ...]:
        """The elements of tensors that it is computed from, those of coordinates first."""
        return _elements((*self.index, *self.valid))

    def chosen(self) -> tuple[Element, ...]:
        """The elements that say where it is, without those that say how much of it exists."""
        return _elements(self.index)

    def scattered(self) -> bool:
        """Whether an element chooses rows, one by one or one alone; a slice of them is in order."""
        own = [axis(n) for n in range(self.rank)]
        return any(is_axis(v) for e in self.chosen() for c in e.at for v in c.variables()) or any(
            any(entry.elements()) and not any(entry.coefficient(a) == 1 for a in own)
            for entry in self.index
        )

    def strides(self) -> tuple[dict[int, int], ...] | None:
        """Return, for each tensor axis, the coefficient of every view axis; None if not affine."""
        rows: list[dict[int, int]] = []
        for entry in self.index:
            row = {n: entry.coefficient(axis(n)) for n in range(self.rank)}
            affine = entry - sum((Index.of(axis(n)) * c for n, c in row.items()), Index())
            if any(affine_var.name.startswith("$") for affine_var in affine.variables()):
                return None
            rows.append({n: c for n, c in row.items() if c})
        return tuple(rows)

    def __str__(self) -> str:
        parts = ", ".join(_entry(self, n) for n in range(len(self.index)))
        return f"{self.tensor}[{parts}]{transposition_text(self)}"


def _elements(parts: tuple[Index, ...]) -> tuple[Element, ...]:
    return tuple(dict.fromkeys(e for part in parts if part.terms for e in part.elements()))


def _clip(extent: int, remaining: Index) -> Index:
    if remaining.is_constant and remaining.constant >= extent:
        return Index.of(extent)
    return minimum(extent, remaining)


def _entry(view: View, position: int) -> str:
    """Return one tensor axis as text: ``64*i:+64`` for a plain range, else the map itself."""
    entry = view.index[position]
    for number, extent in enumerate(view.shape):
        if entry.coefficient(axis(number)) == 1:
            start = entry - axis(number)
            if not any(v.name.startswith("$") for v in start.variables()):
                valid = view.valid[number]
                return f"{start}:+{extent}" if valid == Index.of(extent) else f"{start}:+{valid}"
    return str(entry)


def transposition_text(view: View) -> str:
    """Return ``.T`` or ``.transpose(...)`` where the view's axes are not in the buffer's order."""
    axes = {axis(n): n for n in range(view.rank)}
    order = [axes[v] for entry in view.index for v in axes if entry.coefficient(v) == 1]
    if len(order) != view.rank or order == sorted(order):
        return ""
    if order == [1, 0]:
        return ".T"
    return f".transpose({', '.join(str(order.index(n)) for n in range(view.rank))})"

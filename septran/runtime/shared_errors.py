"""Errors that several numbers have in common, so that a difference of these does not have them.

A bound on each number alone takes errors for independent: of ``(t - s) - y`` with ``t = s + y`` it
is that of all three, though what rounding did to s and y is not in it. Where such a difference is
carried from step to step, as in a compensated sum, bounds of this kind grow with every step. Here
an error is a sum of sources, each a factor times an unknown number from -1 to 1 with a label; sums
and differences join those of one label: affine arithmetic. Source: de Figueiredo and Stolfi,
Affine arithmetic: concepts and applications, Numerical Algorithms 37 (2004), pages 147 to 158.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST = 24
"""The sources of an element that are kept apart; what is beyond counts as independent."""


@dataclass(frozen=True)
class ErrorSources:
    """What is known of the errors of an array: for each element a few sources."""

    labels: Array
    """By source, then as the array: positive integers, each once in an element; 0 for none."""
    factors: Array
    """Of the same shape: how much of the labelled error there is, with its sign; 0 for none."""

    @property
    def reach(self) -> Array:
        """The greatest error that the sources make together."""
        total: Array = np.abs(self.factors).sum(axis=0)
        return total

    @staticmethod
    def none(shape: tuple[int, ...]) -> ErrorSources:
        """Return those of exact numbers, which can be written to."""
        return ErrorSources(np.zeros((1, *shape), np.int64), np.zeros((1, *shape)))

    def _padded(self, count: int) -> ErrorSources:
        """Return the same, with room for at least so many sources."""
        if len(self.labels) >= count:
            return self
        more = ((0, max(0, count - len(self.labels))), *((0, 0),) * (self.labels.ndim - 1))
        return ErrorSources(np.pad(self.labels, more), np.pad(self.factors, more))

    def expanded(self, axes: tuple[int, ...]) -> ErrorSources:
        """Return the sources with new axes of the array."""
        behind = tuple(n + 1 for n in axes)
        return ErrorSources(*(np.expand_dims(a, behind) for a in (self.labels, self.factors)))

    def at(self, places: Array) -> ErrorSources:
        """Return those of the elements at places of an array of one axis."""
        return ErrorSources(self.labels[:, places], self.factors[:, places])

    def put(self, places: Array, elements: ErrorSources) -> ErrorSources:
        """Return them with those of `elements` at some places of an array of one axis."""
        count = max(len(self.labels), len(elements.labels))
        whole, part = self._padded(count), elements._padded(count)
        whole.labels[:, places], whole.factors[:, places] = part.labels, part.factors
        return whole

    def scaled(self, by: float) -> ErrorSources:
        """Return the sources of a product with an exact number that is not 0."""
        return ErrorSources(self.labels, self.factors * by)

    def where(self, kept: Array) -> ErrorSources:
        """Return the sources of some elements, and none of others, broadcast as NumPy does."""
        shape = np.broadcast_shapes(np.shape(kept), self.labels.shape[1:])
        factors = np.where(kept, _broadcast(self.factors, shape), 0.0)
        return ErrorSources(np.where(factors == 0, 0, _broadcast(self.labels, shape)), factors)


@dataclass
class Labels:
    """Labels that no source has yet."""

    first: int = 1

    def taken(self, count: int) -> int:
        """Return the first of `count` labels, which are then in use."""
        self.first += count
        return self.first - count


def fresh(errors: Array, labels: Labels) -> ErrorSources:
    """Return one new source for each element that has an error."""
    first = labels.taken(errors.size)
    own = first + np.arange(errors.size, dtype=np.int64).reshape(errors.shape)
    return ErrorSources(own[None], np.array(errors, np.float64)[None]).where(errors > 0)


def joined(*parts: ErrorSources) -> ErrorSources:
    """Return the sources of a sum: of each label one, those that cancel left out."""
    shape = np.broadcast_shapes(*(p.labels.shape[1:] for p in parts))
    labels = np.concatenate([_broadcast(p.labels, shape) for p in parts])
    factors = np.concatenate([_broadcast(p.factors, shape) for p in parts])
    order = np.argsort(labels, axis=0, kind="stable")
    labels, factors = (np.take_along_axis(a, order, 0) for a in (labels, factors))
    # A label comes at most once in each part, so that what follows it is added as often.
    for _ in parts[1:]:
        same = (labels[1:] == labels[:-1]) & (labels[1:] > 0)
        factors[1:] += np.where(same, factors[:-1], 0.0)
        factors[:-1] = np.where(same, 0.0, factors[:-1])
        labels[:-1] = np.where(same, 0, labels[:-1])
    return _trimmed(labels, factors)


def _broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array of sources, which are its first axis, with the other axes broadcast."""
    ones = (1,) * (len(shape) + 1 - array.ndim)
    return np.broadcast_to(array.reshape(len(array), *ones, *array.shape[1:]), (len(array), *shape))


def _trimmed(labels: Array, factors: Array) -> ErrorSources:
    """Return at most `MOST` sources of an element, the greatest ones, without empty places."""
    order = np.argsort(-np.abs(factors), axis=0, kind="stable")
    used = int((factors != 0).sum(axis=0).max(initial=0))
    order = order[: max(1, min(used, MOST))]
    labels, factors = (np.take_along_axis(a, order, 0) for a in (labels, factors))
    return ErrorSources(np.where(factors == 0, 0, labels), factors)


def condensed(tensors: Sequence[ErrorSources], labels: Labels) -> list[ErrorSources]:
    """Return the sources of tensors with those that one element alone has joined to one.

    Nothing else has these errors, so that apart they say no more than together.
    """
    every = np.concatenate([t.labels.ravel() for t in tensors])
    found, counts = np.unique(every, return_counts=True)
    result = []
    for sources in tensors:
        shared = np.isin(sources.labels, found[counts > 1])
        kept = ErrorSources(
            np.where(shared, sources.labels, 0), np.where(shared, sources.factors, 0.0)
        )
        own = np.abs(np.where(shared, 0.0, sources.factors)).sum(axis=0)
        result.append(joined(kept, fresh(own, labels)))
    return result

"""NaN and infinities among a case's inputs: a few of each tensor, as one can spoil a whole row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from septran.dtypes import is_float

VALUES = (np.nan, np.inf, -np.inf, -0.0)
EACH = 512
"""Of so many elements one more is special, besides the first of each value."""


def with_special_values(
    inputs: Mapping[str, np.ndarray[Any, Any]], seed: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the inputs with NaN, infinities and a negative zero at a few places of each.

    Of a type without infinities they are NaN, and integers stay as they are.
    """
    return {
        name: _special(array, np.random.default_rng([seed, number]))
        for number, (name, array) in enumerate(inputs.items())
    }


def _special(array: np.ndarray[Any, Any], random: np.random.Generator) -> np.ndarray[Any, Any]:
    if not array.size or not is_float(str(array.dtype)):
        return array
    # A tensor of few elements keeps most of them, so that something is left to compare.
    count = min(len(VALUES) + array.size // EACH, max(1, array.size // 8))
    places = random.choice(array.size, count, replace=False)
    found = array.copy()
    first = int(random.integers(len(VALUES)))
    for number, place in enumerate(places):
        found.flat[place] = VALUES[(first + number) % len(VALUES)]
    return found

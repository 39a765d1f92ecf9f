"""What measured candidates say of the others: the model's ranking, corrected value by value.

A model that is wrong about one value, such as a memory, is wrong about all candidates that have it.
The logarithm of measured over predicted time is taken for a sum of one term for each value of a
point (a ridge regression, as there are fewer measurements than values), and a candidate is ranked
by its prediction with the terms of its own values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from septran.tuning.tuning import Trial

STRENGTH = 0.1
"""The penalty on the square of a term: a value seen once takes most of what the model was off."""


def corrected(waiting: Sequence[Trial], measured: Sequence[Trial]) -> list[Trial]:
    """Return the waiting trials in the order of their corrected predictions, the fastest first.

    Candidates that were refused or wrong say nothing. Without two measurements the order is the
    one given.
    """
    known = [t for t in measured if t.predicted and t.cost and t.kind == "measured"]
    if len(known) < 2:
        return list(waiting)
    values = sorted({item for t in known for item in t.point.items()}, key=str)
    rows = np.array([[v in t.point.items() for v in values] for t in known], float)
    off = np.array([math.log((t.cost or 0.0) / (t.predicted or 1.0)) for t in known])
    # The middle is what the model is off by everywhere, which changes no order.
    rows, off = rows - rows.mean(axis=0), off - off.mean()
    normal = rows.T @ rows + STRENGTH * np.eye(len(values))
    terms = dict(zip(values, np.linalg.solve(normal, rows.T @ off), strict=True))

    def rank(trial: Trial) -> float:
        more = sum(float(terms.get(item, 0.0)) for item in trial.point.items())
        return math.log(trial.predicted or math.inf) + more

    return sorted(waiting, key=rank)

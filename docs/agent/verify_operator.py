"""Check an operator against somebody else's function, by the error bound: run it as it is.

Copy it and change three places: LOGIC, ORACLE and SIZES. It ends with exit code 1 where an element
is further from the oracle than rounding allows, and prints which. No tolerance is chosen by hand:
the bound follows from the logic, the inputs and the element types.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import septran
from septran.runtime.accuracy import compare, error_bounds

LOGIC = "rms_norm"
"""1. An operator of the library, or your logic file: ``my_operator.py``."""
MAPPING = "dsa-sim"
"""A machine, or your mapping file."""
SIZES = ({"M": 40, "N": 70}, {"M": 1, "N": 1}, {"M": 33, "N": 257})
"""2. Sizes with ragged edges among them."""


def oracle(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """3. Return each output in float64, by a way of its own: NumPy, SciPy, torch."""
    x, weight = (inputs[name].astype(np.float64) for name in ("X", "W"))
    return {"Y": x / np.sqrt(np.mean(x**2, axis=1, keepdims=True) + 1e-6) * weight}


def main() -> int:
    """Return the exit code."""
    right = True
    for sizes in SIZES:
        kernel = septran.compile(LOGIC, MAPPING, shapes=sizes)
        inputs = kernel.sample(seed=0)
        results = kernel(**inputs)
        names = [tensor.name for tensor in kernel.signature.outputs]
        results = results if isinstance(results, tuple) else (results,)
        bounds, wanted = error_bounds(kernel.stages.task_tree, inputs), oracle(inputs)
        for name, found in zip(names, results, strict=True):
            # The bound of the logic around the value of the oracle.
            accuracy = compare(name, found, replace(bounds[name], value=wanted[name]))
            right = right and accuracy.right
            print(f"{kernel.name} {sizes}: {accuracy}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

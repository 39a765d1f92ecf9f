"""N + M files: every operator of the library runs under every machine's rule mapping."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import operators
from septran.dtypes import numpy_dtype
from septran.mapping.loader import mapping_names
from septran.runtime.accuracy import compare, error_bounds
from septran.tile.verify import verify

LARGE = {
    "attention": {"B": 1, "H": 2, "M": 1000, "N": 1500, "D": 128},
    "batched_gemm": {"S": 3, "M": 1000, "N": 700, "K": 2000},
    "conv2d": {"B": 2, "C": 128, "H": 56, "W": 56, "O": 256, "R": 3, "S": 3},
    "gemm": {"M": 4096, "N": 4096, "K": 8192},
    "gemm_bias_act": {"M": 1000, "N": 4096, "K": 4096},
    "softmax": {"M": 4096, "N": 8192},
}
SMALL = {
    "attention": {"B": 1, "H": 2, "M": 33, "N": 70, "D": 16},
    "batched_gemm": {"S": 3, "M": 40, "N": 33, "K": 70},
    "conv2d": {"B": 2, "C": 3, "H": 10, "W": 9, "O": 5, "R": 3, "S": 2},
    "gemm": {"M": 70, "N": 130, "K": 90},
    "gemm_bias_act": {"M": 70, "N": 40, "K": 66},
    "softmax": {"M": 40, "N": 70},
}


def test_the_sizes_are_for_every_operator():
    assert set(LARGE) == set(SMALL) == set(operators.names())


@pytest.mark.parametrize("machine", mapping_names())
@pytest.mark.parametrize("operator", operators.names())
@pytest.mark.parametrize("sizes", ["example", "large"])
def test_every_operator_fits_every_machine(operator, machine, sizes):
    shapes = LARGE[operator] if sizes == "large" else operators.module(operator).EXAMPLE
    verify(septran.produce_stages(operator, machine, shapes=shapes).tile_program)


@pytest.mark.parametrize("machine", mapping_names())
@pytest.mark.parametrize("operator", operators.names())
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_operator_is_right_on_every_machine(operator, machine, dtype):
    stages = septran.produce_stages(operator, machine, shapes=SMALL[operator], dtypes=dtype)
    random = np.random.default_rng(0)
    arrays = {
        p.name: random.standard_normal(p.shape).astype(numpy_dtype(p.dtype))
        for p in stages.task_tree.root.params
        if not p.writes
    }
    bounds = error_bounds(stages.task_tree, arrays)
    for order in ("early", "late"):
        results = septran.interpret(stages.tile_program, arrays, order=order)
        for name, bound in bounds.items():
            accuracy = compare(name, results[name], bound)
            assert accuracy.right, accuracy
            assert accuracy.unknown == 0

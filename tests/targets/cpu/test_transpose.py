"""Blocks turned in registers, and what is known to be a multiple of a vector."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import septran
from septran.ir.index import Index, Var, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.copy.transpose import transposed
from septran.targets.cpu.run.build import compile_module
from septran.targets.cpu.run.isa import native
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.indices import divisor
from septran.targets.lower.writer import flat_buffer


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_columns_of_a_block(size):
    writer = CpuWriter()
    x, y = (flat_buffer(name, size * size, "float32", 1) for name in "xy")
    rows = [writer.bind("r", simd.load(x, writer.index(n * size), size)) for n in range(size)]
    for n, column in enumerate(transposed(writer, rows)):
        simd.store(writer, y, writer.index(n * size), column, size)
    run = compile_module(tvm.IRModule({"f": writer.function("f", [x, y])}), native().arch)["f"]
    given = np.arange(size * size, dtype="f4")
    found = np.empty_like(given)
    run(given, found)
    np.testing.assert_array_equal(found.reshape(size, size), given.reshape(size, size).T)


TURNED = {"float32": True, "int32": True, "int8": True, "bfloat16": True, "float64": False}
"""Whether blocks of elements of a type are turned in registers, on every unit."""


@pytest.mark.parametrize("dtype", TURNED)
@pytest.mark.one_in(2)
def test_a_move_across_goes_by_blocks_of_registers(dtype):
    """Whole blocks, what is left of them to either side, and planes apart."""
    shapes = {"B": 3, "M": 37, "N": 70}
    kernel = septran.compile("transpose", "cpu-x86", shapes=shapes, dtypes=dtype)
    assert ("T.Shuffle" in str(kernel.stages.tensor_ir)) == TURNED[dtype]
    result = kernel.check(guard=True)
    assert result.right, str(result)


def test_multiples_are_seen_through_minima():
    i = Index.of(Var("i"))
    seen = minimum(512, i * 48 + minimum(48, 512 - i * 48))
    assert divisor(seen) % 16 == 0
    assert divisor(seen) % 32 != 0
    assert divisor(seen + 1) % 16 != 0

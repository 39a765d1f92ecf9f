"""Mistakes put into the code generator on purpose are found by a kernel's check."""

from __future__ import annotations

import itertools
import re
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.ir import StringImm
from tvm.ir.expr import TensorLoad

import septran
from septran.runtime.checks import check
from septran.targets.cpu import simd
from septran.targets.cpu.lowering import lower_program
from septran.targets.cpu.run.build import compile_module
from septran.targets.cpu.run.isa import native
from septran.targets.lower.values import element_of, lanes_of
from septran.targets.lower.writer import Writer

CASES = {
    "gemm": {"M": 45, "N": 50, "K": 37},
    "softmax": {"M": 37, "N": 50},
    # A sum of 32 is whole: rows of weights beyond it would be read and multiplied with nothing.
    "conv2d": {"B": 1, "C": 4, "H": 10, "W": 10, "O": 15, "R": 4, "S": 2},
}
EQUIVALENT = {"softmax": 1}
"""Mutants that change no result: of a maximum that rounding hides."""
EVERY = 12
"""Mutants an operator and kind, at most, evenly spread."""


PADDING = set()
"""Buffers that hold a rearrangement of nothing but zeros: rows that do not exist, transposed."""


def is_padding(value):
    """Whether a vector is zeros that stand for no element; no result is made from it."""
    if isinstance(value, tirx.Broadcast):
        return isinstance(value.value, tirx.FloatImm) and value.value.value == 0
    if isinstance(value, tirx.Shuffle):
        return all(map(is_padding, value.vectors))
    return isinstance(value, TensorLoad) and value.source in PADDING


def is_store(node):
    if isinstance(node, tirx.Evaluate):
        return "llvm.masked.store" in str(node.value)
    if not isinstance(node, tirx.BufferStore):
        return False
    if isinstance(node.value, tirx.Shuffle) and is_padding(node.value):
        PADDING.add(node.buffer)
        return False
    return True


def is_loop(node):
    return isinstance(node, tirx.For)


def spoiled(node):
    """Another number is stored; a masked store, which is into an output, is left out."""
    if isinstance(node, tirx.Evaluate):
        return tirx.Evaluate(0)
    element, lanes = element_of(node.value), lanes_of(node.value)
    if element.startswith("float"):
        other = simd.constant(1e9, element, lanes)
    else:
        other = tirx.Add(node.value, simd.constant(1, element, lanes))
    return tirx.BufferStore(node.buffer, other, node.indices)


def shorter(node):
    return tirx.For(node.loop_var, node.min, node.extent - 1, node.kind, node.body)


def stop(node):
    return tirx.SeqStmt([tirx.AssertStmt(tirx.const(0, "bool"), KIND, [MESSAGE]), node])


KIND, MESSAGE = StringImm("RuntimeError"), StringImm("reached")
KINDS = {"a wrong store": (is_store, spoiled), "an iteration less": (is_loop, shorter)}


@contextmanager
def changed(wanted, change, number):
    """Every statement of a kind gets its number, and that of `number` is changed.

    A numbered statement is no longer of the kind: bodies are written into others later.
    """
    emit, count = Writer.emit, 0

    def mutated(self, statement):
        nonlocal count
        if wanted(statement):
            statement = change(statement) if count == number else statement
            statement = tirx.AttrStmt(0, "number", tirx.const(count, "int32"), statement)
            count += 1
        emit(self, statement)

    Writer.emit = mutated
    try:
        yield
    finally:
        Writer.emit = emit


def numbers_in(program, wanted):
    """Numbers of the statements that are in the kernel: some are written and then not needed."""
    with changed(wanted, spoiled, None):
        function = lower_program(program)
    return sorted({int(n) for n in re.findall(r'"number": (\d+)', str(function))})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["gemm", "softmax", pytest.param("conv2d", marks=pytest.mark.slow)]
)
def test_mutants_of_the_lowering_are_found(name, kind):
    kernel = septran.compile(name, "cpu-x86", shapes=CASES[name])
    (made,) = kernel.specialisations
    program = made.stages.tile_program

    def right(function, seed):
        # Other numbers each time: memory may hold what the last run left there.
        # Every second row is large, as softmax of small ones is right without its maximum, and
        # that of very large ones is 1 in one column; the first row has code of its own.
        ways = itertools.product((0, 1), (30, 1000))
        return all(right_scaled(function, seed, *way) for way in ways)

    def right_scaled(function, seed, first, factor):
        arrays = kernel.sample(seed)
        for x in arrays.values():
            x[first::2] *= factor
        return check(name, made, arrays, (), lambda given: function(*given)).right

    wanted, change = KINDS[kind]

    def compiled(number, change=change):
        with changed(wanted, change, number):
            module = tvm.IRModule({program.name: lower_program(program)})
        return compile_module(module, native().arch)[program.name]

    assert right(compiled(-1), 0)
    there = numbers_in(program, wanted)
    places = np.linspace(0, len(there) - 1, min(len(there), EVERY))
    numbers = sorted({there[int(n)] for n in places})
    missed = [n for n in numbers if right(compiled(n), n + 1)]
    unreached = []
    for number in missed:  # code for other edges than those of these shapes
        with suppress(RuntimeError):
            right(compiled(number, stop), 0)
            unreached.append(number)
    assert len(missed) - len(unreached) <= EQUIVALENT.get(name, 0), (missed, unreached)
    assert len(missed) < len(numbers) / 2

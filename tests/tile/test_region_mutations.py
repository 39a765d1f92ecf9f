"""A region that is moved, or is larger or smaller than it should be, is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from septran.compiler import produce_stages
from septran.errors import SepTranError
from septran.ir.index import Index
from septran.task.reference import run_tree
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import Copy, nodes, regions, rewrite
from septran.tile.verify.verifier import verify

GEMM = {"M": 40, "N": 50, "K": 30}
TILES = {"block_M": 16, "block_N": 16, "block_K": 16}
CASES = [
    ("gemm", "cpu-x86", GEMM, TILES),
    ("softmax", "cpu-x86", {"M": 40, "N": 50}, {"block_rows": 16}),
    ("conv2d", "cpu-x86", {"B": 2, "C": 5, "H": 9, "W": 8, "O": 6, "R": 3, "S": 3}, {}),
    ("attention", "cpu-x86", {"B": 1, "H": 2, "G": 2, "M": 40, "N": 50, "D": 8}, {}),
    ("gemm", "dsa-sim", GEMM, TILES),
]


def changes(region):
    """The region one element further, at another iteration's place, or of other extents."""
    for n, entry in enumerate(region.index):
        others = [entry + 1]
        others += [entry.substitute({v: 0}) for v in entry.variables() if v.name[0] != "$"]
        for other in others:
            yield replace(region, index=(*region.index[:n], other, *region.index[n + 1 :]))
    for n, extent in enumerate(region.valid):
        if extent.variables():
            for other in (extent - 1, Index.of(region.shape[n])):
                yield replace(region, valid=(*region.valid[:n], other, *region.valid[n + 1 :]))


def changed(node, place, region):
    if isinstance(node, Copy):
        return replace(node, **{("target", "source")[place]: region})
    return replace(node, operands=(*node.operands[:place], region, *node.operands[place + 1 :]))


def mutants(program):
    for node in nodes(program.body):
        for place, region in enumerate(regions(node)):
            if place and getattr(node, "expression", None) is not None:
                continue  # they only repeat what the expression loads
            for other in changes(region):
                new = changed(node, place, other)
                body = rewrite(program.body, lambda n, old=node, new=new: (new if n is old else n,))
                yield node, other, replace(program, body=body)


def found(program, inputs, wanted):
    try:
        verify(program)
        result = interpret(program, inputs)[program.outputs[0]]
    except SepTranError:
        return True
    return not np.array_equal(result, wanted)


def same_move(node, region):
    """Copies move the elements that exist on both sides: a larger target changes nothing."""
    return isinstance(node, Copy) and region.buffer == node.target.buffer


@pytest.mark.parametrize(
    ("operator", "machine", "shapes", "tiles"), CASES, ids=lambda x: str(x)[:9]
)
@pytest.mark.one_in(2)
def test_every_changed_region_is_found(operator, machine, shapes, tiles):
    stages = produce_stages(operator, machine, shapes=shapes, tunables=tiles)
    program, rng = stages.tile_program, np.random.default_rng(0)
    names = [n for n in program.params if n not in program.outputs]
    inputs = [rng.integers(1, 9, program.buffer(n).shape).astype("f4") for n in names]
    wanted = interpret(program, inputs)[program.outputs[0]]
    if operator != "attention":  # which sums in another order
        exact = run_tree(stages.task_tree, dict(zip(names, inputs, strict=True)))
        np.testing.assert_allclose(wanted, exact[program.outputs[0]], rtol=1e-5)
    count = 0
    for node, region, mutant in mutants(program):
        count += 1
        constant = all(not v.variables() for v in region.valid)
        if not found(mutant, inputs, wanted):
            assert same_move(node, region), (node, region)
            assert constant, (node, region)
    assert count >= 15

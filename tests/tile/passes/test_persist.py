"""Units that stay and walk over the parallel iterations in turn."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran.tile.nodes import Copy, For, nodes
from septran.tile.verify.verifier import verify

MAPPING = """
machine: npu-cube
rules:
  - match: {{level: entry}}
    proc: HOST
    mems: {{"*": GLOBAL}}
    pipeline: 2
    persistent: {persistent}
  - {{match: {{loops: parallel}}, proc: CORE, mems: {{temporaries: UB, writes: UB}}}}
  - {{match: {{leaf: elementwise}}, mems: {{"*": UB}}, binding: vec}}
tunables: {{block_height: 8, block_width: 32, block_rows: 8}}
"""


def program(operator, shapes, persistent="true"):
    mapping = MAPPING.format(persistent=persistent)
    return septran.produce_stages(operator, mapping, shapes=shapes).tile_program


def test_the_turns_of_a_unit_are_its_own_and_copies_go_ahead():
    found = program("softmax", {"M": 64, "N": 40})
    (units,) = [n for n in nodes(found.body) if isinstance(n, For) and n.processor == "CORE"]
    assert units.extent.as_int() == 2
    assert found.channel("X_in").stages == 2
    still = program("softmax", {"M": 64, "N": 40}, "false")
    assert still.channel("X_in").stages == 1
    (remark,) = [r for r in found.remarks if r.passed == "persist"]
    assert remark.message == "2 CORE stay and take the iterations in turn (persistent)"


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 17, 24, 33])
@pytest.mark.parametrize("order", ["early", "late", 5])
@pytest.mark.one_in(3, first=1)
def test_every_iteration_is_done_once(rows, order):
    """One nest of two loops; rows that give fewer, as many and more iterations than units."""
    found = program("elementwise", {"M": rows, "N": 70})
    verify(found)
    x = np.random.default_rng(0).standard_normal((rows, 70)).astype("float32")
    result = septran.interpret(found, {"X": x}, order=order)["Y"]
    wide = x.astype("float64")
    # One rounding each of exp, the sum, the quotient and the product, in float32.
    assert np.abs(result - wide / (1 + np.exp(-wide))).max() <= 8 * 2.0**-24 * np.abs(wide).max()
    outs = [n for n in nodes(found.body) if isinstance(n, Copy) and n.target.buffer == "Y"]
    assert outs

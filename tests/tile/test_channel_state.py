"""What hands fills over wrongly is found where it happens, and says which fill it is."""

from __future__ import annotations

import numpy as np
import pytest

from septran.tile.interpret.channel_state import ProtocolError
from septran.tile.interpret.interpreter import interpret
from septran.tile.verify.verifier import verify

CASES = {
    "a fill is committed twice": (
        ["copy 0", "commit 0", "copy 1", "commit 0", "wait 0", "release 0"],
        "fill 0 of ring is committed twice",
    ),
    "a fill without one of the buffers": (
        ["half 0", "commit 0", "wait 0", "release 0"],
        "fill 0 of ring has no copy of T",
    ),
    "a release without a wait": (
        ["copy 0", "commit 0", "release 0", "wait 0"],
        "the program releases fill 0 of ring, which it has not waited for",
    ),
    "a fill is released twice": (
        ["copy 0", "commit 0", "wait 0", "release 0", "release 0"],
        "fill 0 of ring is released twice",
    ),
    "a read after the release": (
        ["copy 0", "commit 0", "wait 0", "release 0", "read 0"],
        "is read by the program after fill 0 of ring was released",
    ),
    "copies that nobody commits": (
        ["copy 0", "commit 0", "wait 0", "release 0", "copy 1"],
        "2 copies on ring are never committed",
    ),
}


@pytest.fixture
def program(build, part):
    """`program(steps)` makes one of words such as `copy 0`, a fill of S and T in stage 0."""
    y, x = build.buffer("Y", "DRAM", (4,)), build.buffer("X", "DRAM", (4,))
    s, t = (build.buffer(name, "SPM", (4,), stages=2) for name in "ST")
    ring = build.channel("ring", "DMA_IN", 2, s, t)

    def bring(buffer, number):
        return build.copy(part(buffer, stage=number), part(x), "DMA_IN", ring)

    words = {
        "copy": lambda n: [bring(s, n), bring(t, n)],
        "half": lambda n: [bring(s, n)],
        "read": lambda n: [build.copy(part(y), part(s, stage=n))],
        "commit": lambda n: [build.commit(ring, n)],
        "wait": lambda n: [build.wait(ring, n)],
        "release": lambda n: [build.release(ring, n)],
    }

    def make(steps):
        pairs = [step.split() for step in steps]
        body = [node for word, n in pairs for node in words[word](int(n))]
        return build.program("YX", "Y", build.copy(part(y), part(x)), *body)

    return make


@pytest.mark.parametrize("name", CASES)
def test_a_broken_hand_over_is_found(program, name):
    steps, message = CASES[name]
    for judge in (verify, lambda p: interpret(p, [np.ones(4, np.float32)])):
        with pytest.raises(ProtocolError, match=message):
            judge(program(steps))


def test_the_same_steps_in_order_are_right(program):
    right = program(["copy 0", "commit 0", "wait 0", "read 0", "release 0"])
    verify(right)
    assert (interpret(right, [np.ones(4, np.float32)])["Y"] == 1).all()

"""A dialogue with the server: from an untuned mapping to one as fast as the library's.

What stands for the model is greedy: it asks for proposals, and takes the one that measured best.
The costs are cycles of a simulator, so that each run goes the same way.
"""

from __future__ import annotations

import pytest

UNTUNED = """\
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {loops: parallel}, proc: CORE, mems: {accumulators: ACC, writes: SPM}}
  - {match: {primitive: gemm}, mems: {accumulators: ACC, reads: SPM}, binding: {gemm: mma}}
  - {match: {leaf: elementwise}, proc: CORE, mems: {"*": SPM}, binding: vec}
  - {match: {leaf: [fill, copy]}, mems: {"*": SPM}, binding: vec}
tunables: {"block_*": 32}
"""
"""Right, and slow: small tiles, and nothing travels while something is computed."""
ENOUGH = 0.997
"""The share of the cycles above which a change is not worth another question."""


def cycles(session, mapping, **asked):
    found = session.call("profile", mapping=mapping, **asked)
    assert found["right"], found["check"]
    return found["profile"]["cycles"]


def tuned(session, rounds, keys=None, **asked):
    """The mapping that the dialogue ends with, and what was tried on the way."""
    mapping, said = UNTUNED, []
    for _ in range(rounds):
        best, *_ = session.call(
            "propose", mapping=mapping, measure=True, keys=keys, seconds=200, **asked
        )["found"]
        if best["measured"] > ENOUGH:
            break
        mapping = best["mapping"]
        said.append(best["try"])
    return mapping, said


@pytest.fixture(scope="module")
def session(served, tmp_path_factory):
    return served(tmp_path_factory.mktemp("dialogue"), "--seconds", "600")


def test_one_question_finds_that_copies_should_travel_beside_the_computation(session):
    asked = {"logic": "softmax", "shapes": {"M": 64, "N": 128}}
    mapping, said = tuned(session, 1, ["pipeline"], **asked)
    assert said == ["{match: {task: softmax}, pipeline: 2}"]
    assert cycles(session, mapping, **asked) < cycles(session, UNTUNED, **asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("logic", "shapes", "slower"),
    [("gemm", {"M": 256, "N": 256, "K": 256}, 4.0), ("softmax", {"M": 256, "N": 512}, 1.4)],
    ids=["gemm", "softmax"],
)
def test_the_tools_alone_lead_to_the_librarys_speed(session, logic, shapes, slower):
    asked = {"logic": logic, "shapes": shapes}
    goal = cycles(session, "dsa-sim", **asked)
    assert cycles(session, UNTUNED, **asked) > slower * goal
    mapping, said = tuned(session, 12, **asked)
    assert cycles(session, mapping, **asked) <= 1.05 * goal, said
    verdict = session.call("check", logic=logic, mapping=mapping, cases=6, seconds=200)
    assert verdict["right"], verdict["text"]
    assert len(said) <= 10

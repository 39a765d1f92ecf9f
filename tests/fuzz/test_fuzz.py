"""Random programs are right, under every schedule, and a planted mistake is found."""

from __future__ import annotations

import dataclasses

import pytest

from septran.fuzz import campaign, make_case, run_campaign, run_case
from septran.tile.nodes import Copy, rewrite

pytestmark = pytest.mark.usefixtures("vectors")
FIRST = 20_000
"""Seeds of the suite; `septran fuzz` takes any others."""
CHUNK, CHUNKS = 15, 12


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_are_right(chunk):
    result = run_campaign(FIRST + chunk * CHUNK, CHUNK)
    assert not result.failures, str(result)
    rejected = [o for o in result.outcomes if o.kind == "rejected"]
    assert len(rejected) <= CHUNK // 3, str(rejected)


def test_cases_depend_on_their_seed_alone():
    assert make_case(7) == make_case(7)
    assert make_case(7) != make_case(8)


def test_padded_windows_in_panels_of_one():
    """Seed 9158 once: the mask of a vector of one lane."""
    case = dataclasses.replace(
        make_case(0), logic="conv2d", mapping="cpu-x86", machine="cpu-x86", dtype="bfloat16",
        shapes={"X": (1, 1, 13, 14), "F": (5, 1, 1, 1)}, static={"stride": 2, "padding": 1},
        tunables={"block_M": 64, "block_N": 3, "block_K": 1},
    )  # fmt: skip
    assert run_case(case).kind == "right"


def test_a_dropped_copy_is_found(monkeypatch):
    """The check can fail: without the copies of a machine, its results are wrong."""
    whole = campaign.interpret

    def without_copies(program, arrays, **options):
        def drop(node):
            return () if isinstance(node, Copy) and node.target.buffer != "C" else (node,)

        body = rewrite(program.body, drop)
        return whole(dataclasses.replace(program, body=body), arrays, **options)

    monkeypatch.setattr(campaign, "interpret", without_copies)
    case = dataclasses.replace(
        make_case(0), logic="gemm", mapping="cpu-x86", machine="cpu-x86", dtype="float32",
        shapes={"A": (1000, 17), "B": (17, 20)}, static={}, tunables={},
    )  # fmt: skip
    assert run_case(case).kind in ("wrong", "crash")

"""What lives where: aligned with the plan, the lines and the capacities."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import septran
from septran.tile.nodes import nodes
from septran.views.maps.memory_map import MemoryMap

SIZES = {"M": 256, "N": 256, "K": 256}


@pytest.fixture(scope="module", params=["dsa-sim", "npu-cube", "nvidia-h200", "cpu-x86"])
def found(request):
    return septran.explain("gemm", request.param, shapes=SIZES).memory_map


def test_each_node_is_a_line_and_each_placement_a_buffer(found):
    program = found.program
    assert len(found.lines) == len(list(nodes(program.body)))
    held = [h for memory in found.memories.values() for h in memory]
    assert sorted(h.buffer.name for h in held) == sorted(p.buffer for p in program.plan)


def test_uses_lie_inside_of_lifetimes(found):
    for held in found.memories.values():
        for h in held:
            assert h.uses
            assert h.first <= h.uses[0] <= h.uses[-1] <= h.last


def test_what_is_in_use_at_once_fits_and_does_not_overlap(found):
    for name, held in found.memories.items():
        limit = found.capacity(name)
        assert limit is None or found.peak(name) <= limit
        for line in found.lines:
            alive = sorted((h.offset, h.offset + h.size) for h in held
                           if h.first <= line.number <= h.last)  # fmt: skip
            assert all(a[1] <= b[0] for a, b in pairwise(alive))


def test_the_data_is_json_with_keys_to_other_views(found):
    data = json.loads(json.dumps(found.to_dict()))
    names = {b["name"] for memory in data["memories"] for b in memory["buffers"]}
    names |= {b["name"] for b in data["elsewhere"]}
    assert names == {b.name for b in found.program.buffers}
    assert all(line["keys"][0] == f"node:{n}" for n, line in enumerate(data["lines"]))


def test_a_toy_program(program):
    found = MemoryMap(program)
    assert found.live("SHARED", 0) == 0
    assert found.live("SHARED", 4) == 24_576
    assert "SHARED: 24,576 bytes in use at most of 65,536 (38%)" in str(found)
    assert [b.name for b in found.elsewhere()] == ["C", "A", "B", "C_REGISTER"]
    assert "<script>" not in found._repr_mimebundle_()["text/html"]

"""What a block touches: the boxes hold what the interpreter reads and writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import septran
from septran.tile.analyses.loops import trips, walk
from septran.tile.interpret.storage import grid
from septran.tile.nodes import Compute, Copy
from septran.views.maps.access_map import NoSuchBlockError, access_map, box_of

SIZES = {"M": 200, "N": 136, "K": 160}


@pytest.fixture(scope="module", params=["dsa-sim", "npu-cube", "nvidia-h200", "cpu-x86"])
def program(request):
    return septran.explain("gemm", request.param, shapes=SIZES).tile_program


def test_all_blocks_together_write_every_element_of_the_result_once(program):
    written = np.zeros((200, 136), int)
    loops = access_map(program).loops
    for block in np.ndindex(*loops.values()):
        found = access_map(program, **dict(zip(loops, map(int, block), strict=True)))
        names = [t["name"] for t in found.to_dict()["tensors"]]
        seen = np.zeros_like(written)
        for step in found.to_dict()["steps"]:
            for tensor, way, _, low, high in step["boxes"]:
                if names[tensor] == "C" and way == "w":
                    seen[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = 1
        written += seen
    assert (written == 1).all()


def test_boxes_are_the_least_that_hold_the_regions(program):
    found = access_map(program)
    for event in found.events:
        node = event.node
        for region in (node.source, node.target) if isinstance(node, Copy) else node.operands:
            shape = program.buffer(region.buffer).shape
            extents = tuple(v.evaluate(event.values) for v in region.valid)
            low, high = box_of(region, event.values, shape)
            for entry, a, b in zip(region.index, low, high, strict=True):
                at = grid(entry, extents, event.values)
                assert (at.min(), at.max() + 1) == (a, b)


def test_a_block_runs_each_of_its_nodes(program):
    found = access_map(program)
    inside = [
        trips([loop for loop in loops if loop.kind != "parallel"])
        for node, loops in walk(program.body)
        if isinstance(node, Copy | Compute)
    ]
    assert 0 < len(found.events) <= sum(inside)


def test_the_data_is_json_and_a_block_that_is_not_there_is_named(program):
    found = access_map(program)
    assert json.loads(json.dumps(found.to_dict()))["total"] == len(found.events)
    name, extent = next(iter(found.loops.items()))
    with pytest.raises(NoSuchBlockError, match=f"no block {name}={extent}"):
        access_map(program, **{name: extent})
    with pytest.raises(NoSuchBlockError, match="no block zz=0"):
        access_map(program, zz=0)


def test_a_block_of_chosen_rows_is_shown():
    sizes = {"T": 8, "V": 16, "D": 32}
    program = septran.produce_stages("embedding", "dsa-sim", shapes=sizes).tile_program
    assert access_map(program).to_dict()["steps"]

"""What each entry of a mapping costs: every cycle of the run is at one entry, once."""

from __future__ import annotations

import json

import pytest

import septran
from septran.views.maps.mapping_profile import mapping_profile


@pytest.fixture(scope="module", params=["dsa-sim", "npu-cube"])
def found(request):
    kernel = septran.compile("gemm", request.param, shapes={"M": 128, "N": 128, "K": 256})
    profile = kernel.profile()
    return profile, mapping_profile(kernel.stages.mapping, profile)


def test_cycles_and_bytes_are_all_there_once(found):
    profile, entries = found
    frame = profile.by_origin()
    told = sum(e.cycles for e in entries.entries) + sum(entries.other.values())
    assert told == frame["cycles"].sum()
    assert sum(e.flops for e in entries.entries) == profile.flops


def test_the_instruction_is_at_its_binding_and_copies_at_the_memory(found):
    profile, entries = found
    binding = [e for e in entries.entries if e.key == "binding" and e.flops]
    assert [e.flops for e in binding] == [profile.flops]
    assert all(e.task.endswith("gemm_tile") for e in binding)
    copies = [e for e in entries.entries if e.key == "mems" and e.bytes]
    assert {name for e in copies for name in ("A", "B", "C") if name in e.value} == {"A", "B", "C"}
    assert all(0 < e.of_peak <= 1.001 for e in [*binding, *copies])


def test_lines_of_a_mapping_that_was_given_as_text_are_found_too():
    text = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {loops: parallel}, proc: CORE, mems: {C: ACC}}
  - {match: {primitive: gemm}, mems: {A: SPM, B: SPM}}
tunables: {block_M: 32, block_N: 32, block_K: 32}
"""
    kernel = septran.compile("gemm", text, shapes={"M": 32, "N": 32, "K": 32})
    entries = mapping_profile(kernel.stages.mapping, kernel.profile()).entries
    copies = {e.value: e.bytes for e in entries if e.key == "mems" and e.bytes}
    assert copies == {"C: ACC": 4096, "A: SPM": 4096, "B: SPM": 4096}


def test_it_is_json_text_and_html(found):
    _, entries = found
    assert json.loads(json.dumps(entries.to_dict()))["cycles"] == entries.cycles
    assert len(str(entries).splitlines()) == len(entries.entries) + 1
    assert "<table" in entries._repr_mimebundle_()["text/html"]
    assert len(entries.to_pandas()) == len(entries.entries)

"""`MappingFile.with_`: a mapping with small changes, as a file that extends it would make them."""

from __future__ import annotations

import re

import pytest

import septran
from septran.errors import SepTranError
from septran.mapping.loader import load_mapping
from septran.mapping.mistakes import (
    MappingSyntaxError,
    OpenDispatchError,
    UnknownKeyError,
    UnknownNameError,
)

SIZES = {"M": 128, "N": 128, "K": 256}


def program(mapping) -> str:
    return str(septran.explain("gemm", mapping, shapes=SIZES).text("tile_program"))


def test_a_change_is_what_a_file_that_extends_the_mapping_says():
    rule = {"match": {"task": "gemm_block"}, "pipeline": 3}
    changed = load_mapping("dsa-sim").with_(rules=[rule], tunables={"block_K": 64})
    text = "extends: dsa-sim.mapping.yaml\nrules: [{match: {task: gemm_block}, pipeline: 3}]\n"
    extended = load_mapping(text + "tunables: {block_K: 64}\n")
    first, second = (program(m).split("Copies and waits")[0] for m in (changed, extended))
    assert first == second
    assert "in 3 stages" in program(changed)
    assert "float32[128, 64] in SPM x 3 stages" in program(changed)


def test_a_mapping_that_is_a_text_is_changed_too_and_stays_as_it_was():
    first = load_mapping("machine: dsa-sim\nrules: [{proc: CORE}]\ntunables: {block_K: 32}\n")
    second = first.with_(tunables={"block_K": 64})
    values = [m.tunables["block_K"].cases[0].value for m in (first, second)]
    assert values == [32, 64]


def test_a_reason_shows_the_change_that_it_comes_from():
    changed = load_mapping("dsa-sim").with_(
        rules=[{"match": {"task": "gemm_tile"}, "mems": {"A": "SPM"}}]
    )
    assert re.search(r"mapping  <change \w+>:3:13  mems: {A: SPM}", program(changed))


def test_changes_of_changes_add_up():
    mapping = load_mapping("dsa-sim").with_(tunables={"block_K": 64}).with_(rules=[{"pipeline": 1}])
    assert mapping.tunables["block_K"].cases[0].value == 64
    assert "stages:" not in program(mapping)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"tunabels": {}}, UnknownKeyError, "did you mean 'tunables'?"),
        ({"rules": [{"mems": {"A": "SPMX"}}]}, UnknownNameError, "did you mean 'SPM'?"),
        ({"machine": "cpu-x86"}, UnknownNameError, "load_mapping(mapping, machine)"),
        ({"tunables": {"block_K": object()}}, MappingSyntaxError, "cannot represent"),
    ],
)
def test_a_mistake_in_a_change_is_told(change, error, said):
    with pytest.raises(SepTranError) as raised:
        load_mapping("dsa-sim").with_(**change)
    first = getattr(raised.value, "errors", [raised.value])[0]
    assert isinstance(first, error)
    assert said in str(raised.value)


def test_a_dispatch_file_is_not_changed_as_a_whole():
    text = "dispatch: [{when: M < 64, mapping: cpu-x86}]\notherwise: cpu-x86\n"
    with pytest.raises(OpenDispatchError):
        load_mapping(text).with_(tunables={"block_K": 64})

"""A mapping as it is written: mistakes at their lines, knobs, texts with values in place."""

from __future__ import annotations

import pytest

import septran
from septran.errors import SepTranError
from septran.mapping.loader import load_mapping
from septran.mapping.tune import settled
from septran.views.editing import draft, mapping_source, with_knob


def explained(mapping):
    return septran.explain("gemm", mapping)


def drafted(text, point=None):
    return draft(text, None, explained, point or {})


SHIPPED = mapping_source("dsa-sim")[0]


def test_a_good_text_has_an_explanation_and_knobs():
    found = drafted(SHIPPED)
    assert found.mistakes == ()
    assert found.explanation is not None
    assert {"block_M", "block_N", "block_K", "pipeline"} <= {knob.name for knob in found.knobs}


def test_every_mistake_is_at_its_line():
    text = SHIPPED.replace("proc: CORE", "proc: CORK", 1).replace("reads: SPM", "reads: SPQ")
    found = drafted(text)
    rows = text.splitlines()
    words = [rows[m.line - 1][m.column - 1 :][: m.length] for m in found.mistakes]
    assert words == ["CORK", "SPQ"]
    assert "CORE" in found.mistakes[0].hint
    assert found.explanation is None


@pytest.mark.parametrize(
    "text", ["", "rules: [", "machine: nowhere\n", "rules:\n  - proc: 1\n", "a"]
)
def test_unfinished_texts_are_mistakes_not_failures(text):
    assert drafted(text).mistakes


def test_a_mistake_of_the_logic_is_told_without_a_line():
    def refused(mapping):
        raise SepTranError("no", load_mapping("cpu-x86").rules[0].plan.where)

    (mistake,) = draft(SHIPPED, None, refused, {}).mistakes
    assert mistake.line == 0
    assert "cpu-x86.mapping.yaml:" in mistake.place


@pytest.mark.parametrize("name", ["block_M", "block_N", "block_K", "pipeline"])
def test_turning_a_knob_changes_its_value_and_nothing_else(name):
    for knob in (k for k in drafted(SHIPPED).knobs if k.name == name):
        value = next(v for v in knob.values if v != knob.value)
        text = with_knob(SHIPPED, knob, value)
        pairs = zip(SHIPPED.splitlines(), text.splitlines(), strict=True)
        changed = [(a, b) for a, b in pairs if a != b]
        assert len(changed) == 1
        before, after = changed[0]
        assert before.partition("#")[2] == after.partition("#")[2]
        again = drafted(text)
        if not again.mistakes:
            now = [k.value for k in again.knobs if (k.line, k.column) == (knob.line, knob.column)]
            assert now == [value]


TUNED = SHIPPED.replace(
    "block_M: 128", "block_M: !tune {type: choice, values: [64, 128]}   # rows"
).replace(
    "block_N: 64 ",
    "block_N: !tune  # columns\n    type: range\n    low: 32\n    high: 64\n    step: 32\n ",
)


def test_what_is_tune_is_a_knob_whose_value_is_chosen_beside_the_text():
    found = drafted(TUNED, {"block_M": 128})
    assert found.mistakes == ()
    tuned = {knob.name: knob for knob in found.knobs if knob.tuned}
    assert tuned["block_M"].values == (64, 128)
    assert tuned["block_M"].value == 128
    assert tuned["block_N"].values == (32, 64)
    resolved = found.explanation.mapping
    values = {n: s.value for i in resolved.instances for n, s in i.tunables.items()}
    assert (values["block_M"], values["block_N"]) == (128, 32)


def test_a_settled_text_has_the_values_and_all_comments():
    found = drafted(TUNED, {"block_M": 128, "block_N": 64})
    text = settled(TUNED, found.mapping, {"block_M": 128, "block_N": 64})
    assert "!tune" not in text
    assert "block_M: 128   # rows" in text
    assert text.count("#") >= SHIPPED.count("#")
    settled_mapping = load_mapping(text)
    assert not settled_mapping.dimensions
    values = {
        n: s.value for i in septran.explain("gemm", text).mapping.instances
        for n, s in i.tunables.items()
    }  # fmt: skip
    assert (values["block_M"], values["block_N"]) == (128, 64)


def test_sources_are_names_files_and_texts(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("extends: dsa-sim.mapping.yaml\n", "utf-8")
    text, folder, name = mapping_source(file)
    assert (folder, name) == (tmp_path, "mine.yaml")
    assert draft(text, folder, explained, {}).mistakes == ()
    assert mapping_source("machine: dsa-sim\n")[1] is None
    with pytest.raises(SepTranError, match="no mapping 'dsa-sum'"):
        mapping_source("dsa-sum")

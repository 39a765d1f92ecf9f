"""Single changes of a mapping: all that is proposed compiles, and is what was said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from septran.cli import app
from septran.compiler import fitted
from septran.errors import SepTranError
from septran.mapping.loader import load_mapping
from septran.request import CompileRequest
from septran.tuning.changes import changed_text, changes, places, propose
from septran.tuning.open_space import OpenSpace

SIZES = {"M": 256, "N": 128, "K": 128}
OWN = """\
# mine
extends: dsa-sim.mapping.yaml
rules:
  # the first
  - {match: {task: gemm_tile}, mems: {A: SPM}}
"""


def request(mapping, operator="gemm", sizes=SIZES):
    return CompileRequest.of(operator, mapping, shapes=sizes)


def settings(asked, change):
    """What a mapping with the change resolves to at its place."""
    text = changed_text(asked.mapping, change)
    mapping = load_mapping(text, folder=None)
    resolved = fitted(CompileRequest.of("gemm", mapping, shapes=SIZES)).mapping
    return [
        (path, entry, setting.value)
        for instance in resolved.instances
        if instance.task == change.task
        for path, entry, setting in instance.rows()
    ]


@pytest.mark.parametrize("mapping", ["dsa-sim", OWN])
def test_a_change_is_what_its_text_resolves_to(mapping):
    asked = request(mapping)
    seen = set()
    for change in [*changes(fitted(asked).mapping)][::2]:
        try:
            found = settings(asked, change)
        except SepTranError:
            continue
        values = {(change.key, entry, change.after) for entry in change.entries or ("",)}
        # A value that is the key's default is not listed.
        if any(path == change.key for path, *_ in found):
            assert values <= set(found), change
            seen.add(change.key)
    assert {"tunables", "pipeline", "mems"} <= seen


def test_the_text_of_a_mapping_keeps_its_comments():
    asked = request(OWN)
    change = next(changes(fitted(asked).mapping))
    text = changed_text(asked.mapping, change)
    assert text.replace(f"  - {change.rule}\n", "") == OWN
    again = load_mapping(text)
    other = changed_text(again, replace(change, after=7))
    assert other == text.replace(change.rule, replace(change, after=7).rule)


def test_a_file_with_instances_is_extended(tmp_path):
    explicit = fitted(request("dsa-sim")).mapping.to_yaml()
    path = tmp_path / "explicit.mapping.yaml"
    path.write_text(explicit, encoding="utf-8")
    asked = request(str(path))
    change = next(c for c in changes(fitted(asked).mapping) if c.key == "pipeline")
    text = changed_text(asked.mapping, change)
    assert text.startswith("extends: explicit.mapping.yaml\n")
    mapping = load_mapping(text, folder=tmp_path)
    assert fitted(CompileRequest.of("gemm", mapping, shapes=SIZES)).mapping


def test_proposals_compile_and_the_best_is_first():
    found = propose(request("dsa-sim"), wanted=lambda c: c.key in ("tunables", "pipeline"))
    assert found.found
    shares = [proposal.share for proposal in found.found]
    assert shares == sorted(shares)
    for proposal in found.found:
        assert fitted(request(proposal.mapping)).tile_program


def test_measured_cycles_are_those_of_the_simulator():
    asked = request("dsa-sim")
    found = propose(asked, wanted=lambda c: c.setting == "pipeline: 1", measured=True)
    assert found.unit == "cycles"
    assert found.found
    assert all(p.cost / found.cost == p.measured for p in found.found)
    assert max(p.measured for p in found.found if p.change.after == 1) > 1


def test_temporaries_of_one_task_change_together():
    """Alone, sums that are joined later stay where the other is."""
    mapping = fitted(request("dsa-sim", "swiglu")).mapping
    together = [c for c in changes(mapping) if c.entries == ("gate", "up")]
    assert "mems: {gate: ACC, up: ACC}" in {c.setting for c in together}


def test_places_name_what_the_machine_has():
    found = {(p.task, p.key, p.entry): p for p in places(fitted(request("dsa-sim")).mapping)}
    assert found["gemm", "mems", "C"].values == ("NONE",)  # the host sees nothing of a core's
    assert {"GLOBAL", "ACC", "NONE"} <= set(found["gemm_tile", "mems", "A"].values)
    (rows,) = [place for place in found.values() if place.entry == "block_M"]
    assert rows.values == (2 * rows.now, rows.now // 2)


def test_engines_and_layouts_of_what_is_staged_are_proposed():
    asked = request("nvidia-h200")
    mapping = fitted(asked).mapping
    found = {(p.key, p.entry): p for p in places(mapping) if p.task == "gemm_tile"}
    assert found["copy", "A"].values == ("cp_async", "gather", "load_store")
    assert (found["copy", "A"].now, found["layouts", "A"].now) == ("tma", "inferred")
    assert "swizzle128" in found["layouts", "A"].values
    proposed = propose(asked, wanted=lambda c: c.key in ("copy", "layouts") and c.entries == ("A",))
    rules = {proposal.change.setting for proposal in proposed.found}
    assert {"copy: {A: cp_async}", "layouts: {A: swizzle128}"} <= rules
    for proposal in proposed.found:
        assert str(fitted(request(proposal.mapping)).tile_program)


def test_a_layout_with_a_comma_is_written_so_that_it_is_read_again():
    asked = request("npu-cube")
    made = [c for c in changes(fitted(asked).mapping) if c.after == "fractal(16, 16)"]
    assert made
    text = changed_text(asked.mapping, made[0])
    assert 'fractal(16, 16)"' in text
    again = changed_text(load_mapping(text), replace(made[0], after="row"))
    assert "fractal" not in again


def test_a_search_leaves_engines_and_layouts_to_the_compiler():
    space = OpenSpace.of(fitted(request("nvidia-h200")).mapping)
    assert {p.key for p in space.places.values()} & {"mems", "tunables"}
    assert not {p.key for p in space.places.values()} & {"copy", "layouts"}


def test_what_is_proposed_for_sums_of_swiglu_has_the_simulators_cycles():
    sizes = {"M": 64, "N": 64, "K": 64}
    asked = request("dsa-sim", "swiglu", sizes)
    found = propose(asked, wanted=lambda c: c.entries == ("gate", "up"), measured=True)
    (sums,) = (p for p in found.found if p.change.setting == "mems: {gate: ACC, up: ACC}")
    assert sums.predicted == pytest.approx(sums.measured)


def test_no_time_tries_nothing():
    found = propose(request("dsa-sim"), seconds=0)
    assert found.found == ()
    assert found.left > 10


def test_the_report_has_changes_that_were_tried():
    sizes = [word for n, e in SIZES.items() for word in ("-s", f"{n}={e}")]
    command = [
        "explain",
        "gemm",
        "--on",
        "dsa-sim",
        "--format",
        "report",
        "--seconds",
        "20",
        *sizes,
    ]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert {"places", "proposals", "limits"} <= data.keys()
    assert all(p["measured"] is None for p in data["proposals"]["found"])
    assert data["proposals"]["found"][0]["try"].startswith("{match: {task: ")
    wrong = CliRunner().invoke(app, ["explain", "gemm", "--measure"])
    assert wrong.exit_code == 2

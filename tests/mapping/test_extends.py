"""`extends`: laid over what it names, and never leaving the folders it may use."""

from __future__ import annotations

import pytest

from septran.errors import Errors
from septran.mapping.keys import MEMS, PIPELINE, PROC
from septran.mapping.loader import load_mapping, mapping_names
from septran.mapping.mistakes import ExtendsError, UnknownNameError

BASE = """
machine: cpu-x86
rules:
  - match: {level: entry}
    proc: HOST
tunables: {block_M: 64, "block_*": 32}
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "mappings"
    folder.mkdir()
    (folder / "base.yaml").write_text(BASE)
    return folder


def write(folder, text, name="child.yaml"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_mapping_gives_only_what_differs(folder):
    child = load_mapping(
        write(
            folder,
            "extends: base.yaml\n"
            "rules: [{match: {level: 1}, proc: CORE}]\n"
            "tunables: {block_M: 128, block_N: 256}\n",
        )
    )
    assert child.machine.name == "cpu-x86"
    assert [r.plan.name for r in child.rules] == ["rule 1", "rule 1 of base.yaml"]
    assert list(child.tunables) == ["block_M", "block_N", "block_*"]
    assert child.tunables["block_M"].cases[0].value == 128


def test_a_shipped_mapping_is_extended_by_its_name_alone(folder):
    tunables = "tunables: {block_M: 32}\n"
    by_name = load_mapping(write(folder, f"extends: cpu-x86\n{tunables}"))
    by_file = load_mapping(write(folder, f"extends: cpu-x86.mapping.yaml\n{tunables}"))
    assert by_name.tunables == by_file.tunables
    assert len(by_name.rules) == len(by_file.rules) > 10
    with pytest.raises(ExtendsError, match=r"'base' is not a \.yaml file") as caught:
        load_mapping(write(folder, "extends: base\n"))
    assert "cpu-x86" in str(caught.value.hint)


def test_an_empty_table_changes_nothing(folder):
    child = load_mapping(write(folder, "extends: base.yaml\ntunables: {}\nrules: []\n"))
    assert list(child.tunables) == ["block_M", "block_*"]
    assert len(child.rules) == 1


def test_instances_are_merged_field_by_field(folder):
    write(
        folder,
        "machine: cpu-x86\nentrypoint: a\ntask_mappings:\n"
        "  a: {task_name: gemm, proc: HOST, mems: {A: DRAM, B: L3}}\n",
        "instances.yaml",
    )
    child = load_mapping(
        write(folder, "extends: instances.yaml\ntask_mappings: {a: {mems: {B: NONE}, pipeline: 2}}")
    )
    plan = child.instances["a"]
    assert {k: s.value for k, s in plan.table(MEMS).items()} == {"A": "DRAM", "B": "NONE"}
    assert (plan.get(PROC).value, plan.get(PIPELINE).value) == ("HOST", 2)
    assert plan.get(PROC).where.file.endswith("instances.yaml")


@pytest.mark.parametrize("name", mapping_names())
def test_shipped_mappings_can_be_extended_from_anywhere(folder, name):
    path = write(folder, f"extends: {name}.mapping.yaml\nrules: [{{match: {{level: 9}}}}]")
    assert load_mapping(path).machine.name == name
    assert load_mapping(path.read_text()).machine.name == name  # a text has no folder


OUTSIDE = [
    "../secret.yaml", "../../secret.yaml", "sub/../../secret.yaml", "/etc/passwd", "//etc/x.yaml",
    "~/x.yaml", "$HOME/x.yaml", "..\\\\secret.yaml", "sub/../base.yaml", "file:///etc/x.yaml",
    "C:/x.yaml", ".hidden.yaml", "base.yaml\\0", "base", "base.py", "",
    f"{'long' * 80}.yaml", "sub/./x.yaml", "link.yaml", "sublink/secret.yaml", "loop.yaml", "sub",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_outside_is_read(folder, name):
    (folder.parent / "secret.yaml").write_text(BASE)
    (folder / "link.yaml").symlink_to(folder.parent / "secret.yaml")
    (folder / "sublink").symlink_to(folder.parent)
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "sub").mkdir()
    path = write(folder, f'extends: "{name}"\nrules: [{{}}]\n')
    with pytest.raises(ExtendsError) as caught:
        load_mapping(path)
    assert caught.value.where.line == 1


def test_a_machine_whose_name_no_file_can_have_is_unknown(folder):
    path = write(folder, f"machine: {'long' * 80}.yaml\nrules: [{{}}]\n")
    with pytest.raises(UnknownNameError, match=r"no machine 'long\w+\.\.\.'") as caught:
        load_mapping(path)
    assert caught.value.where.line == 1


def test_a_link_that_stays_inside_is_followed(folder):
    (folder / "same.yaml").symlink_to("base.yaml")
    assert load_mapping(write(folder, "extends: same.yaml")).machine.name == "cpu-x86"


def test_cycles_are_found(folder):
    write(folder, "extends: two.yaml\nrules: [{}]", "one.yaml")
    write(folder, "extends: one.yaml\nrules: [{}]", "two.yaml")
    with pytest.raises(ExtendsError, match=r"one.yaml -> two.yaml -> one.yaml"):
        load_mapping(folder / "one.yaml")


def test_a_mapping_that_extends_itself(folder):
    path = write(folder, "extends: child.yaml\nrules: [{}]")
    with pytest.raises(ExtendsError, match="extend each other"):
        load_mapping(path)


@pytest.mark.parametrize("name", ["cpu-x86", "cpu-x86.mapping.yaml"])
def test_a_file_called_as_a_shipped_one_extends_that(folder, name):
    text = f"extends: {name}\ntunables: {{block_M: 32}}\n"
    path = write(folder, text, "cpu-x86.mapping.yaml")
    for file in (path, write(folder, f"extends: {name}\n")):
        found = load_mapping(file)
        assert len(found.rules) > 10
        assert found.tunables["block_M"].cases[0].value == 32


def test_a_cycle_by_the_name_of_a_shipped_one(folder):
    write(folder, "extends: child.yaml\nrules: [{}]", "cpu-x86.mapping.yaml")
    path = write(folder, "extends: cpu-x86\nrules: [{}]")
    with pytest.raises(ExtendsError, match=r"child.yaml -> cpu-x86.mapping.yaml -> child.yaml"):
        load_mapping(path)


def test_long_chains_are_cut(folder):
    for n in range(10):
        write(folder, f"extends: c{n + 1}.yaml\nrules: [{{}}]", f"c{n}.yaml")
    write(folder, BASE, "c10.yaml")
    with pytest.raises(ExtendsError, match="more than 8"):
        load_mapping(folder / "c0.yaml")
    assert load_mapping(folder / "c4.yaml").machine.name == "cpu-x86"


def test_mistakes_of_all_files_are_reported_together(folder):
    write(folder, BASE.replace("HOST", "HOTS"), "wrong.yaml")
    path = write(folder, "extends: wrong.yaml\nrules: [{proc: KORE}]")
    with pytest.raises(Errors) as caught:
        load_mapping(path)
    assert {e.where.file.rpartition("/")[2] for e in caught.value.errors} == {
        "child.yaml", "wrong.yaml",
    }  # fmt: skip


def test_a_machine_file_lies_beside_the_mapping(folder):
    (folder / "toy.yaml").write_text(
        "name: toy\nbackend: cpu\nprocessors: {HOST: {}}\nmemories: {RAM: {visible_to: HOST}}\n"
    )
    path = write(folder, "machine: toy.yaml\nrules: [{mems: {'*': RAM}}]")
    assert load_mapping(path).machine.name == "toy"
    with pytest.raises(UnknownNameError, match="no machine"):
        load_mapping(path.read_text())


def test_loading_a_mapping_runs_no_logic(folder):
    (folder / "logic.py").write_text("raise SystemExit('ran')")
    load_mapping(write(folder, "extends: ./base.yaml"))

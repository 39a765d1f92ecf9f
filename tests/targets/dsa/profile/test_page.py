"""The page on DSAs says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from septran.simulator.commands import COMMANDS
from septran.targets.dsa.code.vendor import parse_prototype
from septran.targets.dsa.profiles.profile import DsaProfile

PAGE = (Path(__file__).parents[4] / "docs" / "dsa.md").read_text(encoding="utf-8")
VENDOR, _of_one_instruction = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.S | re.M)
FUNCTIONS = yaml.safe_load(VENDOR)["vendor"]["functions"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_named(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_prototypes_are_such_as_a_machine_file_may_have(name):
    function = parse_prototype(FUNCTIONS[name])
    known = {"offset"} if name == "pointer" else {a.name for a in COMMANDS[name].arguments}
    assert {p.name for p in function.parameters} <= known


def test_what_a_profile_offers_exists():
    (table,) = re.findall(r"^\| \| \|\n\| --- \| --- \|\n((?:\|.*\n)+)", PAGE, re.M)
    names = [n for row in table.splitlines() for n in re.findall(r"`(\w+)", row.split("|")[1])]
    assert len(names) > 15
    for name in names:
        assert hasattr(DsaProfile, name), name

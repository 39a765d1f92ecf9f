"""The JSON Schema says what the reader checks."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from septran.errors import MappingError
from septran.machine.kinds import Report, check
from septran.machine.loader import mappings_root
from septran.machine.positions import parse
from septran.mapping.keys import CONSUMERS, GROUPS, KEYS, PIPELINE, PIPELINE_ORDER, nested
from septran.mapping.mistakes import FAMILY, MappingSyntaxError
from septran.mapping.schema import MAPPING, mapping_schema
from septran.mapping.structure.products import ROLES
from septran.mapping.structure.structure import NAMES
from septran.mapping.tune import check_tune

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = mapping_schema()
CASES = runpy.run_path(str(Path(__file__).parent / "test_mistakes.py"))


@pytest.fixture(scope="module")
def schema():
    """What judges mappings by the schema; its import takes two seconds."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(SCHEMA)


def test_it_is_a_schema(schema):
    schema.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "path", sorted(mappings_root().glob("*.mapping.yaml")), ids=lambda p: p.name
)
def test_shipped_mappings_fit(path, schema):
    plain = parse(path.read_text(), str(path), MappingError).plain()
    schema.validate(plain)


def test_every_field_is_described():
    for part in (SCHEMA, MAPPING.fields["rules"].kind.kind.schema()):
        assert all(field["description"] for field in part["properties"].values())


def test_a_search_fits_in_place_of_any_value(schema):
    tune = {"type": "choice", "values": [1, 2]}
    plain = {
        "task_mappings": {
            "a": {"task_name": "x", "pipeline": tune, "mems": {"C": tune}, "binding": [tune]}
        }
    }
    schema.validate(plain)
    plain["task_mappings"]["a"]["pipeline"] = {"type": "chice", "values": [1]}
    assert not schema.is_valid(plain)


@pytest.mark.parametrize("name", CASES["CASES"])
def test_what_the_reader_refuses_for_its_form_the_schema_refuses(name, schema):
    source, kind, _ = CASES["CASES"][name]
    if kind is MappingSyntaxError:
        return
    text, *_ = CASES["marked"](source)
    node = parse(text, "x.yaml", MappingError)
    report = Report(FAMILY, {}, "", check_tune)
    check(MAPPING, node, report)
    beyond = "condition" in name or "choice" in name or "range" in name  # what a form cannot say
    if not beyond and "tune" not in text:
        assert schema.is_valid(node.plain()) == (not report.errors)


def test_groups_are_those_of_the_documentation():
    groups = ("*", "accumulators", "temporaries", "reads", "writes")
    parts = (f"{p}.{r}" for p in ("product", "first", "second", "last") for r in ROLES)
    assert (*groups, "gemm.C", "gemm.A", "gemm.B", *parts) == GROUPS


def test_the_page_names_what_rules_know_of_structure():
    page = (ROOT / "docs" / "mapping.md").read_text(encoding="utf-8")
    said = set(re.findall(r"`([a-z_]+)`", page)) | set(re.findall(r"`\.?([a-z.]+)`", page))
    keys = {
        "products",
        "order",
        "between_products",
        "masked",
        "carried",
        "reduces",
        "scans",
        "scatters",
        "turns",
        "window",
    }
    assert keys | {"shared_right", "computed", "transposed", "converts"} <= said
    assert {name.rpartition(".")[2] for name in NAMES} <= {w.rpartition(".")[2] for w in said}


def test_the_page_names_every_key_of_the_table():
    """A key is one entry of `KEYS`; its row on the page is what people read."""
    page = (ROOT / "docs" / "mapping.md").read_text(encoding="utf-8")
    rows = " ".join(re.findall(r"^\| (`.*?) \|", page, re.M))
    heads = {key.path.partition(".")[0] for key in KEYS}
    assert heads - set(re.findall(r"`(\w+)`", rows)) == set()


def test_what_a_key_says_is_nested_as_in_the_file():
    values = {PIPELINE: 3, PIPELINE_ORDER: [1, 0], CONSUMERS: 2}
    assert nested(values) == {
        "pipeline": {"stages": 3, "order": [1, 0]}, "roles": {"consumers": 2}
    }  # fmt: skip

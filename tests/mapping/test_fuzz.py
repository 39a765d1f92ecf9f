"""Whatever a file holds, loading it gives a mapping or a located error, and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septran.errors import Errors, SepTranError
from septran.machine.loader import mappings_root, read_machine
from septran.mapping.loader import load_mapping, mapping_names

TEXTS = {name: (mappings_root() / f"{name}.mapping.yaml").read_text() for name in mapping_names()}
MACHINES = {p.stem: p.read_text() for p in sorted((mappings_root() / "machines").glob("*.yaml"))}
WORDS = [
    "proc", "mems", "NONE", "!tune", "{", "}", "[", "]", ":", ",", "-", "\n", "  ", "*", "&a", "#",
    "rules", "match", "task_mappings", "tunables", "binding", "pipeline", "machine", "extends",
    "cpu-x86", "'", '"', "1", "-1", "9" * 30, "1e999", "true", "null", "?", "|", ">", "%", "@", "`",
    "when", "value", "\t", "\x00", "\x85", "\u2028", "\ud800", "é", "{when: M, value: 1}",
    "!tune {type: choice, values: [1, 2]}", "calls", "M" * 70, "..", "../x.yaml", "level", "entry",
]  # fmt: skip


def outcome(load, text):
    try:
        load(text)
    except SepTranError as error:
        errors = error.errors if isinstance(error, Errors) else (error,)
        return [(type(e).__name__, e.where, str(e)) for e in errors]
    return []


def assert_located(load, text):
    for kind, where, message in outcome(load, text):
        assert message
        assert where is not None or kind in ("NoMappingError", "NoMachineError"), message
        assert "Traceback" not in message


def load_text(text):
    load_mapping(text + "\n")


def load_machine_text(text):
    read_machine(text, "fuzz.yaml")


def mutate(text, rng):
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                text = text[:at] + rng.choice(WORDS) + text[at:]
            case 1:
                text = text[:at] + text[at + rng.randint(1, 12) :]
            case 2:
                other = rng.randrange(len(text) + 1)
                text = text[:at] + text[other : other + 30] + text[at:]
            case 3:
                text = (
                    text[:at] + chr(rng.choice([0, 9, 10, 13, 32, 58, 127, 0x85, 0xE9])) + text[at:]
                )
            case _:
                lines = text.splitlines(keepends=True)
                rng.shuffle(lines)
                text = "".join(lines[: rng.randint(1, len(lines) + 1)]) if lines else text
        text = text or "a"
    return text


@pytest.mark.parametrize("seed", range(300))
@pytest.mark.one_in(3)
def test_mutated_mappings(seed):
    rng = random.Random(seed)
    assert_located(load_text, mutate(TEXTS[rng.choice(list(TEXTS))], rng))


@pytest.mark.parametrize("seed", range(150))
def test_mutated_machines(seed):
    rng = random.Random(seed)
    assert_located(load_machine_text, mutate(MACHINES[rng.choice(list(MACHINES))], rng))


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_words_in_any_order(words):
    assert_located(load_text, " ".join(words))
    assert_located(load_machine_text, " ".join(words))


@settings(max_examples=80)
@given(st.binary(max_size=200))
def test_any_bytes_in_a_file(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "x.mapping.yaml"
    path.write_bytes(data)
    assert_located(load_mapping, path)


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["rules", "match", "mems", "proc", "task_mappings", "a", "tunables", "b", "when",
                 "value", "task_name", "binding", "pipeline", "roles", "machine", "extends"]
            ),
            inner, max_size=4,
        ),
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(plain)
def test_any_structure(value):
    import json

    assert_located(load_text, json.dumps(value))

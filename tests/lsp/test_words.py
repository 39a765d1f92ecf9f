"""What may be written at a cursor, in YAML that is not finished."""

from __future__ import annotations

from textwrap import dedent

import pytest

from septran.lsp.cursor import ITEM, cursor_at, key_at
from septran.lsp.words import about_key, machine_of, words_at


def at(text: str):
    """The place of ``|`` in a text."""
    text = dedent(text)
    before, _, after = text.partition("|")
    line, column = before.count("\n"), len(before.rpartition("\n")[2])
    return before + after, cursor_at(before + after, line, column)


@pytest.mark.parametrize(
    ("text", "path", "key", "word"),
    [
        ("mach|", (), True, "mach"),
        ("machine: ds|", ("machine",), False, "ds"),
        ("rules:\n  - match: {ta|", ("rules", ITEM, "match"), True, "ta"),
        ("rules:\n- match: {task: a}\n  pr|", ("rules", ITEM), True, "pr"),
        ("rules:\n- match: {task: a}\n  proc: CO|", ("rules", ITEM, "proc"), False, "CO"),
        ("rules:\n  - match: {task: a}\n  - |", ("rules", ITEM), True, ""),
        ("rules:\n  - {mems: {A: L2, B: |}}", ("rules", ITEM, "mems", "B"), False, ""),
        ("rules:\n  - match: {leaf: [gemm, fi|", ("rules", ITEM, "match", "leaf", ITEM), False,
         "fi"),
        ("rules:\n  - match: {task: a,   # }\n            le|", ("rules", ITEM, "match"), True,
         "le"),
        ("rules: [{match: {task: a}}]\ntun|", (), True, "tun"),
        ('rules:\n  - mems: {"*": SPM}\n    bin|', ("rules", ITEM), True, "bin"),
        ("tunables:\n  block_M: 3\n  |", ("tunables",), True, ""),
    ],
)  # fmt: skip
def test_a_cursor_knows_its_place(text, path, key, word):
    _, cursor = at(text)
    assert (cursor.path, cursor.key, cursor.word) == (path, key, word)


def words(text: str, kind: str = "mapping") -> list[str]:
    whole, cursor = at(text)
    return [
        w.text for w in words_at(kind, cursor, machine_of(whole)) if w.text.startswith(cursor.word)
    ]


def test_names_are_those_of_the_machine_that_the_file_is_for():
    assert words("machine: dsa-sim\nrules:\n  - mems: {A: SP|") == ["SPM"]
    assert "HOST" in words("machine: dsa-sim\nrules:\n  - proc: |")
    assert "L2" in words("extends: cpu-x86\nrules:\n  - mems: {A: |")


def test_keys_words_and_flags_are_those_of_the_schema():
    assert words("rules:\n  - pipe|") == ["pipeline"]
    assert words("rules:\n  - match: {loops: |") == ["parallel", "sequential"]
    assert words("rules:\n  - match: {masked: |") == ["true", "false"]
    assert "backend" in words("|", "machine")


def test_machines_and_mappings_that_ship_are_offered():
    assert words("machine: nvidia-h|") == ["nvidia-h200"]
    assert "cpu-x86" in words("extends: |")


def test_a_key_says_what_it_means():
    text = "rules:\n  - {match: {task: a}, pipeline: 2}\n"
    path = key_at(text, 1, 25)
    assert path == ("rules", ITEM, "pipeline")
    assert "stages" in about_key("mapping", path)
    assert key_at(text, 1, 19) is None
    assert about_key("mapping", ("no", "such")) == ""

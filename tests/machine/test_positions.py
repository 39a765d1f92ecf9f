"""Safe YAML: every value with its place, nothing constructed, nothing that can explode."""

from __future__ import annotations

import linecache
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.errors import MachineError
from septran.machine.positions import (
    MOST_DEPTH,
    MOST_FILES,
    MOST_NODES,
    name_text,
    parse,
    read_text,
)

EVIL_TAGS = [
    "!!python/object/apply:os.system ['touch /tmp/x']", "!!python/name:os.system ''",
    "!!python/module:os ''", "!!python/object:builtins.object {}",
    "!!python/object/new:os.system [id]", "!!python/tuple [1]", "!!python/none ''",
    "!!python/bool 'true'", "!!python/bytes 'x'", "!!python/long '1'", "!!python/complex '1j'",
    "!!python/dict {}", "!!python/list []", "!!python/str x", "!!python/unicode x",
    "!!python/int 1", "!!python/float 1", "!!binary aGk=", "!!timestamp 2001-01-01",
    "!!set {a}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!str x", "!!int 1", "!!map {}", "!!seq []",
    "!!null ''", "!!merge '<<'", "!include x.yaml", "!env HOME", "!tun x", "!tune2 x", "! x",
    "!<tag:yaml.org,2002:python/name:os.system> x", "!<!tunes> x",
]  # fmt: skip


def load(text):
    return parse(text, "file.yaml", MachineError)


def test_every_value_knows_its_place():
    node = load("a: 1\nb:\n  - x\n  - {c: 'two words'}\n")
    inner = node.items["b"].elements[1].items["c"]
    assert (inner.where.line, inner.where.column, inner.where.length) == (4, 9, 11)
    assert node.keys["b"].line == 2
    assert node.plain() == {"a": 1, "b": ["x", {"c": "two words"}]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("12:30", "12:30"), ("1_000", "1_000"),
        ("0b1", "0b1"), ("2001-01-01", "2001-01-01"), ("=", "="), ("<<", "<<"), (".5", 0.5),
        ("1e3", 1000.0), ("010", 10), ("0x10", 16), ("0o10", 8), ("-3", -3), ("+3", 3),
        ("true", True), ("False", False), ("~", None), ("null", None), ("", None),
        ("'null'", "null"), ('"1"', "1"), (".inf", ".inf"), (".nan", ".nan"), ("1.", 1.0),
        ("0x", "0x"), ("½", "½"), ("٣", "٣"),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text, value):
    found = load(f"a: {text}\n").items["a"].value
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("tag", EVIL_TAGS)
def test_no_tag_but_tune(tag):
    with pytest.raises(MachineError) as caught:
        load(f"a: {tag}\n")
    assert caught.value.where.line == 1


def test_tune_is_kept_as_a_tag():
    assert load("a: !tune {type: choice}").items["a"].tag == "tune"


def test_a_redefined_tag_handle_is_seen_through():
    with pytest.raises(MachineError, match="unknown tag"):
        load("%TAG ! tag:yaml.org,2002:python/\n---\na: !tune x\n")


def billion_laughs():
    lines = ["a: &a [x, x]"]
    lines += [f"{n}: &{n} [{', '.join([f'*{chr(ord(n) - 1)}'] * 9)}]" for n in "bcdefghij"]
    return "\n".join(lines)


BOMBS = {
    "aliases": billion_laughs(),
    "brackets": "[" * 100_000,
    "braces": "{" * 100_000,
    "block lists": "- " * 100_000,
    "keys in keys": "? " * 100_000,
    "indentation": "".join(f"{' ' * n}a:\n" for n in range(500)),
    "many values": f"[{'1,' * (MOST_NODES + 1)}]",
    "many keys": "".join(f"k{n}: 1\n" for n in range(MOST_NODES)),
    "quotes": '"' + "\\" * 100_000,
    "large": "#" * ((1 << 20) + 1),
    "merge": "a: {<<: {b: 1}, <<: {c: 2}}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_quickly(name):
    text = BOMBS[name]
    started = time.process_time()
    with pytest.raises(MachineError):
        load(text)
    assert time.process_time() - started < 5  # below 1 s on a free core


def test_a_bomb_takes_no_memory():
    tracemalloc.start()
    with pytest.raises(MachineError):
        load(BOMBS["aliases"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


def test_depth_up_to_the_limit_is_fine():
    deep = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    load(deep)
    with pytest.raises(MachineError, match="nested more than 32 deep") as caught:
        load(f"[{deep}]")
    assert caught.value.where.column == MOST_DEPTH + 1


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: 1\nb: \xff\xfe\n")
    with pytest.raises(MachineError, match="not UTF-8") as caught:
        read_text(path, MachineError, MachineError)
    assert (caught.value.where.line, caught.value.where.column) == (2, 4)


def test_a_byte_order_mark_is_no_matter(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load(read_text(path, MachineError, MachineError)).plain() == {"a": 1}


def test_only_files_are_read(tmp_path):
    for path in (Path("/dev/zero"), tmp_path):
        with pytest.raises(MachineError, match="is not a file"):
            read_text(path, MachineError, MachineError)


def test_a_large_file_is_not_even_quoted(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(MachineError, match="larger than 1 MiB") as caught:
        read_text(path, MachineError, MachineError)
    assert len(str(caught.value)) < 1000


def test_errors_quote_the_file_as_it_was_read(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: [1\n")
    text = read_text(path, MachineError, MachineError)
    path.write_text("other\n")
    with pytest.raises(MachineError) as caught:
        parse(text, str(path), MachineError)
    assert "other" not in str(caught.value)


def test_texts_without_a_file_can_be_quoted():
    name = name_text("a: 1\nb: [\n", "mapping")
    with pytest.raises(MachineError) as caught:
        parse("a: 1\nb: [\n", name, MachineError)
    assert caught.value.where.file == name
    assert name == name_text("a: 1\nb: [\n", "mapping")


@settings(max_examples=150)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_located_error(data):
    check(data.decode("utf-8", "replace"))


@settings(max_examples=150)
@given(st.text(alphabet="[]{}:,-?&*!|>'\"%@`#\n\t \\~<=abn01.ex_\u2028\x85é", max_size=80))
def test_any_yaml_like_text_gives_a_value_or_a_located_error(text):
    check(text)


def check(text):
    error = mistake(text)
    if error is not None:
        assert error.where is not None
        assert error.where.line <= text.count("\n") + text.count("\r") + 1
        assert str(error)


def mistake(text):
    try:
        load(text).plain()
    except MachineError as error:
        return error
    return None


def test_long_lines_are_cut_around_the_place():
    text = f"a: [{'1, ' * 3000}!!str x]\n"
    with pytest.raises(MachineError) as caught:
        parse(text, name_text(text, "machine"), MachineError)
    _, line, caret, _ = str(caught.value).splitlines()
    assert len(line) < 200
    assert line[caret.index("^") : caret.rindex("^") + 1].startswith("!!str")


def test_terminals_are_not_told_anything():
    text = "a: \x1b]0;title\x07\n"
    with pytest.raises(MachineError) as caught:
        parse(text, name_text(text, "machine"), MachineError)
    assert "\x1b" not in str(caught.value)


def test_only_the_latest_files_are_kept_to_be_quoted(tmp_path):
    """A process that reads ever more files, as one that tries random programs, keeps few."""
    for n in range(MOST_FILES + 20):
        path = tmp_path / f"{n}.yaml"
        path.write_text(f"a: {n}\n")
        read_text(path, MachineError, MachineError)
        path.write_text("b: 1\n")
    kept = [n for n in range(MOST_FILES + 20) if str(tmp_path / f"{n}.yaml") in linecache.cache]
    assert kept == list(range(20, MOST_FILES + 20))
    assert linecache.getline(str(path), 1) == f"a: {n}\n"  # as it was when it was read
    assert linecache.getline(str(tmp_path / "0.yaml"), 1) == "b: 1\n"

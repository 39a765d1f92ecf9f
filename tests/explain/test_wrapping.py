"""Printed text keeps within a screen: long lines go on below."""

from __future__ import annotations

from septran.views.text.wrapping import WIDTH, wrapped


def test_short_lines_stay_as_they_are():
    text = "a  b\n\n    c\n"
    assert wrapped(text) == text


def test_a_table_goes_on_under_its_last_column():
    row = "A  " + "why " * 50
    first, *others = wrapped(row).splitlines()
    assert first.startswith("A  why")
    assert all(line.startswith("   why") for line in others)
    assert max(map(len, (first, *others))) <= WIDTH


def test_a_line_is_parted_between_fields_before_it_is_between_words():
    line = f"task t({'x, ' * 25}y)  block_N = 192  # file.py:15"
    assert wrapped(line, 90).splitlines()[1:] == ["        block_N = 192  # file.py:15"]


def test_what_has_no_space_is_not_cut():
    assert wrapped("x" * 200) == "x" * 200
    assert wrapped("    " + "x" * 200 + " y") == "    " + "x" * 200 + "\n            y"

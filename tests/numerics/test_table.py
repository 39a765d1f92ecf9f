"""The language's page shows the table of corner values."""

from __future__ import annotations

from pathlib import Path

from tests.numerics.corner_values import table

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
MARK = "<!-- The table is written by `pytest tests/numerics/test_table.py --update-golden`. -->\n"


def test_the_page_has_the_table(request):
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(MARK)
    wanted = f"{text[:start]}{MARK}\n{table()}\n{text[text.index(chr(10) + '## ', start) :]}"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(wanted, encoding="utf-8")
    assert text == wanted or request.config.getoption("--update-golden")

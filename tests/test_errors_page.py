"""Every mistake has a class and a code of its own, and `docs/errors.md` lists it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from pathlib import Path

import pytest

import septran
from septran.errors import (
    CallError,
    LogicError,
    MachineError,
    MappingError,
    SepTranError,
    TargetError,
    TileError,
)

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
FAMILIES = {
    LogicError: ("1", "Logic files"),
    MachineError: ("2", "Machine files"),
    MappingError: ("3", "Mapping files"),
    TileError: ("4", "Tile programs"),
    TargetError: ("5", "Targets"),
    CallError: ("6", "Calls, kernels and archives"),
}
MARK = "<!-- The tables are written by `pytest tests/test_errors_page.py --update-golden`. -->"


def error_classes() -> list[type[SepTranError]]:
    """Every class of mistake in the package, by code."""
    for module in pkgutil.walk_packages(septran.__path__, "septran."):
        importlib.import_module(module.name)
    found, open_ = set(), [SepTranError]
    while open_:
        cls = open_.pop()
        found.add(cls)
        open_ += cls.__subclasses__()
    return sorted((c for c in found if c.__module__.startswith("septran.")), key=lambda c: c.code)


@pytest.fixture(scope="module")
def classes() -> list[type[SepTranError]]:
    return error_classes()


def page(classes: list[type[SepTranError]]) -> str:
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else MARK
    head = text[: text.index(MARK)] + MARK + "\n"
    parts = [head]
    for digit, title in [("0", "Any"), *FAMILIES.values()]:
        parts.append(
            f"\n## SEP{digit}xx: {title}\n\n| code | mistake | class |\n| --- | --- | --- |\n"
        )
        for cls in classes:
            if cls.code[3] == digit:
                what = (inspect.getdoc(cls) or "").splitlines()[0].replace("|", "\\|")
                parts.append(f"| {cls.code} | {what} | `{cls.__module__}.{cls.__name__}` |\n")
    return "".join(parts)


def test_codes_are_unique(classes):
    counts = Counter(c.code for c in classes)
    assert {code: n for code, n in counts.items() if n > 1} == {}


def test_each_class_has_its_own_code_and_a_sentence(classes):
    for cls in classes:
        assert "code" in vars(cls), cls
        assert inspect.getdoc(cls), cls
        assert len(cls.code) == 6, cls
        assert cls.code.startswith("SEP"), cls


def test_codes_are_those_of_the_family(classes):
    for cls in classes:
        for base, (digit, _) in FAMILIES.items():
            if issubclass(cls, base):
                assert cls.code[3] == digit, cls


def test_the_page_lists_every_mistake(classes, request):
    text = page(classes)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run this test with --update-golden"

"""Every code of `docs/errors.md` is expected by a test, by its very class."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import septran
from septran.errors import LogicError, SepTranError

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "errors.md"
NOT_EVIDENCE = {"test_error_codes.py", "test_errors_page.py"}
"""Files that name every class without raising any."""


def codes_of_the_page() -> dict[str, type[SepTranError]]:
    """The documented classes by code."""
    rows = re.findall(r"^\| (SEP\d{3}) \|.*\| `([\w.]+)\.(\w+)` \|$", PAGE.read_text(), re.M)
    return {code: getattr(importlib.import_module(m), name) for code, m, name in rows}


def imported(tree: ast.Module) -> dict[str, Any]:
    """What a test file's imports from septran bind, wherever in the file they are."""
    bound: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "septran":
                    module = importlib.import_module(name.name)
                    bound[name.asname or "septran"] = module if name.asname else septran
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("septran"):
            module = importlib.import_module(node.module or "")
            for name in node.names:
                full = f"{node.module}.{name.name}"
                found = getattr(module, name.name, None)
                bound[name.asname or name.name] = found or importlib.import_module(full)
    return bound


def meant(node: ast.expr, bound: dict[str, Any]) -> Any:
    """The object that a dotted name stands for, None where it is not septran's."""
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(meant(node.value, bound), node.attr, None)
    return None


def expected(file: Path, by_code: dict[str, type[SepTranError]]) -> Iterator[type[SepTranError]]:
    """Classes that a file's tests use: in `pytest.raises`, in tables of mistakes, as codes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bound = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            found = meant(node, bound)
            if isinstance(found, type) and issubclass(found, SepTranError):
                yield found
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for code in re.findall(r"SEP\d{3}", node.value):
                if code in by_code:
                    yield by_code[code]


def all_classes(base: type[SepTranError] = SepTranError) -> set[type[SepTranError]]:
    """`base` and all below it."""
    return {base}.union(*(all_classes(c) for c in base.__subclasses__()))


def modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(septran.__path__, "septran."):
        yield importlib.import_module(module.name)


@dataclass(frozen=True)
class Uses:
    """What the package does with names."""

    called: set[str]
    named: set[str]
    """All that it uses in any way but as a base class."""
    without_hint: list[tuple[str, str]]
    """The calls of plain names without a hint: the name, and the place."""


@functools.cache
def uses() -> Uses:
    """What all modules do with names, found in one walk: there are a million nodes."""
    found = Uses(set(), set(), [])
    root = Path(septran.__path__[0])
    for file in sorted(root.rglob("*.py")):
        bases: set[int] = set()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):  # a class before its bases
            kind = type(node)
            if kind is ast.ClassDef:
                bases.update(map(id, node.bases))
            elif kind is ast.Call:
                if name := _last_word(node.func):
                    found.called.add(name)
                if type(node.func) is ast.Name and "hint" not in [k.arg for k in node.keywords]:
                    place = f"{file.relative_to(root).as_posix()}:{node.lineno}"
                    found.without_hint.append((node.func.id, place))
            elif kind in (ast.Name, ast.Attribute) and id(node) not in bases:
                found.named.add(_last_word(node))
    return found


def _last_word(node: ast.expr) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
    return ""


def test_every_code_is_raised_by_a_test():
    list(modules())
    files = [f for f in TESTS.rglob("test_*.py") if f.name not in NOT_EVIDENCE]
    by_code = {c.code: c for c in all_classes()}
    shown = {cls for file in files for cls in expected(file, by_code)}
    made = uses().called
    families = {c for c in all_classes() if c.__subclasses__() and c.__name__ not in made}
    missing = [f"{code} {c.__name__}" for code, c in codes_of_the_page().items()
               if c not in shown | families]  # fmt: skip
    assert missing == []


def test_no_class_is_left_over():
    """A class that nothing raises documents a mistake that cannot be made."""
    made = uses().named
    classes = [c for c in codes_of_the_page().values() if not c.__subclasses__()]
    assert [c.__name__ for c in classes if c.__name__ not in made] == []


def test_every_mistake_in_a_logic_says_what_to_write_in_its_place():
    list(modules())
    kinds = {c.__name__ for c in all_classes(LogicError)}
    assert [f"{place} {name}" for name, place in uses().without_hint if name in kinds] == []

"""Every code of `docs/errors.md` is expected by a test, by its very class."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
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


def expected(file: Path) -> Iterator[type[SepTranError]]:
    """Classes that a file's tests use: in `pytest.raises`, in tables of mistakes, as codes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bound = imported(tree)
    by_code = {c.code: c for c in all_classes()}
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


@functools.cache
def package() -> dict[str, ast.Module]:
    """The package's modules by their paths below it."""
    root = Path(septran.__path__[0])
    files = sorted(root.rglob("*.py"))
    return {f.relative_to(root).as_posix(): ast.parse(f.read_text("utf-8")) for f in files}


def names_in_the_package(called: bool) -> set[str]:
    """Names that the package calls, or uses in any way but as a base class."""
    names: set[str] = set()
    for tree in package().values():
        bases = {id(b) for n in ast.walk(tree) if isinstance(n, ast.ClassDef) for b in n.bases}
        for node in ast.walk(tree):
            used = node.func if called and isinstance(node, ast.Call) else node
            if (called and used is node) or id(used) in bases:
                continue
            if isinstance(used, ast.Name):
                names.add(used.id)
            elif isinstance(used, ast.Attribute):
                names.add(used.attr)
    return names


def test_every_code_is_raised_by_a_test():
    list(modules())
    files = [f for f in TESTS.rglob("test_*.py") if f.name not in NOT_EVIDENCE]
    shown = {cls for file in files for cls in expected(file)}
    made = names_in_the_package(called=True)
    families = {c for c in all_classes() if c.__subclasses__() and c.__name__ not in made}
    missing = [f"{code} {c.__name__}" for code, c in codes_of_the_page().items()
               if c not in shown | families]  # fmt: skip
    assert missing == []


def test_no_class_is_left_over():
    """A class that nothing raises documents a mistake that cannot be made."""
    made = names_in_the_package(called=False)
    classes = [c for c in codes_of_the_page().values() if not c.__subclasses__()]
    assert [c.__name__ for c in classes if c.__name__ not in made] == []


def test_every_mistake_in_a_logic_says_what_to_write_in_its_place():
    list(modules())
    kinds = {c.__name__ for c in all_classes(LogicError)}
    without = [
        f"{file}:{node.lineno} {node.func.id}"
        for file, tree in package().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds
        if "hint" not in [keyword.arg for keyword in node.keywords]
    ]
    assert without == []

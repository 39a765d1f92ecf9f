"""An operator of the library as somebody else would have written it, with every name changed.

Nothing but names differs, so nothing but names may differ in what the compiler makes of it.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from septran import operators
from septran.task.frontend.loader import find_entry

_WORD = re.compile(r"[A-Za-z_]\w*")
_LIBRARY = "septran.operators."
_TABLES = ("EXAMPLE", "CASES")
"""The tables of sizes in a file of the library; a renamed one has none."""


@dataclass(frozen=True)
class Renamed:
    """A logic file in one piece, with the new names."""

    text: str
    entry: str
    """The entry task's name; it is the file's last composite, too."""
    tensors: Mapping[str, str]
    """The new names of the entry's tensors by the old ones."""


@cache  # a campaign draws the same operators again and again
def renamed(operator: str, name: Callable[[str], str] = "my_{}".format) -> Renamed:
    """The library's `operator` with tasks, tensors, dimensions, temporaries as ``name(old)``.

    Static flags, scalars and tunables keep their names: callers and mappings set them by these.
    Raises LoadError for an operator that does not exist.
    """
    definitions = _definitions(operator)
    entry = find_entry(operators.module(operator)).name
    flags = {k.name for k in find_entry(operators.module(operator)).keywords}
    functions = [d for d in definitions if isinstance(d, ast.FunctionDef)]
    tasks = {f.name: name(f.name) for f in functions}
    flags |= {a.arg for f in functions for a in f.args.kwonlyargs}
    dims = {
        word: name(word)
        for f in functions
        for text in _dimension_texts(f)
        for word in _WORD.findall(text)
        if word not in flags and not keyword.iskeyword(word) and not hasattr(builtins, word)
    }
    renamer = _Renamer(tasks, dims, flags, name)
    # A file's last composite is its entry, but for its variants, which come behind what they vary.
    last = [
        d for d in definitions
        if isinstance(d, ast.FunctionDef) and (d.name == entry or _varies(d, entry))
    ]  # fmt: skip
    others = [d for d in definitions if d not in last]
    body = [renamer.visit(d) for d in (*others, *last)]
    text = "from septran import task\n\n\n" + "\n\n\n".join(
        ast.unparse(ast.fix_missing_locations(d)) for d in body
    )
    tensors = {n: name(n) for n, _ in find_entry(operators.module(operator)).tensors}
    return Renamed(text + "\n", tasks[entry], tensors)


def _varies(function: ast.FunctionDef, task: str) -> bool:
    """Whether a function is defined as a variant of a task."""
    given = (k for d in function.decorator_list if isinstance(d, ast.Call) for k in d.keywords)
    named = (k.value for k in given if k.arg == "variant_of")
    return any(isinstance(value, ast.Constant) and value.value == task for value in named)


def _definitions(operator: str) -> list[ast.stmt]:
    """Return the definitions of the operator's file, with those it imports from the library."""
    tree = ast.parse(_source(operator))
    own = [s for s in tree.body if not _is_of_septran(s) and not _is_text(s)]
    own = [s for s in own if not any(t in _TABLES for t in _names_of(s))]
    taken: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(_LIBRARY):
            other = _definitions((statement.module or "").removeprefix(_LIBRARY))
            taken += _needed(other, {a.name for a in statement.names})
    mine = {n for s in own for n in _names_of(s)}
    whole = [*(s for s in taken if not mine & set(_names_of(s))), *own]
    return sorted(whole, key=lambda s: not isinstance(s, ast.Import | ast.ImportFrom))


def _source(operator: str) -> str:
    file = operators.module(operator).__file__
    assert file is not None
    with open(file, encoding="utf-8") as stream:  # noqa: PTH123
        return stream.read()


def _is_of_septran(statement: ast.stmt) -> bool:
    """Whether a statement imports names of the package: those of other operators come along."""
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("septran")


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _names_of(statement: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a file binds."""
    match statement:
        case ast.FunctionDef(name=found) | ast.ClassDef(name=found):
            return [found]
        case ast.Assign(targets=[ast.Name(id=found)]):
            return [found]
        case ast.Import(names=imported) | ast.ImportFrom(names=imported):
            return [a.asname or a.name for a in imported]
    return []


def _needed(definitions: list[ast.stmt], wanted: set[str]) -> list[ast.stmt]:
    """Return the definitions that `wanted` ones use, directly or not, and their variants."""
    found = set(wanted)
    while True:
        more = {
            word
            for s in definitions
            if found & {*_names_of(s), *_variants(s)}
            for word in (*_names_of(s), *(n.id for n in ast.walk(s) if isinstance(n, ast.Name)))
        }
        if more <= found:
            return [s for s in definitions if found & set(_names_of(s))]
        found |= more


def _variants(statement: ast.stmt) -> list[str]:
    """Return the task that a function is a variant of."""
    if not isinstance(statement, ast.FunctionDef):
        return []
    return [
        str(k.value.value)
        for d in statement.decorator_list
        if isinstance(d, ast.Call)
        for k in d.keywords
        if k.arg == "variant_of" and isinstance(k.value, ast.Constant)
    ]


def _dimension_texts(function: ast.FunctionDef) -> list[str]:
    return [
        node.value
        for argument in function.args.args
        if argument.annotation is not None
        for node in ast.walk(argument.annotation)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


class _Renamer(ast.NodeTransformer):
    """Renames in the definitions of one file."""

    def __init__(
        self, tasks: Mapping[str, str], dims: Mapping[str, str], flags: set[str],
        name: Callable[[str], str],
    ) -> None:  # fmt: skip
        self.tasks, self.dims, self.flags, self.name = tasks, dims, flags, name
        self.local: dict[str, str] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self.local = self.local, {a.arg: self.name(a.arg) for a in node.args.args}
        for argument in node.args.args:
            if argument.annotation is not None:
                argument.annotation = self._dimensions(argument.annotation)
            argument.arg = self.local[argument.arg]
        node.name = self.tasks.get(node.name, node.name)
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.body = [self.visit(s) for s in node.body if not _is_text(s)]
        self.local = outer
        return node

    def _dimensions(self, annotation: ast.expr) -> ast.expr:
        for node in ast.walk(annotation):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = _WORD.sub(lambda m: self.dims.get(m[0], m[0]), node.value)
        return annotation

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.local.get(node.id, self.tasks.get(node.id, node.id))
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            if node.arg == "variant_of":
                value.value = self.tasks.get(value.value, value.value)
            elif node.arg == "name":  # of a temporary
                value.value = self.name(value.value)
            elif node.arg == "shape_from":
                value.value = self.local.get(value.value, value.value)
            return node
        node.value = self.visit(value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        for target in node.targets:  # SAME = {"G": "H"}
            if isinstance(target, ast.Name) and target.id == "SAME":
                node.value = self._dimensions(node.value)
        return node

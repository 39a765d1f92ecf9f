"""Rules in Python: where they are in a module's text, and the module with one switched off."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

REACHED = "__rule_reached__"
"""A builtin that tests under trace have: notes a rule, and returns its second argument."""
LISTS = frozenset({"touched"})
"""Lists that collect findings."""


@dataclass(frozen=True)
class Site:
    """One rule, and one way to switch it off."""

    key: str
    """Names it in the journal; the same as long as its function and text are."""
    file: str
    line: int
    number: int
    """Which of the rules in its file, or where it begins in the text of a header."""
    change: str
    """What is put in its place: nothing, zero or infinite."""
    text: str

    @property
    def place(self) -> str:
        """The rule without the way, as tests reach it in the same places."""
        return self.key.rpartition("::")[0]

    @property
    def constant(self) -> str:
        """The name of the module's constant that it is in; empty in functions."""
        name = self.key.split("::")[1].split(" ")[0]
        return name if name.isupper() else ""


Change = Callable[[ast.AST], ast.AST]
Found = tuple[ast.AST, str, tuple[str, ...]]
"""A node, the function that it is in, and what may be put in its place."""


def check_sites(file: str, source: str) -> list[Site]:
    """Each refusal of a module: what raises, yields, returns or notes an error."""
    return _named(file, _refusals(ast.parse(source)))


def bound_sites(file: str, source: str) -> list[Site]:
    """Each term of an error bound, to be taken as zero and as infinite."""
    return _named(file, _terms(ast.parse(source)))


def _named(file: str, found: list[Found]) -> list[Site]:
    sites, counts = [], Counter[str]()
    for number, (node, function, ways) in enumerate(found):
        text = " ".join(ast.unparse(node).split())
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        place = f"{file}::{function}::{type(node).__name__.lower()}-{digest}"
        counts[place] += 1
        place += f"-{counts[place]}"
        for way in ways:
            line = getattr(node, "lineno", 0)
            sites.append(Site(f"{place}::{way}", file, line, number, way, text[:100]))
    return sites


def _sorted(found: Iterable[Found]) -> list[Found]:
    """Each node once, from the top of the module down."""
    unique = {id(f[0]): f for f in found}

    def where(found: Found) -> tuple[int, ...]:
        node: Any = found[0]
        return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset

    return sorted(unique.values(), key=where)


def _functions(tree: ast.AST, name: str = "") -> Iterator[tuple[ast.FunctionDef, str]]:
    for node in ast.iter_child_nodes(tree):
        inner = name
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{name}.{node.name}" if name else node.name
        if isinstance(node, ast.FunctionDef):
            yield node, inner
        yield from _functions(node, inner)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _own(node)


def _refusals(tree: ast.Module) -> list[Found]:
    functions = list(_functions(tree))
    raising = {
        f.name for f, _ in functions
        if any(isinstance(n, ast.Raise) for n in _own(f)) and _returns(f) in ("", "None")
    }  # fmt: skip
    return _sorted(
        (node, name, ("nothing",))
        for function, name in functions
        for node in _own(function)
        if isinstance(node, ast.stmt) and _refuses(node, _returns(function), raising)
    )


def _returns(function: ast.FunctionDef) -> str:
    return ast.unparse(function.returns) if function.returns else ""


def _refuses(node: ast.stmt, returns: str, raising: set[str]) -> bool:
    match node:
        case ast.Raise():
            return True
        case ast.Expr(ast.Yield()):
            return "Error" in returns
        case ast.Return(ast.Call() | ast.JoinedStr() | ast.Name()):
            why = returns == "str | None" and isinstance(node.value, ast.JoinedStr)
            return why or (returns.endswith("Error | None"))
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(found), "append"))):
            return found in LISTS
        case ast.Expr(ast.Call(ast.Name(called) | ast.Attribute(_, called))):
            return called in raising or called.startswith("check_") or called == "raise_all"
    return False


BOTH = ("zero", "infinite")


def _terms(tree: ast.Module) -> list[Found]:
    """Terms; one that is infinity as it stands can be taken as zero only, and the reverse."""
    return _sorted((node, name, _ways(node)) for node, name in _any_terms(tree))


def _ways(term: ast.expr) -> tuple[str, ...]:
    if _infinite(term):
        return ("zero",)
    return ("infinite",) if ast.unparse(term).startswith("np.zeros(") else BOTH


def _any_terms(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    for statement in tree.body:
        match statement:
            case ast.AnnAssign(target=ast.Name("UNITS"), value=ast.Dict(keys, values)):
                yield from (
                    (v, f"UNITS {ast.unparse(k)}") for k, v in zip(keys, values, strict=False) if k
                )
            case ast.Assign([ast.Name("SAFETY")], value):
                yield value, "SAFETY"
        for node in ast.walk(statement):
            if isinstance(node, ast.Lambda) and isinstance(node.body, ast.Tuple):
                yield node.body.elts[-1], "rule"
    for function, name in _functions(tree):
        for node in _own(function):
            yield from ((term, name) for term in _of_node(node, function))


def _of_node(node: ast.AST, function: ast.FunctionDef) -> Iterator[ast.expr]:
    match node:
        case ast.Call(ast.Name("Bounded"), [_, error, *_]):
            yield error
        case ast.Call(ast.Name("rounded") | ast.Attribute(_, "rounded"), [_, error, _, *units]):
            yield error
            yield from (u for u in units if not isinstance(u, ast.Constant))
        case ast.Call(ast.Attribute(_, "where"), [_, value, _]) if _infinite(value):
            yield value
        case ast.Return(ast.Tuple([_, error])) if _returns(function) == "Ends":
            yield error
        case ast.Return(value) if value is not None and function.name in ("gamma", "smallest"):
            yield value
        case ast.Assign([ast.Name("error")], value):
            yield from _added(value)


def _added(value: ast.expr) -> Iterator[ast.expr]:
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        yield value.right
        value = value.left
    if not isinstance(value, ast.Name):
        yield value


def _infinite(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "inf"


def switched_off(source: str, site: Site) -> ast.Module:
    """The module without one rule."""
    return _replaced(source, {site.number: lambda node: _without(node, site)}, site.change)


def traced(source: str, sites: list[Site]) -> ast.Module:
    """The module that notes which rules it comes to."""

    def noting(place: str) -> Change:
        return lambda node: _noting(node, place)

    return _replaced(source, {s.number: noting(s.place) for s in sites}, sites[0].change)


def _replaced(source: str, changes: dict[int, Change], way: str) -> ast.Module:
    tree = ast.parse(source)
    found = _refusals(tree) if way == "nothing" else _terms(tree)
    by_node = {id(found[number][0]): change for number, change in changes.items()}

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            change = by_node.get(id(node))  # before children are replaced, and ids are used again
            node = self.generic_visit(node)
            return _placed(change(node), node) if change else node

    changed = Replace().visit(tree)
    assert isinstance(changed, ast.Module)
    return ast.fix_missing_locations(changed)


def _placed(new: ast.AST, old: ast.AST) -> ast.AST:
    """Lines of the module, not those of the text that a part was made of."""
    if isinstance(new, ast.expr):
        for part in ast.walk(new):
            if part is not old:
                ast.copy_location(part, old)
    return new


def _without(node: ast.AST, site: Site) -> ast.AST:
    match node:
        case ast.Expr(ast.Yield()):  # it must stay a generator
            return ast.If(ast.Constant(value=False), [node], [])
        case ast.Return():
            return ast.Return(ast.Constant(None))
        case ast.stmt():
            return ast.Pass()
        case ast.Constant():
            return ast.Constant(0.0 if site.change == "zero" else 1e300)
    number = "0.0" if site.change == "zero" else "np.inf"
    return ast.parse(f"np.full(np.shape({ast.unparse(node)}), {number})[()]", mode="eval").body


def _noting(node: Any, place: str) -> ast.AST:
    name = ast.Name(REACHED, ast.Load())
    if isinstance(node, ast.stmt):
        note = ast.Expr(ast.Call(name, [ast.Constant(place)], []))
        return ast.If(ast.Constant(value=True), [note, node], [])
    return ast.Call(name, [ast.Constant(place), node], [])

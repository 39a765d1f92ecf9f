"""Operators with other leaves: each statement of a leaf is a leaf of its own, launched in order."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass


def split(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a logic with its leaves split, and the names of those that were.

    Those stay as they are that are variants, that have names of their own, or whose arguments are
    not written one by one where they are launched.
    """
    tree = ast.parse(text)
    several = _launched_with_several(tree)
    leaves = {n.name: _parts(n) for n in tree.body if _is_split(n) and n.name not in several}
    tree.body = [
        made
        for node in tree.body
        for made in ([p.task for p in leaves[node.name]] if _name(node) in leaves else [node])
    ]
    return ast.unparse(ast.fix_missing_locations(_Launches(leaves).visit(tree))), tuple(leaves)


@dataclass(frozen=True)
class _Part:
    """One statement of a leaf as a leaf."""

    task: ast.FunctionDef
    places: tuple[int, ...]
    """Which of the leaf's tensors it takes."""
    words: frozenset[str]
    """The keywords that it takes."""


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else ""


def _is_split(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    given = {k.arg for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords}
    plain = all(
        isinstance(s, ast.Expr)
        or (isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Subscript))
        for s in _statements(node)
    )
    return "leaf" in given and "variant_of" not in given and plain and len(_statements(node)) > 1


def _statements(node: ast.FunctionDef) -> list[ast.stmt]:
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[1:] if documented else node.body


def _parts(node: ast.FunctionDef) -> list[_Part]:
    return [_part(node, number, s) for number, s in enumerate(_statements(node))]


def _part(node: ast.FunctionDef, number: int, statement: ast.stmt) -> _Part:
    used = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
    task, arguments = copy.deepcopy(node), node.args
    task.name, task.body = f"{node.name}_{number}", [statement]
    task.args.args = [a for a in arguments.args if a.arg in used]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    kept = [(a, d) for a, d in pairs if a.arg in used]
    task.args.kwonlyargs, task.args.kw_defaults = [a for a, _ in kept], [d for _, d in kept]
    places = tuple(n for n, a in enumerate(arguments.args) if a.arg in used)
    return _Part(task, places, frozenset(a.arg for a, _ in kept))


def _launch(node: ast.AST) -> str:
    """Return the name of the task that a call launches; empty for any other node."""
    launches = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if not launches or node.func.attr != "launch" or not isinstance(node.args[0], ast.Name):
        return ""
    return node.args[0].id


def _launched_with_several(tree: ast.Module) -> set[str]:
    return {
        name
        for node in ast.walk(tree)
        if (name := _launch(node)) and any(isinstance(a, ast.Starred) for a in node.args)
    }


@dataclass
class _Launches(ast.NodeTransformer):
    leaves: dict[str, list[_Part]]

    def visit_Expr(self, node):
        """Replace a launch of a split leaf by those of its parts."""
        parts = self.leaves.get(_launch(node.value), [])
        return [ast.Expr(self._call(node.value, part)) for part in parts] or node

    def _call(self, call: ast.Call, part: _Part) -> ast.Call:
        tensors = [call.args[1 + n] for n in part.places]
        words = [k for k in call.keywords if k.arg in part.words]
        return ast.Call(call.func, [ast.Name(part.task.name, ast.Load()), *tensors], words)

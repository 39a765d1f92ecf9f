"""Dimensions that static values decide: ``K if flag else M``, and ``(A, B, C)[order]``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from septran.errors import nearest
from septran.location import Location
from septran.task.errors import LaunchArgumentsError

Dim = str | int | None


def decided_dims(
    dims: tuple[Dim, ...], flags: Mapping[str, Any], where: Location
) -> tuple[Dim, ...]:
    """Return a tensor's dimensions for given static values; raises LaunchArgumentsError."""
    return tuple(one for dim in dims for one in _decided(dim, flags, where))


def pickable(dim: Dim) -> set[str]:
    """Return the names that a static tuple picks from: A, B and C of ``(A, B, C)[order]``."""
    tree = ast.parse(dim, mode="eval").body if isinstance(dim, str) else None
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Tuple):
        return {n.id for n in ast.walk(tree.value) if isinstance(n, ast.Name)}
    return set()


def _decided(dim: Dim, flags: Mapping[str, Any], where: Location) -> tuple[Dim, ...]:
    if not isinstance(dim, str) or dim.isidentifier():
        return (dim,)
    tree = ast.parse(dim, mode="eval").body
    while isinstance(tree, ast.IfExp) and isinstance(tree.test, ast.Name):
        tree = tree.body if flags.get(tree.test.id) else tree.orelse
    match tree:
        case ast.Subscript(ast.Tuple(elts=given), ast.Name(id=name)):
            places = _places(name, flags, len(given), where)
        case ast.Subscript(
            ast.Tuple(elts=given),
            ast.Slice(None, ast.Call(ast.Name(id="len"), [ast.Name(id=name)]), None),
        ):
            places = tuple(range(len(_places(name, flags, len(given), where))))
        case _:
            return (ast.unparse(tree),)
    return tuple(ast.unparse(given[place]) for place in places)


def _places(name: str, flags: Mapping[str, Any], count: int, where: Location) -> tuple[int, ...]:
    """Return a static tuple whose entries are places among `count` dimensions."""
    if name not in flags:
        raise LaunchArgumentsError(
            f"dimensions are picked by {name}, which is no static parameter", where,
            hint=nearest(name, flags) or f"add the keyword {name}: tuple = (0, 1)",
        )  # fmt: skip
    value = flags[name]
    places = isinstance(value, tuple) and all(type(n) is int and 0 <= n < count for n in value)
    if places and len(value) <= count:
        return tuple(value)
    raise LaunchArgumentsError(
        f"{name} is {value!r}, and picks from {count} dimensions", where,
        hint=f"a tuple of at most {count} integers, each from 0 to {count - 1}",
    )  # fmt: skip

"""Checks of the operands of a primitive against its contract."""

from __future__ import annotations

from septran.dtypes import is_float
from septran.ir.index import Index
from septran.ir.primitives import Contract
from septran.location import Location
from septran.task.errors import DtypeError, LaunchArgumentsError, ShapeError
from septran.task.trace.tensors import Tile


def check_axes(contract: Contract, operands: tuple[Tile, ...], where: Location) -> None:
    """Check that equal letters have equal extents, also at ragged edges; raises ShapeError."""
    seen: dict[str, tuple[int, Index, str]] = {}
    for letters, tile, label in zip(contract.axes, operands, contract.operands, strict=True):
        if letters == "*":
            whole = (tile.view.shape, tile.view.valid)
            first = operands[0].view
            if whole != (first.shape, first.valid):
                raise ShapeError(
                    f"{contract.name}: {label} is {_dims(tile)}, "
                    f"but {contract.operands[0]} is {_dims(operands[0])}", where,
                    hint="give both one shape; expressions broadcast, primitives do not",
                )  # fmt: skip
            continue
        if tile.ndim != len(letters):
            raise ShapeError(
                f"{contract.name}: {label} must have {len(letters)} axes, but is {_dims(tile)}",
                where,
                hint="index an axis away (x[0]) or reshape, so that it has as many",
            )
        for letter, extent, valid in zip(letters, tile.view.shape, tile.view.valid, strict=True):
            held = seen.setdefault(letter, (extent, valid, label))
            if held[:2] != (extent, valid):
                shapes = ", ".join(
                    f"{n} is {_dims(t)}" for n, t in zip(contract.operands, operands, strict=True)
                )
                rule = ", ".join(
                    f"{n}[{', '.join(a)}]"
                    for n, a in zip(contract.operands, contract.axes, strict=True)
                )
                edge = " at the ragged edge" if held[0] == extent else ""
                raise ShapeError(
                    f"{contract.name}: extents of {letter} differ{edge}: {shapes}", where,
                    hint=f"the rule is {rule}; take extents from a tensor's shape (A.shape[0])",
                )  # fmt: skip


def check_dtypes(contract: Contract, operands: tuple[Tile, ...], where: Location) -> None:
    """Check that a product is of integers or of floats, not of both; raises DtypeError."""
    if contract.name == "solve_triangular":
        _check_solve(operands, where)
    if contract.name in ("sort", "argsort"):
        _check_sort(contract, operands, where)
    if contract.name != "gemm":
        return
    c, a, b = (o.own_dtype for o in operands)
    floats = {is_float(d) for d in (c, a, b)}
    if len(floats) != 1:
        raise DtypeError(
            f"gemm mixes integers and floats: C {c}, A {a}, B {b}",
            where,
            hint="convert one of them in a leaf before: x.astype(task.float32)",
        )


def _check_sort(contract: Contract, operands: tuple[Tile, ...], where: Location) -> None:
    """Check that rows are sorted into other, no longer ones, of their type or of integers."""
    target, rows = operands
    if target.name == rows.name:
        raise LaunchArgumentsError(
            f"{contract.name} writes {target.name} while it reads it", where,
            hint="sort into another tensor",
        )  # fmt: skip
    if target.view.shape[1] > rows.view.shape[1]:
        raise ShapeError(
            f"{contract.name}: {contract.operands[0]} is {_dims(target)}, longer than X, "
            f"{_dims(rows)}", where,
            hint="the result has at most as many elements as X",
        )  # fmt: skip
    right = target.own_dtype == rows.own_dtype
    if contract.name == "argsort":
        right = not is_float(target.own_dtype) and target.own_dtype != "bool"
    if not right:
        raise DtypeError(
            f"{contract.name}: {contract.operands[0]} {target.own_dtype}, X {rows.own_dtype}",
            where, hint="values are of the type of X, places of int32 or int64",
        )  # fmt: skip


def _check_solve(operands: tuple[Tile, ...], where: Location) -> None:
    """Check that a system is of floats, and solved in a type that sums are in."""
    if operands[0].name == operands[1].name:
        raise LaunchArgumentsError(
            f"solve_triangular writes {operands[0].name} while it reads it as L", where,
            hint="solve into another tensor; B may be X",
        )  # fmt: skip
    target, *given = (o.own_dtype for o in operands)
    if target not in ("float32", "float64") or not all(map(is_float, given)):
        raise DtypeError(
            f"solve_triangular: X {target}, L {given[0]}, B {given[1]}", where,
            hint="X is float32 or float64, L and B are floats: solve into a temporary, and round "
            "that (Y[:, :] = x)",
        )  # fmt: skip


def _dims(tile: Tile) -> str:
    parts = (
        str(n) if v == Index.of(n) else f"{v} of {n}"
        for n, v in zip(tile.view.shape, tile.view.valid, strict=True)
    )
    return f"{tile.own_dtype}[{', '.join(parts)}]"

"""Checks of launches that pass the same elements under two names, one of which is written.

A mapping may stage the two names in different memories, where a write to one is not seen in the
other. So they may share elements only if all of these are read before they are written, as in
``launch(bias_act, C, C, bias)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from septran.ir import expressions as ex
from septran.ir.index import Range, Var, axis, is_axis
from septran.ir.views import View
from septran.location import Location
from septran.task.check.privileges import ViewUse, accesses
from septran.task.errors import AliasError
from septran.task.tree import Assign, Launch, Loop, Primitive, Statement, TaskNode

Ranges = Mapping[Var, Range]


@dataclass(frozen=True)
class _Use:
    access: ViewUse
    statement: Statement
    loops: tuple[Var, ...]


def check_aliases(task: TaskNode, views: tuple[View, ...], ranges: Ranges, where: Location) -> None:
    """Compare the arguments of a launch with each other; raises AliasError."""
    pairs = list(zip(task.params, views, strict=True))
    for first, a in pairs:
        for second, b in pairs:
            if first is second or a.tensor != b.tensor or not first.writes:
                continue
            if not _apart(a, b, ranges) and not (
                a == b and not second.writes and _read_first(task, first.name, second.name, ranges)
            ):
                raise AliasError(
                    f"{first.name} and {second.name} of {task.name} may share elements of "
                    f"{a.tensor} ({a} and {b}), and {first.name} is written before all are read",
                    where,
                    hint="pass the tensor once, as a parameter that is read and written",
                )


def _read_first(task: TaskNode, written: str, read: str, ranges: Ranges) -> bool:
    """Return whether no element of `read` is used after the same one of `written` is stored."""
    uses = list(_uses(task.body, ()))
    for n, writer in enumerate(uses):
        if writer.access.view.tensor != written or not writer.access.writes:
            continue
        for m, reader in enumerate(uses):
            if reader.access.view.tensor == read and not _ordered(
                reader, writer, m < n, written, read, ranges
            ):
                return False
    return True


def _ordered(
    reader: _Use, writer: _Use, before: bool, written: str, read: str, ranges: Ranges
) -> bool:
    """Return whether one read comes before one write of the same elements, in all iterations."""
    shared = [v for v in writer.loops if v in reader.loops]
    a, b = writer.access.view, reader.access.view
    same = a.index == b.index and a.shape == b.shape and a.valid == b.valid
    # The read gets shared loop indices of its own: views that are apart for all pairs of
    # iterations need no order.
    if _apart(a, b.substitute({v: Var(f"{v}'") for v in shared}), _doubled(ranges, shared)):
        return True
    used = {v for entry in a.index for v in entry.variables()}
    # A loop of one iteration repeats nothing.
    repeated = {v for v in shared if ranges.get(v) != (0, 0)}
    if repeated and not (same and used.issuperset(repeated)):  # other iterations' elements
        return False
    if reader.statement is not writer.statement:
        return before
    return same and _reads_before_writing(writer.statement, written, read, ranges)


def _reads_before_writing(statement: Statement, written: str, read: str, ranges: Ranges) -> bool:
    """Whether a statement has read each element of `read` before it writes that of `written`."""
    match statement:
        case Launch(task=task, arguments=arguments):
            names = {v.tensor: p.name for p, v in zip(task.params, arguments, strict=True)}
            return _read_first(task, names[written], names[read], ranges)
        case Assign(value=value):
            # Elements are computed one by one, while a reduction reads others than the one that is
            # stored.
            return not any(isinstance(node, ex.Reduce) for node in ex.walk(value))
        case Primitive(name=name):
            # These go element by element; a product reads elements again after it has stored some.
            return name in ("copy", "cast")
    return False


def _doubled(ranges: Ranges, variables: list[Var]) -> Ranges:
    return {**ranges, **{Var(f"{v}'"): ranges[v] for v in variables if v in ranges}}


def _uses(body: tuple[Statement, ...], loops: tuple[Var, ...]) -> Iterator[_Use]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _uses(statement.body, (*loops, *statement.variables))
        else:
            for access in accesses(statement):
                yield _Use(access, statement, loops)


def _apart(a: View, b: View, ranges: Ranges) -> bool:
    """Return whether two views have no element in common, whatever the loop indices are."""
    if 0 in a.shape or 0 in b.shape:
        return True
    known = dict(ranges)
    known |= {axis(n): (0, max(0, e - 1)) for n, e in enumerate((*a.shape, *b.shape))}
    # The views' own axes are independent, so those of one get other names.
    renamed = {axis(n): axis(n + a.rank) for n in range(b.rank)}
    for mine, theirs in zip(a.index, b.index, strict=True):
        gap = theirs.substitute(renamed) - mine
        if all(is_axis(v) or v in known for v in gap.variables()):
            low, high = gap.bounds(known)
            # Every other column, and those between: sums of multiples of 2 do not differ by 1.
            step = math.gcd(*(factor for _, factor in gap.terms))
            if low > 0 or high < 0 or (step > 1 and gap.constant % step):
                return True
    return False

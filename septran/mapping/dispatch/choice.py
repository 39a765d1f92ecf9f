"""The case of a dispatch file that a call takes, and the extents that its kernel is called with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from septran.errors import nearest, raise_all
from septran.mapping.conditions import Value
from septran.mapping.dispatch.spans import Alternative, Span, alternatives, left_of
from septran.mapping.mapping import DispatchCase, MappingFile, Taken
from septran.mapping.mistakes import ConditionError

OTHER_NAMES = ("dtype", "longest_row", "most_rows")
"""What every call has, whatever its tensors and dimensions are called."""


def check_names(mapping: MappingFile, names: Iterable[str], tensors: Iterable[str]) -> None:
    """Raise ConditionError for names of conditions that no call of the logic has.

    `names` are the logic's dimensions and static flags, `tensors` its parameters: ``A_0`` is the
    first extent of A, ``A_dtype`` its type.
    """
    known = {*names, *OTHER_NAMES, *(f"{t}_dtype" for t in tensors)}
    extent = re.compile(rf"({'|'.join(map(re.escape, tensors)) or '(?!)'})_\d+")
    errors = []
    for case in mapping.cases:
        for name in sorted(case.when.names if case.when else ()):
            if name not in known and not extent.fullmatch(name):
                errors.append(
                    ConditionError(
                        f"{case.name} names {name!r}, which the logic does not have; "
                        f"it has {', '.join(sorted(known - set(OTHER_NAMES)))}",
                        case.where,
                        hint=nearest(name, known),
                    )
                )
    raise_all(errors)


def take(
    mapping: MappingFile, values: Mapping[str, Value], dynamic: Mapping[str, object] | None = None
) -> MappingFile:
    """Return the mapping of the first case that holds for a call, with the reason.

    `values` are what conditions can name; those of `dynamic` dimensions are left out of the
    reason, as the case is then for others, too. Raises ConditionError.
    """
    case = next(c for c in mapping.cases if c.when is None or c.when.holds(values))
    earlier = mapping.cases[: mapping.cases.index(case)]
    told = {n: v for n, v in values.items() if n not in (dynamic or {})}
    of = f" ({case.label})" if case.label else ""
    reason = f"{case.name} is taken{of}: {_because(case, earlier, told)}"
    return replace(case.mapping, taken=Taken(case.name, reason, case.where))


def _because(
    case: DispatchCase, earlier: tuple[DispatchCase, ...], values: Mapping[str, Value]
) -> str:
    """What holds, what of the earlier cases does not, and the values that these name."""
    conditions = [c.when for c in (*earlier, case) if c.when is not None]
    names = sorted({n for c in conditions for n in c.names if n in values})
    shown = ", ".join(f"{n} is {values[n]}" for n in names)
    parts = [f"{case.when.text} holds"] if case.when else []
    parts += [f"not {e.name}, {e.when.text}" for e in earlier if e.when]
    return "; ".join(parts) + (f" ({shown})" if shown else "")


def narrowed(
    mapping: MappingFile,
    taken: str,
    values: Mapping[str, Value],
    ranges: Mapping[str, tuple[int, int | None]],
) -> dict[str, tuple[int, int | None]]:
    """Return the ranges of dynamic dimensions without extents for which another case is taken.

    `taken` is the name of the case; `values` are those that are the same for all its calls. Only
    simple bounds narrow a range: ``M <= 64``, ``4 < M``, one dimension at a time.
    """
    cases = list(mapping.cases)
    place = next(n for n, c in enumerate(cases) if c.name == taken)
    own = alternatives(cases[place].when, values)
    earlier = [a for c in cases[:place] for a in alternatives(c.when, values)]
    return {name: _narrowed(own, earlier, name, given) for name, given in ranges.items()}


def same_case(
    mapping: MappingFile,
    taken: str,
    values: Mapping[str, Value],
    found: Mapping[str, int],
) -> dict[str, Span]:
    """Return extents around those of a call for which the same case is taken.

    `found` are the extents of dynamic dimensions, `values` what is the same for all calls. The
    result is empty where the conditions are not simple bounds of one dimension, so that only a
    look at each call tells.
    """
    cases = list(mapping.cases)
    place = next(n for n, c in enumerate(cases) if c.name == taken)
    own = alternatives(cases[place].when, values)
    earlier = [a for c in cases[:place] for a in alternatives(c.when, values)]
    named = {name for a in (*own, *earlier) for name in a.spans}
    if any(a.others for a in (*own, *earlier)) or len(named) > 1 or named - found.keys():
        return {}
    ends = {name: (-math.inf, math.inf) for name in found}
    for name in named:
        here = found[name]
        low, high = next(s for s in (a.span(name) for a in own) if s[0] <= here <= s[1])
        for first, last in (e.span(name) for e in earlier):
            low, high = (max(low, last + 1), high) if last < here else (low, min(high, first - 1))
        ends[name] = low, high
    return ends


def _narrowed(
    own: list[Alternative], earlier: list[Alternative], name: str, given: tuple[int, int | None]
) -> tuple[int, int | None]:
    least, most = given
    end = float("inf") if most is None else most
    low = max(least, min(a.span(name)[0] for a in own))
    high = min(end, max(a.span(name)[1] for a in own))
    low, high = left_of((low, high), name, earlier)
    return int(low), None if high == float("inf") else int(high)

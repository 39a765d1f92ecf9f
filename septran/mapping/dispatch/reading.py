"""Reading of a dispatch file: its schema, its cases, and those that can never be taken."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from septran.dtypes import TYPES
from septran.errors import SepTranError, nearest, raise_all
from septran.machine.kinds import (
    FREE,
    NAME,
    Either,
    Field,
    ListOf,
    Record,
    Report,
    Schema,
    TableOf,
    check,
)
from septran.machine.positions import Node
from septran.mapping.conditions import Condition, Formula, condition
from septran.mapping.dispatch.spans import alternatives, covered
from septran.mapping.mapping import DispatchCase, MappingFile
from septran.mapping.mistakes import (
    FAMILY,
    CaseMachinesError,
    ConditionError,
    UnreachableCaseError,
)
from septran.mapping.reader import conditions
from septran.mapping.schema import MACHINE, MAPPED_FILE, MAPPING

KEY = "dispatch"
"""The key by which a file is known for a dispatch file."""
OTHERWISE = "otherwise"
MOST_CASES = 32

_MAPPED = Either((MAPPED_FILE, MAPPING))
_CASE = Record(
    {
        "when": Field(
            Formula(), "a condition over dimensions, flags, extents, dtype", required=True
        ),
        "mapping": Field(
            _MAPPED, "the mapping of such calls: a name, a file, or a table", required=True
        ),
    },
    "a case",
)
DISPATCH = Record(
    {
        "machine": MACHINE,
        "description": Field(FREE, "a sentence for readers"),
        "conditions": Field(TableOf(NAME, Formula()), "conditions that cases may name"),
        KEY: Field(ListOf(_CASE, least=1, most=MOST_CASES), "cases, tried in order", required=True),
        OTHERWISE: Field(_MAPPED, "the mapping of all other calls", required=True),
    },
    "a dispatch file",
)


def dispatch_schema() -> Schema:
    """Return the JSON Schema of dispatch files (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "SepTran dispatch",
        "description": "Which mapping runs a call, by its sizes and types.",
        **DISPATCH.schema(),
    }


@dataclass(frozen=True)
class _Said:
    """A case as the file says it."""

    name: str
    when: Node | None
    mapping: Node

    @property
    def label(self) -> str:
        return "" if self.mapping.items else self.mapping.text


def read_dispatch(node: Node, load: Callable[[Node], MappingFile], file: str) -> MappingFile:
    """Return a dispatch file as a mapping of cases; raises Errors with all mistakes.

    `load` returns the mapping that a case names or has as a table.
    """
    report = Report(FAMILY)
    check(DISPATCH, node, report)
    raise_all(report.errors)
    errors: list[SepTranError] = []
    cases: list[DispatchCase] = []
    try:
        named = conditions(node)
    except ConditionError as error:
        errors.append(error)
        named = {}
    for said in _said(node):
        try:
            where = said.when.where if said.when else node.keys[OTHERWISE]
            when = _when(said.when, named) if said.when else None
            cases.append(DispatchCase(said.name, when, load(said.mapping), said.label, where))
        except SepTranError as error:
            errors.append(error)
    raise_all(errors or [*_unreachable(cases), *_apart(cases)])
    return MappingFile(cases[0].mapping.machine, cases=tuple(cases), file=file)


def _said(node: Node) -> Iterator[_Said]:
    for number, case in enumerate(node.items[KEY].elements, 1):
        yield _Said(f"case {number}", case.items["when"], case.items["mapping"])
    yield _Said(OTHERWISE, None, node.items[OTHERWISE])


def _when(node: Node, named: Mapping[str, Condition]) -> Condition:
    """The condition of a case, which is decided before the logic is traced."""
    found = condition(node, named)
    for name in sorted(found.names):
        if "." in name:
            raise ConditionError(
                f"a case cannot ask for {name}: which case is taken is decided by the sizes and "
                "types of the call alone",
                node.where,
                hint="name dimensions, extents (A_0) or dtype; rules of a mapping know structure",
            )
    _require_types(found)
    return found


def _require_types(condition: Condition) -> None:
    """Refuse a comparison of an element type with a word that is none: it would never hold."""
    for node in (n for n in ast.walk(condition.tree) if isinstance(n, ast.Compare)):
        operands = [node.left, *node.comparators]
        names = [n.id for n in operands if isinstance(n, ast.Name)]
        words = [n.value for n in operands if isinstance(n, ast.Constant)]
        if not any(name == "dtype" or name.endswith("_dtype") for name in names):
            continue
        for word in words:
            if word not in TYPES:
                message = (
                    f"{word!r} in {condition.text!r} is no element type, so that no call has it"
                )
                hint = nearest(str(word), TYPES)
                raise ConditionError(message, condition.where, hint=hint)


def _unreachable(cases: list[DispatchCase]) -> Iterator[SepTranError]:
    """Yield a mistake for each case that cannot be taken, whatever the call."""
    for number, case in enumerate(cases[:-1]):
        own, before = alternatives(case.when), cases[:number]
        if not own:
            yield UnreachableCaseError(
                f"{case.name} is never taken: {_text(case)} cannot hold",
                case.where,
                hint="leave it out, or correct its condition",
            )
            continue
        earlier = [a for c in before for a in alternatives(c.when)]
        if earlier and all(covered(a, earlier) for a in own):
            # Those alone that matter, where one does.
            alone = [c for c in before if all(covered(a, alternatives(c.when)) for a in own)]
            first = alone[:1] or before
            names = " or ".join(f"{c.name}, {_text(c)}," for c in first)
            yield UnreachableCaseError(
                f"{case.name} is never taken: where {_text(case)} holds, {names} does",
                case.where,
                hint="cases are tried in order: put the more particular one first",
                notes=[(f"{c.name} is here", c.where) for c in first],
            )


def _text(case: DispatchCase) -> str:
    return case.when.text if case.when else OTHERWISE


def _apart(cases: list[DispatchCase]) -> Iterator[SepTranError]:
    """Yield a mistake for each case that is for another machine than the first."""
    first = cases[0].mapping.machine
    for case in cases[1:]:
        if case.mapping.machine != first:
            yield CaseMachinesError(
                f"{case.name} is for {case.mapping.machine.name}, and case 1 for {first.name}",
                case.where,
                hint="a kernel is for one machine: write `machine:` at the head of the file, or "
                "a dispatch file for each",
            )

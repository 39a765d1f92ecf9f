"""The lines of a sequence, read as calls of operators: ``Z = swiglu(H, gate, up)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any

from septran import operators
from septran.errors import LogicError, nearest
from septran.location import Location
from septran.task import Task, find_entry, load_logic
from septran.task.trace.inference import probe

Known = Mapping[str, Task | str | Path]
"""Operators by names of one's own: tasks, names of the library, or logic files."""
FORM = 'write "Z = swiglu(H, gate, up)": results, an operator, what it reads, and its flags'
CALL = "run an operator"
"""What a step's code calls; no tensor can have that name."""
MOST_LINES = 100
"""Lines below the call, or the step before, in which a step's text is looked for."""


class SequenceError(LogicError):
    """A step of a sequence is no call of an operator whose results are named."""

    code = "SEP133"


@dataclass(frozen=True)
class SequenceStep:
    """One line: an operator, what it writes and what it reads."""

    task: Task
    results: tuple[str, ...]
    """The names of what it writes, in the order of the operator's own outputs."""
    arguments: tuple[ast.expr, ...]
    """What it reads: names, or views of one (``W.T``)."""
    flags: Mapping[str, Any]
    """The keywords that are numbers, words or flags."""
    passed: Mapping[str, str]
    """The keywords that the sequence's own caller gives, by the operator's names for them."""
    where: Location
    text: str

    @cached_property
    def privileges(self) -> Mapping[str, str]:
        """What the operator writes, by its own names: ``Out``, ``InOut`` if it reads it first."""
        stated = {name: kind.privilege for name, kind in self.task.tensors}
        if not all(stated.values()):
            params = probe(self.task, self.flags).root.params
            found = {p.name: "InOut" if p.reads else "Out" for p in params if p.writes}
            stated = {name: found.get(name, "In") for name in stated}
        return {name: str(kind) for name, kind in stated.items() if kind != "In"}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The operator's own names of what it writes."""
        return tuple(self.privileges)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The operator's own names of what it only reads."""
        return tuple(name for name, _ in self.task.tensors if name not in self.outputs)

    @property
    def static(self) -> Mapping[str, Any]:
        """The operator's static flags as this step has them; of those passed, the defaults."""
        flags = {k.name: k.default for k in self.task.keywords if k.static}
        return flags | {name: v for name, v in self.flags.items() if name in flags}

    @property
    def whole(self) -> Mapping[str, str]:
        """The names of the sequence for the operator's tensors that are passed as they are."""
        read = zip(self.inputs, self.arguments, strict=True)
        names = {own: x.id for own, x in read if isinstance(x, ast.Name)}
        return dict(zip(self.outputs, self.results, strict=True)) | names

    def names(self) -> Iterator[str]:
        """Yield the names of what it reads, in order."""
        for argument in self.arguments:
            yield from (node.id for node in ast.walk(argument) if isinstance(node, ast.Name))

    @cached_property
    def code(self) -> CodeType:
        """The call of `CALL` with the arguments, as code of the line where the user wrote it."""
        call = ast.Expression(ast.Call(ast.Name(CALL, ast.Load()), list(self.arguments), []))
        for node in ast.walk(call):
            if isinstance(node, ast.expr):
                node.lineno = node.end_lineno = self.where.line
                node.col_offset = node.end_col_offset = (self.where.column or 1) - 1
        return compile(call, self.where.file, "eval")


def read_steps(lines: Sequence[str], known: Known, call: Location) -> tuple[SequenceStep, ...]:
    """Return the steps that lines say; raises SequenceError or LoadError."""
    places = _places(lines, call)
    return tuple(_read(line, known, at) for line, at in zip(lines, places, strict=True))


def _places(lines: Sequence[str], call: Location) -> Iterator[Location]:
    """Yield where each line is written, as far as the text of the call's file shows it."""
    first = call.line
    for line in lines:
        texts = ((n, replace(call, line=n).text) for n in range(first, first + MOST_LINES))
        number, column = next(((n, t.find(line) + 1) for n, t in texts if line in t), (0, 0))
        if not number:
            yield call
            continue
        first = number
        yield replace(call, line=number, column=column, length=len(line))


def _read(line: str, known: Known, where: Location) -> SequenceStep:
    try:
        tree = ast.parse(line.strip())
    except (SyntaxError, ValueError) as error:
        raise SequenceError(f"{line!r} is not valid: {error}", where, hint=FORM) from None
    match tree.body:
        case [ast.Assign([target], ast.Call(ast.Name(operator), arguments, keywords))]:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
        case _:
            raise SequenceError(f"{line!r} is no step", where, hint=FORM)
    results = tuple(name.id for name in names if isinstance(name, ast.Name))
    if len(results) < len(names):
        raise SequenceError(f"{line!r} writes something that has no name", where, hint=FORM)
    task = _task(operator, known, where)
    flags, passed = _keywords(task, keywords, where)
    step = SequenceStep(task, results, tuple(arguments), flags, passed, where, line.strip())
    if len(results) != len(step.outputs) or len(arguments) != len(step.inputs):
        raise SequenceError(
            f"{task.name} writes {', '.join(step.outputs)} and reads {', '.join(step.inputs)}, "
            f"but the step has {len(results)} on its left and {len(arguments)} tensors in it",
            where, hint=FORM,
        )  # fmt: skip
    return step


def _task(name: str, known: Known, where: Location) -> Task:
    given = known.get(name, name)
    if isinstance(given, Task):
        return given
    if given in operators.names():
        return operators.load(str(given))
    if name not in known:
        hint = nearest(name, [*known, *operators.names()])
        raise SequenceError(f"no operator {name!r}", where, hint=hint)
    return find_entry(load_logic(given))


def _keywords(
    task: Task, keywords: Sequence[ast.keyword], where: Location
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return keywords that are values, and those that are names of keywords of the sequence."""
    flags: dict[str, Any] = {}
    passed: dict[str, str] = {}
    own = [keyword.name for keyword in task.keywords]
    for keyword in keywords:
        if keyword.arg not in own:
            hint = nearest(str(keyword.arg), own)
            raise SequenceError(f"{task.name} has no keyword {keyword.arg!r}", where, hint=hint)
        if isinstance(keyword.value, ast.Name):
            passed[keyword.arg] = keyword.value.id
            continue
        try:
            flags[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            text = ast.unparse(keyword.value)
            raise SequenceError(
                f"{text} is neither a value nor a name",
                where,
                hint="compute it before, and pass it by its name: eps=eps",
            ) from None
    return flags, passed

"""Single changes of a mapping: what each place may say instead, and what that would bring.

The report, `septran explain --measure` and the server for agents take them from here, so that one
change has one figure everywhere.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from septran.backends import backend_of
from septran.compiler import compile_request, fitted
from septran.errors import SepTranError
from septran.location import Location
from septran.machine.kinds import Flag, Whole
from septran.machine.model import NONE, Engine, Machine
from septran.mapping.keys import BINDING, COPY, LAYOUTS, MEMS, PROC, SINGLE, TUNABLES, Key
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile
from septran.mapping.resolved import Instance, ResolvedMapping, Setting
from septran.mapping.rules import BUILTIN
from septran.request import CompileRequest
from septran.runtime.profile import Profile
from septran.targets.base import Untimed
from septran.task.tree import Param, TaskNode
from septran.tuning.model import predict
from septran.tuning.writing import WrittenMapping

DEEPEST = 4
"""The greatest number of stages of a pipeline that is tried."""
MOST = 16
"""The greatest of other small integers that is tried, such as blocks of a cluster."""
INFERRED = Setting("inferred", "what instructions, neighbours and the machine ask for")
PLAIN = {"row": "row", "column": "column", "padded": "padded(16)"}
"""Layouts by their kind, of those that no instruction has to demand."""
Found = tuple[str, str, Setting[Any], Sequence[Any]]
"""A key, an entry of it, its value now, and the legal ones."""


@dataclass(frozen=True)
class MappingPlace:
    """A key of a task, or an entry of it, with what it may be instead."""

    task: str
    instance: str
    """The name by which an explicit mapping has the task."""
    key: str
    """The path of the key: ``mems``, ``tunables``, ``pipeline``."""
    entry: str
    """A tensor, a tunable or a primitive; empty for a key with one value."""
    now: Any
    values: tuple[Any, ...]
    """The legal values beside the one that it has; a compilation may refuse some."""
    where: Location | None = None
    """The line that gives the value now."""

    def to_dict(self) -> dict[str, Any]:
        """Return the place as plain data."""
        return {**vars(self), "values": list(self.values), "where": _place(self.where)}


@dataclass(frozen=True)
class Change:
    """One value at one place; or at several entries of a key that have the same value now."""

    task: str
    instance: str
    key: str
    entries: tuple[str, ...]
    before: Any
    after: Any
    where: Location | None = None

    @property
    def setting(self) -> str:
        """What a rule says to make it: ``mems: {gate: ACC, up: ACC}``."""
        head, _, last = self.key.partition(".")
        value = text_of_value(self.after)
        if self.entries:
            value = f"{{{', '.join(f'{entry}: {value}' for entry in self.entries)}}}"
        return f"{head}: {{{last}: {value}}}" if last else f"{head}: {value}"

    @property
    def rule(self) -> str:
        """The rule that makes it."""
        return f"{{match: {{task: {self.task}}}, {self.setting}}}"

    def __str__(self) -> str:
        return f"{self.task}: {self.setting} (now {text_of_value(self.before)})"


@dataclass(frozen=True)
class Proposal:
    """A change that compiles, with what it brings."""

    change: Change
    mapping: str
    """The text of the mapping that has it."""
    seconds: float
    """Predicted."""
    predicted: float
    """The predicted time as a share of what it is now."""
    cost: float | None = None
    """Measured: cycles on a simulated machine, seconds on others; None where it was not run."""
    measured: float | None = None
    """The measured cost as a share of what it is now."""

    @property
    def share(self) -> float:
        """The share that decides: what was measured, else what is predicted."""
        return self.predicted if self.measured is None else self.measured

    def __str__(self) -> str:
        measured = "" if self.measured is None else f", measured {self.measured - 1:+.1%}"
        return f"{self.change}: predicted {self.predicted - 1:+.1%}{measured}"

    def to_dict(self) -> dict[str, Any]:
        """Return the proposal as plain data."""
        change = self.change
        return {
            "task": change.task, "key": change.key, "entries": list(change.entries),
            "before": change.before, "after": change.after, "try": change.rule,
            "where": _place(change.where), "predicted": self.predicted, "seconds": self.seconds,
            "measured": self.measured, "cost": self.cost, "mapping": self.mapping,
        }  # fmt: skip


@dataclass(frozen=True)
class Proposals:
    """The changes of a mapping that compile and change the program, the best first."""

    found: tuple[Proposal, ...]
    seconds: float
    """The predicted time now."""
    cost: float | None = None
    """The measured cost now."""
    unit: str = ""
    """What costs are: ``cycles`` or ``seconds``; empty where nothing was run."""
    refused: int = 0
    """Changes that do not compile."""
    same: int = 0
    """Changes that leave the program as it is."""
    left: int = 0
    """Changes that there was no time for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the proposals as plain data."""
        return {**vars(self), "found": [proposal.to_dict() for proposal in self.found]}


def places(mapping: ResolvedMapping) -> Iterator[MappingPlace]:
    """Yield each place of a resolved mapping once, with its legal values beside that of now."""
    seen: set[tuple[str, str, str]] = set()
    tasks = {task.path: task for task in mapping.tree.tasks()}
    own = [instance for instance in mapping.instances if instance.task not in BUILTIN]
    # What the compiler chooses by itself comes last: it is seldom better to say it.
    found = [(i, place) for i in own for place in _places(i, mapping.machine)]
    found += [(i, place) for i in own for place in _staged(i, tasks[i.path], mapping.machine)]
    for instance, (key, entry, setting, values) in found:
        place = (instance.task, key, entry)
        others = tuple(v for v in values if v != setting.value)
        if place not in seen and others:
            seen.add(place)
            yield MappingPlace(
                instance.task, instance.name, key, entry, setting.value, others, setting.where
            )  # fmt: skip


def _places(instance: Instance, machine: Machine) -> Iterator[Found]:
    for name, tunable in instance.tunables.items():
        yield TUNABLES.path, name, tunable, _near(tunable.value)
    for primitive, bound in instance.bindings.items():
        fitting = [i.name for i in machine.instructions if i.primitive == primitive]
        yield BINDING.path, primitive, bound, fitting
    backend = backend_of(machine.backend)
    for key in SINGLE:
        if key is not PROC and (key.common or key.path in backend.keys):
            yield key.path, "", instance.settings.get(key), _values(key)
    seen = [m.name for m in machine.memories if machine.sees(instance.proc.value, m.name)]
    for tensor, memory in instance.mems.items():
        yield MEMS.path, tensor, memory, (*seen, NONE)


def _near(value: Any) -> Sequence[Any]:
    if isinstance(value, bool):
        return (not value,)
    if not isinstance(value, int) or value < 1:
        return ()
    return tuple(dict.fromkeys((value * 2, max(1, value // 2))))


def _values(key: Key[Any]) -> Sequence[Any]:
    if isinstance(key.kind, Flag):
        return (False, True)
    if isinstance(key.kind, Whole):
        return range(1, DEEPEST + 1)
    return ()


def _staged(instance: Instance, task: TaskNode, machine: Machine) -> Iterator[Found]:
    """Yield the places of the tensors that a task keeps in a memory of its own."""
    for param in task.params:
        held = instance.mems.get(param.name)
        if held is None or NONE in (held.value, held.memory):
            continue
        if held.memory == machine.main_memory.name:
            continue
        engines = tuple(_engines(machine, held.memory, param))
        if len(engines) > 1:
            first = Setting(engines[0].name, f"default of {machine.name}")
            chosen = instance.settings.table(COPY).get(param.name, first)
            yield COPY.path, param.name, chosen, [engine.name for engine in engines]
        layouts = tuple(dict.fromkeys(_layouts(machine, engines)))
        if len(layouts) > 1:
            lies = instance.settings.table(LAYOUTS).get(param.name, INFERRED)
            yield LAYOUTS.path, param.name, lies, layouts


def _engines(machine: Machine, memory: str, param: Param) -> Iterator[Engine]:
    """Yield the engines that may fill the memory, or empty it of what only goes out."""
    inner, outer = (1, 0) if param.reads else (0, 1)

    def leads(move: tuple[str, str]) -> bool:
        levels = [machine.depth(machine.memory(name).visible_to) for name in move]
        return move[inner] == memory and levels[outer] <= levels[inner] and move[0] != move[1]

    yield from (e for e in machine.engines if any(map(leads, e.moves)))


def _layouts(machine: Machine, engines: Sequence[Engine]) -> Iterator[str]:
    """Yield what the engines can write: plain layouts, and those that instructions demand."""
    kinds = {kind for engine in engines for kind in engine.layouts}
    yield from (text for kind, text in PLAIN.items() if kind in kinds)
    demanded = (text for i in machine.instructions for text in i.layouts.values())
    yield from (text for text in demanded if any(text.startswith(kind) for kind in kinds))


def changes(mapping: ResolvedMapping) -> Iterator[Change]:
    """Yield every change of one place, and those of all temporaries, inputs or outputs together."""
    groups: dict[tuple[str, str, Any, Any], list[MappingPlace]] = defaultdict(list)
    kinds = {task.name: _kinds(task) for task in mapping.tree.tasks()}
    for place in places(mapping):
        for value in place.values:
            entries = (place.entry,) if place.entry else ()
            yield _change(place, entries, value)
            if place.key == MEMS.path:
                kind = kinds.get(place.task, {}).get(place.entry, "temporary")
                groups[place.task, kind, place.now, value].append(place)
    for (*_, value), group in groups.items():
        if len(group) > 1:
            yield _change(group[0], tuple(place.entry for place in group), value)


def _kinds(task: TaskNode) -> dict[str, str]:
    """Return for each parameter of a task whether it is read or written."""
    return {p.name: "output" if p.writes else "input" for p in task.params}


def _change(place: MappingPlace, entries: tuple[str, ...], value: Any) -> Change:
    return Change(
        place.task, place.instance, place.key, entries, place.now, value, place.where
    )  # fmt: skip


def changed_text(mapping: MappingFile, *made: Change) -> str:
    """Return the text of a mapping with changes: a shorter one that extends a file, if it can.

    It is empty where the mapping is a text to which no rule can be added.
    """
    source = WrittenMapping.of(mapping)
    if not made:
        return source.unchanged
    text = source.text
    for change in made:
        text = _without(text, change)
    base = source.base or ("" if source.folder is None else mapping.file.rpartition("/")[2])
    if mapping.instances:
        return f"extends: {base}\ntask_mappings: {_instances(made)}\n" if base else ""
    head = re.search(r"^rules:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*([ \t]*)- ", text, re.M)
    if not source.base and head is not None:
        start = head.end() - len(head[1]) - 2
        added = "".join(f"{head[1]}- {change.rule}\n" for change in made)
        return f"{text[:start]}{added}{text[start:]}"
    rules = "rules:\n" + "".join(f"  - {change.rule}\n" for change in made)
    if base:
        return f"extends: {base}\n{rules}"
    return "" if re.search(r"^rules:", text, re.M) else f"{text}{rules}"


def _instances(made: Sequence[Change]) -> str:
    """Return what changes say of instances, as YAML writes it in a line."""
    found: dict[str, dict[str, Any]] = {}
    for change in made:
        head, _, last = change.key.partition(".")
        value = dict.fromkeys(change.entries, change.after) if change.entries else change.after
        fields = found.setdefault(change.instance, {})
        if change.entries or last:
            fields.setdefault(head, {}).update({last: value} if last else value)
        else:
            fields[head] = value
    written = yaml.safe_dump(found, default_flow_style=True, sort_keys=False, width=math.inf)
    return str(written).strip()


def _without(text: str, change: Change) -> str:
    """Return a mapping's text without the rule that an earlier change of the same place wrote."""
    rule = re.escape(replace(change, after=_ANY).rule).replace(_ANY, r"(?:\"[^\"]*\"|[^{},]+)")
    return re.sub(rf"^[ \t]*- {rule}[ \t]*(?:#.*)?\n", "", f"{text.rstrip()}\n", flags=re.M)


_ANY = "ANY_VALUE"


def propose(
    request: CompileRequest,
    *,
    wanted: Callable[[Change], bool] = lambda _: True,
    measured: bool = False,
    seconds: float = 60.0,
    folder: Path | None = None,
) -> Proposals:
    """Try every single change of a request's mapping; those that compile, the best first.

    `wanted` chooses among them. With `measured` each is run as well, on a machine that runs here.
    After so many `seconds` no other change is begun. `folder` has what a mapping that is a text
    extends. Raises SepTranError for a request that does
    not compile itself.
    """
    search = _Search(request, measured, seconds, folder)
    return search.run(wanted)


class _Search:
    """The state of one search."""

    def __init__(
        self, request: CompileRequest, measured: bool, seconds: float, folder: Path | None
    ) -> None:
        self.request = request.with_example()
        self.folder = WrittenMapping.of(request.mapping).folder or folder
        self.stages = fitted(self.request)
        self.programs = {str(self.stages.tile_program)}
        self.seconds = predict(self.stages.tile_program).seconds
        self.cost, self.unit = cost_of(self.request) if measured else (None, "")
        # From here on, as a code generator that is loaded first takes some seconds.
        self.end = time.monotonic() + seconds

    def run(self, wanted: Callable[[Change], bool]) -> Proposals:
        """Compile all changes, then measure them in the order of the model."""
        tried: list[tuple[Proposal, CompileRequest]] = []
        refused = same = left = 0
        for change in filter(wanted, changes(self.stages.mapping)):
            if time.monotonic() > self.end:
                left += 1
                continue
            try:
                made = self.compiled(change)
            except SepTranError:
                refused += 1
                continue
            if made is None:
                same += 1
            else:
                tried.append(made)
        tried.sort(key=lambda pair: pair[0].share)
        # What there was no time to run comes last: it is what the model likes least.
        found = sorted(
            (self.measured(*pair) for pair in tried), key=lambda p: (p.measured is None, p.share)
        )
        return Proposals(tuple(found), self.seconds, self.cost, self.unit, refused, same, left)

    def compiled(self, change: Change) -> tuple[Proposal, CompileRequest] | None:
        """Compile a change as far as the tile program; None where the program stays as it was."""
        plan = self.request.mapping
        text = changed_text(plan, change)
        if not text:
            return None
        mapping = load_mapping(text, plan.machine, folder=self.folder)
        request = replace(self.request, mapping=mapping)
        program = fitted(request).tile_program
        if str(program) in self.programs:
            return None
        self.programs.add(str(program))
        seconds = predict(program).seconds
        return Proposal(change, text, seconds, _share(seconds, self.seconds)), request

    def measured(self, proposal: Proposal, request: CompileRequest) -> Proposal:
        """Run a change if costs are asked for, and there is time."""
        if self.cost is None or time.monotonic() > self.end:
            return proposal
        try:
            cost, _ = cost_of(request)
        except SepTranError:  # of the code generator: it is not proposed as faster
            return proposal
        if cost is None:
            return proposal
        return replace(proposal, cost=cost, measured=_share(cost, self.cost))


def cost_of(request: CompileRequest) -> tuple[float | None, str]:
    """Run a request's kernel on random input; return its cost and the unit, None without one."""
    kernel = compile_request(request)
    if isinstance(kernel.stages.executable, Untimed):
        return None, ""
    profile = kernel.profile()
    if isinstance(profile, Profile):
        return profile.best, "seconds"
    return float(profile.cycles), "cycles"


def _share(then: float, now: float) -> float:
    return then / now if now else 1.0


def text_of_value(value: Any) -> str:
    """Return a value as YAML has it within braces."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{text}"' if "," in text else text


def _place(where: Location | None) -> str:
    return "" if where is None else str(where)

"""Resolution of a mapping for a task tree: an instance for every task, a reason for each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from septran.argument_checks import require
from septran.errors import SepTranError, raise_all
from septran.ir.index import Range, Var
from septran.ir.primitives import BY_MAP_UNITS, PRIMITIVES
from septran.ir.views import View
from septran.location import Location
from septran.machine.model import Instruction, Machine
from septran.mapping import effects
from septran.mapping.bind import (
    Leaf,
    bind,
    demanded,
    faster_rounded,
    function_for,
    moved,
    uses_of,
    wanted_for,
)
from septran.mapping.capacity import check_capacity
from septran.mapping.choose import Scope, passed_over, tunable
from septran.mapping.dispatch.choice import take
from septran.mapping.extern.function import instruction, prototype, with_instructions
from septran.mapping.extern.name import EXTERN
from septran.mapping.idle_rules import Visited, idle_rules
from septran.mapping.keys import COPY, LAYOUTS, PROC, REGISTERS
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile
from septran.mapping.memories import Memories, canonical, unspread
from septran.mapping.mistakes import NestingError, NoBindingError
from septran.mapping.names import misspelt, mistakes_in, tensors_of
from septran.mapping.resolved import (
    INHERITED,
    Decision,
    Instance,
    ResolvedMapping,
    Setting,
    Settings,
    TensorMemory,
)
from septran.mapping.rules import Facts, facts_of_task
from septran.mapping.split import split, with_launches
from septran.mapping.structure.lying import Surroundings, below
from septran.task.check.definedness import ranges_of
from septran.task.trace.chooser import Unset
from septran.task.tree import Allocate, Launch, Param, TaskNode, TaskTree

_COLLECTED = ("instances", "decisions", "errors", "unbound", "functions")
"""The lists of findings, which grow task by task."""


def resolve(
    tree: TaskTree, mapping: MappingFile, machine: Machine | None = None
) -> ResolvedMapping:
    """Return an instance for every task of `tree`, by `mapping`.

    `machine` overrides the mapping's own. Raises MappingError, or Errors with all mistakes that
    are found.
    """
    require("tree", tree, TaskTree, "pass what septran.trace or stages.task_tree gives")
    mapping = load_mapping(mapping, machine)
    if mapping.cases:
        mapping = take(
            mapping, facts_of_task(tree.root, dict(tree.dims), dict(tree.static)).values()
        )
    mapping.require_settled()
    work = _Resolution(tree, mapping)
    tree = replace(tree, root=work.visit(tree.root, None, None))
    instances = tuple(work.instances)
    # An error of the whole tree goes before those of single leaves, which follow from it mostly.
    whole = unspread(tree, mapping.machine, instances, work.errors)
    raise_all([whole] if whole else work.errors or work.unbound)
    check_capacity(tree, mapping.machine, instances, work.decisions, mapping.few_stages)
    lost = effects.overridden_tunables(mapping, work.asked)
    idle = idle_rules(mapping, mapping.machine, tree.name, work.visited)
    more = (
        *effects.smaller(mapping), *lost, *idle, *effects.unrolled(tree), *effects.never_run(tree),
        *effects.unfollowed(tree),
    )  # fmt: skip
    decisions = effects.distinct([*work.decisions, *more], instances, work.bound)
    machine = with_instructions(mapping.machine, work.functions)
    return ResolvedMapping(tree, machine, instances, decisions, mapping.file)


@dataclass(frozen=True)
class _Caller:
    """The scope and the instance from which a launched task inherits."""

    task: TaskNode
    scope: Scope
    instance: Instance
    facts: Facts
    around: Surroundings


@dataclass
class _Resolution:
    tree: TaskTree
    mapping: MappingFile
    instances: list[Instance] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    errors: list[SepTranError] = field(default_factory=list)
    unbound: list[SepTranError] = field(default_factory=list)
    """Errors of leaves without an instruction, which may only follow from the other errors."""
    reached: set[str] = field(default_factory=set)
    asked: list[effects.Asked] = field(default_factory=list)
    visited: list[Visited] = field(default_factory=list)
    bound: set[Location | None] = field(default_factory=set)
    """The places of the bindings that leaves have taken."""
    functions: list[Instruction] = field(default_factory=list)
    """The functions of the user's that leaves are bound to."""
    ranges: Mapping[Var, Range] = field(default_factory=dict)
    """The ranges of all loop indices of the tree."""

    def __post_init__(self) -> None:
        self.ranges = ranges_of(self.tree.root)
        if self.mapping.assumed:
            self.decide("decision", "machine", self.mapping.assumed)
        if taken := self.mapping.taken:
            self.decide("decision", "dispatch", taken.reason, where=taken.where)
        self.decisions += effects.renamed(self.mapping)

    @property
    def machine(self) -> Machine:
        return self.mapping.machine

    def decide(
        self,
        kind: str,
        about: str,
        message: str,
        hint: str | None = None,
        where: Location | None = None,
    ) -> None:
        self.decisions.append(Decision(kind, about, message, hint, where))

    def visit(self, task: TaskNode, launch: Launch | None, caller: _Caller | None) -> TaskNode:
        """Resolve a task, then those that it launches; return it with its split leaves."""
        # A leaf is first tried whole; if it is split, what the first try found is taken back.
        marks = {name: len(getattr(self, name)) for name in _COLLECTED}
        found = self._visited(task, launch, caller)
        if task.leaf and len(self.unbound) > marks["unbound"]:
            return self._in_parts(task, launch, caller, marks) or found
        return found

    def _in_parts(
        self,
        task: TaskNode,
        launch: Launch | None,
        caller: _Caller | None,
        marks: Mapping[str, int],
    ) -> TaskNode | None:
        """Resolve a leaf without an instruction for all of it, statement by statement.

        Returns None, and keeps the former findings, where that does not help.
        """
        parts = split(task, ranges_of(self.tree.root))
        if parts is None:
            return None
        whole = self._taken_back(marks)
        message = "its statements run one by one, as no memory of a tensor is right for all of them"
        self.decide("decision", task.path, message, None, task.location)
        found = self._visited(parts, launch, caller)
        if len(self.unbound) == marks["unbound"] and len(self.errors) == marks["errors"]:
            return found
        self._taken_back(marks)
        for name, entries in whole.items():
            getattr(self, name).extend(entries)
        return None

    def _taken_back(self, marks: Mapping[str, int]) -> dict[str, list[Any]]:
        """Remove the findings since the lists were as long as `marks` say, and return them."""
        taken = {name: getattr(self, name)[mark:] for name, mark in marks.items()}
        for name, mark in marks.items():
            del getattr(self, name)[mark:]
        return taken

    def _visited(self, task: TaskNode, launch: Launch | None, caller: _Caller | None) -> TaskNode:
        around = self._around(task, launch, caller)
        facts = facts_of_task(
            task, dict(self.tree.dims), dict(self.tree.static), self.tree.drafts.get(task.path),
            around, caller.facts if caller else None, self.machine,
        )  # fmt: skip
        try:
            scope = Scope.of(
                self.mapping,
                self.machine,
                facts,
                caller.scope if caller else None,
                tuple(dict.fromkeys((task.name, task.variant))),
            )
        except SepTranError as error:
            self.errors.append(error)
            # The tasks below are resolved all the same: all mistakes are found at once.
            scope = Scope(None, (), caller.scope if caller else None)
        instance = _Task(self, task, launch, caller, scope, facts).resolve()
        if scope.instance is not None:
            self.reached.add(scope.instance.name)
        self.visited.append(Visited(task, facts, scope))
        self.instances.append(instance)
        for inner in task.launches():
            found = self.visit(inner.task, inner, _Caller(task, scope, instance, facts, around))
            if found is not inner.task:
                task = with_launches(task, {inner.task.path: found})
        if caller is None:
            self._unreached()
        return task

    def _around(
        self, task: TaskNode, launch: Launch | None, caller: _Caller | None
    ) -> Surroundings:
        if caller is None or launch is None:
            homes = {p.name: View.whole(p.name, p.shape, p.valid) for p in task.params}
            return Surroundings(homes, self.ranges)
        return below(caller.task, caller.around, launch, self.ranges)

    def _unreached(self) -> None:
        for name, plan in self.mapping.instances.items():
            if name not in self.reached and not self.errors:
                message = f"instance {name} has no effect: no task of this logic becomes it"
                self.decide("no-effect", name, message, None, plan.where)


@dataclass
class _Task:
    """Resolves one task."""

    work: _Resolution
    task: TaskNode
    launch: Launch | None
    caller: _Caller | None
    scope: Scope
    facts: Facts

    @property
    def machine(self) -> Machine:
        return self.work.machine

    @property
    def tensors(self) -> dict[str, Param | Allocate]:
        """The parameters and temporaries by name."""
        return tensors_of(self.task)

    def resolve(self) -> Instance:
        proc = self._proc()
        caller = self.caller.instance if self.caller else None
        memories = Memories(
            self.machine, self.task, self.tensors, proc.value, self.scope, caller, self.launch,
            self.work.errors, self._parts,
        )  # fmt: skip
        mapped = memories.mapped()
        # Placed twice: an instruction may demand memories only of tensors that no plan has placed.
        function = self._function()
        if function is None:
            mapped |= self._demanded(proc, memories.placed(mapped))
        mems = memories.placed(mapped)
        if self.scope.instance is not None:
            self.work.errors += mistakes_in(self.scope.instance, self.task, tensors_of(self.task))
        self.work.errors += misspelt(self.task, self.scope, self.work.mapping, self.facts)
        bindings, rounded = ({EXTERN: function}, {}) if function else self._bindings(proc, mems)
        draft = Instance(
            path=self.task.path,
            name=self._name(),
            task=self.task.name,
            variant=self.task.variant,
            mems=MappingProxyType(mems),
            settings=Settings(
                MappingProxyType({**self._values(), PROC.path: proc}),
                MappingProxyType(self._tables()),
            ),
            tunables=MappingProxyType(self._tunables()),
            bindings=MappingProxyType(bindings),
            rounded=MappingProxyType(rounded),
            where=self.scope.plans[0].where if self.scope.plans else None,
        )
        settled, found = effects.settle(draft, self.task, caller, self.launch, self.machine)
        self.work.decisions += found
        self.work.decisions += effects.unused_tunables(
            self.task, self.scope, self.work.mapping, self.caller is None, self.work.tree
        )
        self.work.decisions += effects.idle_bindings(self.task, self.scope, bindings)
        return settled

    def _name(self) -> str:
        if self.scope.instance is not None:
            return self.scope.instance.name
        return self.task.variant

    def _values(self) -> dict[str, Setting[Any]]:
        """Return, for each key with one value, that of the first plan that has one."""
        merged: dict[str, Setting[Any]] = {}
        # Plans are in order of precedence, so what is merged already wins over the next plan.
        for plan in self.scope.plans:
            merged = {**plan.settings, **merged}
        return merged

    def _tables(self) -> dict[str, Mapping[str, Setting[Any]]]:
        """Return the first plan's value for each entry of a table; only for this task's tensors."""
        found: dict[str, Mapping[str, Setting[Any]]] = {}
        for key in (REGISTERS, LAYOUTS, COPY):
            merged: dict[str, Setting[Any]] = {}
            for plan in self.scope.plans:
                # The plan that comes first wins, entry by entry.
                own = plan.table(key)
                merged = {**(self._of_tensors(own) if key.entries == "tensor" else own), **merged}
            if key.entries == "tensor":
                merged = {n: canonical(self.machine, s) for n, s in merged.items()}
            found[key.path] = MappingProxyType(merged)
        return found

    def _parts(self, tensor: str) -> tuple[str, ...]:
        """The parts that a tensor plays in products: `first.right`."""
        structure = self.facts.look()
        return structure.parts_of(tensor) if structure is not None else ()

    def _of_tensors(self, table: Mapping[str, Setting[Any]]) -> dict[str, Setting[Any]]:
        """Return a plan's settings of this task's tensors, by their names or their roles."""
        read = [p.name for p in self.task.params if not p.writes] if "reads" in table else []
        named = {name: table["reads"] for name in read}
        named |= {name: setting for name, setting in table.items() if name in self.tensors}
        structure = self.facts.look() if any("." in name for name in table) else None
        if structure is None:
            return named
        for tensor in self.tensors:
            part = next((p for p in self._parts(tensor) if p in table), None)
            if part is not None and tensor not in table:
                setting = table[part]
                value = structure.layout(str(setting.value), part, tensor)
                named[tensor] = replace(setting, value=value)
        return named

    def _proc(self) -> Setting[str]:
        outer = self.caller.instance.proc if self.caller else None
        said = next((s for plan in self.scope.plans if (s := plan.get(PROC))), None)
        if said is None:
            if outer is None:
                return Setting(self.machine.host.name, f"default of {self.machine.name}")
            self._report_inherited(outer.value)
            return Setting(outer.value, INHERITED)
        proc = canonical(self.machine, said)
        if outer and self.machine.depth(proc.value) < self.machine.depth(outer.value):
            assert self.caller is not None
            levels = ", ".join(p.name for p in self.machine.processors)
            self.work.errors.append(
                NestingError(
                    f"{self.task.name} would run on {proc.value}, outside of {outer.value}, "
                    f"on which {self.caller.instance.task} runs that launches it",
                    said.where,
                    hint=f"outermost first: {levels}",
                )
            )
            return outer
        return proc

    def _report_inherited(self, proc: str) -> None:
        # A mapping by rules alone maps what it means to; one with instances may have missed a task.
        if not self.task.leaf and not self.scope.plans and self.work.mapping.instances:
            self.work.decide(
                "decision",
                self.task.path,
                f"{self.task.variant} is not mapped, so it runs on {proc} as its caller does",
                f"add an instance or a rule for {self.task.name}",
                self.task.location,
            )

    def _demanded(
        self, proc: Setting[str], mems: Mapping[str, TensorMemory]
    ) -> dict[str, Setting[str]]:
        """Return memories that a bound instruction demands of tensors which no plan has placed."""
        leaf = self._leaf(proc, mems)
        free = frozenset(n for n, s in mems.items() if s.reason == INHERITED)
        found: dict[str, Setting[str]] = {}
        uses = uses_of(self.task)
        for primitive, places in uses.items():
            wanted = wanted_for(self.machine, self.task, self.scope, primitive, tuple(uses))
            if primitive != "gemm" or bind(self.machine, leaf, places, wanted)[0] is not None:
                continue
            for setting in wanted:
                needed = demanded(self.machine, setting.value, leaf, places, free)
                nearer = replace(leaf, placed={**leaf.placed, **needed})
                if needed and bind(self.machine, nearer, places, [setting])[0] is not None:
                    reason = f"where {setting.value} takes it from"
                    found |= {n: Setting(m, reason, setting.where) for n, m in needed.items()}
                    break
        return found

    def _leaf(self, proc: Setting[str], mems: Mapping[str, TensorMemory]) -> Leaf:
        placed = {name: place.memory for name, place in mems.items()}
        dtypes = {name: tensor.dtype for name, tensor in self.tensors.items()}
        return Leaf(self.task, proc.value, placed, dtypes)

    def _tunables(self) -> dict[str, Setting[Any]]:
        found: dict[str, Setting[Any]] = {}
        given = (self.work.mapping, self.scope, self.facts)
        self.work.decisions += passed_over(*given, dict(self.task.tunables))
        for name, value in self.task.tunables:
            setting = tunable(*given, name)
            if setting is None and isinstance(value, Unset):
                found[name] = Setting(int(value), "nobody says it", self.task.location)
                self._unset(name, value)
            elif setting is None:
                found[name] = Setting(value, "default of the logic", self.task.location)
            elif setting.value != value:
                # The task was traced with another value: only a call can have given it.
                found[name] = Setting(value, "given with the call")
            else:
                found[name] = replace(setting, value=value)  # which may be one that is rounded up
        self.work.asked += [
            effects.Asked(self.facts, self.scope, name, taken) for name, taken in found.items()
        ]
        return found

    def _unset(self, name: str, value: int) -> None:
        """Report the value that the compiler chose where neither mapping nor logic gives one."""
        task = self.task.name
        self.work.decide(
            "decision", self.task.path, f"{name} of {task} is {value}, as nobody gives it a value",
            f"in `rules`: - {{match: {{task: {task}}}, tunables: {{{name}: {value}}}}}",
            self.task.location,
        )  # fmt: skip

    def _function(self) -> Setting[str] | None:
        """Return the function of the user's that computes the leaf; None without one."""
        try:
            setting = function_for(self.task, self.scope) if uses_of(self.task) else None
            made = None if setting is None else instruction(self.machine, self.task, setting)
        except SepTranError as error:
            self.work.errors.append(error)
            return None
        if setting is None or made is None:
            return None
        self.work.functions.append(made)
        self.work.bound.add(setting.where)
        declared = prototype(self.task, str(made.options["function"]))
        message = f"{setting.value} computes {self.task.variant}: {declared}"
        self.work.decide("decision", self.task.path, message, None, setting.where)
        return setting

    def _bindings(
        self, proc: Setting[str], mems: Mapping[str, TensorMemory]
    ) -> tuple[dict[str, Setting[str]], dict[str, Setting[str]]]:
        """Return the instruction for each primitive, and the faster ones that need padded tiles."""
        leaf = self._leaf(proc, mems)
        found, rounded = dict[str, Setting[str]](), dict[str, Setting[str]]()
        uses = uses_of(self.task)
        for primitive, places in uses.items():
            if primitive == "copy" and all(moved(self.machine, leaf, use) for use in places):
                continue  # an engine carries it out
            wanted = wanted_for(self.machine, self.task, self.scope, primitive, tuple(uses))
            chosen, refusals = bind(self.machine, leaf, places, wanted)
            if chosen is None:
                self._no_binding(primitive, places[0].location, wanted, refusals)
                continue
            found[primitive] = chosen
            # The whole list decided, so no line of it counts as one without effect.
            self.work.bound.update(setting.where for setting in wanted)
            faster = faster_rounded(self.machine, leaf, places, wanted, chosen.value)
            better = [r for r in refusals if not r.expected]
            if faster is not None:  # the tile program shows whether they can be
                rounded[primitive] = faster
            elif better and wanted:
                reasons = "; ".join(map(str, better))
                message = f"{primitive} is {chosen.value}, as others refused it: {reasons}"
                self.work.decide("missed", self.task.path, message, None, chosen.where)
            elif wanted and refusals and not self.machine.instruction(chosen.value).dtypes:
                # Those before it are for some types; it takes any, and is slow for that.
                types, names = (
                    refusals[0].reason.partition(";")[0],
                    [r.instruction for r in refusals],
                )
                message = (
                    f"{primitive} is {chosen.value}: {types}, not as {', '.join(names)} take them"
                )
                self.work.decide("missed", self.task.path, message, None, chosen.where)
        return found, rounded

    def _no_binding(
        self,
        primitive: str,
        location: Location,
        wanted: Sequence[Setting[str]],
        refusals: Sequence[Any],
    ) -> None:
        reasons = (
            "\n    ".join(map(str, refusals)) or f"{self.machine.name} has none for {primitive}"
        )
        where = wanted[0].where if wanted else (self._where() or location)
        names = [i.name for i in self.machine.instructions if i.primitive == primitive]
        hints = [f"{self.machine.name} has {', '.join(names)} for {primitive}"] if names else []
        misplaced = {r.misplaced: None for r in refusals}
        if len(misplaced) > 1 and None not in misplaced:
            # Each instruction has been tried, so that none of them is news.
            tensors = " and ".join(map(str, misplaced))
            hints = [f"one instruction is to {primitive} {tensors}: place them where one takes all"]
        if not names and not refusals and primitive in PRIMITIVES:
            hints.append(_line_to_add(primitive))
        if primitive in PRIMITIVES and PRIMITIVES[primitive].instead:
            hints.append(PRIMITIVES[primitive].instead)
        if refusals and all(r.reason.startswith("operands are ") for r in refusals):
            taken = dict.fromkeys(d for n in names for d in self._inputs_of(n))
            if taken:
                hints.append(f"choose another element type: --dtype {' or '.join(taken)}")
        if len(uses_of(self.task)) > 1:
            hints.append("in a leaf of its own its tensors can be placed for it alone")
        self.work.unbound.append(
            NoBindingError(
                f"no instruction accepts {primitive} of {self.task.variant}:\n    {reasons}",
                where,
                hint="; ".join(hints) or None,
                notes=[("the primitive is used here", location)],
            )
        )

    def _inputs_of(self, name: str) -> Iterator[str]:
        """Yield the types of operands that an instruction takes for all of its inputs alike."""
        for _, *inputs in self.machine.instruction(name).dtypes:
            if len(set(inputs)) == 1:
                yield inputs[0]

    def _where(self) -> Location | None:
        return self.scope.plans[0].where if self.scope.plans else None


def _line_to_add(primitive: str) -> str:
    """Return what the machine file lacks, where none of its instructions does a primitive."""
    operands = ", ".join(f"{name}: MEMORY" for name in PRIMITIVES[primitive].operands)
    line = f"my_{primitive}: {{primitive: {primitive}, operands: {{{operands}}}}}"
    units = " or a unit with `primitive: map`" if primitive in BY_MAP_UNITS else ""
    return f"add `{line}`{units} to `instructions` of the machine file"

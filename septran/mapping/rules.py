"""What is known of a task instance, and which plans of a mapping are for it.

==================== =================================================================
key of ``match``     holds for a task instance when
==================== =================================================================
``task``             the name that was launched is one of these (``*`` allowed)
``variant``          the function that was traced for it is
``within``           a task of one of these names launches it, directly or not
``level``            so many launches lie between the entry (``entry`` or 0) and it
``loops``            ``parallel``: its launch is in a parallel loop; ``sequential``: not
``leaf``             ``true``/``false``; ``elementwise``: a leaf of tensor expressions,
                     scans and solves alone; ``gemm``, ``fill``, ``copy``: a leaf that calls it
``primitive``        it is a leaf that uses one of these; ``map``: a tensor expression
``dtype``            the commonest element type of its tensors is one of these
``any_dtype``        one of its tensors has one of these element types
``holds``            ``parallel``: a loop of its own body is parallel; ``nothing``: none is
``reaches``          it or a task below it uses one of these primitives
``within: {...}``    a task that launches it, directly or not, matches this
``products`` ...     its structure is so (`structure_matches`)
``machine_feature``  the machine has a part of that name; ``asynchronous``: an engine
                     that copies beside computation
``converts``         the machine's fastest instruction for products of its ``dtype``, or of
                     ``any_dtype``, widens elements before it multiplies them (`converts`)
``when``             this condition over dimensions, static flags, its tensors' extents
                     (``A_0``, or ``longest_row`` whatever they are called) and ``dtype``
                     is true: ``when: C_0 * C_1 <= 256 * 256``
==================== =================================================================

All keys of a rule must hold. For each field the first rule that matches and gives the
field wins, after what an instance says. ``primitive``, ``reaches`` and the kinds of
``leaf`` need the task's body, so rules by them cannot choose variants or tunables. The
built-in leaves ``fill`` and ``copy`` follow only rules by task, variant, leaf or primitive:
they run where their caller does.
"""

from __future__ import annotations

import fnmatch
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from septran.backends import backend_of
from septran.dtypes import itemsize
from septran.errors import nearest
from septran.ir.primitives import BY_MAP_UNITS, IN_STEPS
from septran.machine.model import Machine
from septran.mapping.conditions import MACHINE, Absent, Value
from septran.mapping.keys import CALLS
from septran.mapping.mapping import MappingFile, Match, TaskMapping
from septran.mapping.mistakes import AmbiguousInstanceError, WrongEntryError
from septran.mapping.structure.lying import Surroundings
from septran.mapping.structure.structure import NAMES, Structure, structure_of
from septran.task.trace.chooser import LaunchSite
from septran.task.tree import Allocate, Assign, Loop, Primitive, StaticValue, TaskNode, statements

BUILTIN = ("fill", "copy")


class Known(dict[str, Value]):
    """What conditions can name; of the task's structure and of the machine what they ask for."""

    def __init__(
        self,
        values: Mapping[str, Value],
        look: Callable[[], Structure | None],
        machine: Machine | None,
    ) -> None:
        """Values by name, what finds the structure, and the machine."""
        super().__init__(values)
        self._look, self._machine = look, machine

    def __missing__(self, name: str) -> Value:
        if name in MACHINE:
            found = _of_machine(self._machine, name) if self._machine else None
        elif name in NAMES:
            structure = self._look()
            found = None if structure is None else structure.value(name)
        else:
            raise KeyError(name)
        if found is None:
            raise Absent(name)
        return found


def _of_machine(machine: Machine, name: str) -> int | None:
    """One of the names that conditions have for the machine; None where it has no such thing."""
    return register_bytes(machine) if name == "register.bytes" else _units(machine)


def _units(machine: Machine) -> int | None:
    """The units that the host hands work to: a CPU's cores; None of a machine without any."""
    return machine.processors[1].count if len(machine.processors) > 1 else None


def register_bytes(machine: Machine) -> int | None:
    """The bytes of a vector register of the code for a machine; None where nobody knows."""
    registers = backend_of(machine.backend).registers
    return registers(machine.arch)[0] if registers else None


def _unknown() -> None:
    """The structure of what has no draft."""


@dataclass(frozen=True)
class Facts:
    """The facts about one task instance that rules see."""

    task: str
    variant: str
    """The variant; empty while it is being chosen."""
    path: str
    level: int
    leaf: bool
    parallel: bool
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    dims: Mapping[str, int]
    primitives: frozenset[str] | None = None
    """The primitives that a leaf uses; None while its body is not known."""
    spreads: bool = False
    """Whether a loop of its body is parallel; False while that is not known."""
    static: Mapping[str, StaticValue] = field(default_factory=dict)
    """The entry's static flags."""
    below: frozenset[str] = frozenset()
    """The primitives of it and the tasks below it; empty while they are not known."""
    builtin: bool = False
    """Whether it is built into the language: rules for all tasks do not match it."""
    caller: Facts | None = field(default=None, compare=False, repr=False)
    look: Callable[[], Structure | None] = field(default=_unknown, compare=False, repr=False)
    """Finds its structure when a rule first asks for it."""
    machine: Machine | None = field(default=None, compare=False, repr=False)
    """What conditions know of the machine; None where they are not for one."""

    @functools.cached_property
    def dtype(self) -> str:
        """The commonest element type of its tensors; the last parameter's among equals."""
        counts = Counter(self.dtypes.values())
        # Of equally common ones the last: outputs come first in a signature, and inputs decide.
        most = max(counts.values(), default=0)
        return next((d for d in reversed(list(self.dtypes.values())) if counts[d] == most), "")

    def values(self) -> dict[str, Value]:
        """The values that conditions can name: dimensions, flags, extents (``A_0``), ``dtype``...

        ``longest_row`` is the greatest last extent of its tensors: rules for whole rows hold by it
        for any logic, whatever its tensors are called. ``most_rows`` is the greatest number of rows
        of any of them: the product of its other extents.
        """
        known: dict[str, Value] = {}
        for tensor, shape in self.shapes.items():
            known |= {f"{tensor}_{n}": extent for n, extent in enumerate(shape)}
        known |= {f"{tensor}_dtype": dtype for tensor, dtype in self.dtypes.items()}
        rows = (shape[-1] for shape in self.shapes.values() if shape)
        own: dict[str, Value] = {"dtype": self.dtype, "level": self.level}
        own["longest_row"] = max(rows, default=1)
        own["most_rows"] = max((math.prod(shape[:-1]) for shape in self.shapes.values()), default=1)
        # Conditions compare numbers and words, so a tuple is the word that it is written as.
        static = {k: str(v) if isinstance(v, tuple) else v for k, v in self.static.items()}
        return Known({**static, **known, **self.dims, **own}, self.look, self.machine)

    def callers(self) -> Iterator[Facts]:
        """Yield the tasks that launch it, the nearest first."""
        if self.caller is not None:
            yield self.caller
            yield from self.caller.callers()


def facts_of_site(
    site: LaunchSite, caller: Facts | None = None, machine: Machine | None = None
) -> Facts:
    """Return the facts that are known before the body is traced, with the structure of a draft."""

    @functools.cache
    def look() -> Structure | None:
        draft = site.draft("")
        around = Surroundings(site.homes, site.ranges, site.opened, site.iterations)
        return None if draft is None else structure_of(draft, site.shapes, around)

    return Facts(
        site.task, site.variant, site.path, site.level, site.leaf, site.parallel,
        site.shapes, site.dtypes, site.dims, static=site.static,
        builtin=site.builtin, caller=caller, look=look, machine=machine,
    )  # fmt: skip


def facts_of_task(
    task: TaskNode,
    dims: Mapping[str, int],
    static: Mapping[str, StaticValue],
    draft: TaskNode | None = None,
    around: Surroundings | None = None,
    caller: Facts | None = None,
    machine: Machine | None = None,
) -> Facts:
    """Return the facts about a traced task, with the structure of its draft if there is one."""

    @functools.cache
    def look() -> Structure:
        return structure_of(
            draft or task, {p.name: p.shape for p in task.params}, around or Surroundings()
        )

    spreads = any(isinstance(s, Loop) and s.parallel for s in statements(task.body))
    return Facts(
        task.name, task.variant, task.path, task.level, task.leaf, task.parallel,
        {p.name: p.shape for p in task.params}, {p.name: p.dtype for p in task.params},
        dims, primitives_of(task), spreads, static,
        frozenset(p for inner in task.walk() for p in primitives_of(inner)), task.builtin,
        caller, look, machine,
    )  # fmt: skip


def primitives_of(task: TaskNode) -> frozenset[str]:
    """Return the primitives in its own body: their names, ``map`` for tensor expressions."""
    found: set[str] = set()
    for statement in statements(task.body):
        match statement:
            case Primitive(name):
                found.add("copy" if name == "cast" else name)
            case Assign():
                found.add("map")
            case Allocate(fill=value) if value is not None:
                found.add("fill")
    return frozenset(found)


def matches(match: Match, facts: Facts, machine: Machine) -> bool:
    """Return whether a rule is for a task instance."""
    if match.needs_body and facts.primitives is None:
        return False
    if match.variant and not facts.variant:
        return False
    # A rule for all tasks would move fills and copies away from the task that needs them.
    if facts.builtin and not _particular(match):
        return False
    return (
        _is_named(match, facts)
        and _computes(match, facts)
        and match.parallel in (None, facts.parallel)
        and match.spreads in (None, facts.spreads)
        and all(has(machine, feature) for feature in match.machine_feature or ())
        and _widens(match, facts, machine)
        and (match.below is None or _is_below(match.below, facts, machine))
        and (not match.structural or structure_matches(match, facts.look()))
        and (match.when is None or match.when.holds(facts.values()))
    )


def _widens(match: Match, facts: Facts, machine: Machine) -> bool:
    """Return whether a rule for types that are widened, or for others, is for a task's."""
    if match.converts is None:
        return True
    named = set(match.any_dtype) & set(facts.dtypes.values()) or {facts.dtype}
    return any(converts(machine, dtype) == match.converts for dtype in named)


def _is_named(match: Match, facts: Facts) -> bool:
    """Return whether a task has the names and the place in the tree that a match asks for."""
    return (
        _among(facts.task, match.task)
        and _among(facts.variant, match.variant)
        and _below(facts.path, match.within)
        and (not match.level or facts.level in match.level)
    )


def _computes(match: Match, facts: Facts) -> bool:
    """Return whether a task computes what a match asks for, in its element type."""
    return (
        match.leaf in (None, facts.leaf)
        and (not match.leaf_kind or any(_is(kind, facts) for kind in match.leaf_kind))
        and (not match.primitive or (facts.leaf and _uses(facts, match.primitive)))
        and (not match.reaches or not facts.below.isdisjoint(match.reaches))
        and (not match.dtype or facts.dtype in match.dtype)
        and (not match.any_dtype or not set(match.any_dtype).isdisjoint(facts.dtypes.values()))
    )


def _is_below(match: Match, facts: Facts, machine: Machine) -> bool:
    """Return whether a task that launches it matches, built-in ones included."""
    return any(matches(match, caller, machine) for caller in facts.callers())


def structure_matches(match: Match, structure: Structure | None) -> bool:
    """Return whether a task's structure is as a match asks; False where it is not known."""
    if structure is None:
        return False
    parts, count = structure.parts, len(structure.products)
    flags = (
        (match.masked, parts.masked), (match.carried, parts.carried),
        (match.reduces, parts.reduces), (match.scans, parts.scans),
        (match.scatters, parts.scatters), (match.turns, parts.turns),
        (match.shared_right, structure.one_right),
    )  # fmt: skip
    # The cheap answers first: `computed` and `transposed` look through the whole draft.
    return (
        (not match.products or count in match.products)
        and match.between_products in ("", parts.between)
        and all(wanted in (None, found) for wanted, found in flags)
        and (match.order is None or (count > 0 and structure.products[0].order == match.order))
        and _are(match.window, lambda: {structure.window[0]} if structure.window else set())
        and _are(match.computed, lambda: structure.computed)
        and _are(match.transposed, lambda: structure.transposed)
    )


def _are(wanted: tuple[str, ...], found: Callable[[], Iterable[str]]) -> bool:
    """Return whether all named operands are among those found, or none is found for `none`."""
    if not wanted:
        return True
    have = set(found())
    return not have if wanted == ("none",) else have.issuperset(wanted)


def has(machine: Machine, feature: str) -> bool:
    """Return whether a machine has a part of that name, or asynchronous engines."""
    if feature == "asynchronous":
        return any(e.asynchronous for e in machine.engines)
    parts = (machine.processors, machine.memories, machine.engines, machine.instructions)
    own = {part.name for group in parts for part in group}
    return feature in own or feature in (machine.arch, machine.backend, *machine.vendor)


def converts(machine: Machine, dtype: str) -> bool:
    """Return whether the fastest product of `dtype` widens each element before it multiplies.

    An instruction takes elements as they lie in memory where a group of them, those that its
    entry's ``panels`` hold side by side, fills a sum's word: four bytes, two short floats.
    """
    features = backend_of(machine.backend).features
    here = features(machine.arch) if features else None
    able = [
        (i, sums) for i in machine.instructions for sums, *kinds in i.dtypes
        if i.primitive == "gemm" and set(kinds) == {dtype}
        and (here is None or here >= set(i.requires))
    ]  # fmt: skip
    if not able:
        return False
    # Of equal ones the first, as a list of bindings takes them.
    best = max((i.throughput or 0 for i, _ in able))
    fastest, sums = next((i, sums) for i, sums in able if (i.throughput or 0) == best)
    group = fastest.panels[1] if len(fastest.panels) > 1 else 1
    return group * itemsize(dtype) < itemsize(sums)


def _particular(match: Match) -> bool:
    return bool(match.task or match.variant or match.needs_body or match.leaf is not None)


def _among(name: str, patterns: Iterable[str]) -> bool:
    wanted = tuple(patterns)
    return not wanted or any(fnmatch.fnmatchcase(name, p) for p in wanted)


def _below(path: str, patterns: Iterable[str]) -> bool:
    wanted = tuple(patterns)
    return not wanted or any(_among(task, wanted) for task in callers_of(path))


def callers_of(path: str) -> list[str]:
    """Return the tasks that launch the one at `path`, the entry first."""
    return [step.partition("#")[0] for step in path.split("/")[:-1]]


def _uses(facts: Facts, primitives: Iterable[str]) -> bool:
    return facts.primitives is not None and not facts.primitives.isdisjoint(primitives)


def _is(kind: str, facts: Facts) -> bool:
    used = facts.primitives or frozenset()
    if kind == "elementwise":
        return bool(used & {"map", "scan", *IN_STEPS}) and used <= {"map", *BY_MAP_UNITS}
    return kind in used


def rules_for(mapping: MappingFile, facts: Facts, machine: Machine) -> Iterator[TaskMapping]:
    """Yield the plans of the rules that match, in order."""
    for rule in mapping.rules:
        if matches(rule.match, facts, machine):
            yield rule.plan


def instance_for(
    mapping: MappingFile, caller: TaskMapping | None, path: str, names: tuple[str, ...]
) -> TaskMapping | None:
    """Return the instance that a launched task becomes; None where none is for it.

    `names` are the task's and its variants' (only the traced one once it is traced); `caller` is
    the caller's instance. Raises MappingError where the mapping contradicts itself or leaves
    several to choose from.
    """
    # A path without a slash is the entry's.
    last = path.rpartition("/")[2]
    if last == path:
        return _entry(mapping, names)
    if caller is not None:
        # `name#2` is a task's second launch of that name: its own entry goes before one for all.
        for key in (last, last.partition("#")[0], *names):
            if key in caller.table(CALLS):
                return _called(mapping, caller, key, names)
    entry = mapping.entrypoint.value if mapping.entrypoint else None
    found = [
        plan
        for name, plan in mapping.instances.items()
        if name != entry and plan.variant is not None and plan.variant.value in names
    ]
    if len(found) > 1:
        listed = ", ".join(plan.name for plan in found)
        raise AmbiguousInstanceError(
            f"{names[0]} at {path} could be any of the instances {listed}",
            caller.where if caller else found[0].where,
            hint=f"say which in the caller's `calls: {{{names[0]}: {found[0].name}}}`",
            notes=[(f"{plan.name} maps it", plan.where) for plan in found],
        )
    return found[0] if found else None


def _entry(mapping: MappingFile, names: tuple[str, ...]) -> TaskMapping | None:
    if mapping.entrypoint is None:
        found = [p for p in mapping.instances.values() if p.variant and p.variant.value in names]
        return found[0] if found else None
    plan = mapping.instances[mapping.entrypoint.value]
    if plan.variant is not None and plan.variant.value not in names:
        raise WrongEntryError(
            f"the entry point {plan.name} maps task {plan.variant.value!r}, "
            f"but the logic's entry is {names[0]!r}",
            plan.variant.where,
            hint=nearest(plan.variant.value, names),
            notes=[("the entry point is named here", mapping.entrypoint.where)]
            if mapping.entrypoint.where
            else (),
        )
    return plan


def _called(
    mapping: MappingFile, caller: TaskMapping, key: str, names: tuple[str, ...]
) -> TaskMapping:
    call = caller.table(CALLS)[key]
    plan = mapping.instances[call.value]
    if plan.variant is not None and plan.variant.value not in names:
        raise WrongEntryError(
            f"{key} is to become {plan.name}, which maps task {plan.variant.value!r}",
            call.where,
            hint=nearest(plan.variant.value, names),
            notes=[(f"{plan.name} is here", plan.where)],
        )
    return plan

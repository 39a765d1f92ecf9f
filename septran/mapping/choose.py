"""The decisions of a mapping while a logic is traced: variants and tunables."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from septran.errors import LogicError, SepTranError, nearest
from septran.location import Location
from septran.machine.model import Machine
from septran.mapping.mapping import Manner, MappingFile, Preference, TaskMapping, TunableCase
from septran.mapping.mistakes import TunableSettingError, UnknownVariantError
from septran.mapping.resolved import Decision, Setting
from septran.mapping.rules import Facts, facts_of_site, instance_for, rules_for
from septran.mapping.structure.products import Product, products_of
from septran.task.trace.chooser import LaunchSite, Unset
from septran.task.trace.tensors import Padded
from septran.task.tree import TunableValue


@dataclass(frozen=True)
class Scope:
    """The plans that hold for a task instance, and those of its callers."""

    instance: TaskMapping | None
    plans: tuple[TaskMapping, ...]
    """The instance, then the rules that match."""
    caller: Scope | None = None

    @staticmethod
    def of(
        mapping: MappingFile,
        machine: Machine,
        facts: Facts,
        caller: Scope | None,
        names: tuple[str, ...],
    ) -> Scope:
        """Return the plans of `mapping` for a task instance; raises MappingError."""
        instance = instance_for(mapping, caller.instance if caller else None, facts.path, names)
        rules = tuple(rules_for(mapping, facts, machine))
        return Scope(instance, ((instance,) if instance else ()) + rules, caller)

    def says(self, preference: Preference) -> bool:
        """Whether an instance says it, the task's own or a caller's."""
        own = self.instance.tunables.values() if self.instance else ()
        if any(preference is p for p in own):
            return True
        return self.caller is not None and self.caller.says(preference)

    def tables(self) -> Iterable[Mapping[str, Preference]]:
        """Yield tables of tunables, the task's own before its callers'."""
        for plan in self.plans:
            yield plan.tunables
        if self.caller is not None:
            yield from self.caller.tables()


FIRST = 64
"""For a tunable that nobody gives a value: four times the 16 that matrix units take at a time, so
that a tile is used several times by each of them, and small for any memory."""


@dataclass
class MappingChooser:
    """Answers a trace's questions from a mapping; made anew for every trace.

    A task's tunables are looked up in its instance, in the rules that match it, then in
    those of its callers, innermost first, and at last in the mapping's own table. In each
    place the name itself goes before patterns.
    """

    mapping: MappingFile
    machine: Machine
    given: Mapping[str, TunableValue] = field(default_factory=dict)
    _scopes: dict[str, Scope] = field(default_factory=dict, repr=False)
    _facts: dict[str, Facts] = field(default_factory=dict, repr=False)
    _taken: dict[tuple[str, str], Setting[TunableValue]] = field(default_factory=dict, repr=False)
    """The answers, by the task's path and the tunable's name."""
    sizes: dict[tuple[str, str], Setting[int]] = field(default_factory=dict, repr=False)
    """The answers that may be made smaller, by the task's name and the tunable's."""

    def variant(self, site: LaunchSite) -> str | None:
        """Return the variant named by the instance or by the first matching rule that names one."""
        names = (site.task, *(v for v in site.variants if v != site.task))
        caller = self._scopes.get(site.caller or "")
        facts = facts_of_site(site, self._facts.get(site.caller or ""), self.machine)
        scope = Scope.of(self.mapping, self.machine, facts, caller, names)
        self._scopes[site.path], self._facts[site.path] = scope, facts
        for plan in scope.plans:
            if plan.manner is not None:
                found = next(_in_manner(plan.manner.value, site, names), None)
                if found is not None:
                    return found
            if plan.variant is not None:
                if plan.variant.value not in names:
                    raise UnknownVariantError(
                        f"task {site.task} has no variant {plan.variant.value!r}",
                        plan.variant.where,
                        hint=nearest(plan.variant.value, names),
                    )
                return plan.variant.value
        return None

    def tunable(
        self, site: LaunchSite, name: str, default: TunableValue | None, location: Location
    ) -> TunableValue | None:
        """Return the mapping's value, else the logic's default, else `FIRST`.

        Raises TunableSettingError.
        """
        facts = self._facts.get(site.path) or facts_of_site(site, machine=self.machine)
        facts = replace(facts, variant=site.variant or site.task)
        caller = self._scopes.get(site.caller or "")
        known = self._scopes.get(site.path)
        instance = known.instance if known else None
        # Matched anew, as rules by variant could not match before there was one.
        rules = tuple(rules_for(self.mapping, facts, self.machine))
        scope = Scope(instance, ((instance,) if instance else ()) + rules, caller)
        self._scopes[site.path] = scope
        found = tunable(self.mapping, scope, facts, name, self.given)
        if found is None:
            value = Unset(FIRST) if default is None else default
            self._note(site.task, name, Setting(value))
            return capped(self.mapping, site.task, name, value)
        if not found.exact:
            self._note(site.task, name, found)
        _check_kind(name, found, default)
        _check_positive(name, found, location)
        self._taken[site.path, name] = found
        return _padded(found.value, self._multiple(scope, facts, name))

    def _note(self, task: str, name: str, found: Setting[TunableValue]) -> None:
        """Keep the greatest value of a size that may be made smaller."""
        value = found.value
        if isinstance(value, int) and not isinstance(value, bool):
            before = self.sizes.get((task, name))
            if before is None or before.value < value:
                self.sizes[task, name] = Setting(int(value), found.reason, found.where)

    def blamed(self, site: LaunchSite, error: LogicError) -> SepTranError:
        """Return a logic's error as the mapping's, if it is about a word that the mapping gives."""
        for (path, name), setting in self._taken.items():
            named = isinstance(setting.value, str) and repr(setting.value) in error.message
            if path == site.path and named and setting.where is not None:
                return TunableSettingError(
                    f"tunable {name} is {setting.value!r}: {error.message}",
                    setting.where,
                    hint=error.hint,
                    notes=[("the logic uses it here", error.where)] if error.where else (),
                )
        return error

    def _multiple(self, scope: Scope, facts: Facts, name: str) -> int:
        """Return the multiple to which the mapping pads small tiles, also for a caller's value."""
        for table in (*scope.tables(), self.mapping.tunables):
            preference = preferred(table, name)
            case = pick(preference, facts, name) if preference is not None else None
            if case is not None:
                return case.multiple
        return 1


def _in_manner(manner: Manner, site: LaunchSite, names: Iterable[str]) -> Iterator[str]:
    """The task and its variants, as far as they compute as a rule asks."""
    for name in names:
        draft = site.draft(name)
        first = next(iter(products_of(draft).products), None) if draft is not None else None
        if first is not None and _computes(first, manner):
            yield name


def _computes(product: Product, manner: Manner) -> bool:
    computed = {role for role, operand in product.operands.items() if operand.computed}
    return (
        manner.order in (None, product.order)
        and manner.sums_apart in (None, product.sums_apart)
        and (not manner.multiplies or product.dtype in manner.multiplies)
        and (not manner.computed or computed == set(manner.computed))
    )


def _padded(value: TunableValue, multiple: int) -> TunableValue:
    if multiple == 1 or not isinstance(value, int) or isinstance(value, bool):
        return value
    return Padded(value, multiple)


def tunable(
    mapping: MappingFile,
    scope: Scope,
    facts: Facts,
    name: str,
    given: Mapping[str, TunableValue] | None = None,
) -> Setting[TunableValue] | None:
    """Return the value of a tunable with its line; None where the mapping gives none.

    What is given with the call, what an instance says, and what a mapping without rules says is
    exact. Rules and their tables are for any logic: what they say is made smaller where it does
    not fit.
    """
    if given and name in given:
        return Setting(given[name], "given with the call", exact=True)
    for table in (*scope.tables(), mapping.tunables):
        preference = preferred(table, name)
        if preference is not None:
            case = pick(preference, facts, name)
            if case is not None:
                # A value written for this very task is not changed: not to fit is an error.
                if not mapping.rules or scope.says(preference):
                    return Setting(case.value, preference.reason, case.where, exact=True)
                value = capped(mapping, facts.task, name, case.value)
                return Setting(value, preference.reason, case.where)
    return None


def capped(mapping: MappingFile, task: str, name: str, value: TunableValue) -> TunableValue:
    """A value, or what the compiler has made of it so that all fits."""
    for fit in mapping.fits:
        if (fit.task, fit.name) == (task, name) and isinstance(value, int):
            # In its own type: an `Unset` stays one.
            return type(value)(min(value, fit.value))
    return value


def passed_over(
    mapping: MappingFile, scope: Scope, facts: Facts, names: Iterable[str]
) -> Iterator[Decision]:
    """Yield cases of tunables whose condition holds, but whose value exceeds the dimension."""
    for name in names:
        for table in (*scope.tables(), mapping.tunables):
            preference = preferred(table, name)
            case = pick(preference, facts, name) if preference is not None else None
            if preference is not None and case is not None:
                yield from _before(preference, case, facts, name)
                break


def _before(
    preference: Preference, taken: TunableCase, facts: Facts, name: str
) -> Iterator[Decision]:
    limit = _limit(facts, name)
    if limit is None or not isinstance(taken.value, int) or taken.value >= limit:
        return  # every value is cut to the dimension
    for case in preference.cases[: preference.cases.index(taken)]:
        if case.when is not None and case.when.holds(facts.values()):
            message = (
                f"{name} is {taken.value}: the case {case.value}, `when: {case.when.text}`, "
                f"is passed over, as what it cuts is not longer than {limit}"
            )
            hint = "give the case a value that is not larger, or write one for short dimensions"
            yield Decision("decision", facts.path, message, hint, case.where)


def preferred(table: Mapping[str, Preference], name: str) -> Preference | None:
    """Return the entry for a tunable: its own, else the first pattern that fits."""
    if name in table:
        return table[name]
    for pattern, preference in table.items():
        if "*" in pattern and fnmatch.fnmatchcase(name, pattern):
            return preference
    return None


def pick(preference: Preference, facts: Facts, name: str) -> TunableCase | None:
    """Return the first case whose condition holds and that fits, else the last that holds.

    A size fits when it is at most the dimension that it cuts, rounded up to a power of two: of a
    tunable that is called after a dimension (``block_N``) the axis that the task partitions by
    it, of others the task's greatest extent.
    """
    holding = [c for c in preference.cases if c.when is None or c.when.holds(facts.values())]
    if not holding:
        return None
    # A single case is taken whatever the limit, which may need the task's structure.
    limit = _limit(facts, name) if len(holding) > 1 else None
    for case in holding:
        sized = isinstance(case.value, int) and not isinstance(case.value, bool)
        if not sized or limit is None or int(case.value) <= limit:
            return case
    return holding[-1]


def _limit(facts: Facts, name: str) -> int | None:
    extents = [extent for shape in facts.shapes.values() for extent in shape]
    last, structure = name.rpartition("_")[2], None
    if len(last) == 1 or last in facts.dims:
        structure = facts.look()
    cut = structure.cut_by(name) if structure is not None else None
    blocked = facts.dims.get(last, max(extents, default=None)) if cut is None else cut
    # Rounded up, as a tile of 64 is right for 33 rows: the rest is padding or masked.
    return None if blocked is None else 1 << max(0, blocked - 1).bit_length()


def _check_positive(name: str, found: Setting[TunableValue], location: Location) -> None:
    number = isinstance(found.value, int) and not isinstance(found.value, bool)
    if number and int(found.value) <= 0 and found.where is not None:
        raise TunableSettingError(
            f"tunable {name} is {found.value}, not positive",
            found.where,
            notes=[("the logic reads it here", location)],
        )


def _check_kind(name: str, found: Setting[TunableValue], default: TunableValue | None) -> None:
    if default is None:
        return
    wanted, is_kind = type(default), type(found.value)
    # YAML writes 1.0 as 1; a bool is no integer here, though it is one in Python.
    if wanted is is_kind or (wanted is float and is_kind is int):
        return
    words = {int: "an integer", bool: "true or false", str: "a word", float: "a number"}
    raise TunableSettingError(
        f"tunable {name} is {words[wanted]} in the logic, not {found.value!r}",
        found.where,
        hint=f"its default is {default!r}",
    )

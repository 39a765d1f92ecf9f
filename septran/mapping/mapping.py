"""A mapping as loaded: instances, rules and tunables, each value with its line."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from septran.location import Location
from septran.machine.model import Machine
from septran.machine.positions import Node
from septran.mapping.conditions import Condition
from septran.mapping.keys import Key
from septran.mapping.mistakes import OpenDispatchError, TuneLeftError
from septran.mapping.resolved import Setting
from septran.mapping.tune import Candidate, Dimension, Space
from septran.task.tree import TunableValue

if TYPE_CHECKING:
    from septran.mapping.choose import MappingChooser

T = TypeVar("T")


def _empty() -> Table[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class TunableCase:
    """One value of a tunable, and when it may be taken."""

    value: TunableValue
    where: Location
    when: Condition | None = None
    multiple: int = 1
    """The multiple to which a tile of a smaller dimension is padded."""


@dataclass(frozen=True)
class Preference:
    """The values of a tunable, best first."""

    cases: tuple[TunableCase, ...]
    reason: str
    where: Location
    """The line of its name."""


@dataclass(frozen=True)
class Manner:
    """A variant by the way it computes, whatever its name."""

    order: tuple[str, ...] | None = None
    """The kinds of its loops, outermost first: rows, columns, sum, batch."""
    sums_apart: bool | None = None
    """Whether each step along the sum has sums of its own, which are added later."""
    multiplies: tuple[str, ...] = ()
    """The element types of a left operand, of which it is one; empty for any."""
    computed: tuple[str, ...] = ()
    """The operands that are computed beforehand, and no others; empty for any."""


@dataclass(frozen=True)
class TaskMapping:
    """The settings of an instance or a rule; a field that is None or missing is left open."""

    name: str
    """The name in messages: ``gemm_block_gpu``, or ``rule 2``."""
    where: Location
    variant: Setting[str] | None = None
    """The variant to trace; for instances their `task_name`."""
    manner: Setting[Manner] | None = None
    """The way in which the variant to trace computes, instead of its name; rules only."""
    settings: Table[str, Setting[Any]] = field(default_factory=_empty)
    """Keys with one value, by path: ``proc``, ``roles.consumers``."""
    tables: Table[str, Table[str, Setting[Any]]] = field(default_factory=_empty)
    """Keys with a value for each tensor, role or launch, by path: ``mems``, ``calls``."""
    options: Table[str, Table[str, tuple[Setting[str], ...]]] = field(default_factory=_empty)
    """Keys with a list for each primitive or launch, best first: ``binding``."""
    tunables: Table[str, Preference] = field(default_factory=_empty)
    """The tunables by name or pattern."""
    keys: Table[str, Location] = field(default_factory=_empty)
    """The places of the entries of its tables: ``mems.A``, ``calls.gemm_block``."""

    def get(self, key: Key[T]) -> Setting[T] | None:
        """Return the value of a key with one value; None where it is left open."""
        return self.settings.get(key.path)

    def table(self, key: Key[Any]) -> Table[str, Setting[Any]]:
        """Return the values of a key with one for each entry; empty where it is left open."""
        return self.tables.get(key.path, _empty())

    def lists(self, key: Key[Any]) -> Table[str, tuple[Setting[str], ...]]:
        """Return the lists of a key with one for each entry; ``*`` is for every entry."""
        return self.options.get(key.path, _empty())


@dataclass(frozen=True)
class Match:
    """The task instances that a rule is for; an empty field allows all."""

    task: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    primitive: tuple[str, ...] = ()
    level: tuple[int, ...] = ()
    parallel: bool | None = None
    leaf: bool | None = None
    leaf_kind: tuple[str, ...] = ()
    spreads: bool | None = None
    reaches: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    any_dtype: tuple[str, ...] = ()
    machine_feature: tuple[str, ...] = ()
    converts: bool | None = None
    below: Match | None = None
    """A match for a task that launches it, directly or not."""
    products: tuple[int, ...] = ()
    order: tuple[str, ...] | None = None
    between_products: str = ""
    masked: bool | None = None
    carried: bool | None = None
    reduces: bool | None = None
    scans: bool | None = None
    scatters: bool | None = None
    turns: bool | None = None
    shared_right: bool | None = None
    window: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    transposed: tuple[str, ...] = ()
    when: Condition | None = None

    @property
    def structural(self) -> bool:
        """Whether it is about the task's computation, which a draft shows before the trace."""
        flags = (
            self.order, self.masked, self.carried, self.reduces, self.scans, self.scatters,
            self.turns, self.shared_right,
        )  # fmt: skip
        words = (self.products, self.between_products, self.window, self.computed, self.transposed)
        return any(words) or any(flag is not None for flag in flags)

    @property
    def needs_body(self) -> bool:
        """Whether the match can be decided only when the task's body is known."""
        body = self.primitive or self.leaf_kind or self.reaches
        return bool(body) or self.spreads is not None


@dataclass(frozen=True)
class Rule:
    """A plan for every task instance that matches."""

    match: Match
    plan: TaskMapping


@dataclass(frozen=True)
class Fit:
    """A tunable that the compiler makes smaller than the mapping says, so that all fits."""

    task: str
    name: str
    value: int
    """The greatest value that it takes."""
    before: int
    """The value of the mapping or the logic."""
    why: str
    """The memory that would have to hold too much."""
    where: Location | None = field(default=None, compare=False)
    """The line that gives the value."""

    @property
    def line(self) -> str:
        """The rule that gives the smaller value at once."""
        return f"- {{match: {{task: {self.task}}}, tunables: {{{self.name}: {self.value}}}}}"


@dataclass(frozen=True)
class DispatchCase:
    """One of the mappings among which a dispatch file chooses."""

    name: str
    """The name in messages: ``case 2``, or ``otherwise``."""
    when: Condition | None
    """What holds of the calls that it is for; None where no other case is."""
    mapping: MappingFile
    label: str
    """What the file says for the mapping: a file's or a machine's name; empty for a table."""
    where: Location
    """The line of its condition, or of ``otherwise``."""


@dataclass(frozen=True)
class Taken:
    """The case of a dispatch file that a mapping was."""

    name: str
    reason: str
    """Why it was taken, and the earlier ones were not."""
    where: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class MappingFile:
    """The content of a mapping file: how logic runs on a machine."""

    machine: Machine
    entrypoint: Setting[str] | None = None
    instances: Table[str, TaskMapping] = field(default_factory=_empty)
    """The instances by name, in the file's order."""
    rules: tuple[Rule, ...] = ()
    tunables: Table[str, Preference] = field(default_factory=_empty)
    dimensions: tuple[Dimension, ...] = ()
    """The places that are still `!tune`; their plans hold the first candidate."""
    constraints: tuple[Condition, ...] = ()
    conditions: Table[str, Condition] = field(default_factory=_empty)
    """The named conditions, which others may use."""
    fits: tuple[Fit, ...] = ()
    """The tunables made smaller than the file says, as a memory could not hold all tensors."""
    few_stages: bool = False
    """Whether pipelines may be shorter than the file says, as no tiles fit otherwise."""
    cases: tuple[DispatchCase, ...] = ()
    """Those of a dispatch file, in the order in which they are tried; it has nothing else."""
    taken: Taken | None = None
    """The case that it was, where a dispatch file has chosen it."""
    assumed: str = ""
    """The reason why `machine` was taken where the file names none."""
    file: str = field(default="", compare=False)
    document: Node | None = field(default=None, compare=False, repr=False)
    """The file merged with those that it extends, for a tuner to fill in."""

    @property
    def extends(self) -> bool:
        """Whether its file changes another one."""
        return self.document is not None and "extends" in self.document.items

    def space(self) -> Space:
        """Return the search space: its size, dimensions and constraints.

        Raises OpenDispatchError for a dispatch file, which has a space for each case.
        """
        self.require_one()
        return Space(self.dimensions, self.constraints)

    def with_values(self, point: Table[str, Candidate]) -> MappingFile:
        """Return this mapping with a value for each `!tune`, by the dimensions' names."""
        from septran.mapping.loader import fill_in

        return fill_in(self, point)

    def with_(self, **changes: Any) -> MappingFile:
        """Return this mapping with small changes: what a file that `extends` it would say.

        The words are the keys of a mapping file: ``with_(tunables={"block_K": 64})``, or
        ``with_(rules=[{"match": {"task": "block"}, "pipeline": 2}])``, whose rules come before
        these here. Raises MappingError, or Errors with all mistakes.
        """
        from septran.mapping.loader import changed

        return changed(self, changes)

    def chooser(
        self,
        machine: Machine | None = None,
        tunables: Table[str, TunableValue] | None = None,
    ) -> MappingChooser:
        """Return the chooser that gives a trace this mapping's variants and tunables.

        `tunables` are values that override the file's. Raises TuneLeftError where a `!tune` is
        left.
        """
        from septran.mapping.choose import MappingChooser

        self.require_settled()
        return MappingChooser(self, machine or self.machine, dict(tunables or {}))

    def require_one(self) -> None:
        """Raise OpenDispatchError for a dispatch file of which no case is chosen."""
        if self.cases:
            raise OpenDispatchError(
                "a dispatch file is no single mapping: which case is taken depends on the call",
                self.cases[0].where,
                hint="pass the mapping of one case; septran.compile and septran.explain take both",
            )

    def require_settled(self) -> None:
        """Raise TuneLeftError where a `!tune` is left, OpenDispatchError where cases are."""
        self.require_one()
        if self.dimensions:
            first, *others = self.dimensions
            raise TuneLeftError(
                f"{first.name} is still !tune, so this mapping cannot be compiled as it is",
                first.where,
                hint="run `septran tune` on it, or write a value; "
                f"its space has {self.space().size} combinations",
                notes=[(f"{d.name} is !tune, too", d.where) for d in others],
            )

    def __str__(self) -> str:
        from septran.mapping.printer import mapping_text

        return mapping_text(self)

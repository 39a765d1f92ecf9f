"""The protocol that decides variants and tunables during a trace: a mapping, or defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from septran.ir.index import Range, Var
from septran.ir.views import View
from septran.location import Location
from septran.task.tree import StaticValue, TaskNode, TunableValue

FALLBACK = 32
"""The value of an integer tunable without a default in a run without a mapping.

Any value gives the same result.
"""


def no_draft(variant: str) -> None:
    """The draft of a launch that cannot be traced beforehand."""
    del variant


class Unset(int):
    """The value of a tunable that neither the mapping nor the logic gives."""


@dataclass(frozen=True)
class LaunchSite:
    """A launch about to be traced, with what is known before its body is."""

    task: str
    """The name of the task."""
    variants: tuple[str, ...]
    """The names of the task's other decompositions."""
    path: str
    level: int
    leaf: bool
    parallel: bool
    """Whether it is launched from a parallel loop."""
    shapes: Mapping[str, tuple[int, ...]]
    """The nominal extents of its tensor parameters."""
    dtypes: Mapping[str, str]
    caller: str | None
    """The path of the caller; None for the entry."""
    location: Location = field(compare=False)
    dims: Mapping[str, int] = field(default_factory=dict)
    """The extents of the entry's named dimensions."""
    variant: str = ""
    """The variant that was chosen; empty while it is being chosen."""
    static: Mapping[str, StaticValue] = field(default_factory=dict)
    """The entry's static flags, such as a convolution's stride."""
    builtin: bool = False
    """Whether the task is built into the language."""
    homes: Mapping[str, View] = field(default_factory=dict)
    """Each tensor parameter as a view of the entry's tensor, or of a caller's temporary."""
    ranges: Mapping[Var, Range] = field(default_factory=dict)
    """Ranges of the loop indices in them."""
    opened: Mapping[str, frozenset[Var]] = field(default_factory=dict)
    """The loops around the launch that are inside of where each tensor was allocated."""
    iterations: int = 0
    """Of the caller's parallel loops around it; 0 where there are none."""
    draft: Callable[[str], TaskNode | None] = field(default=no_draft, compare=False)
    """The task, or the variant of that name, traced before anything is chosen below it."""


class Chooser(Protocol):
    """Decides the variants and tunables that a logic leaves open."""

    def variant(self, site: LaunchSite) -> str | None:
        """Return the variant to run; None for the task's own body."""

    def tunable(
        self, site: LaunchSite, name: str, default: TunableValue | None, location: Location
    ) -> TunableValue | None:
        """Return the value of a tunable; None where it has none at all."""


@dataclass(frozen=True)
class DefaultChooser:
    """Chooses the task itself, and tunables as given, else their defaults, else 32."""

    tunables: Mapping[str, TunableValue] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    """The variant by task name, for tests of decompositions."""
    fallback: int = FALLBACK
    """The value of a tunable that has no other."""

    def variant(self, site: LaunchSite) -> str | None:
        """Return the variant named for the task, if any."""
        return self.variants.get(site.task)

    def tunable(
        self, site: LaunchSite, name: str, default: TunableValue | None, location: Location
    ) -> TunableValue | None:
        """Return the given value, the default, or None."""
        del site, location
        return self.tunables.get(name, default)

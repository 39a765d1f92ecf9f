"""Who decides variants and tunables while a logic is traced: a mapping, or defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from septran.ir.index import Range, Var
from septran.ir.views import View
from septran.location import Location
from septran.task.tree import TaskNode, TunableValue

FALLBACK = 32
"""An integer tunable without a default in a run without a mapping: any value means the same."""


def no_draft(variant: str) -> None:
    """The draft of a launch that cannot be traced beforehand."""
    del variant


@dataclass(frozen=True)
class LaunchSite:
    """A launch about to be traced, as far as it is known before its body is."""

    task: str
    """The task's name."""
    variants: tuple[str, ...]
    """Names of its other decompositions."""
    path: str
    level: int
    leaf: bool
    parallel: bool
    """Whether it is launched from a parallel loop."""
    shapes: Mapping[str, tuple[int, ...]]
    """Nominal extents of its tensor parameters."""
    dtypes: Mapping[str, str]
    caller: str | None
    """The caller's path; None for the entry."""
    location: Location = field(compare=False)
    dims: Mapping[str, int] = field(default_factory=dict)
    """Extents of the entry's named dimensions."""
    variant: str = ""
    """The variant that was chosen; empty while it is being chosen."""
    static: Mapping[str, TunableValue] = field(default_factory=dict)
    """The entry's static flags: a convolution's stride."""
    builtin: bool = False
    """Whether the task is one of the language's."""
    homes: Mapping[str, View] = field(default_factory=dict)
    """Each tensor parameter as a view of the entry's tensor, or of a caller's temporary."""
    ranges: Mapping[Var, Range] = field(default_factory=dict)
    """Ranges of the loop indices in them."""
    iterations: int = 1
    """Of the caller's parallel loops around it."""
    draft: Callable[[str], TaskNode | None] = field(default=no_draft, compare=False)
    """The task, or the variant of that name, traced before anything is chosen below it."""


class Chooser(Protocol):
    """Decides what a logic leaves open."""

    def variant(self, site: LaunchSite) -> str | None:
        """The variant to run; None for the task's own body."""

    def tunable(
        self, site: LaunchSite, name: str, default: TunableValue | None, location: Location
    ) -> TunableValue | None:
        """The value of a tunable; None where there is none at all."""


@dataclass(frozen=True)
class DefaultChooser:
    """Takes the task itself, and tunables as given, else their defaults, else 32."""

    tunables: Mapping[str, TunableValue] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    """Variant by task name, for tests of decompositions."""
    fallback: int = FALLBACK
    """For a tunable without any value."""

    def variant(self, site: LaunchSite) -> str | None:
        """The variant named for the task, if any."""
        return self.variants.get(site.task)

    def tunable(
        self, site: LaunchSite, name: str, default: TunableValue | None, location: Location
    ) -> TunableValue | None:
        """The given value, the default, or none."""
        del site, location
        return self.tunables.get(name, default)

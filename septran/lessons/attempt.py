"""One answer to a lesson, with everything that its goals may measure, made when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile

if TYPE_CHECKING:
    from septran.runtime.kernel import Kernel
    from septran.tile.ledger import Ledger
    from septran.tile.nodes import TileProgram
    from septran.views.explanation import Explanation


@dataclass(frozen=True)
class Attempt:
    """A logic under a mapping, at fixed sizes; what raises, raises SepTranError."""

    logic: Any
    """A task, or the name of an operator."""
    mapping: Any
    """A text, a file, a machine's name or a loaded mapping."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Shapes, dtypes, static values, machine and passes, as `septran.compile` takes them."""

    @cached_property
    def plan(self) -> MappingFile:
        """The mapping as it was read."""
        return load_mapping(self.mapping, self.settings.get("machine"))

    @cached_property
    def explanation(self) -> Explanation:
        """Every stage and its reasons: ``.ledger``, ``.prediction``, ``.remarks``, ..."""
        from septran.views import explain

        return explain(self.logic, self.plan, **self.settings)

    @property
    def program(self) -> TileProgram:
        """The tile program."""
        return self.explanation.tile_program

    @property
    def ledger(self) -> Ledger:
        """The bytes that move along each memory edge, with reasons."""
        return self.explanation.ledger

    @cached_property
    def kernel(self) -> Kernel:
        """Something to run: the host's code, a simulated DSA, an emulated GPU."""
        from septran.compiler import compile
        from septran.targets.registry import has_emulator

        emulate = has_emulator(self.plan.machine.backend)
        return compile(self.logic, self.plan, emulate=emulate, **self.settings)

    @cached_property
    def check(self) -> Any:
        """One run on random input beside the exact result, by the bound of rounding."""
        return self.kernel.check()

    @cached_property
    def profile(self) -> Any:
        """The profile: counts of the simulator or emulator; on a CPU, times."""
        return self.kernel.profile()

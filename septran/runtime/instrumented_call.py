"""A call prepared to run aside, on copies of all tensors that the kernel would write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from septran.runtime.arguments import Bound, Scalar
from septran.runtime.errors import NothingToProfileError
from septran.runtime.signature import Specialisation
from septran.targets.base import CycleProfile, SelfProfiling
from septran.tile.nodes import TileProgram


@dataclass(frozen=True)
class InstrumentedCall:
    """The arguments of an executable, in order; the caller's arrays stay as they are."""

    name: str
    specialisation: Specialisation
    arguments: tuple[Any, ...]
    """Tensors as executables take them, then the scalars."""

    @property
    def program(self) -> TileProgram | None:
        """The tile program; None for a kernel that was loaded from a file."""
        program = self.specialisation.stages.tile_program
        return program if isinstance(program, TileProgram) else None

    def profile(self) -> CycleProfile:
        """Return the profile of this run by an executable that profiles itself."""
        executable = cast(SelfProfiling, self.specialisation.stages.executable)
        profile: CycleProfile = executable.profile(self.program, *self.arguments)
        return profile


def instrumented_call(
    name: str, specialisation: Specialisation, bound: Bound, scalars: Sequence[Scalar], device: str
) -> InstrumentedCall:
    """Return the call on copies; raises NothingToProfileError where it would launch nothing."""
    if any(0 in (t.shape or ()) for t in specialisation.tensors):
        raise NothingToProfileError(
            f"{name} launches nothing for empty tensors, so there is no run to profile"
        )
    library, arguments = bound.library, []
    for tensor in specialisation.tensors:
        x = bound.arrays.get(tensor.name)
        if x is None:
            make = library.zeros if tensor.reads else library.empty
            x = make(tensor.shape or (), tensor.dtype or "", device)
        elif tensor.writes or library.awkward(x):
            x = library.copied(x)
        arguments.append(library.passed(x))
    return InstrumentedCall(name, specialisation, (*arguments, *scalars))

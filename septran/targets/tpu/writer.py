"""The text of a Pallas kernel: Python whose loops and conditions are decorated functions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from septran.targets.lower.python_indices import PythonIndices
from septran.targets.lower.python_writer import PythonWriter
from septran.tile.analyses.loops import ranges
from septran.tile.nodes import TileProgram

_TAKEN = ("jax", "jnp", "pl", "pltpu", "HBM", "SMEM", "interpret")
_CALLS = {"minimum": "jnp.minimum", "maximum": "jnp.maximum", "clip": "jnp.clip"}


def jax_indices(program: TileProgram) -> PythonIndices:
    """Indices of a program as they are written in its kernels."""
    return PythonIndices(ranges(program.body), _CALLS)


@dataclass
class PallasWriter(PythonWriter):
    """Lines of a function that Pallas traces."""

    def __post_init__(self) -> None:
        self.taken |= {*_TAKEN}

    def loop(self, variable: str, extent: str) -> AbstractContextManager[None]:
        """A block that is run for each value of a variable below an extent."""
        return self.block(f"@pl.loop(0, {extent})", f"def _({variable}):")

    def when(self, condition: str) -> AbstractContextManager[None]:
        """A block that is run under a condition."""
        return self.block(f"@pl.when({condition})", "def _():")

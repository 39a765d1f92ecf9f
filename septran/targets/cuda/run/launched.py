"""Compiled kernels as functions: one launcher, or one for each of the extents that calls tell."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from septran.emulator.launch import CudaProgram
from septran.machine.model import Machine
from septran.targets.call_sizes import CallSize
from septran.targets.cuda.run.launcher import (
    CUDA,
    TensorSpec,
    compile_launcher,
    make_function,
    table,
)

MOST_LAUNCHERS = 256
"""The extents of calls for which a launcher is kept."""


@dataclass(frozen=True)
class LaunchedKernels:
    """The kernels of one operator, what a call of them passes, and the launchers so far."""

    name: str
    program: CudaProgram
    tensors: tuple[TensorSpec, ...]
    """What a call passes, in order."""
    outputs: tuple[str, ...]
    """Those of them that are written."""
    machine: Machine
    library: Path | None = None
    """A launcher that was compiled before; None to compile one at the first call."""
    sizes: tuple[CallSize, ...] = ()
    """The extents that calls tell, which kernels take behind the scalars."""
    launchers: dict[tuple[int, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    """The compiled launchers of the calls so far, by these extents."""
    key: int = field(default_factory=itertools.count(1).__next__, repr=False, compare=False)
    """What these launchers share the loaded kernels by."""

    device_type: ClassVar[int] = CUDA
    """DLPack's number of the GPUs that the code is for."""

    @property
    def code(self) -> bytes:
        """Machine code of all kernels; raises TargetError where there is none."""
        raise NotImplementedError

    def __call__(self, *arguments: Any) -> None:
        """Launch on torch's current stream; tensors in order, then the scalars."""
        self.function(*arguments)

    @cached_property
    def function(self) -> Any:
        """The compiled launcher, without Python in the way; raises TargetError if there is none."""
        code = self.code
        if self.sizes:
            return self._launch_told
        return make_function(self.table(), code, self._launcher())

    def _launch_told(self, *arguments: Any) -> None:
        """Launch for the extents that the tensors have, with a table of their own."""
        lengths = tuple(size.of(arguments) for size in self.sizes)
        if lengths not in self.launchers:
            made = make_function(self.table(lengths), self.code, self._launcher(), self.key)
            if len(self.launchers) >= MOST_LAUNCHERS:
                self.launchers.pop(next(iter(self.launchers)))
            self.launchers[lengths] = made
        self.launchers[lengths](*arguments, *lengths)

    def _launcher(self) -> Path:
        return self.library or compile_launcher(self.device_type)

    def table(self, lengths: Sequence[int] = ()) -> Any:
        """Launch description passed to the C launcher, for the extents that a call tells."""
        sizes = dict(zip((size.name for size in self.sizes), lengths, strict=bool(lengths)))
        if not sizes:
            return table(self.name, self.program, self.tensors, self.device_type)
        tensors = [tensor.at(sizes) for tensor in self.tensors]
        return table(self.name, self.program.at(sizes), tensors, self.device_type)

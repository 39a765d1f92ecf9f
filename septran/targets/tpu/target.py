"""The TPU target: TileProgram -> a Python module with Pallas kernels -> JAX."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from septran.targets.base import TensorIR
from septran.targets.tpu.executable import PallasExecutable, build, load
from septran.targets.tpu.module import write_module
from septran.tile.nodes import TileProgram


@dataclass(frozen=True)
class PallasIR(TensorIR):
    """A program as the text of a Python module: JAX, not TVM, lowers it further."""

    written: str = ""
    """The module with its comments."""

    @cached_property
    def text(self) -> str:
        """The module."""
        return self.written

    @cached_property
    def complete_text(self) -> str:
        """The module without the comments, which say where its statements come from."""
        return re.sub(r"^ *#.*\n", "", self.written, flags=re.MULTILINE)


@dataclass(frozen=True)
class TpuTarget:
    """Serves machines with ``backend: tpu``."""

    name: str = "tpu"

    def lower(self, program: TileProgram) -> PallasIR:
        """The module of `program`."""
        return PallasIR(program.name, None, write_module(program))

    def build(self, ir: TensorIR, program: TileProgram) -> PallasExecutable:
        """What JAX runs."""
        return build(program, ir.text)

    def load(self, folder: Path) -> PallasExecutable:
        """Return what `PallasExecutable.save` wrote."""
        return load(folder)

    def placed(
        self, executable: PallasExecutable, ir: TensorIR, program: TileProgram
    ) -> PallasExecutable:
        """With the comments of `ir`."""
        del program
        return replace(executable, text=ir.text)

    def fingerprint(self) -> str:
        """The code on which an executable depends beside its text."""
        digest = hashlib.sha256(Path(__file__).with_name("executable.py").read_bytes())
        return f"tpu {digest.hexdigest()[:16]}"

    def missing(self) -> str | None:
        """Nothing: JAX interprets its kernels everywhere, and says where it is not installed."""
        return None


TARGET = TpuTarget()

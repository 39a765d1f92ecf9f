"""The emulator's second front: PTX modules, whoever's compiler wrote them."""

from __future__ import annotations

from septran.targets.cuda.emulator.ptx_front.lines import source_of
from septran.targets.cuda.emulator.ptx_front.parse import Module, is_ptx, parse
from septran.targets.cuda.emulator.ptx_front.translation import to_cpp

__all__ = ["Module", "is_ptx", "parse", "source_of", "to_cpp"]

"""Launches that lowering never makes: grids of three axes, structures by value.

Kernels of other compilers are launched so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from septran.emulator.launch import Launch


@dataclass(frozen=True)
class Structure:
    """A kernel argument: bytes by value, with addresses of buffers in them."""

    name: str
    fill: Callable[[Callable[[str], int]], bytes]
    """Gives the bytes, when it is told how to get a buffer's address."""
    align: int = 16


@dataclass(frozen=True)
class ShapedLaunch(Launch):
    """One kernel on a grid of up to three axes; clusters lie along x."""

    arguments: tuple[Any, ...]
    """Of the kinds that lowering makes, and `Structure`."""
    blocks: tuple[int, int, int] = (1, 1, 1)
    threads: tuple[int, int, int] = (1, 1, 1)

    @property
    def grid_shape(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        return self.blocks

    @property
    def block_shape(self) -> tuple[int, int, int]:
        """Threads of a block along x, y and z."""
        return self.threads

"""The tables of emitters, by node type, engine and instruction; see `lowering`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from septran.targets.cuda.context import Context
from septran.targets.cuda.fragments import Fragment
from septran.tile.nodes import Compute, Copy, Node, TileProgram

Emit = Callable[[Context, Any], None]
Demand = Callable[[Context, Compute], Mapping[str, Fragment]]

NODES: dict[type, Emit] = {}
"""By node type: `For`, `Barrier`, `Role`, `Acquire`, `Commit`, `Wait`, `Release`."""
COPIES: dict[str, Callable[[Context, Copy], None]] = {}
"""By engine, synchronous or not."""
COMPUTES: dict[str, Callable[[Context, Compute], None]] = {}
"""By instruction."""
DEMANDS: dict[str, Demand] = {}
"""By instruction: fragments that a node needs its REGISTER operands to be, by buffer."""
PREPARE: list[Callable[[Context, tuple[Node, ...]], None]] = []
"""Run at the start of each kernel with its body: reserve shared memory, set up barriers."""
THREADS: list[Callable[[TileProgram, tuple[Node, ...]], int | None]] = []
"""Threads a block for a kernel's body, from the first that knows; None for the default."""

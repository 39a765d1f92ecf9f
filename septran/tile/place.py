"""From a resolved mapping to the finished tile program, one pass after another."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from septran.mapping.resolved import ResolvedMapping
from septran.tile.nodes import TileProgram
from septran.tile.passes import PASSES
from septran.tile.passes.instantiate import instantiate
from septran.tile.verify import verify


@dataclass(frozen=True)
class Step:
    """The program as one pass left it."""

    name: str
    """The pass."""
    summary: str
    """What it does, in one line."""
    program: TileProgram


def place(
    resolved: ResolvedMapping, check: Callable[[TileProgram], None] | None = None
) -> tuple[Step, ...]:
    """Run every pass in order and keep what each one gives; the last is the result.

    `check` runs on the result: the verifier, unless `SEPTRAN_VERIFY=0` switches it off.
    Raises TileError.
    """
    if check is None and os.environ.get("SEPTRAN_VERIFY", "1") != "0":
        check = verify
    program = instantiate(resolved)
    steps = [Step("instantiate", _summary(instantiate), program)]
    for transform in PASSES:
        program = transform(program)
        steps.append(Step(transform.__name__, _summary(transform), program))
    if check is not None:
        check(program)
    return tuple(steps)


def _summary(function: Callable[..., TileProgram]) -> str:
    return (function.__doc__ or "").strip().splitlines()[0]

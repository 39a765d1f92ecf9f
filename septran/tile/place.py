"""From a resolved mapping to the finished tile program, one pass after another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from septran.given import require
from septran.mapping.resolved import ResolvedMapping
from septran.tile.nodes import TileProgram
from septran.tile.own_passes import OwnPass, in_order
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
    resolved: ResolvedMapping,
    check: Callable[[TileProgram], None] | None = None,
    *,
    passes: Sequence[OwnPass] = (),
) -> tuple[Step, ...]:
    """Run every pass in order and keep what each one gives; the last is the result.

    `check` runs on the result: the verifier, unless `SEPTRAN_VERIFY=0` switches it off.
    `passes` are the caller's own, made by `septran.tile_pass`. Raises TileError.
    """
    require("resolved", resolved, ResolvedMapping, "pass what septran.resolve gives")
    if check is None and os.environ.get("SEPTRAN_VERIFY", "1") != "0":
        check = verify
    order = in_order(PASSES, passes)
    program = instantiate(resolved)
    steps = [Step("instantiate", _summary(instantiate), program)]
    for transform in order:
        program = transform(program)
        steps.append(Step(transform.__name__, _summary(transform), program))
    if check is not None:
        check(program)
    return tuple(steps)


def _summary(function: Callable[..., TileProgram]) -> str:
    text = (function.__doc__ or "").strip()
    return text.splitlines()[0] if text else ""

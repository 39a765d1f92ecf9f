"""The pipeline from a resolved mapping to the finished tile program, pass after pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from septran.argument_checks import require
from septran.errors import Errors, TileError, raise_all
from septran.mapping.resolved import ResolvedMapping
from septran.tile.nodes import TileProgram
from septran.tile.passes import PASSES
from septran.tile.passes.copies.instantiate import instantiate
from septran.tile.user_passes import UserPass, in_order
from septran.tile.verify.verifier import verify


@dataclass(frozen=True)
class PassResult:
    """The program after one pass."""

    name: str
    """The name of the pass."""
    summary: str
    """The first line of the pass's docstring."""
    program: TileProgram


def place(
    resolved: ResolvedMapping,
    check: Callable[[TileProgram], None] | None = None,
    *,
    passes: Sequence[UserPass] = (),
) -> tuple[PassResult, ...]:
    """Run every pass in order and return what each one made; the last is the result.

    `check` runs on the result: the verifier, unless `SEPTRAN_VERIFY=0` switches it off. `passes`
    are the caller's own, made by `septran.tile_pass`. Raises TileError, and WrongArgumentError
    where `resolved` or `passes` is of a wrong kind.
    """
    require("resolved", resolved, ResolvedMapping, "pass what septran.resolve gives")
    if check is None and os.environ.get("SEPTRAN_VERIFY", "1") != "0":
        check = verify
    order = in_order(PASSES, passes)
    program = instantiate(resolved)
    steps = [PassResult("instantiate", _summary(instantiate), program)]
    for transform in order:
        program = transform(program)
        steps.append(PassResult(transform.__name__, _summary(transform), program))
    if check is not None:
        with _blaming_passes(bool(passes)):
            check(program)
    return tuple(steps)


@contextmanager
def _blaming_passes(own: bool) -> Iterator[None]:
    """Raise errors that only passes can cause as their fault, unless the user has own passes."""
    try:
        yield
    except (TileError, Errors) as error:
        if own:
            raise
        found = error.errors if isinstance(error, Errors) else (error,)
        raise_all(e.internal() if isinstance(e, TileError) and e.of_passes else e for e in found)


def _summary(function: Callable[..., TileProgram]) -> str:
    text = (function.__doc__ or "").strip()
    return text.splitlines()[0] if text else ""

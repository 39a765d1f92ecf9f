"""Passes of a user's own among the compiler's: `tile_pass` says where each one goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from septran.argument_checks import as_tuple, short_repr
from septran.errors import TileError, nearest
from septran.tile.nodes import TileProgram

Transform = Callable[[TileProgram], TileProgram]
FIRST = "instantiate"
"""The name of the step that makes the first program; passes can only come after it."""
FORMERLY = MappingProxyType(
    {
        "round_tiles": "pad_tiles", "isolate_parts": "materialize_slices",
        "widen_panels": "pad_panels", "turn_tiles": "choose_transposes",
        "fill_edges": "zero_edges",
    }
)  # fmt: skip
"""Former names of passes, which still say where a pass goes."""


class PassPlaceError(TileError):
    """The place of a user's pass among the compiler's passes is missing or unknown."""

    code = "SEP437"


class PassResultError(TileError):
    """A user's pass returned something other than a tile program."""

    code = "SEP436"


@dataclass(frozen=True)
class UserPass:
    """A function from tile program to tile program, with its place in the order of passes."""

    function: Transform
    before: str | None = None
    after: str | None = None

    @property
    def __name__(self) -> str:  # as functions have it: passes are listed by their names
        return self.function.__name__

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.function.__doc__

    def __call__(self, program: TileProgram) -> TileProgram:
        """Run the pass; raises PassResultError if it returns no tile program."""
        result: Any = self.function(program)
        if not isinstance(result, TileProgram):
            raise PassResultError(
                f"the pass {self.__name__} gave {type(result).__name__}, not a tile program",
                hint="return the program, or dataclasses.replace(program, ...)",
            )
        return result


def tile_pass(
    function: Any = None, /, *, before: str | None = None, after: str | None = None
) -> Callable[[Transform], UserPass]:
    """Make a pass of a function; `before` or `after` names the pass that it goes beside.

    ``septran.compile(..., passes=[mine])`` runs it, as `explain`, `place` and others do; the
    verifier checks the result of all passes together. Raises PassPlaceError unless exactly one of
    `before` and `after` is given, with a name.
    """
    example = 'write @septran.tile_pass(before="insert_sync") above the pass, for example'
    if function is not None or (before is None) == (after is None):
        raise PassPlaceError("a pass goes either before or after another one", hint=example)
    if not isinstance(before or after, str):
        named = short_repr(before or after)
        raise PassPlaceError(f"{named} is no name of a pass", hint=example)
    return lambda function: UserPass(_function(function), before, after)


def user_passes(passes: Any) -> tuple[UserPass, ...]:
    """Return the argument `passes=` as a tuple; raises WrongArgumentError, PassPlaceError."""
    found = as_tuple("passes", passes, "[mine]")
    for one in found:
        if not isinstance(one, UserPass):
            name = getattr(one, "__name__", short_repr(one))
            raise PassPlaceError(
                f"it is not said where the pass {name} goes",
                hint='write @septran.tile_pass(after="...") above it',
            )
    return found


def _function(function: Any) -> Transform:
    if not callable(function):
        message = f"{short_repr(function)} is no function, and a pass is one"
        raise PassPlaceError(message, hint="write @septran.tile_pass(...) above a function")
    made: Transform = function
    return made


def in_order(compilers: Sequence[Transform], own: Sequence[UserPass] = ()) -> tuple[Transform, ...]:
    """Return the compiler's passes with a user's own in their places; raises PassPlaceError.

    Those that go after the same pass follow each other in the given order; one may go beside
    another of the user's own that was given before it.
    """
    order: list[Transform] = list(compilers)
    behind: dict[str, int] = {}
    for one in user_passes(own):
        names = [transform.__name__ for transform in order]
        anchor = one.before or one.after or ""
        if one.before is not None:
            at = _position(names, anchor, one)
        else:
            # `instantiate` itself is not in the list: after it is in front of all.
            at = 0 if anchor == FIRST else _position(names, anchor, one) + 1
            at += behind.get(anchor, 0)
            behind[anchor] = behind.get(anchor, 0) + 1
        order.insert(at, one)
    return tuple(order)


def _position(names: Sequence[str], anchor: str, one: UserPass) -> int:
    if anchor not in names:
        anchor = FORMERLY.get(anchor, anchor)
    if anchor not in names:
        side = "before" if one.before is not None else "after"
        known = ", ".join((FIRST, *names))
        raise PassPlaceError(
            f"{one.__name__} goes {side} {anchor}, which is no pass; there are {known}",
            hint=nearest(anchor, names),
        )
    return names.index(anchor)

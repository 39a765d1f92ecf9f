"""The state of a channel while a program runs: fills in flight, arrived, released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from septran.errors import TileError
from septran.tile.nodes import Channel, Copy, Node, Origin, Region


class DeadlockError(TileError):
    """All threads wait for events that no running thread can cause."""

    code = "SEP421"
    of_passes = True


class ProtocolError(TileError):
    """Acquire, commit, wait and release are out of order, or an access goes round them."""

    code = "SEP422"
    of_passes = True


def located(kind: type[TileError], message: str, origin: Origin | None, **more: Any) -> TileError:
    """Return an error about a node, at the line of its origin."""
    if origin is None:
        return kind(message, **more)
    hint = f"the node is there because: {origin.rule}"
    return kind(message, **{"where": origin.logic or origin.mapping, "hint": hint, **more})


@dataclass(eq=False)
class Thread:
    """One of the bodies that run beside each other: the main one, a role, an iteration."""

    name: str
    parent: Thread | None = None

    def line(self) -> list[Thread]:
        """Return the thread, its parent, and so on to the main thread."""
        return [self] if self.parent is None else [self, *self.parent.line()]


@dataclass(eq=False)
class Flight:
    """An asynchronous copy on its way."""

    copy: Copy
    land: Callable[[], None]
    """Does the remaining effects of the copy; called once."""
    data: Any = None
    """Data that the effects keep with the copy."""
    landed: bool = False

    def arrive(self) -> None:
        """Land the copy, unless it has landed."""
        if not self.landed:
            self.landed = True
            self.land()


@dataclass(eq=False)
class Fill:
    """The copies that one commit closes."""

    flights: list[Flight] = field(default_factory=list)
    number: int | None = None
    """The number of the fill; None until it is committed."""
    began: int = 0
    """The ring's clock when the first copy was issued."""
    waited: list[Thread] = field(default_factory=list)
    released: list[Thread] = field(default_factory=list)
    data: Any = None


@dataclass(eq=False)
class ChannelState:
    """The fills of one channel, from the start of its scope to its end."""

    channel: Channel
    releasers: int
    """The number of threads that release each fill; 0 where the channel has no such handshake."""
    acquires: bool
    """Whether some node acquires slots."""
    fills: dict[int, Fill] = field(default_factory=dict)
    open: Fill = field(default_factory=Fill)
    """The fill that the next commit closes."""
    slots: dict[tuple[str, int], Fill] = field(default_factory=dict)
    """The last fill issued into each stage of a buffer."""
    acquired: dict[int, int] = field(default_factory=dict)
    """The ring's clock when each fill's slot was acquired."""
    clock: int = 0
    shifts: dict[str, int] = field(default_factory=dict)
    """The number of fills that each thread skipped, where only some iterations are walked."""
    skipped: dict[str, list[int]] = field(default_factory=dict)
    """The iterations that each thread skipped, loop by loop."""
    users: set[str] = field(default_factory=set)
    """The names of threads that take part in the handshake."""

    @property
    def name(self) -> str:
        """The channel's name."""
        return self.channel.name

    def issue(self, flight: Flight, stage: int) -> None:
        """Add an issued copy to the open fill."""
        self.clock += 1
        if not self.open.flights:
            self.open.began = self.clock
        self.open.flights.append(flight)
        self.slots[flight.copy.target.buffer, stage] = self.open

    def commit(self, number: int, node: Node) -> Fill:
        """Close the open fill as `number`; raises ProtocolError."""
        if number in self.fills:
            raise located(
                ProtocolError, f"fill {number} of {self.name} is committed twice", node.origin
            )
        # The first fill of each stage finds an empty slot, which needs no acquire.
        needs_slot = self.acquires and number >= self.channel.stages
        # The slot must have been acquired before the first copy into it was issued.
        if needs_slot and self.acquired.get(number, self.clock + 1) > self.open.began:
            raise located(
                ProtocolError,
                f"fill {number} of {self.name} goes into a slot that was not acquired",
                node.origin,
            )
        # A channel of stores carries copies out of its buffers, so sources count as well.
        moved = {b for f in self.open.flights for b in (f.copy.target.buffer, f.copy.source.buffer)}
        missing = [b for b in self.channel.buffers if b not in moved]
        if missing:
            raise located(
                ProtocolError,
                f"fill {number} of {self.name} has no copy of {', '.join(missing)}",
                node.origin,
            )
        fill, self.open = self.open, Fill()
        fill.number = number
        self.fills[number] = fill
        return fill

    def free(self, number: int) -> bool:
        """Return whether the slot of fill `number` may be filled (again)."""
        # Slots are taken in turn: fill n goes where fill n - stages was.
        before = self.fills.get(number - self.channel.stages)
        if number < self.channel.stages:
            return True
        return before is not None and len(before.released) >= self.releasers

    def acquire(self, number: int) -> Fill | None:
        """Take the slot of fill `number`, and return the fill that was in it."""
        self.clock += 1
        self.acquired[number] = self.clock
        return self.fills.get(number - self.channel.stages)

    def release(self, number: int, thread: Thread, node: Node) -> Fill:
        """Note that `thread` is done with fill `number`; raises ProtocolError."""
        fill = self.fills.get(number)
        if fill is None or not _any(fill.waited, thread):
            raise located(
                ProtocolError,
                f"{thread.name} releases fill {number} of {self.name}, which it has not waited for",
                node.origin,
            )
        if thread in fill.released:
            raise located(
                ProtocolError, f"fill {number} of {self.name} is released twice", node.origin
            )
        fill.released.append(thread)
        return fill

    def check_read(self, region: Region, stage: int, thread: Thread, node: Node) -> None:
        """Raise ProtocolError unless the buffer is read between the fill's wait and its release."""
        # The last fill that was issued counts: from its issue on the stage is being overwritten.
        fill = self.slots.get((region.buffer, stage))
        if fill is None:
            return
        if not _any(fill.waited, thread):
            what = f"{region} is read by {thread.name}"
            state = "committed" if fill.number is not None else "even committed"
            raise located(
                ProtocolError,
                f"{what} before its wait: the last copy into stage {stage} on {self.name} "
                f"({_numbered(fill)}) is not {state if fill.number is None else 'waited for'}",
                node.origin,
            )
        if _any(fill.released, thread):
            message = f"{region} is read by {thread.name} after {_numbered(fill)} of {self.name}"
            raise located(ProtocolError, f"{message} was released", node.origin)

    def finish(self) -> None:
        """Check the end of the scope: nothing is in flight, and all fills are released."""
        left = list(self.open.flights)
        if left:
            raise located(
                ProtocolError,
                f"{len(left)} copies on {self.name} are never committed",
                left[0].copy.origin,
            )
        for number, fill in sorted(self.fills.items()):
            if fill.flights and not fill.waited:
                raise located(
                    ProtocolError,
                    f"fill {number} of {self.name} is never waited for",
                    fill.flights[0].copy.origin,
                )
            if len(fill.released) != self.releasers:
                raise located(
                    ProtocolError,
                    f"fill {number} of {self.name} is released {len(fill.released)} time(s), "
                    f"not {self.releasers}",
                    (fill.flights[0].copy if fill.flights else self.channel).origin,
                )


def _any(threads: list[Thread], thread: Thread) -> bool:
    # What the body around a thread has waited for or released counts for the thread, too.
    return any(t in threads for t in thread.line())


def _numbered(fill: Fill) -> str:
    return "an open fill" if fill.number is None else f"fill {fill.number}"

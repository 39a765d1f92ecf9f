"""The iterations of a long loop that the verifier skips: the same ones in every thread.

Threads that share a ring must skip equally many of its fills, or they would wait for fills that
nobody makes, and a deadlock might go unseen. Their loops may differ in length (one has its first
or last iteration outside): the thread that comes to a loop first decides, the others follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from septran.ir.index import Index
from septran.tile.interpret.channel_state import ChannelState
from septran.tile.interpret.execution import ThreadState
from septran.tile.nodes import Acquire, Commit, For, Release, TileProgram, Wait, nodes, regions

SHORT = 3
"""The extent up to which loops are walked whole, as skipping the middle saves little."""


@dataclass
class SkippedIterations:
    """The iterations that one walk of a program skips."""

    program: TileProgram
    full: bool
    """Whether nothing is skipped."""
    rings: bool = True
    """Whether fills may be skipped, or only iterations of loops without handshakes."""
    _steps: dict[int, tuple[For, Mapping[str, int | None]]] = field(default_factory=dict)
    _touched: dict[int, ChannelState] = field(default_factory=dict)

    def trips(self, node: For, extent: int, frame: ThreadState) -> Iterable[int]:
        """Return the first and last iterations, with fill numbers counted on across the gap."""
        if self.full:
            return range(extent)
        counts = self._counts(node)
        steps = {name: counts[name] for name in counts if name in frame.rings}
        if not steps:
            return self._plain(node, extent)
        return self._counted(node, extent, frame, steps)

    @property
    def uneven(self) -> bool:
        """Whether threads of a ring skipped different numbers, so that the walk proves nothing."""
        return any(
            len({tuple(ring.skipped.get(name, ())) for name in ring.users}) > 1
            for ring in self._touched.values()
        )

    @property
    def any(self) -> bool:
        """Whether fills were skipped."""
        return any(any(map(any, ring.skipped.values())) for ring in self._touched.values())

    def _plain(self, node: For, extent: int) -> Iterable[int]:
        """Return the first and the last iteration of a loop that makes no fills."""
        if extent <= SHORT or not self._repeats(node, extent - 2):
            return range(extent)
        return (0, extent - 1)

    def _counted(
        self, node: For, extent: int, frame: ThreadState, steps: Mapping[str, int | None]
    ) -> Iterator[int]:
        """The iterations to walk: each thread of these rings skips equally many in this loop."""
        thread = frame.thread.name
        rings = {name: frame.rings[name] for name in steps}
        # After as many iterations as it has stages each ring is in its steady state.
        first = max(ring.channel.stages for ring in rings.values()) + 2
        # The first thread that comes to the loop decides, the others skip what it did.
        decided = _decided(list(rings.values()), thread)
        distance = self._wanted(extent, first, list(rings.values())) if decided is None else decided
        if distance and not self._possible(node, extent, first, distance, steps, rings):
            distance = 0
        for ring in rings.values():
            self._touched[id(ring)] = ring
            ring.skipped.setdefault(thread, []).append(distance)
        yield from range(first if distance else extent)
        if distance:
            for name, ring in rings.items():
                over = (steps[name] or 0) * distance
                ring.shifts[thread] = ring.shifts.get(thread, 0) + over
            yield from range(first + distance, extent)

    def _wanted(self, extent: int, first: int, rings: list[ChannelState]) -> int:
        """The greatest skip that keeps the phase of all stages, with some left for the end."""
        stages = [ring.channel.stages for ring in rings]
        # The least common multiple brings every ring and buffer back to the stage where it was.
        period = math.lcm(*stages, *(b.stages for b in self.program.buffers))
        most = extent - first - max(stages) - 1
        return max(0, most) // period * period if self.rings and extent > SHORT else 0

    def _possible(
        self, node: For, extent: int, first: int, distance: int,
        steps: Mapping[str, int | None], rings: Mapping[str, ChannelState],
    ) -> bool:  # fmt: skip
        """Return whether so many iterations after the `first` ones may be skipped."""
        # Skipped fills must be whole turns of each ring, or later ones would be in other stages.
        return first + distance < extent and self._repeats(node, distance) and all(
            step is not None and step * distance % rings[name].channel.stages == 0
            for name, step in steps.items()
        )  # fmt: skip

    def _counts(self, node: For) -> Mapping[str, int | None]:
        """The fills of each channel in an iteration; None where that differs."""
        known = self._steps.get(id(node))
        if known is None or known[0] is not node:
            known = self._steps[id(node)] = (node, _counts(node))
        return known[1]

    def _repeats(self, node: For, distance: int) -> bool:
        """Return whether an iteration uses the same stages as the one `distance` before it."""
        later = {node.variable: Index.of(node.variable) + distance}
        return all(
            region.stage.is_constant or region.stage.substitute(later) == region.stage
            for inner in nodes(node.body)
            for region in regions(inner)
        )


def _decided(rings: list[ChannelState], thread: str) -> int | None:
    """Return what another thread skipped in its loop of this number; None if this is the first."""
    number = len(rings[0].skipped.get(thread, ()))
    found = (
        past[number]
        for ring in rings
        for other, past in ring.skipped.items()
        if other != thread and len(past) > number
    )
    return next(found, None)


def _counts(node: For) -> Mapping[str, int | None]:
    steps: dict[str, int | None] = {}
    variable = node.variable
    for inner in nodes(node.body):
        if isinstance(inner, Acquire | Commit | Wait | Release):
            step = inner.index.coefficient(variable)
            rest = inner.index - Index.of(variable) * step
            # Handshakes that count by different steps have no common number of fills to skip.
            if variable in rest.variables() or steps.setdefault(inner.channel, step) != step:
                steps[inner.channel] = None
    return steps

"""Inference of each REGISTER buffer's fragment from instructions and neighbours.

*Strict*: what an instruction demands of its operands. *Common*: buffers that meet in one
statement lie alike, a row vector as the matrix with an axis removed. *Free*: the largest of
what is left is spread in vectors of 16 bytes. Where demands contradict each other the first
wins, and the other statement converts through shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from septran.ir.index import Index, axis
from septran.ir.views import View
from septran.targets.cuda.fragment.fragments import Digit, Fragment, register, spread
from septran.targets.cuda.fragment.statements import Places, Split, reads
from septran.targets.lower.statements import Statement
from septran.tile.nodes import Buffer

FAR = 1 << 24
"""A register stride behind all others, until a layout is packed."""


@dataclass(frozen=True)
class Link:
    """A statement's domain and a REGISTER buffer that it touches."""

    domain: int
    """The statement's identity."""
    buffer: str
    axes: tuple[tuple[int, int], ...]
    """Pairs of an axis of the statement and the axis of the buffer that goes along it."""
    pinned: tuple[int, ...]
    """Axes of the buffer of which the statement touches one coordinate."""


@dataclass
class Layouts:
    """The fragments of buffers by name, and of statements by identity."""

    buffers: dict[str, Fragment] = field(default_factory=dict)
    domains: dict[int, Fragment] = field(default_factory=dict)


def link(view: View, places: Places) -> tuple[list[tuple[int, int]], list[int]] | None:
    """Return how a view's buffer lies along a statement; None where it is shifted or gathered."""
    axes: list[tuple[int, int]] = []
    pinned: list[int] = []
    mapped = {Index.of(axis(n)): n for n in range(view.rank)}
    for number, entry in enumerate(view.index):
        place = places[mapped[entry]] if entry in mapped else None
        if place is not None:
            axes.append((place, number))
        elif entry in mapped or entry.is_constant:
            pinned.append(number)
        else:
            return None
    return axes, pinned


def infer(
    splits: Iterable[Split],
    buffers: Mapping[str, Buffer],
    strict: Mapping[str, Fragment],
    threads: int,
    vector: int,
) -> Layouts:
    """Layouts for all REGISTER buffers that `splits` touch, and for their statements."""
    work = _Inference(buffers, threads, vector)
    work.found.buffers.update(strict)
    for split in splits:
        for statement in split.statements:
            work.add(statement)
    # What is demanded spreads first: only what it does not reach is free.
    for name in strict:
        work.spread_from(name)
    # The largest first: what it meets is then laid out alike, and not the other way round.
    while (largest := work.largest()) is not None:
        work.choose(largest)
    return work.found


class _Inference:
    def __init__(self, buffers: Mapping[str, Buffer], threads: int, vector: int) -> None:
        self.buffers, self.threads, self.vector = buffers, threads, vector
        self.found = Layouts()
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.by_domain: dict[int, list[Link]] = {}
        self.by_buffer: dict[str, list[Link]] = {}
        self.pinned: dict[str, set[int]] = {}

    def add(self, statement: Statement) -> None:
        """Note what a statement links."""
        number = id(statement)
        self.shapes[number] = statement.shape
        touched = [(load.view, places) for load, places in reads(statement)]
        for view, places in [(statement.target, statement.kept), *touched]:
            if self.buffers[view.tensor].memory != "REGISTER":
                continue
            # One that no statement links is held, too: what is written and never read.
            links = self.by_buffer.setdefault(view.tensor, [])
            pairs = link(view, places)
            if pairs is not None:
                found = Link(number, view.tensor, tuple(pairs[0]), tuple(pairs[1]))
                self.by_domain.setdefault(number, []).append(found)
                links.append(found)
                shape = self.buffers[view.tensor].shape
                pins = {n for n in pairs[1] if shape[n] > 1}
                self.pinned.setdefault(view.tensor, set()).update(pins)

    def largest(self) -> int | str | None:
        """The statement or buffer with most elements that has no layout yet."""
        open_domains: list[tuple[int, int | str]] = [
            (math.prod(s), n) for n, s in self.shapes.items() if n not in self.found.domains
        ]
        open_buffers: list[tuple[int, int | str]] = [
            (math.prod(self.buffers[b].shape), b)
            for b in self.by_buffer
            if b not in self.found.buffers
        ]
        both = open_domains + open_buffers
        return max(both, key=lambda row: row[0])[1] if both else None

    def choose(self, key: int | str) -> None:
        """Spread it freely, and what it meets alike."""
        if isinstance(key, int):
            self.found.domains[key] = spread(self.shapes[key], self.threads, self.vector)
            self.spread_from(key)
            return
        shape = list(self.buffers[key].shape)
        pins = self.pinned.get(key, set())
        rest = spread([n for a, n in enumerate(shape) if a not in pins], self.threads, self.vector)
        free = iter(rest.axes)
        # Where statements touch single coordinates of an axis, all of it is in one thread's
        # registers: spread over threads, most of those that need a coordinate would not hold it.
        axes = [(register(n, FAR << a),) if a in pins else next(free) for a, n in enumerate(shape)]
        self.found.buffers[key] = Fragment.of(axes, self.threads).packed()
        self.spread_from(key)

    def spread_from(self, key: int | str) -> None:
        """Give what meets `key` its layout, and what meets that, and so on."""
        queue: list[int | str] = [key]
        while queue:
            now = queue.pop(0)
            links = self.by_domain.get(now) if isinstance(now, int) else self.by_buffer.get(now)
            for found in links or ():
                other = found.buffer if isinstance(now, int) else found.domain
                if self._pass_on(found, isinstance(now, int)):
                    queue.append(other)

    def _pass_on(self, link: Link, down: bool) -> bool:
        """From the statement to the buffer, or back; whether it was news and enough."""
        if down:
            if link.buffer in self.found.buffers:
                return False
            layout = self._of_buffer(link)
            if layout is not None:
                self.found.buffers[link.buffer] = layout
            return layout is not None
        if link.domain in self.found.domains:
            return False
        layout = self._of_domain(link)
        if layout is not None:
            self.found.domains[link.domain] = layout
        return layout is not None

    def _of_buffer(self, link: Link) -> Fragment | None:
        shape = self.buffers[link.buffer].shape
        domain = self.found.domains[link.domain]
        axes: list[Sequence[Digit]] = [()] * len(shape)
        open_axes = {n for n, extent in enumerate(shape) if extent > 1}
        for mine, its in link.axes:
            # Only a part of the buffer: this layout would leave the rest of it without a place.
            if shape[its] != self.shapes[link.domain][mine]:
                return None
            axes[its] = domain.axes[mine]
            open_axes.discard(its)
        for number in self.pinned.get(link.buffer, ()):
            if number not in open_axes:
                return None
            axes[number] = (register(shape[number], FAR << number),)
            open_axes.discard(number)
        return None if open_axes else Fragment.of(axes, self.threads).packed()

    def _of_domain(self, link: Link) -> Fragment | None:
        shape = self.shapes[link.domain]
        layout = self.found.buffers[link.buffer]
        axes: list[Sequence[Digit]] = [()] * len(shape)
        open_axes = {n for n, extent in enumerate(shape) if extent > 1}
        for mine, its in link.axes:
            if shape[mine] != self.buffers[link.buffer].shape[its]:
                return None
            axes[mine] = layout.axes[its]
            open_axes.discard(mine)
        # An operand that is broadcast says nothing about the axes that it lacks.
        return None if open_axes else Fragment.of(axes, self.threads).packed()

"""Commands carried out on bytes: each different one becomes a function once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.targets.dsa.simulator import copying, matrix, vector
from septran.targets.dsa.simulator.accesses import Accesses, span
from septran.targets.dsa.simulator.memory import Call, Converted, Operand, Views
from septran.targets.dsa.simulator.operands import Batch, Operands
from septran.targets.dsa.simulator.spaces import Spaces
from septran.targets.dsa.simulator.stream import COLUMNS, Stream

Array = np.ndarray[Any, Any]
Action = Callable[[], object]

_BUILDERS: Mapping[str, Callable[[Views, Call], Action | None]] = {
    **copying.BUILDERS,
    **matrix.BUILDERS,
    **vector.BUILDERS,
}


@dataclass
class Program:
    """What each command of a stream does, as a function without arguments."""

    stream: Stream
    spaces: Spaces
    views: Views
    actions: list[Action | None] = field(default_factory=list)

    @staticmethod
    def of(stream: Stream, spaces: Spaces, work: Operands, memories: tuple[Array, ...]) -> Program:
        """Build each different command once."""
        program = Program(stream, spaces, Views(memories), [None] * len(stream))
        for batch in work.batches:
            if batch.unit is not None:
                program._build(batch)
        program._forget(work.accesses)
        return program

    def run(self, order: Array) -> None:
        """Carry the commands out in `order`."""
        actions = self.actions
        with np.errstate(all="ignore"):
            for n in order.tolist():
                action = actions[n]
                if action is not None:
                    action()

    def _build(self, batch: Batch) -> None:
        build = _BUILDERS[batch.group.command.name]
        at = batch.group.at.tolist()
        known: dict[bytes, Action | None] = {}
        for n, key, call in self._calls(batch):
            if key not in known:
                known[key] = build(self.views, call())
            self.actions[at[n]] = known[key]

    def _forget(self, accesses: Accesses) -> None:
        """Let commands that overwrite a converted operand forget its converted form."""
        kept = self.views.converted
        if not kept:
            return
        space, start, end = np.array([_extent(key) for key in kept]).T
        values = list(kept.values())
        writes = np.flatnonzero(accesses.write & np.isin(accesses.space, space))
        ends = accesses.regions[:, 1] + span(accesses.regions)
        stale: dict[int, list[Converted]] = {}
        for region in np.unique(accesses.region[writes]).tolist():
            here = space == accesses.regions[region, 0]
            here &= (start < ends[region]) & (accesses.regions[region, 1] < end)
            if here.any():
                stale[region] = [values[n] for n in np.flatnonzero(here)]
        guarded: dict[int, Action] = {}
        commands, regions = accesses.command[writes].tolist(), accesses.region[writes].tolist()
        for n, region in zip(commands, regions, strict=True):
            action = self.actions[n]
            if action is not None and region in stale:
                if id(action) not in guarded:
                    guarded[id(action)] = _forgetting(action, stale[region])
                self.actions[n] = guarded[id(action)]

    def _calls(self, batch: Batch) -> Iterator[tuple[int, bytes, Callable[[], Call]]]:
        group = batch.group
        columns = COLUMNS[group.command.name]
        cores = self.stream.core[group.at]
        raw = np.ascontiguousarray(np.column_stack([cores, group.arguments]))
        text, width = raw.tobytes(), raw.shape[1] * raw.itemsize
        located = {
            a.name: [x.tolist() for x in self.spaces.locate(group[a.name], cores)]
            for a in group.command.arguments
            if a.kind == "address"
        }
        rows = group.arguments

        def call(n: int) -> Call:
            row = rows[n].tolist()
            values = {name: row[place] for name, place in columns.items()}
            operands = {
                name: Operand(space[n], offset[n]) for name, (space, offset) in located.items()
            }
            return Call(group.function, values, operands, batch.unit)

        for n in range(len(group.at)):
            yield n, text[n * width : (n + 1) * width], lambda n=n: call(n)  # type: ignore[misc]


def _extent(key: tuple[Any, ...]) -> tuple[int, int, int]:
    """Space, first byte and end of a converted operand."""
    (space, offset), kind, (rows, columns), stride, _ = key
    return space, offset, offset + (rows - 1) * stride + columns * kind.itemsize


def _forgetting(action: Action, stale: list[Converted]) -> Action:
    if len(stale) == 1:
        only = stale[0]

        def forget_one() -> None:
            action()
            only.value = None

        return forget_one

    def forget() -> None:
        action()
        for converted in stale:
            converted.value = None

    return forget

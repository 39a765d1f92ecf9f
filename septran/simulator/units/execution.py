"""Commands carried out on bytes: each different one becomes a function once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.simulator.hazards.accesses import Accesses, span
from septran.simulator.operands import Batch, CommandOperands
from septran.simulator.spaces import Spaces
from septran.simulator.stream import COLUMNS, Stream
from septran.simulator.units import copying, matrix, vector
from septran.simulator.units.memory import Call, Converted, Views

Array = np.ndarray[Any, Any]
Action = Callable[[], object]

_BUILDERS: Mapping[str, Callable[[Views, Call], Action | None]] = {
    **copying.BUILDERS,
    **matrix.BUILDERS,
    **vector.BUILDERS,
}


@dataclass
class Program:
    """The effect of each command of a stream, as a function without arguments."""

    stream: Stream
    """Of which each form becomes one function."""
    spaces: Spaces
    views: Views
    actions: list[Action | None] = field(default_factory=list)
    copies: dict[int, Call] = field(default_factory=dict)
    constant: set[int] = field(default_factory=set)
    """Parameters that nobody writes."""

    @staticmethod
    def of(
        stream: Stream, spaces: Spaces, work: CommandOperands, memories: tuple[Array, ...]
    ) -> Program:
        """Build each different command once."""
        program = Program(stream, spaces, Views(memories), [None] * len(stream.forms))
        for batch in work.batches:
            if batch.unit is not None:
                program._build(batch)
        program._forget(work.accesses)
        return program

    def run(self, order: Array) -> None:
        """Carry the commands out in `order`."""
        actions = self.actions
        # Infinities and NaN are results like others; NumPy is not to warn of them.
        with np.errstate(all="ignore"):
            for form in self.stream.form[order].tolist():
                action = actions[form]
                if action is not None:
                    action()

    def _build(self, batch: Batch) -> None:
        group = batch.group
        build = _BUILDERS[group.command.name]
        cores = self.stream.forms.core[group.at]
        columns = COLUMNS[group.command.name]
        spaces, offsets = {}, {}
        for argument in group.command.arguments:
            if argument.kind == "address":
                found = self.spaces.locate(group[argument.name], cores)
                spaces[argument.name], offsets[argument.name] = (x.tolist() for x in found)
        for n, (at, row) in enumerate(
            zip(group.at.tolist(), group.arguments.tolist(), strict=True)
        ):
            call = Call(group.function, batch.unit, columns, row, spaces, offsets, n)
            self.actions[at] = build(self.views, call)
            if group.command.name == "dma_copy":
                self.copies[at] = call

    def _forget(self, accesses: Accesses) -> None:
        """Let commands that overwrite a converted operand forget its converted form."""
        kept = self.views.converted
        if not kept:
            return
        space, start, end = np.array([_extent(key) for key in kept]).T
        keys, values = list(kept), list(kept.values())
        written = set(accesses.space[accesses.write].tolist())
        self.constant = {n for n in range(len(self.spaces.parameters)) if n not in written}
        ends = accesses.regions[:, 1] + span(accesses.regions)
        for n in np.flatnonzero(accesses.write & np.isin(accesses.space, space)).tolist():
            form, region = int(accesses.command[n]), int(accesses.region[n])
            action = self.actions[form]
            here = space == accesses.regions[region, 0]
            here &= (start < ends[region]) & (accesses.regions[region, 1] < end)
            # A converted operand is kept until a command writes some of its bytes.
            if action is not None and here.any():
                stale = [values[i] for i in np.flatnonzero(here)]
                brought = [self._brought(form, keys[i]) for i in np.flatnonzero(here)]
                self.actions[form] = _forgetting(action, stale, brought)

    def _brought(self, form: int, key: tuple[Any, ...]) -> Converted | None:
        """Return what a copy fills a converted operand with, where nobody ever writes it."""
        operand, kind, (rows, columns), stride, wanted = key
        copy = self.copies.get(form)
        if copy is None or copy.place("src").space not in self.constant:
            return None
        width = columns * kind.itemsize
        same = (
            copy.place("dst"),
            copy.value("rows"),
            copy.value("row_bytes"),
            copy.value("dst_stride"),
        )
        # A copy of more, or of a part, leaves other bytes than those of one tile of the parameter.
        if same != (operand, rows, width, stride):
            return None
        source = copy.place("src")
        return self.views.keep(source, kind, (rows, columns), copy.value("src_stride"), wanted)


def _extent(key: tuple[Any, ...]) -> tuple[int, int, int]:
    """Space, first byte and end of a converted operand."""
    (space, offset), kind, (rows, columns), stride, _ = key
    return space, offset, offset + (rows - 1) * stride + columns * kind.itemsize


def _forgetting(action: Action, stale: list[Converted], brought: list[Converted | None]) -> Action:
    if len(stale) == 1:
        only, origin = stale[0], brought[0]

        def forget_one() -> None:
            action()
            only.value, only.origin = None, origin

        return forget_one

    def forget() -> None:
        action()
        for converted, source in zip(stale, brought, strict=True):
            converted.value, converted.origin = None, source

    return forget

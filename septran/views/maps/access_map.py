"""The part of each tensor that one block reads and writes, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from septran.errors import CallError
from septran.ir.bounds import loop_range
from septran.ir.index import Var
from septran.tile.analyses.loops import walk
from septran.tile.nodes import For, Region, TileProgram, reads, writes
from septran.tile.printer import node_text
from septran.views.maps.events import Event, record
from septran.views.text.origin_text import why_of

MOST = 1500
"""Steps of one block that are kept."""


class NoSuchBlockError(CallError):
    """A loop that the program does not have, or an iteration outside of it."""

    code = "SEP655"


@dataclass(frozen=True)
class AccessMap:
    """The reads and writes of one iteration of the parallel loops, in order."""

    program: TileProgram
    block: Mapping[str, int]
    """An iteration of each parallel loop, by the loop's index."""

    @cached_property
    def loops(self) -> dict[str, int]:
        """The parallel loops by index, each with its greatest extent."""
        found: dict[str, int] = {}
        known: dict[Var, tuple[int, int]] = {}
        for node, _ in walk(self.program.body):
            if isinstance(node, For):
                known[node.variable] = loop_range(node.extent, known)
                if node.kind == "parallel":
                    found[str(node.variable)] = max(0, node.extent.bounds(known)[1])
        return found

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The copies and computations of the block."""

        def keep(loop: For, values: Mapping[Var, int]) -> Iterable[int]:
            return (self.block.get(str(loop.variable), 0),)

        return record(self.program, keep)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: tensors, and for each step the boxes that it reads and writes."""
        names = [b.name for b in self.program.buffers]
        params = set(self.program.params)
        return {
            "title": f"{self.program.name} on {self.program.machine.name}",
            "block": dict(self.block), "loops": self.loops, "total": len(self.events),
            "tensors": [
                {"name": b.name, "memory": b.memory, "shape": list(b.shape), "dtype": b.dtype,
                 "stages": b.stages, "param": b.name in params}
                for b in self.program.buffers
            ],
            "steps": [self._step(event, names) for event in self.events[:MOST]],
        }  # fmt: skip

    def _step(self, event: Event, names: list[str]) -> dict[str, Any]:
        node, why = event.node, why_of(event.node.origin)
        boxes = [self._box(event, r, names, "w") for r in writes(node)]
        boxes += [self._box(event, r, names, "r") for r in reads(node)]
        return {
            "node": event.number, "text": node_text(node, self.program),
            "boxes": [box for box in boxes if box],
            "loops": {str(v): n for v, n in event.values.items()},
            "why": why["rule"], "places": why["places"], "keys": why["keys"],
        }  # fmt: skip

    def _box(self, event: Event, region: Region, names: list[str], way: str) -> list[Any]:
        """[tensor, way, stage, lowest coordinates, highest coordinates and one more]."""
        found = box_of(region, event.values, self.program.buffer(region.buffer).shape)
        if found is None:
            return []
        stage = region.stage.evaluate(event.values)
        return [names.index(region.buffer), way, stage, *found]

    def explore(self) -> Any:
        """The interactive view of it."""
        from septran.views.live import explore

        return explore(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from septran.views.pictures.html import code, panel, strong

        del include, exclude
        html = panel(strong(f"What one block of {self.program.name} touches"), code(str(self)))
        return {"text/html": str(html), "text/plain": str(self)}

    def __str__(self) -> str:
        where = ", ".join(f"{name}={n}" for name, n in self.block.items())
        lines = [f"{self.program.name}, block {where}: {len(self.events)} steps"]
        for event in self.events[:60]:
            values = " ".join(f"{v}={n}" for v, n in event.values.items())
            lines.append(f"  {node_text(event.node, self.program)}  [{values}]")
        return "\n".join(lines) + "\n"


def box_of(
    region: Region, values: Mapping[Var, int], shape: tuple[int, ...]
) -> tuple[list[int], list[int]] | None:
    """The least box of the buffer that holds a region; None where it holds nothing."""
    extents = [valid.evaluate(values) for valid in region.valid]
    if any(extent <= 0 for extent in extents):
        return None
    low, high = [], []
    ranges = {v: (n, n) for v, n in values.items()}
    for entry, size in zip(region.index, shape, strict=True):
        inside = ranges | {
            v: (0, extents[int(v.name[1:])] - 1) for v in entry.variables() if v.name[0] == "$"
        }
        least, most = entry.bounds(inside)
        # Clipped, as a padded region reaches beyond the buffer.
        low.append(max(0, least))
        high.append(min(size, most + 1))
    return low, high


def access_map(program: TileProgram, **block: int) -> AccessMap:
    """Return the accesses of the block at these indices; an index not given is 0."""
    found = AccessMap(program, {})
    for name, value in block.items():
        if name not in found.loops or not 0 <= value < found.loops[name]:
            known = ", ".join(f"{n} < {extent}" for n, extent in found.loops.items())
            raise NoSuchBlockError(f"no block {name}={value}", hint=f"parallel loops: {known}")
    return AccessMap(program, {name: block.get(name, 0) for name in found.loops})

"""The profile of an emulated run: counts, bank conflicts, a timeline for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.argument_checks import write_text
from septran.stage import Displayable, view

if TYPE_CHECKING:
    from septran.emulator import Emulation

WORST = 3
"""Lines with bank conflicts that the text names."""


@dataclass(frozen=True)
class EmulatedProfile(Displayable):
    """A run of generated CUDA text on the CPU; its steps order things, they are no time."""

    name: str
    machine: str
    mode: str
    run: Emulation

    def __str__(self) -> str:
        counts = self.run.statistics
        lines = [f"{self.name} on {self.machine}, emulated ({self.mode}): {counts['steps']} steps"]
        lines += [f"  {text}" for text in self.amounts]
        lines += [
            f"  bank conflicts: {found.wavefronts} wavefronts where {found.ideal} would do, at "
            f"{found.place}"
            for found in self.run.conflicts[:WORST]
        ]
        return "\n".join(lines)

    @property
    def amounts(self) -> tuple[str, ...]:
        """The counts of loads, stores and operations, in words."""
        return tuple(_amounts(self.run.statistics))

    def timeline(self, core: int = 0) -> Any:
        """Return what one multiprocessor did when, in steps; `.explore()` makes it live."""
        return view(self, "timeline", core)

    def explore(self) -> Any:
        """The timeline of all multiprocessors as an interactive view."""
        return view(self, "live")

    def to_dict(self) -> dict[str, Any]:
        """Counts by name, and the lines with bank conflicts."""
        conflicts = [
            {"place": str(c.place), "wavefronts": c.wavefronts, "ideal": c.ideal}
            for c in self.run.conflicts
        ]
        return {
            "name": self.name, "machine": self.machine, "mode": self.mode,
            **dict(self.run.statistics), "conflicts": conflicts,
        }  # fmt: skip

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write the timeline as JSON for https://ui.perfetto.dev; a microsecond is a step."""
        return write_text(path, json.dumps({"traceEvents": list(self._events())}))

    def _events(self) -> Iterator[dict[str, Any]]:
        from septran.emulator.trace import COMMANDS

        # Trace Event Format: M names a process or a row, X is an event with its length.
        trace, origins = self.run.trace, self.run.origins
        arguments: dict[str, Any]
        for core in sorted(set(trace["core"].tolist())):
            name = {"name": f"multiprocessor {core}"}
            yield {"ph": "M", "pid": core, "name": "process_name", "args": name}
            for queue, title in enumerate(self.run.queues):
                name = {"name": title}
                yield {"ph": "M", "pid": core, "tid": queue, "name": "thread_name", "args": name}
        for row in trace:
            line = int(row["line"])
            arguments = {"line": line, "bytes": int(row["bytes"]), "flops": int(row["flops"])}
            if line in origins:
                arguments["origin"] = origins[line]
            yield {
                "ph": "X", "name": COMMANDS[int(row["command"])], "pid": int(row["core"]),
                "tid": int(row["queue"]), "ts": int(row["start"]),
                "dur": int(row["end"] - row["start"]), "args": arguments,
            }  # fmt: skip


def _amounts(counts: Any) -> Iterator[str]:
    for what, name in (("TMA loads", "tma_load"), ("TMA stores", "tma_store")):
        if counts[f"{name}s"]:
            yield f"{counts[f'{name}s']:,} {what}, {counts[f'{name}_bytes']:,} bytes"
    if counts["copies"]:
        yield f"{counts['copies']:,} asynchronous copies, {counts['copy_bytes']:,} bytes"
    if counts["wgmma"] or counts["mma"]:
        products = [(counts["wgmma"], "wgmma"), (counts["mma"], "matrix instructions")]
        said = ", ".join(f"{count:,} {name}" for count, name in products if count)
        yield f"{said}, {counts['flops']:,} operations"
    yield (
        f"{counts['global_load_bytes']:,} bytes loaded from and {counts['global_store_bytes']:,} "
        "stored to global memory by threads"
    )

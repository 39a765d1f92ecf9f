"""The costs of each entry of a mapping: cycles, bytes and share of the peak by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from septran.mapping.resolved import Instance, ResolvedMapping
from septran.views.pictures.html import Markup, faint, join, mono, panel, strong, table

if TYPE_CHECKING:
    from septran.targets.dsa.profiles.profile import DsaProfile


@dataclass(frozen=True)
class ProfileEntry:
    """One line of the mapping file (or a default) as it holds for one task."""

    task: str
    """Path of the task instance."""
    key: str
    """``proc``, ``mems``, ``binding``, ..."""
    value: str
    """What it says, ``A: SPM, B: SPM``."""
    where: str
    """``file:line:column``; empty for a default."""
    commands: int = 0
    cycles: int = 0
    """In which its commands were carried out, all cores together."""
    share: float = 0.0
    """`cycles` over the cycles of all cores."""
    bytes: int = 0
    flops: int = 0
    of_peak: float = 0.0
    """Operations over what the machine could do in the run; for copies, bytes over bytes."""
    waited: int = 0
    """Cycles in which its commands waited for flags."""


@dataclass(frozen=True)
class MappingProfile:
    """A mapping's entries beside a run, those that cost most first in each task."""

    name: str
    cycles: int
    entries: tuple[ProfileEntry, ...]
    other: Mapping[str, int]
    """Cycles of commands that no entry of the mapping decided, by their rule."""

    def to_pandas(self) -> Any:
        """One row an entry."""
        import pandas as pd  # late: it takes half a second

        return pd.DataFrame([vars(entry) for entry in self.entries])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name, "cycles": self.cycles, "other": dict(self.other),
            "entries": [dict(vars(entry)) for entry in self.entries],
        }  # fmt: skip

    def explore(self) -> Any:
        """A table that sorts by each column."""
        from septran.views.live import explore

        return explore(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        return {"text/html": str(_panel(self)), "text/plain": str(self)}

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.cycles:,} cycles by entry of the mapping"]
        for e in self.entries:
            lines.append(
                f"  {e.cycles:>12,} cycles {e.share:6.1%} {e.bytes:>14,} bytes "
                f"{e.of_peak:6.1%} of peak  {e.task}  {e.key}: {e.value}  {e.where}".rstrip()
            )
        return "\n".join(lines) + "\n"


def mapping_profile(resolved: ResolvedMapping, profile: DsaProfile) -> MappingProfile:
    """Set a simulated run beside the entries that its commands come from."""
    costs = {row["mapping"]: row for row in _by_line(profile)}
    cores = max(1, len({lane.core for lane in profile.lanes}))
    entries: list[ProfileEntry] = []
    seen: set[str] = set()
    for instance in resolved.instances:
        mine = list(_entries(instance))
        for task, key, value, where in mine:
            cost = costs.get(where, {}) if where not in seen else {}
            if where in costs:
                seen.add(where)  # a line that holds for several tasks is counted once
            entries.append(_entry(profile, cores, (task, key, value, where), cost))
    order = {instance.path: n for n, instance in enumerate(resolved.instances)}
    entries.sort(key=lambda e: (order[e.task], -e.cycles))
    left = {where: int(row["cycles"]) for where, row in costs.items() if where not in seen}
    other = {where or "(no line)": cycles for where, cycles in left.items() if cycles}
    return MappingProfile(profile.name, profile.cycles, tuple(entries), other)


def _by_line(profile: DsaProfile) -> list[dict[str, Any]]:
    frame = profile.by_origin()
    columns = ["commands", "cycles", "bytes", "flops", "stall_flag"]
    groups = frame.groupby("mapping", sort=False)[columns].sum().reset_index()
    rows: list[dict[str, Any]] = groups.to_dict("records")
    return rows


def _entries(instance: Instance) -> Iterator[tuple[str, str, str, str]]:
    """Settings that stand at one place as one entry."""
    groups: dict[tuple[str, str], list[str]] = {}
    for key, name, setting in instance.rows():
        where = str(setting.where) if setting.where else ""
        if where or key in ("proc", "binding"):
            text = f"{name}: {setting.value}" if name else str(setting.value)
            groups.setdefault((key, where), []).append(text)
    for (key, where), values in groups.items():
        yield instance.path, key, ", ".join(values), where


def _entry(
    profile: DsaProfile, cores: int, words: tuple[str, str, str, str], cost: Mapping[str, Any]
) -> ProfileEntry:
    if not cost:
        return ProfileEntry(*words)
    flops, moved, cycles = (int(cost[name]) for name in ("flops", "bytes", "cycles"))
    roofs: dict[str, float] = {}
    for roof in profile.roofs:
        roofs[roof.kind] = max(roofs.get(roof.kind, 0.0), roof.per_second)
    peak = roofs.get("compute" if flops else "memory", 0.0) * profile.seconds
    return ProfileEntry(
        *words, commands=int(cost["commands"]), cycles=cycles,
        share=cycles / (profile.cycles * cores) if profile.cycles else 0.0,
        bytes=moved, flops=flops, of_peak=(flops or moved) / peak if peak else 0.0,
        waited=int(cost["stall_flag"]),
    )  # fmt: skip


def _panel(found: MappingProfile) -> Markup:
    rows = [
        (mono(e.task.rpartition("/")[2]), mono(f"{e.key}: {e.value}"), f"{e.cycles:,}",
         f"{e.share:.1%}", f"{e.bytes:,}", f"{e.of_peak:.1%}", f"{e.waited:,}", mono(e.where))
        for e in found.entries
    ]  # fmt: skip
    head = ("task", "entry", "cycles", "of the run", "bytes", "of peak", "waited", "line")
    title = join([strong(found.name), f": {found.cycles:,} cycles by entry of the mapping"])
    left = ", ".join(f"{where}: {cycles:,} cycles" for where, cycles in found.other.items())
    note = [faint(f"decided by no entry: {left}")] if left else []
    return panel(title, table(head, rows, head[2:7]), *note)

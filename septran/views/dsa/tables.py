"""Profiles of DSAs as pandas tables: the timeline, what it comes from, runs side by side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from septran.simulator import CAUSES
from septran.targets.dsa.profiles.lanes import CONTROL, NAMES, working

if TYPE_CHECKING:
    from septran.targets.dsa.profiles.comparison import ProfileComparison
    from septran.targets.dsa.profiles.profile import DsaProfile

_MAPPING = re.compile(r"([^\s\[,]+\.ya?ml|<mapping \w+>):\d+(:\d+)?")


def timeline_table(profile: DsaProfile) -> pd.DataFrame:
    """One row a command, in the order of issue."""
    trace, moved = profile.run.trace, profile.movement
    queues = np.array([*profile.run.queues, CONTROL], object)
    return pd.DataFrame(
        {
            "core": trace["core"],
            "queue": queues[trace["queue"]],  # -1 is the last, the control core
            "operation": np.array(NAMES, object)[trace["command"]],
            "issue": trace["issue"],
            "start": trace["start"],
            "end": trace["end"],
            "cycles": trace["end"] - trace["start"],
            "bytes": trace["bytes"],
            "flops": trace["flops"],
            **{f"stall_{cause}": trace[cause] for cause in CAUSES},
            "edge": moved.edge,
            "tensor": moved.tensor,
            "channel": moved.channel,
            "line": trace["line"],
            "origin": [profile.origin(line) for line in trace["line"].tolist()],
        }
    )


def origin_table(profile: DsaProfile) -> pd.DataFrame:
    """One row an origin and queue, longest first."""
    frame = timeline_table(profile)
    frame["commands"] = working(profile.run.trace).astype(int)
    frame["mapping"] = [_place(text) for text in frame["origin"]]
    for name in ("cycles", "bytes", "flops"):
        frame[name] *= frame["commands"]  # a flag's cycles are stalls
    columns = ["commands", "cycles", "bytes", "flops", *(f"stall_{c}" for c in CAUSES)]
    groups = frame.groupby(["origin", "mapping", "queue"], sort=False)[columns].sum()
    return groups.sort_values("cycles", ascending=False, kind="stable").reset_index()


def _place(origin: str) -> str:
    """The place in a mapping (or machine) file that an origin's text names."""
    found = _MAPPING.search(origin)
    return found.group() if found else ""


def comparison_table(comparison: ProfileComparison) -> pd.DataFrame:
    """One row a profile."""
    first = comparison.profiles[0]
    rows = [_row(profile, first) for profile in comparison.profiles]
    return pd.DataFrame(rows, index=pd.Index(comparison.titles))


def _row(one: DsaProfile, first: DsaProfile) -> dict[str, Any]:
    return {
        "cycles": one.cycles,
        "speedup": first.cycles / one.cycles if one.cycles else float("nan"),
        **({} if one.of_bound is None else {"of_bound": one.of_bound}),
        **one.utilisation,
        **{f"stall_{cause}": cycles for cause, cycles in one.stalls.items()},
        "main_memory_bytes": one.main_memory_bytes,
    }

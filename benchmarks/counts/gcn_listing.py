"""What one kernel's GCN assembly does in the loop that binds, by pipe: for `benchmarks.gcn`."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

PIPES = (
    ("matrix", r"v_mfma"), ("accumulators", r"v_accvgpr"),
    ("transcendental", r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_"), ("vector", r"v_"),
    ("lds", r"ds_"), ("memory", r"(global|buffer|flat)_"), ("spills", r"scratch_"),
    ("waits", r"s_waitcnt"), ("barriers", r"s_barrier"), ("stalls", r"s_nop"), ("scalar", r"s_"),
)  # fmt: skip
"""Names, and how mnemonics begin; the first that fits."""
LANES, VECTOR_LANES = 64, 16
"""Of a wave, and of a vector unit: an instruction of a wave takes it four cycles."""
TRANSCENDENTAL = 4
"""How many times as long as another one a transcendental instruction takes."""
LDS_BYTES = 128
"""What the local data share of a compute unit moves in a cycle, for all of its vector units."""
VECTOR_UNITS = 4
WIDTHS = {"b128": 16, "b96": 12, "b64": 8, "2_b32": 8, "2_b64": 16, "2st64_b32": 8, "2st64_b64": 16}
"""Bytes of a lane by what a mnemonic of the local data share ends on; 4 of any other."""


@dataclass(frozen=True)
class Loop:
    """Counts of one loop's instructions, or of a whole kernel that has no loop, of one wave."""

    counts: Counter[str]
    """Instructions by pipe."""
    products: int
    """Multiplications with their additions by matrix instructions."""
    lds_bytes: int
    """Bytes of a lane to and from the local data share, a narrow access counted as four."""
    kind: str
    """What its matrix instructions are named by, such as ``f32_16x16x16_f16``; "" without any."""

    @property
    def instructions(self) -> int:
        """All of them."""
        return self.counts.total()

    @property
    def vector_cycles(self) -> int:
        """Cycles of its vector unit beside the matrix core."""
        plain = self.counts["vector"] + self.counts["accumulators"]
        slow = self.counts["transcendental"] * TRANSCENDENTAL
        return (plain + slow) * (LANES // VECTOR_LANES)

    @property
    def lds_cycles(self) -> int:
        """Cycles of the local data share, as four waves like this one share it."""
        return math.ceil(self.lds_bytes * LANES * VECTOR_UNITS / LDS_BYTES)


def kernel(assembly: str, name: str) -> tuple[Loop, Loop]:
    """The loop that binds and all of one kernel of an assembly as clang writes it.

    It is the loop with most matrix instructions; where there are none, with most instructions.
    """
    body = re.search(rf"^{re.escape(name)}:.*?^\.Lfunc_end", assembly, re.M | re.S)
    lines = body[0].splitlines() if body else []
    whole = _counted(lines)
    return _binding(lines) or whole, whole


def _binding(lines: list[str]) -> Loop | None:
    labels = {m[1]: n for n, line in enumerate(lines) if (m := re.match(r"(\.L\w+):", line))}
    found = []
    for end, line in enumerate(lines):
        jump = re.match(r"\s+s_c?branch\w*\s+(\.L\w+)", line)
        if jump and (start := labels.get(jump[1], end)) < end:
            found.append(_counted(lines[start : end + 1]))
    # An outer loop has no more products than the one within it, and is longer.
    return max(found, key=_binds, default=None)


def _binds(loop: Loop) -> tuple[int, int]:
    return loop.products, -loop.instructions if loop.products else loop.instructions


def _counted(lines: list[str]) -> Loop:
    counts: Counter[str] = Counter()
    products, moved, kind = 0, 0, ""
    for line in lines:
        head = re.match(r"\s+([a-z]\w+)", line)
        if head is None:
            continue
        pipe = next((name for name, begin in PIPES if re.match(begin, head[1])), "other")
        counts[pipe] += 1
        if pipe == "matrix":
            kind = head[1].removeprefix("v_mfma_")
            m, n, k = re.search(r"_(\d+)x(\d+)x(\d+)", head[1]).groups()  # type: ignore[union-attr]
            products += int(m) * int(n) * int(k)
        elif pipe == "lds":
            ends = [w for end, w in WIDTHS.items() if head[1].endswith(end)]
            moved += max(ends, default=4)
    return Loop(counts, products, moved, kind)

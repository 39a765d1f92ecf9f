"""What one core reaches with an instruction alone: a loop of independent sums in registers.

The bars of products in short types are parts of this, measured in the same run on the same core.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from septran.targets.cpu.measure import loops
from septran.targets.cpu.run.isa import native

TURNS = 1 << 20
TRIALS = 20

NEEDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"int8": ("avx512_vnni", "avx512vnni"), "bfloat16": ("avx512_bf16", "avx512bf16")}
)
"""The instruction of each type, and the feature without which there is none."""


def peak(dtype: str) -> float | None:
    """Operations a second, in 10**9, of the host's best instruction; None where it has none."""
    name, feature = NEEDS.get(dtype, ("fma_microkernel", ""))
    made = loops.sums(name) if not feature or feature in native().features else None
    if made is None:
        return None
    run, work = made
    times = []
    for _ in range(TRIALS):
        start = time.perf_counter()
        run(TURNS)
        times.append(time.perf_counter() - start)
    return 2 * work * TURNS / min(times) / 1e9

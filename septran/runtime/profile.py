"""Timing of a kernel, and comparison with the machine's roofline."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from septran.format_units import time_text
from septran.runtime.roofline import Roofline
from septran.stage import Displayable

if TYPE_CHECKING:
    import pandas

SAMPLE_SECONDS = 2e-4
"""The least duration of a sample in seconds: it repeats the call, as clocks are coarse."""
TOTAL_SECONDS = 0.3
"""The duration of measuring in seconds where the number of samples is not given."""


@dataclass(frozen=True)
class Profile(Displayable):
    """The measured seconds of a call, and the rates that follow from them."""

    name: str
    samples: tuple[float, ...]
    """Seconds of one call, in the order of measuring."""
    flops: int
    """The number of operations of one call."""
    bytes_moved: int
    """The compulsory traffic of one call: bytes over main memory's bus."""
    peak_flops: float | None = None
    """Operations a second of the whole machine, from its file; None when unknown."""
    peak_bandwidth: float | None = None
    """Bytes a second of its main memory, from its file; None when unknown."""
    machine: str = ""
    timeline: Any = field(default=None, repr=False, compare=False)
    """The timeline of one more call, by block or warpgroup; None unless requested."""

    @property
    def median(self) -> float:
        """The median of the samples, in seconds."""
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        """The seconds of the fastest call."""
        return min(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and upper quartile of the samples, in seconds."""
        if len(self.samples) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high

    @property
    def flops_per_second(self) -> float:
        """Operations a second, at the median."""
        return self.flops / self.median

    @property
    def bytes_per_second(self) -> float:
        """Bandwidth of the compulsory traffic in bytes a second, at the median."""
        return self.bytes_moved / self.median

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, in operations a byte of compulsory traffic."""
        return self.flops / self.bytes_moved if self.bytes_moved else math.inf

    @property
    def fraction_of_peak(self) -> float | None:
        """The share of the machine's peak operations a second; None when unknown."""
        return self.flops_per_second / self.peak_flops if self.peak_flops else None

    @property
    def fraction_of_bandwidth(self) -> float | None:
        """The share of main memory's bandwidth, above 1 with caches; None when unknown."""
        return self.bytes_per_second / self.peak_bandwidth if self.peak_bandwidth else None

    @property
    def limit(self) -> str | None:
        """``compute`` or ``memory``, the bound that the roofline sets; None if unknown."""
        if not self.peak_flops or not self.peak_bandwidth:
            return None
        # Roofline model: Williams, Waterman, Patterson, Communications of the ACM 52(4), 2009.
        return "compute" if self.intensity * self.peak_bandwidth >= self.peak_flops else "memory"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name."""
        low, high = self.quartiles
        return {
            "name": self.name,
            "machine": self.machine,
            "calls": len(self.samples),
            "median_s": self.median,
            "best_s": self.best,
            "lower_quartile_s": low,
            "upper_quartile_s": high,
            "flops": self.flops,
            "bytes_moved": self.bytes_moved,
            "flops_per_second": self.flops_per_second,
            "bytes_per_second": self.bytes_per_second,
            "intensity": self.intensity,
            "fraction_of_peak": self.fraction_of_peak,
            "fraction_of_bandwidth": self.fraction_of_bandwidth,
            "limit": self.limit,
        }

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row with the figures; concatenate several to compare."""
        import pandas as pd

        return pd.DataFrame([self.to_dict()])

    def __str__(self) -> str:
        low, high = self.quartiles
        lines = [
            f"{self.name}: {time_text(self.median)} a call (half of {len(self.samples)} samples "
            f"between {time_text(low)} and {time_text(high)}, best {time_text(self.best)})",
            f"  {self.flops_per_second / 1e9:.2f} GFLOP/s{_part(self.fraction_of_peak, 'peak')}",
            f"  {self.bytes_per_second / 1e9:.2f} GB/s"
            f"{_part(self.fraction_of_bandwidth, 'bandwidth')}",
            f"  {self.intensity:.2f} FLOP/byte"
            + (f": {self.limit}-bound on {self.machine}" if self.limit else ""),
        ]
        return "\n".join(lines)


def measure(call: Callable[[], object], repeat: int | None = None) -> tuple[float, ...]:
    """Return the seconds of one call, `repeat` times or as often as fits, after a warm-up."""
    # The first call may compile the kernel, and it fills the caches.
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-9)
    inner = max(1, math.ceil(SAMPLE_SECONDS / once))
    count = repeat or max(5, min(1000, int(TOTAL_SECONDS / (once * inner))))
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        samples.append((time.perf_counter() - start) / inner)
    return tuple(samples)


def profile(
    name: str, samples: tuple[float, ...], limits: Roofline, timeline: Any = None
) -> Profile:
    """Return the profile of measured samples."""
    return Profile(name, samples, **asdict(limits), timeline=timeline)


def _part(fraction: float | None, of: str) -> str:
    return f" ({of} unknown)" if fraction is None else f" ({fraction:.0%} of {of})"

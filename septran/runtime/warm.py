"""Kernels that are compiled before they are called, and kept for other processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from septran.runtime.cache import Cache
from septran.runtime.signature import Specialisation

HOW = {
    "compiled": "compiled",
    "cached": "found in the cache",
    "ready": "ready before",
}
"""How a kernel became ready, in words."""


@dataclass(frozen=True)
class WarmKernel:
    """The kernel for some shapes, which the next call with them finds."""

    shapes: Mapping[str, int | tuple[int, ...]]
    """As they were asked for: extents of dimensions or of tensors."""
    how: str
    """``compiled``, ``cached`` (an earlier process had compiled it) or ``ready`` (this one had)."""
    seconds: float
    """The time that it took, which includes the stages before the code."""

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={_extent(extent)}" for name, extent in self.shapes.items())
        return f"{sizes or 'its own shapes'}: {HOW[self.how]}, {self.seconds:.2f} s"


@dataclass(frozen=True)
class Warming:
    """What `Kernel.warm` has made ready."""

    name: str
    """The kernel's name."""
    kernels: tuple[WarmKernel, ...]
    """One for each of the shapes, in their order."""
    not_kept: str | None = None
    """Why other processes do not find what was compiled; None where they do."""

    def count(self, how: str) -> int:
        """The number of kernels that became ready so: ``compiled``, ``cached``, ``ready``."""
        return sum(kernel.how == how for kernel in self.kernels)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON-ready data."""
        return asdict(self)

    def __str__(self) -> str:
        counts = [f"{n} {words}" for how, words in HOW.items() if (n := self.count(how))]
        lines = [f"{self.name}: {', '.join(counts) or 'nothing to compile'}"]
        lines += [f"  {kernel}" for kernel in self.kernels]
        if self.not_kept:
            lines.append(f"  not kept for other processes: {self.not_kept}")
        return "\n".join(lines)


def warmed(
    shapes: Mapping[str, int | tuple[int, ...]], specialisation: Specialisation, since: float
) -> WarmKernel:
    """Make the code of a compilation, and return how; `since` is `time.perf_counter` before it."""
    stages = specialisation.stages
    before = stages.code_origin
    _ = stages.executable
    how = "ready" if before else stages.code_origin
    return WarmKernel(dict(shapes), how, time.perf_counter() - since)


def not_kept() -> str | None:
    """Return why compiled kernels are not kept on disk; None where they are."""
    return Cache.default().problem


def _extent(extent: int | tuple[int, ...]) -> str:
    return "x".join(map(str, extent)) if isinstance(extent, tuple | list) else str(extent)

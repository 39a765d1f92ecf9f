"""Settings of emulated runs: when asynchronous work takes effect, what is recorded.

kernel = septran.compile("gemm", "nvidia-h200", emulate=True)
with emulation(mode="random", seed=3):
    kernel.check(a, b)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

MODES = ("eager", "late", "random")
"""When asynchronous work takes effect: at once, as late as the waits allow, at random."""


@dataclass(frozen=True)
class EmulatorSettings:
    """The settings of an emulated run."""

    mode: str = "eager"
    seed: int = 0
    trace: bool = False
    """Whether to record what happens when, for a timeline."""


_DEFAULT = EmulatorSettings()
current: ContextVar[EmulatorSettings] = ContextVar("emulation", default=_DEFAULT)
"""The settings of emulated calls in this thread."""


@contextlib.contextmanager
def emulation(mode: str = "eager", seed: int = 0, *, trace: bool = False) -> Iterator[None]:
    """Run emulated kernels in this way, in this thread, as long as the block lasts."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; it is one of {', '.join(MODES)}")
    token = current.set(EmulatorSettings(mode, seed, trace))
    try:
        yield
    finally:
        current.reset(token)

"""What layers below the targets know of CPUs."""

from __future__ import annotations

from septran.backends import Backend


def _features(arch: str) -> frozenset[str]:
    from septran.targets.cpu.run.isa import processor_features

    return processor_features(arch)


BACKEND = Backend("cpu", features=_features)

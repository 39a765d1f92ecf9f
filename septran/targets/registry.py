"""The target of each machine: a backend is a folder, found by its name."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path

from septran.errors import TargetError
from septran.targets.base import Target


class NoTargetError(TargetError):
    """No code generator for this backend is installed."""

    code = "SEP501"


@functools.cache
def target_for(backend: str) -> Target:
    """The target that serves a backend; raises NoTargetError where there is none yet."""
    if not backend.isidentifier() or not (Path(__file__).parent / backend / "target.py").exists():
        raise NoTargetError(
            f"no code generator for backend {backend!r} in this version",
            hint=f"there is {', '.join(backends())}; all stages up to the tile program can be "
            "inspected and interpreted on any machine",
        )
    module = importlib.import_module(f"septran.targets.{backend}.target")
    target: Target = module.TARGET
    return target


def backends() -> tuple[str, ...]:
    """Backends that this version can generate code for."""
    return tuple(sorted(p.parent.name for p in Path(__file__).parent.glob("*/target.py")))

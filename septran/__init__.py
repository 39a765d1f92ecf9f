"""An AI compiler that keeps the logic of an operator and its mapping to hardware apart.

import septran

kernel = septran.compile("gemm", "cpu-x86")
c = kernel(a, b)                     # torch or NumPy
print(septran.explain("gemm", "cpu-x86"))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from septran.stage import show_by

if TYPE_CHECKING:
    from septran import operators, task, torch
    from septran.compiler import compile, produce_stages
    from septran.errors import SepTranError
    from septran.machine.loader import load_machine
    from septran.mapping.loader import load_mapping
    from septran.mapping.resolve import resolve
    from septran.runtime.archive import load
    from septran.runtime.kernel import Kernel
    from septran.runtime.library.export import export
    from septran.sequences.composite import sequence
    from septran.targets.dsa.code.trust import trust
    from septran.targets.dsa.profiles.comparison import compare_profiles
    from septran.task import trace
    from septran.tile.interpret.interpreter import interpret
    from septran.tile.pipeline import place
    from septran.tile.user_passes import tile_pass
    from septran.tile.verify.verifier import verify
    from septran.tuning import tune, tune_shapes
    from septran.views import compare, edit, explain, explore

__version__ = "0.1.0"


def _find_view(thing: object, name: str) -> Any:
    from septran.views.table import find_view  # late: most sessions show nothing

    return find_view(thing, name)


show_by(_find_view)

_HOMES = {
    "Kernel": "septran.runtime.kernel",
    "SepTranError": "septran.errors",
    "compare": "septran.views",
    "compare_profiles": "septran.targets.dsa.profiles.comparison",
    "compile": "septran.compiler",
    "edit": "septran.views",
    "explain": "septran.views",
    "explore": "septran.views",
    "export": "septran.runtime.library.export",
    "interpret": "septran.tile.interpret.interpreter",
    "load": "septran.runtime.archive",
    "load_machine": "septran.machine.loader",
    "load_mapping": "septran.mapping.loader",
    "place": "septran.tile.pipeline",
    "produce_stages": "septran.compiler",
    "resolve": "septran.mapping.resolve",
    "sequence": "septran.sequences.composite",
    "tile_pass": "septran.tile.user_passes",
    "trace": "septran.task",
    "trust": "septran.targets.dsa.code.trust",
    "tune": "septran.tuning",
    "tune_shapes": "septran.tuning",
    "verify": "septran.tile.verify.verifier",
}
"""The module of each public name.

It is imported at the name's first use, as most sessions need only a few of them.
"""

__all__ = [
    "Kernel", "SepTranError", "__version__", "compare", "compare_profiles", "compile", "edit",
    "explain", "explore", "export", "interpret", "load", "load_machine", "load_mapping",
    "operators", "place", "produce_stages", "resolve", "sequence", "task", "tile_pass", "torch",
    "trace", "trust", "tune", "tune_shapes", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("operators", "task", "torch"):
        return importlib.import_module(f"septran.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name.startswith("_"):  # asked for by tools, which catch the error: nobody reads a hint
        raise AttributeError(f"module 'septran' has no attribute {name!r}")
    from septran.errors import nearest

    raise AttributeError(f"module 'septran' has no attribute {name!r}; {nearest(name, __all__)}")


def load_ipython_extension(shell: Any) -> None:
    """Register the magics ``%%logic``, ``%%mapping`` and ``%septran``."""
    from septran.views.live import widgets

    widgets("magics").load(shell)


def __dir__() -> list[str]:
    return sorted(__all__)

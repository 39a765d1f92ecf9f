"""Tuning: the performance model, and the search of a mapping's `!tune` values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.stage import view

if TYPE_CHECKING:
    from septran.tuning.many_shapes import TunedShapes
    from septran.tuning.tuning import Tuning

__all__ = ["tune", "tune_shapes"]


def tune(
    logic: Any,
    mapping: Any = None,
    *,
    machine: Any = None,
    shapes: Any = None,
    dtypes: Any = None,
    tunables: Mapping[str, Any] | None = None,
    static: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    tried: Mapping[str, Sequence[Any]] | None = None,
    runs: int = 32,
    seconds: float | None = None,
    patience: float = 30.0,
    measured: bool | None = None,
    journal: str | Path | None = None,
    workers: Any = None,
    background: bool = False,
) -> Tuning:
    """Search for a faster mapping, and return the best as a mapping file.

    Where neither the mapping has a `!tune` nor `tried` names a tunable, everything that the
    mapping decides is searched, and the best is a mapping that extends it by a few lines. Each
    candidate is checked against the machine's limits, ranked by the performance model,
    run in a process of its own, compared with the exact result, and timed. An interrupt
    (Ctrl-C) ends the search and gives what was found until then.

    Args:
        logic: A task, the name of an operator of the library, or a logic file.
        mapping: A mapping file, its text, or the name of a machine that comes with one.
        machine: Goes before the machine that the mapping names.
        shapes: Extents to search for; the operator's example where None.
        dtypes: Element types of parameters by name, or one for all; float32 where None.
        tunables: Values that go before the mapping's, the same for all candidates.
        static: Values of the logic's static flags.
        scalars: Values of the logic's scalars that have no default.
        tried: Values to try for tunables of the logic, beside the mapping's own `!tune`:
            ``{"block_M": [32, 64]}``.
        runs: Candidates that are run at most.
        seconds: After which no other candidate is begun.
        patience: Seconds that a candidate may take to run before it is ended.
        measured: Whether to run candidates; where None, if the machine is here or is
            simulated. The model alone decides otherwise.
        journal: A file of what was tried before, made where there is none. What it has of this
            program, machine, code and host is not run again; what is tried is written to it at
            once, so that a search that was killed goes on where it was, and two may share it.
        workers: What builds and runs candidates side by side: a number of processes, an executor
            of `concurrent.futures`, or ``"dask://scheduler:8786"``. They are built anywhere, and
            timed only on hosts like this one (a simulator's cycles anywhere).
        background: Search beside the notebook, and return a `Job` at once: its `explore()`
            shows how far it is and a button that stops it, its `result()` is the `Tuning`.

    Raises:
        SepTranError: where there is nothing to search, or the logic or mapping is wrong.
    """
    from septran.tuning.tuner import SearchLimits, search  # late: an import of the compiler is slow

    named = {
        "machine": machine, "shapes": shapes, "dtypes": dtypes, "tunables": tunables,
        "static": static, "scalars": scalars, "tried": tried, "measured": measured,
        "journal": journal, "workers": workers,
        "limits": SearchLimits(runs, seconds, patience),
    }  # fmt: skip
    found = search(logic, mapping, **named)
    if not background:
        return found.run()
    job: Tuning = view(found, "job")
    return job


def tune_shapes(
    logic: Any,
    mapping: Any = None,
    *,
    shapes: Sequence[Mapping[str, Any]],
    machine: Any = None,
    dtypes: Any = None,
    tunables: Mapping[str, Any] | None = None,
    static: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    tried: Mapping[str, Sequence[Any]] | None = None,
    runs: int = 32,
    seconds: float | None = None,
    patience: float = 30.0,
    measured: bool | None = None,
    journal: str | Path | None = None,
) -> TunedShapes:
    """Search for each of many shapes, and return one dispatch file with as many cases as pay.

    What is found for one shape is tried on all others. A case is made where it brings some shape
    at least 3 %. The other arguments are those of `septran.tune`, `runs` and `seconds` for each
    shape.

    Args:
        logic: A task, the name of an operator of the library, or a logic file.
        mapping: A mapping file, its text, or the name of a machine that comes with one.
        shapes: Extents of each: ``[{"M": 1, "N": 4096}, {"M": 64, "N": 4096}]``.
        machine: Goes before the machine that the mapping names.
        dtypes: Element types of parameters by name, or one for all; float32 where None.
        tunables: Values that go before the mapping's, the same for all candidates.
        static: Values of the logic's static flags.
        scalars: Values of the logic's scalars that have no default.
        tried: Values to try for tunables of the logic.
        runs: Candidates of a shape that are run at most.
        seconds: After which no other candidate of a shape is begun.
        patience: Seconds that a candidate may take to run before it is ended.
        measured: Whether to run candidates; where None, if the machine is here or is simulated.
        journal: A file of what was tried before, as of `septran.tune`.

    Raises:
        SepTranError: where there is nothing to search, no candidate is right for a shape, or the
            logic or mapping is wrong.
    """
    from septran.tuning.many_shapes import tune_many
    from septran.tuning.tuner import SearchLimits, search

    named = {
        "machine": machine, "dtypes": dtypes, "tunables": tunables, "static": static,
        "scalars": scalars, "tried": tried, "measured": measured, "journal": journal,
        "limits": SearchLimits(runs, seconds, patience),
    }  # fmt: skip
    return tune_many([search(logic, mapping, shapes=shape, **named) for shape in shapes])

"""Text, HTML and Graphviz views of the stages; `explain` and `compare` gather them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from septran.request import CompileRequest
    from septran.tile.nodes import TileProgram
    from septran.views.comparisons.comparison import Comparison
    from septran.views.explanation import Explanation

__all__ = ["compare", "edit", "explain", "explore"]


def explain(
    logic: Any,
    mapping: Any = None,
    *,
    machine: Any = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dtypes: Any = None,
    tunables: Mapping[str, Any] | None = None,
    static: Mapping[str, Any] | None = None,
    passes: Sequence[Any] = (),
) -> Explanation:
    """Every stage of a compilation, and why each copy, wait and choice in it is there.

    Takes what `septran.compile` takes. It needs neither the machine nor a code generator for
    it; without one, only TensorIR and source are left out, with the reason. Raises
    SepTranError for mistakes of the logic or the mapping.
    """
    from septran.request import CompileRequest  # late: an import of the compiler is slow

    request = CompileRequest.of(
        logic, mapping, machine=machine, shapes=shapes, dtypes=dtypes,
        tunables=tunables, static=static, passes=passes,
    )  # fmt: skip
    return _explained(request.with_example())


def _explained(request: CompileRequest) -> Explanation:
    from septran.compiler import fitted
    from septran.views.explanation import Explanation

    def changed(tunables: Mapping[str, Any]) -> TileProgram:
        return fitted(request.with_tunables(tunables)).tile_program

    return Explanation(fitted(request), changed)


def explore(logic: Any, mapping: Any = None, **named: Any) -> Any:
    """Every stage of a compilation in linked panes, live in a notebook.

    Takes what `explain` takes; needs ``pip install "septran[notebook]"``.
    """
    return explain(logic, mapping, **named).explore()


def edit(logic: Any, mapping: Any, **named: Any) -> Any:
    """A mapping as a text that is compiled as it is written, in a notebook.

    Takes what `explain` takes; `mapping` is a file, a text or the name of a machine. Needs
    ``pip install "septran[notebook]"``.
    """
    from septran.views.live import edit as live_edit

    return live_edit(logic, mapping, **named)


def compare(
    logic: Any,
    mappings: Sequence[Any] | Mapping[str, Any],
    *,
    machine: Any = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dtypes: Any = None,
    tunables: Mapping[str, Any] | None = None,
    static: Mapping[str, Any] | None = None,
    passes: Sequence[Any] = (),
) -> Comparison:
    """One logic under several mappings: what differs in each stage, and what it costs.

    A dict gives each mapping the name that it is shown by.
    """
    from septran.compiler import compile_request
    from septran.request import CompileRequest
    from septran.targets.dsa.profiles.comparison import NothingToCompareError
    from septran.views.comparisons.comparison import Comparison, labels

    if isinstance(mappings, str) or not isinstance(mappings, Sequence | Mapping) or not mappings:
        message = f"{mappings!r} is no list of mappings to compare"
        raise NothingToCompareError(message, hint="write ['cpu-x86', 'mine.mapping.yaml']")
    names = tuple(mappings) if isinstance(mappings, Mapping) else labels(mappings)
    mappings = tuple(mappings.values()) if isinstance(mappings, Mapping) else mappings
    requests = [
        CompileRequest.of(
            logic, mapping, machine=machine, shapes=shapes, dtypes=dtypes,
            tunables=tunables, static=static, passes=passes,
        )
        for mapping in mappings
    ]  # fmt: skip
    explanations = tuple(_explained(request.with_example()) for request in requests)
    return Comparison(names, explanations, tuple(partial(compile_request, r) for r in requests))

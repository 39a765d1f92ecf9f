"""A bounded plain-text report for people and for tools that write mappings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from septran.errors import SepTranError
from septran.format_units import size_text, time_text
from septran.machine.model import Machine
from septran.tile.nodes import Copy
from septran.tuning.model import Limit, Prediction
from septran.views.text.movements import Movement, amount_of
from septran.views.text.proposals import place_lines, proposal_lines
from septran.views.text.remarks import ordered

if TYPE_CHECKING:
    from septran.tuning.changes import Proposals
    from septran.views.explanation import Explanation

LINES = 120
BYTES = 8 * 1024
WIDTH = 160
"""Characters of a line."""
MOVES = 12
"""Copies that are listed, largest first."""
REMARKS = 12
TUNABLES = 6
"""Tunables whose change is tried."""


def report(explanation: Explanation, proposals: Proposals | None = None) -> str:
    """Return what limits the kernel, what is moved, which keys of the mapping would change it.

    With `proposals` these are all single changes that compile; else tunables alone, by the model.
    """
    keys: tuple[Iterator[str], ...] = (_moves(explanation), _missed(explanation))
    if proposals is None:
        keys = (*keys, _keys(explanation))
    else:  # of bounded length: what to try goes before the copies
        own = (proposal_lines(proposals), place_lines(explanation.mapping))
        keys = (*own, _missed(explanation), _moves(explanation))
    parts = (
        _head(explanation),
        _limits(explanation.prediction),
        *keys,
        _notes(explanation.prediction),
    )
    lines = [line for part in parts for line in (*part, "")]
    return bounded(lines[:-1])


def bounded(lines: list[str]) -> str:
    """At most `LINES` lines and `BYTES` bytes; says how much it leaves out."""
    lines = [_short(line) for line in lines]
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode()) + 1
        if len(kept) == LINES - 1 or size > BYTES - 60:
            kept.append(f"... {len(lines) - len(kept)} more lines")
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def _short(line: str) -> str:
    line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def amount_text(limit: Limit) -> str:
    """Operations or bytes."""
    if limit.kind == "start":
        return f"{limit.amount:,.0f} times"
    if limit.kind in ("edge", "memory"):
        return size_text(limit.amount)
    return f"{limit.amount / 1e6:,.4g} Mop"


def _head(explanation: Explanation) -> Iterator[str]:
    tree, mapping = explanation.task_tree, explanation.mapping
    dims = ", ".join(f"{name} = {extent}" for name, extent in tree.dims)
    yield f"{tree.name} on {mapping.machine.name}" + (f": {dims}" if dims else "")
    for param in tree.root.params:
        shape = " x ".join(map(str, param.shape))
        yield f"  {param.name}: {param.dtype} {shape}, {param.privilege}"
    tunables = dict(_tunables(explanation))
    if tunables:
        yield f"  tunables: {', '.join(f'{k} = {v}' for k, v in tunables.items())}"


def _tunables(explanation: Explanation) -> Iterator[tuple[str, Any]]:
    for instance in explanation.mapping.instances:
        for name, setting in instance.tunables.items():
            yield name, setting.value


def _limits(prediction: Prediction) -> Iterator[str]:
    yield "What limits it"
    bound = prediction.bound_by
    if bound is None:
        yield "  nothing to do"
        return
    kinds = {"compute": "compute", "edge": "data movement", "memory": "bandwidth"}
    what = kinds.get(bound.kind, "starts of work")
    yield (
        f"  {what} ({bound.name}): predicted {time_text(prediction.seconds)}, "
        f"{time_text(prediction.without_overlap)} if nothing overlaps"
    )
    yield f"  {prediction.units_used} of {prediction.units} units have work"
    yield from _schedule(prediction)
    width = max(len(limit.name) for limit in prediction.limits)
    for limit in prediction.limits[:10]:
        share = limit.seconds / prediction.seconds if prediction.seconds else 0.0
        amount, busy = amount_text(limit), time_text(limit.seconds)
        yield f"  {limit.name:{width}}  {amount:>12}  {busy:>10}  {share:>5.0%}"


def _schedule(prediction: Prediction) -> Iterator[str]:
    """The cycles of each unit, and for what it waits."""
    if prediction.schedule is not None:
        yield from (f"  {line}" for line in str(prediction.schedule).splitlines())
    if prediction.bound is not None:
        by = prediction.bound.by
        yield f"  no schedule of it takes less than {prediction.bound.cycles:,} cycles ({by.name})"


def _moves(explanation: Explanation) -> Iterator[str]:
    program = explanation.tile_program
    copies = [m for m in explanation.movements if isinstance(m.node, Copy)]
    removed = len(program.removed)
    yield f"Data movement ({len(copies)} copies, {removed} taken out by passes)"
    for m in sorted(copies, key=lambda m: -m.total_bytes)[:MOVES]:
        yield f"  {_edge(m, explanation)}"
        where = f" [{m.origin.mapping}]" if m.origin.mapping else ""
        yield f"    {m.origin.rule}{where}"
    if len(copies) > MOVES:
        yield f"  ... and {len(copies) - MOVES} smaller ones"
    if not copies:
        yield "  none: every tensor is used where it is"


def _edge(movement: Movement, explanation: Explanation) -> str:
    program, node = explanation.tile_program, movement.node
    assert isinstance(node, Copy)
    source, target = program.buffer(node.source.buffer), program.buffer(node.target.buffer)
    tensor = target.tensor or source.tensor or source.name
    amount = f"{amount_of(movement)}, {size_text(movement.total_bytes)} in all"
    way = "beside the computation" if node.channel else "waited for at once"
    return f"{tensor}: {source.memory} -> {target.memory}, {amount}, by {node.engine}, {way}"


def _missed(explanation: Explanation) -> Iterator[str]:
    found = [r for r in ordered(explanation.remarks) if r.kind != "decision"]
    yield f"Missed or without effect ({len(found)})"
    for remark in found[:REMARKS]:
        where = f" [{remark.where}]" if remark.where else ""
        yield f"  {remark.about}: {remark.message}{where}"
        if remark.hint:
            yield f"    try: {remark.hint}"
    if not found:
        yield "  nothing"


def _keys(explanation: Explanation) -> Iterator[str]:
    """Tunables halved and doubled, by the model; then the lines behind the limit."""
    yield "Mapping keys that move it (one changed at a time, by the model)"
    now = explanation.prediction
    tried = list(_trials(explanation))
    for change, outcome in tried:
        if isinstance(outcome, Prediction):
            yield f"  {change}: {_difference(now, outcome)}"
        else:
            yield f"  {change}: not possible: {outcome}"
    if not tried:
        yield "  no integer tunables"
    yield from _lines_behind(explanation)


def _trials(explanation: Explanation) -> Iterator[tuple[str, Prediction | str]]:
    whole = {
        name: value
        for name, value in _tunables(explanation)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0
    }
    for name, value in list(whole.items())[:TUNABLES]:
        for other in (value * 2, value // 2):
            if other == 0:
                continue
            try:
                outcome: Prediction | str = explanation.what_if({name: other})
            except ValueError:
                return
            except SepTranError as error:
                outcome = str(error.message)
            yield f"{name}: {value} -> {other}", outcome


def _difference(now: Prediction, then: Prediction) -> str:
    before, after = now.seconds, then.seconds
    bound = then.bound_by
    by = f", limited by {bound.name}" if bound and bound != now.bound_by else ""
    if not before or math.isclose(before, after, rel_tol=5e-3):
        moved = then.bytes_moved / now.bytes_moved - 1 if now.bytes_moved else 0.0
        return f"no change of the prediction ({moved:+.0%} bytes moved)"
    return f"{time_text(after)} ({after / before - 1:+.0%}){by}"


def _units(machine: Machine, instruction: str) -> tuple[str, ...]:
    """The names under which a prediction may have an instruction: its own, its queue's."""
    queues = (one.queue for one in machine.instructions if one.name == instruction)
    return (instruction, *queues)


def _lines_behind(explanation: Explanation) -> Iterator[str]:
    """The mapping lines that place what goes along the busiest edge, or bind what computes."""
    bound = explanation.prediction.bound_by
    if bound is None:
        return
    program = explanation.tile_program
    if bound.kind == "compute":
        for instance in explanation.mapping.instances:
            for primitive, setting in (*instance.bindings.items(), *instance.rounded.items()):
                if bound.name in _units(explanation.mapping.machine, setting.value):
                    where = f" [{setting.where}]" if setting.where else ""
                    by = f"{setting.value} by {setting.reason}{where}"
                    yield f"  binding of {primitive} in {instance.name}: {by}"
        return
    seen: dict[str, None] = {}
    for movement in explanation.movements:
        if isinstance(movement.node, Copy):
            node = movement.node
            ends = [program.buffer(r.buffer).memory for r in (node.source, node.target)]
            if set(ends) & set(bound.name.split()) and movement.origin.mapping:
                seen[f"  mems in {movement.origin.instance}: [{movement.origin.mapping}]"] = None
    yield from list(seen)[:6]


def _notes(prediction: Prediction) -> Iterator[str]:
    yield "Assumed"
    yield from (f"  {note}" for note in prediction.notes)

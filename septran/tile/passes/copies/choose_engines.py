"""Give each copy an engine that can carry it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from septran.ir.index import Range, Var, axis
from septran.machine.model import Engine
from septran.tile.analyses.engine_limits import long_rows, refusal, unfilled
from septran.tile.analyses.loops import ranges
from septran.tile.contracts import converts
from septran.tile.nodes import Copy, For, Node, Region, Remark, TileProgram, nodes, rewrite

NAME = "choose_engines"


def choose_engines(program: TileProgram) -> TileProgram:
    """Take the machine's next engine where the first one cannot carry out a copy."""
    remarks: list[Remark] = []
    loops = ranges(program.body)
    tops = {n.variable: n.extent for n in nodes(program.body) if isinstance(n, For)}

    def refused(copy: Copy, engine: Engine) -> str | None:
        return (
            refusal(program, copy, engine)
            or long_rows(program, copy, engine)
            or unfilled(program, copy, engine, loops, tops)
        )

    def change(node: Node) -> tuple[Node, ...]:
        if not isinstance(node, Copy):
            return (node,)
        # A map that looks irregular, as after a reshape, may be a box once it is simplified.
        if refused(node, program.machine.engine(node.engine)):
            node = replace(node, source=plain(node.source, loops), target=plain(node.target, loops))
        chosen, why = _able(program, node, refused)
        if chosen == node.engine:
            return (node,)
        name = program.buffer(node.target.buffer).tensor or node.target.buffer
        message = f"{name} is copied by {chosen}, not by {node.engine}: {why}"
        where = node.origin.mapping or node.origin.logic
        remarks.append(Remark("missed", node.target.buffer, message, None, where, NAME))
        return (replace(node, engine=chosen),)

    body = rewrite(program.body, change)
    return program if body == program.body else replace(program, body=body).remark(*remarks)


def plain(region: Region, loops: Mapping[Var, Range]) -> Region:
    """Return the region with its map simplified by its extents: ``$1 % 64`` becomes $1."""
    known = dict(loops)
    known.update({axis(n): (0, max(0, extent - 1)) for n, extent in enumerate(region.shape)})
    return replace(region, index=tuple(entry.simplify(known) for entry in region.index))


def _able(
    program: TileProgram, copy: Copy, refused: Callable[[Copy, Engine], str | None]
) -> tuple[str, str]:
    """Return the first engine from the copy's own on that can do it, and why its own cannot."""
    edge = [program.buffer(r.buffer).memory for r in (copy.source, copy.target)]
    names = [e.name for e in program.machine.engines_for(edge[0], edge[1])]
    if copy.engine not in names:
        return copy.engine, ""
    reasons: list[str] = []
    # From its own on only: the mapping may have named a later engine of the machine's list.
    for name in names[names.index(copy.engine) :]:
        why = refused(copy, program.machine.engine(name))
        # Layouts were inferred for the copy's own engine; another one must be able to convert
        # them.
        if why is None and reasons and not converts(program, replace(copy, engine=name)):
            why = f"{name} cannot change the layout on the way"
        if why is None:
            return name, "; ".join(reasons)
        reasons.append(why if not reasons else f"nor by {name}: {why}")
    return copy.engine, ""

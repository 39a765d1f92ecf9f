"""Spilling: buffers for the intermediate results of expressions that registers cannot hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.tile.analyses.temporaries import SHARE
from septran.tile.nodes import (
    Compute,
    Node,
    Region,
    TileProgram,
)
from septran.tile.passes.layout.part_buffers import PartBuffers


def spill_temporaries(program: TileProgram) -> TileProgram:
    """Compute in steps what takes more than half of an instruction's memory of temporaries.

    An expression is done strip by strip, but a reduction inside of it is done first, and a
    tensor that is assigned other elements of itself, as ``Y = Y - Y.T``, is read before it
    is written: both are held as a whole. Where they are large they get buffers beside the
    tensor that is assigned; half of the registers is for the strips.
    """
    return _Spill(program).run()


class _Spill(PartBuffers):
    NAME = "spill_temporaries"

    def change(self, node: Node) -> tuple[Node, ...]:
        """Return an expression as several steps where its intermediate results are large."""
        if not isinstance(node, Compute) or node.expression is None:
            return (node,)
        room = self._room(node.instruction)
        held = sum(math.prod(e.shape) * itemsize(e.dtype) for e in _held(node))
        if room is None or held <= room // 2 or self._better_in_pieces(node, held):
            return (node,)
        return tuple(self._steps(node))

    def _better_in_pieces(self, node: Compute, held: int) -> bool:
        """Whether buffers would fill the target's memory; the code then holds it piece by piece."""
        target, value = node.operands[0], node.expression
        assert value is not None
        memory = self.program.machine.memory(self.buffers[target.buffer].memory)
        if memory.capacity_bytes is None or held <= memory.capacity_bytes // 2:
            return False
        return not _in_place(target, value)

    def _room(self, instruction: str) -> int | None:
        """Return the bytes for temporaries; None where the machine file does not say."""
        machine = self.program.machine
        unit = next((i for i in machine.instructions if i.name == instruction), None)
        name = unit.options.get("temporaries") if unit else None
        if name is None:
            return None
        memory = machine.memory(str(name))
        if memory.capacity_bytes is None:
            return None
        shared = any(b.memory == memory.name for b in self.buffers.values())
        return memory.capacity_bytes // (SHARE if shared else 1)

    def _steps(self, node: Compute) -> Iterator[Node]:
        target, value = node.operands[0], node.expression
        assert value is not None
        steps: list[Node] = []
        # A reduction that is the whole value goes to the target; only its operand may need
        # buffers.
        if _reduces(value, target):
            value = ex.map_children(value, lambda e: self._without(e, node, steps))
        else:
            value = self._without(value, node, steps)
        if _in_place(target, value):
            value = self._apart(value, node, steps)
        yield from steps
        yield _map(node, target, value)

    def _without(self, expr: ex.Expr, node: Compute, steps: list[Node]) -> ex.Expr:
        """`expr` with each reduction replaced by the buffer that an earlier step computes."""
        if isinstance(expr, ex.Reduce):
            inner = self._without(expr.operand, node, steps)
            return self._apart(replace(expr, operand=inner), node, steps)
        return ex.map_children(expr, lambda child: self._without(child, node, steps))

    def _apart(self, expr: ex.Expr, node: Compute, steps: list[Node]) -> ex.Expr:
        """Return a load of a new buffer that holds `expr`, computed by one more step."""
        target = self.buffers[node.operands[0].buffer]
        why = f"{node.instruction} has no room for it in its own memory of temporaries"
        rule = f"holds an intermediate result of {target.name}: {why}"
        made = self.add(node, target, target.memory, expr.shape, expr.dtype, rule)
        message = f"{made.name} in {target.memory} holds an intermediate result: {why}"
        self.decided(node, target, message)
        region = Region.all_of(made, expr.valid)
        steps.append(_map(node, region, expr))
        return ex.Load(region, expr.dtype)


def _held(node: Compute) -> Iterator[ex.Expr]:
    """Yield the intermediate results that an expression needs as a whole."""
    target, value = node.operands[0], node.expression
    assert value is not None
    sums = (e for e in ex.walk(value) if isinstance(e, ex.Reduce))
    yield from (e for e in sums if e is not value or not _reduces(value, target))
    if _in_place(target, value):
        yield value


def _reduces(value: ex.Expr, target: Region) -> bool:
    """Return whether an expression as a whole is a reduction, which goes straight to the target."""
    return isinstance(value, ex.Reduce) and value.shape == target.shape


def _in_place(target: Region, value: ex.Expr) -> bool:
    """Return whether elements of the target may be read after others were written."""
    own = (v for v in ex.loads(value) if v.tensor == target.buffer)
    return any(v != target or _reduces(value, target) for v in own)


def _map(node: Compute, target: Region, value: ex.Expr) -> Compute:
    """Return one step of `node`."""
    loaded = tuple(view for view in ex.loads(value) if isinstance(view, Region))
    return replace(node, operands=(target, *loaded), expression=value)

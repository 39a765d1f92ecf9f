"""The body of a kernel: nodes of the tile program as statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.lower.scans import Scan
from septran.targets.tpu.access import sizes_of
from septran.targets.tpu.channels import Fills
from septran.targets.tpu.context import Context
from septran.targets.tpu.copies import CopyPlan, emit_copy, emit_wait
from septran.targets.tpu.expressions import Values
from septran.targets.tpu.matrix import emit_gemm
from septran.targets.tpu.unsupported import unsupported
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Release,
    Role,
    Wait,
)


@dataclass
class Body:
    """Writes the nodes of one kernel."""

    context: Context
    plans: Mapping[int, CopyPlan]
    fills: Mapping[str, Fills]

    def write(self, body: tuple[Node, ...]) -> None:
        """Write nodes in program order."""
        for node in body:
            match node:
                case For():
                    self._loop(node)
                case Copy():
                    self._copy(node)
                case Compute():
                    self.context.writer.comment(str(node.origin))
                    self._compute(node)
                case Wait():
                    self._wait(node)
                # A core issues in order: a tile that was read is free, and nobody else is met.
                case Acquire() | Commit() | Release() | Barrier():
                    pass
                case Role():
                    raise unsupported(node.origin, "the one core of a TPU has no roles")

    def _loop(self, node: For) -> None:
        context = self.context
        name = context.writer.name(node.variable.name)
        context.indices.names[node.variable] = name
        with context.writer.loop(name, context.indices.text(node.extent)):
            self.write(node.body)

    def _copy(self, node: Copy) -> None:
        self.context.writer.comment(str(node.origin))
        semaphore = None
        if node.channel is not None:
            fills = self.fills[node.channel]
            if fills.copies:
                index, place = fills.number[id(node)]
                semaphore = self._semaphore(node.channel, index % fills.stages, place)
        emit_copy(self.context, self.plans[id(node)], semaphore)

    def _semaphore(self, channel: str, slot: Index, place: int) -> str:
        found = self.fills[channel].semaphore(self.context.indices.text(slot), place)
        return f"{self.context.names[channel]}.{found}"

    def _wait(self, node: Wait) -> None:
        fills = self.fills[node.channel]
        if not fills.copies:
            return
        context, writer = self.context, self.context.writer
        slot = node.index % fills.stages
        writer.comment(str(node.origin))
        if context.indices.bounds(node.index)[0] >= 0:
            self._waits(node, fills, slot)
            return
        least = node.index.constant
        condition = f"{context.indices.text(node.index - least)} >= {-least}"
        with writer.when(condition):
            self._waits(node, fills, slot)

    def _waits(self, node: Wait, fills: Fills, slot: Index) -> None:
        for place, plan in enumerate(fills.copies):
            emit_wait(self.context, plan, slot, self._semaphore(node.channel, slot, place))

    def _compute(self, node: Compute) -> None:
        match node.primitive:
            case "gemm":
                emit_gemm(self.context, node)
            case "map":
                self._map(node)
            case "fill":
                value = dict(node.attributes).get("value", 0)
                self._fill(node, value)
            case "copy":
                target, source = node.operands
                values = Values(self.context, node.origin)
                dtype = self.context.buffer(source.buffer).dtype
                sizes = sizes_of(source.shape, source.valid)
                values.store(target, values.load(source), dtype, sizes)
            case "scan":
                dtype = self.context.buffer(node.operands[0].buffer).dtype
                for step in Scan(node, dtype).doubled():
                    self._compute(step)
            case _:
                raise unsupported(node.origin, f"a TPU's kernel has no {node.primitive}")

    def _fill(self, node: Compute, value: object) -> None:
        (target,) = node.operands
        values = Values(self.context, node.origin)
        dtype = self.context.buffer(target.buffer).dtype
        assert isinstance(value, int | float)
        values.store(target, self.context.constant(value, dtype), dtype, None)

    def _map(self, node: Compute) -> None:
        assert node.expression is not None
        values, expression = Values(self.context, node.origin), node.expression
        if isinstance(expression, ex.Constant):
            self._fill(node, expression.value)
            return
        shape = sizes_of(expression.shape, expression.valid)
        uniform = not expression.shape and isinstance(expression, ex.Scalar | ex.IndexValue)
        text = values.value(expression)
        dtype = expression.dtype
        values.store(node.operands[0], text, dtype, None if uniform else shape)

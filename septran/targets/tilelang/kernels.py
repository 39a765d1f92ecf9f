"""The body of a TileLang kernel: nodes of the tile program as statements."""

from __future__ import annotations

from dataclasses import dataclass

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.mapping.keys import PIPELINE
from septran.targets.tilelang.context import TileLangContext, number
from septran.targets.tilelang.copies import emit_copy, move
from septran.targets.tilelang.expressions import TileLangElements
from septran.targets.tilelang.products import emit_fill, emit_gemm
from septran.targets.tilelang.unsupported import unsupported
from septran.tile.nodes import Compute, Copy, For, Node, Origin

_ATOMICS = {"sum": "atomic_add", "max": "atomic_max", "min": "atomic_min"}


@dataclass
class KernelBody:
    """Writes the nodes of one kernel."""

    context: TileLangContext

    def write(self, body: tuple[Node, ...]) -> None:
        """Write nodes in program order."""
        for node in body:
            match node:
                case For():
                    self._loop(node)
                case Copy():
                    self._say(node.origin)
                    emit_copy(self.context, node)
                case Compute():
                    self._compute(node)
                    self.context.release()
                case _:
                    raise unsupported(node.origin, "TileLang waits by itself")

    def _say(self, origin: Origin) -> None:
        self.context.writer.comment(origin.rule)

    def _loop(self, node: For) -> None:
        context = self.context
        name = context.writer.name(node.variable.name)
        context.indices.names[node.variable] = name
        extent = context.indices.text(node.extent)
        stages = self._stages(node)
        if stages > 1 and extent.isdigit():
            head = f"for {name} in T.Pipelined({extent}, num_stages={stages}):"
        elif node.kind == "unrolled":
            head = f"for {name} in T.unroll({extent}):"
        else:
            head = f"for {name} in T.serial({extent}):"
        with context.writer.block(head):
            self.write(node.body)

    def _stages(self, node: For) -> int:
        """The stages of the copies in a loop, as the mapping asks for.

        A pipeline gives shared buffers that it fills several versions: not where results are in
        them, too.
        """
        if not self.context.fragments:
            return 1
        loads = any(isinstance(n, Copy) and self._fills_shared(n) for n in node.body)
        return self.context.program.request(node.origin.task).get(PIPELINE) if loads else 1

    def _fills_shared(self, node: Copy) -> bool:
        held = self.context.buffer(node.target.buffer)
        return self.context.in_main(node.source) and held.memory == "SHARED"

    def _compute(self, node: Compute) -> None:
        context = self.context
        match node.primitive:
            case "gemm":
                emit_gemm(context, node)
            case "fill":
                emit_fill(context, node)
            case "copy":
                target, source = node.operands
                move(context, target, source, node.origin)
            case "map":
                assert node.expression is not None
                elements = TileLangElements(context, node.origin)
                elements.store_map(node.operands[0], node.expression)
            case "scan":
                self._scan(node)
            case "accumulate":
                self._accumulate(node)
            case name:
                raise unsupported(node.origin, f"there is no {name} in TileLang")

    def _scan(self, node: Compute) -> None:
        """A scan in shared memory, where TileLang scans a tile and each thread reads the result."""
        target, source = node.operands
        asked = dict(node.attributes)
        if asked["function"] != "sum":
            raise unsupported(node.origin, f"TileLang has no scan by {asked['function']}")
        context = self.context
        held, axis = context.buffer(target.buffer), int(asked["axis"]) % len(target.shape)
        own = context.scratch("scan", "SHARED", target.shape, held.dtype)
        move(context, own, source, node.origin)
        reverse = ", reverse=True" if asked["reverse"] else ""
        context.writer.line(f"T.cumsum({context.names[own.buffer]}, dim={axis}{reverse})")
        if not asked["exclusive"]:
            move(context, target, own, node.origin)
            return
        step, end = (1, target.shape[axis] - 1) if asked["reverse"] else (-1, 0)
        with context.elements(target.shape) as at:
            before = tuple(p + step if n == axis else p for n, p in enumerate(at))
            exists = f"{context.indices.text(at[axis])} != {end}"
            zero = number(0, held.dtype, typed=True)
            value = f"T.if_then_else({exists}, {context.element(own, before)}, {zero})"
            context.writer.line(f"{context.element(target, at)} = {value}")

    def _accumulate(self, node: Compute) -> None:
        context = self.context
        target, source = node.operands[:2]
        function = str(dict(node.attributes)["function"])
        elements = TileLangElements(context, node.origin)
        value = node.expression or ex.Load(source, context.buffer(source.buffer).dtype)
        value = elements.without_reductions(value)
        held = context.buffer(target.buffer).dtype
        if function != "sum" and is_float(held):
            raise unsupported(node.origin, f"TileLang's atomic_{function} leaves out NaN")
        with context.elements(target.shape) as at:
            text = elements.typed(value, at, held)
            call = f"T.{_ATOMICS[function]}({context.element(target, at)}, {text})"
            with context.guarded(context.exists(target.shape, target.valid, at)):
                context.writer.line(call)

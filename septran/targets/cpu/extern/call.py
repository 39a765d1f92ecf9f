"""The call of a function of the user's, in place of the code of a leaf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvm import tirx

from septran.errors import TargetError
from septran.ir.index import ZERO
from septran.mapping.extern.function import ordered
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.extern.compiler import symbol
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Buffer, Compute, Origin


class ExternOperandError(TargetError):
    """A function of the user's cannot get a tensor that lies in another way than in strides."""

    code = "SEP521"


def emit_extern(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Each of the nodes: pointer, extents and strides of every parameter, in the leaf's order."""
    del private  # a function's operands are held by others, too
    for node in nodes:
        assert node.meaning is not None
        names = [param.name for param in ordered(node.meaning)]
        operands = dict(zip(names, node.operands, strict=True))
        arguments: list[Expr] = []
        for param in node.meaning.params:
            access = context.access(operands[param.name])
            arguments += _tile(context, access, param.name, node.origin)
        instruction = context.machine.instruction(node.instruction)
        name = symbol(instruction, node.meaning, context.machine)
        context.writer.evaluate(tirx.call_extern("void", name, *arguments))


def _tile(context: Context, access: Access, name: str, origin: Origin) -> Iterator[Expr]:
    """The address of a tile's first element, then its extents, then its strides."""
    region, flat = access.region, access.storage.flat
    strides = [access.stride(n) for n in range(region.rank)]
    if any(access.leaving) or access.storage.held != _held(access):
        raise _unsuited(access, name, "is padded or converted where it is read", origin)
    if None in strides:
        raise _unsuited(access, name, f"lies as {access.storage.layout}, not in strides", origin)
    start = access.at((ZERO,) * region.rank)
    yield tirx.address_of(tirx.BufferLoad(flat, [context.bound("start", start)]))
    yield from (_int64(context.lower(extent)) for extent in region.valid)
    yield from (_int64(stride) for stride in strides)


def _held(access: Access) -> str:
    dtype = access.storage.dtype
    return {"bfloat16": "uint16"}.get(dtype, dtype)


def _int64(value: Expr | None) -> Any:
    if isinstance(value, int) or value is None:
        return tirx.IntImm("int64", value or 0)
    return tirx.Cast("int64", value)


def _unsuited(access: Access, name: str, why: str, origin: Origin) -> ExternOperandError:
    return ExternOperandError(
        f"{name} of a function of one's own {why}: {access.region}",
        origin.mapping or origin.logic,
        hint=f"write mems: {{{name}: L2}}, so that it is copied to a row-major tile, or layouts: "
        f"{{{name}: row}}",
    )

"""What a node computes: operations a point, and how many a second its instruction does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.machine.model import Instruction, Machine
from septran.tile.nodes import Compute, Region

COSTLY = ("exp", "exp2", "log", "log2", "tanh", "sigmoid", "erf", "sin", "cos", "power")
COSTLY_STEPS = 8
"""Operations that a costly function of one element counts as, where the machine does not say."""


def instruction_of(machine: Machine, node: Compute) -> Instruction | None:
    """The node's instruction, or the first for tensor expressions where it has no name."""
    try:
        return machine.instruction(node.instruction)
    except KeyError:
        same = (i for i in machine.instructions if i.primitive == "map")
        return next(same, None)


def rate_of(machine: Machine, instruction: Instruction | None, dtype: str) -> float | None:
    """Operations a second of one unit; None where the machine file does not say."""
    if instruction is None or instruction.throughput is None or machine.clock_mhz is None:
        return None
    each = 2 if instruction.primitive == "gemm" else 1
    # Vector units are given for 4-byte elements; a matrix unit (with a tile) for any.
    narrow = 1.0 if instruction.tile else min(1.0, 4 / itemsize(dtype))
    return instruction.throughput * each * machine.clock_mhz * 1e6 * narrow


def operations(
    node: Compute, instruction: Instruction | None, code: bool = True
) -> Iterator[tuple[float, Region]]:
    """What an expression computes: operations a point, and the points as a region's extents.

    With `code`, what a processor's compiler makes of it: vectors have more elements of short
    integers, so that each is a part of an operation, and what occurs again is computed once.
    """
    costs: Mapping[str, float] = instruction.costs if instruction else {}
    parts = list(ex.walk(node.expression)) if node.expression is not None else []
    signs = {part for one in parts if code and _extends_sign(one) for part in ex.walk(one)}
    for part in dict.fromkeys(parts) if code else parts:
        match part:
            case ex.Binary() if part in signs:
                continue  # the cast between them is all that is left
            case ex.Unary(function, operand):
                cost, shape = _cost(costs, function), (operand.shape, operand.valid)
            case ex.Binary(function):
                cost, shape = _cost(costs, function), (part.shape, part.valid)
            case ex.Select() | ex.Cast():
                cost, shape = 1.0, (part.shape, part.valid)
            case ex.Reduce(_, operand):
                cost, shape = 1.0, (operand.shape, operand.valid)
            case _:
                continue
        # Short floats are computed with in float32, as wide as the others; integers are not.
        narrow = code and "int" in part.dtype
        yield cost * (min(1.0, itemsize(part.dtype) / 4) if narrow else 1.0), space(*shape)


def _extends_sign(part: ex.Expr) -> bool:
    """Whether it is ``(x ^ 128) - 128`` of a byte, or the like: what compilers know a move for."""
    match part:
        case ex.Binary(
            "subtract",
            ex.Cast(operand=ex.Binary("xor", byte, ex.Constant(sign))) as wide,
            ex.Constant(same),
        ):
            bits = 8 * itemsize(byte.dtype)
            shorter = itemsize(byte.dtype) < itemsize(wide.dtype)
            return shorter and "int" in wide.dtype and sign == same == 1 << bits - 1
        case _:
            return False


def _cost(costs: Mapping[str, float], function: str) -> float:
    return costs.get(function, COSTLY_STEPS if function in COSTLY else 1)


def space(shape: tuple[int, ...], valid: tuple[Index, ...]) -> Region:
    """Points of a computation as a region of nothing."""
    return Region("", (), shape, valid)


def vectors_along(node: Compute, region: Region, lanes: int) -> int:
    """The axis of an operand's points along which vectors go.

    That is the last one, but for windows: what is reduced there is shorter than a vector, and what
    neighbours need lies behind it.
    """
    target, rank = node.operands[0].shape, len(region.shape)
    windows = rank > len(target) > 0 and region.shape[: len(target)] == target
    return len(target) - 1 if windows and region.shape[-1] < lanes <= target[-1] else rank - 1


def lies_apart(region: Region, along: int) -> bool:
    """Whether the elements of a region are not neighbours in its buffer along an axis."""
    if not region.shape or region.shape[along] == 1:
        return False
    steps = [entry.coefficient(axis(along)) for entry in region.index]
    return any(steps[:-1]) or steps[-1] not in (0, 1)


def turns(node: Compute, region: Region) -> bool:
    """Whether elements only change places, and lie side by side along another axis."""
    if node.primitive not in ("copy", "cast") and not isinstance(node.expression, ex.Load):
        return False
    steps = [[entry.coefficient(axis(n)) for entry in region.index] for n in range(region.rank)]
    return any(step[-1] == 1 and not any(step[:-1]) for step in steps)


def scan_steps(node: Compute, lanes: int) -> float:
    """Operations of a vector of a scan: a shuffle and a join a step, then what came before it."""
    along = int(dict(node.attributes)["axis"]) % node.operands[1].rank
    return 2 * math.log2(lanes) + 2 if along == node.operands[1].rank - 1 else 1.0


def register_width(node: Compute, stored: int) -> int:
    """Bytes of an element in registers: short floats are widened, short integers are not."""
    if node.expression is None:
        return max(4, stored)
    parts = {part.dtype for part in ex.walk(node.expression)}
    kept = (itemsize(kind) for kind in parts if "int" in kind or kind == "bool")
    widened = (max(4, itemsize(kind)) for kind in parts if "float" in kind)
    return max((*kept, *widened), default=4)

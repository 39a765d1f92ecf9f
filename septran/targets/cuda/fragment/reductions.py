"""Reductions over fragments: registers, then lanes of a warp, then warps."""

from __future__ import annotations

from tvm import tirx

from septran.ir.expressions import reduced_dtype
from septran.ir.index import Index
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.fragment.conversions import begin, finish, scratch
from septran.targets.cuda.fragment.fragments import Digit, Fragment
from septran.targets.cuda.fragment.maps import Sources, evaluate, stage_unreachable
from septran.targets.cuda.fragment.registers import (
    RegisterLoop,
    declare_one,
    exists,
    lane_digit,
    register_digits,
)
from septran.targets.lower.statements import Statement, identity
from septran.targets.lower.writer import Expr


def emit_reduction(context: Context, statement: Statement, fragment: Fragment) -> None:
    """Reduce a statement's value along its axis into a row vector in the same threads."""
    staged = stage_unreachable(context, statement, fragment)
    buffer = statement.target.buffer
    kept = fragment.without(statement.axis)
    dtype = _dtype(statement)
    target = declare_one(context, buffer, statement.target.shape, dtype, kept)
    _over_registers(context, statement, fragment, target, staged)
    inside, across = _lanes(fragment, statement.axis, context.writer.dialect.lanes)
    if inside:
        _over_lanes(context, statement, target, inside)
    if across:
        _over_warps(context, statement, fragment, target, across)


def _dtype(statement: Statement) -> str:
    return reduced_dtype(str(statement.function), statement.value.dtype or "float32")


def _over_registers(
    context: Context,
    statement: Statement,
    fragment: Fragment,
    target: Storage,
    staged: dict[str, Storage],
) -> None:
    """Each thread reduces what it holds."""
    function, writer, arithmetic = str(statement.function), context.writer, context.arithmetic
    neutral = arithmetic.constant(identity(function, target.dtype), target.dtype)
    walk = RegisterLoop(context, fragment)
    lane = lane_digit(fragment)
    # A vector's elements have to go into one result.
    if lane is not None and lane not in fragment.axes[statement.axis]:
        lane = None
    sources = Sources(context, walk, staged, lane=lane)
    rows = register_digits(fragment, statement.kept)
    columns = [d for d in register_digits(fragment, [statement.axis]) if d != lane]
    places = tuple(range(len(statement.kept)))
    with walk.over(rows):
        spot = context.lower(
            RegisterLoop(context, fragment, walk.steps).register(
                target, statement.target, tuple(statement.kept[p] for p in places)
            )
        )
        writer.store(target.flat, spot, neutral)
        with walk.over(columns):
            sources.fetch(statement)
            with walk.over([lane] if lane else []):
                value = evaluate(context, statement, sources, walk)
                value = arithmetic.convert(value, target.dtype)
                at = walk.coordinates
                inside = exists(context, at, statement.valid, [statement.axis])
                if inside is not None:
                    value = tirx.Select(inside, value, neutral)
                old = writer.load(target.flat, spot)
                writer.store(target.flat, spot, arithmetic.join(function, old, value))


def _lanes(fragment: Fragment, axis: int, lanes: int) -> tuple[list[int], list[Digit]]:
    """Strides of lanes to exchange with in a warp, and the digits that go across warps."""
    inside: list[int] = []
    across: list[Digit] = []
    for digit in fragment.axes[axis]:
        if digit.place != "thread":
            continue
        # Shuffles stay inside of a warp: the rest of the digit goes through shared memory.
        within = max(1, min(digit.extent, lanes // digit.stride))
        # A butterfly: partners differ in one bit, so after one exchange a bit all have the whole.
        inside += [digit.stride << n for n in range(within.bit_length() - 1)]
        if digit.extent > within:
            across.append(Digit(digit.extent // within, "thread", digit.stride * within))
    return inside, across


def _over_lanes(
    context: Context, statement: Statement, target: Storage, strides: list[int]
) -> None:
    """Lanes that hold parts of one row exchange and join them; all end with the whole."""
    assert target.fragment is not None
    writer, function = context.writer, str(statement.function)
    with context.loop("r", target.fragment.registers, unrolled=True) as number:
        spot = context.lower(number)
        for stride in strides:
            mine = writer.bind("mine", writer.load(target.flat, spot))
            other = writer.bind("other", shuffle(context, mine, stride))
            writer.store(target.flat, spot, context.arithmetic.join(function, mine, other))


def shuffle(context: Context, value: Expr, stride: int) -> Expr:
    """The value of the lane whose number differs in one bit."""
    dtype = str(value.ty.dtype)
    # Integers of 32 and 64 bits only are exchanged.
    short = dtype in ("bool", "int8", "uint8", "int16", "uint16")
    moved = context.arithmetic.convert(value, "int32") if short else value
    kind = "int32" if short else dtype
    got = context.writer.dialect.partner(context.writer, kind, moved, stride)
    return context.arithmetic.convert(got, dtype)


def _over_warps(
    context: Context,
    statement: Statement,
    fragment: Fragment,
    target: Storage,
    across: list[Digit],
) -> None:
    """Warps that hold parts of one row leave them in shared memory and read all."""
    assert target.fragment is not None
    writer, function = context.writer, str(statement.function)
    registers, threads = target.fragment.registers, context.threads.count
    begin(context)
    room = scratch(context, "%warps", (registers, threads), target.dtype)
    base = Index.of(room.offset)
    with context.loop("r", registers, unrolled=True) as number:
        # A row for each register: neighbouring threads write neighbouring words.
        spot = context.lower(base + number * threads + context.thread)
        writer.store(room.flat, spot, writer.load(target.flat, context.lower(number)))
    finish(context)
    own = context.thread
    for digit in across:
        own = own - context.thread // digit.stride % digit.extent * digit.stride
    others = [Index()]
    for digit in across:
        others = [o + n * digit.stride for o in others for n in range(digit.extent)]
    own = context.variable("first", own)
    with context.loop("r", registers, unrolled=True) as number:
        spot = context.lower(number)
        for count, other in enumerate(others):
            index = context.lower(base + number * threads + own + other)
            part = writer.bind("part", writer.load(room.flat, index))
            old = writer.load(target.flat, spot)
            value = part if count == 0 else context.arithmetic.join(function, old, part)
            writer.store(target.flat, spot, value)

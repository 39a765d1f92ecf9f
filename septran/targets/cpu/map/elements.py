"""Reading and writing elements of regions: contiguous or not, masked or not, any dtype."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from septran.dtypes import compute_dtype
from septran.ir.index import Index, Var, axis
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access, Storage
from septran.targets.cpu.context import Context
from septran.targets.lower.values import bits, broadcast, cast, element_of, lanes_of
from septran.targets.lower.writer import Expr

HELD = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "bool": "uint8"}
"""Types that TensorIR has no good arithmetic for, and what their bits are held as."""


def held_dtype(dtype: str) -> str:
    """The type under which elements of `dtype` lie in memory."""
    return HELD.get(dtype, dtype)


OTHER_SIGNS = {"int8": "uint8", "uint8": "int8"}
"""What bytes are held as whose upper bit is changed: 128 more, or 128 less."""


def flips(storage: Storage) -> bool:
    """Whether a buffer's bytes are held with changed upper bits: see `OTHER_SIGNS`."""
    return OTHER_SIGNS.get(storage.dtype) == storage.held


def flipped(value: Expr) -> Expr:
    """Bytes 128 more or less, of the other type."""
    upper = simd.constant(0x80, "uint8", lanes_of(value))
    # TVM's reinterpretation knows no constant zero; a cast between both types keeps the bits.
    return cast(cast(value, "uint8") ^ upper, OTHER_SIGNS[element_of(value)])


def widen(value: Expr, dtype: str) -> Expr:
    """Return what was loaded from a buffer of `dtype`, in the type that arithmetic is done in."""
    if dtype == "bfloat16" and element_of(value) == "uint16":
        wide = cast(value, "uint32")
        return bits(wide << simd.constant(16, "uint32", lanes_of(value)), "float32")
    if dtype == "float8_e4m3fn" and element_of(value) == "uint8":
        return _from_e4m3(value)
    if dtype == "bool":
        return simd.unequal(value, simd.constant(0, element_of(value), lanes_of(value)))
    if OTHER_SIGNS.get(dtype) == element_of(value):
        value = flipped(value)
    return cast(value, compute_dtype(dtype))


def narrow(context: Context, value: Expr, dtype: str, held: str) -> Expr:
    """A computed value as it is stored in a buffer of `dtype` whose elements are `held`."""
    if held == "uint16" and dtype == "bfloat16":
        return _round_to_bfloat16(context, value)
    if held == "uint8" and dtype == "float8_e4m3fn":
        return _round_to_e4m3(context, value)
    if OTHER_SIGNS.get(dtype) == held:
        return flipped(context.arithmetic.convert(value, dtype))
    if dtype == "bool":
        value = context.arithmetic.convert(value, "bool")
    if element_of(value) == "bool":
        lanes = lanes_of(value)
        one, none = simd.constant(1, held, lanes), simd.constant(0, held, lanes)
        return tirx.Select(value, one, none)
    return context.arithmetic.convert(value, held)


def stored(context: Context, value: Expr, storage: Storage) -> Expr:
    """Return what would be read again, had `value` been written."""
    if element_of(value) == storage.dtype == storage.held:
        return value
    return widen(context.writer.bind("s", _as_held(context, value, storage)), storage.dtype)


def _as_held(context: Context, value: Expr, storage: Storage) -> Expr:
    """A value as it lies in memory: where that is wider than its type, rounded to the type first.

    What copies store there was rounded before.
    """
    own = held_dtype(storage.dtype)
    if storage.held == own or not storage.computed:
        return narrow(context, value, storage.dtype, storage.held)
    short = context.writer.bind("s", narrow(context, value, storage.dtype, own))
    return cast(widen(short, storage.dtype), storage.held)


def _round_to_bfloat16(context: Context, value: Expr) -> Expr:
    """To nearest, ties to even; NaN stays NaN."""
    lanes = lanes_of(value)

    def number(n: int) -> Expr:
        return simd.constant(n, "uint32", lanes)

    value = context.writer.bind("x", context.arithmetic.single(value, "bfloat16"))
    raw = context.writer.bind("u", bits(value, "uint32"))
    # Half a unit of the last place, less one bit where the number is even. NaN apart: its bits
    # could carry into those of infinity, or into the sign.
    odd = (raw >> number(16)) & number(1)
    rounded = (raw + number(0x7FFF) + odd) >> number(16)
    kept = tirx.Select(value == value, rounded, number(0x7FC0))
    return cast(kept, "uint16")


def _from_e4m3(value: Expr) -> Expr:
    """Its seven bits as the upper ones of a float32's exponent and fraction, times 2**120."""
    lanes = lanes_of(value)

    def number(n: int) -> Expr:
        return simd.constant(n, "uint32", lanes)

    raw = cast(value, "uint32")
    # E4M3's exponents have the bias 7, float32's 127, and the product makes up for the difference,
    # of subnormal numbers, too. All ones is its only NaN.
    small = bits((raw & number(0x7F)) << number(20), "float32")
    size = bits(small * simd.constant(2.0**120, "float32", lanes), "uint32")
    size = tirx.Select((raw & number(0x7F)) == number(0x7F), number(0x7FC00000), size)
    return bits(size | ((raw & number(0x80)) << number(24)), "float32")


def _round_to_e4m3(context: Context, value: Expr) -> Expr:
    """To nearest, ties to even; NaN where it is beyond the largest, 448."""
    lanes = lanes_of(value)

    def number(n: int) -> Expr:
        return simd.constant(n, "uint32", lanes)

    def real(x: float) -> Expr:
        return simd.constant(x, "float32", lanes)

    value = context.writer.bind("x", context.arithmetic.single(value, "float8_e4m3fn"))
    raw = context.writer.bind("u", bits(value, "uint32"))
    size = context.writer.bind("size", bits(raw & number(0x7FFFFFFF), "float32"))
    scaled = context.writer.bind("u", bits(size * real(2.0**-120), "uint32"))
    odd = (scaled >> number(20)) & number(1)
    normal = (scaled + number(0x7FFFF) + odd) >> number(20)
    # Below 2**-6 numbers are multiples of 2**-9: one unit of what 2**14 is added to.
    tiny = bits(size + real(2.0**14), "uint32") - bits(real(2.0**14), "uint32")
    found = tirx.Select(size < real(2.0**-6), tiny, normal)
    # 464 is half way from 448 to where 480 would be, and ties go to 448, which is even.
    kept = tirx.Select(size <= real(464.0), found, number(0x7F))
    return cast(kept | ((raw >> number(24)) & number(0x80)), "uint8")


def read(
    context: Context,
    access: Access,
    at: Sequence[Index],
    lanes: int = 1,
    along: int = 0,
    count: Expr | None = None,
) -> Expr:
    """`lanes` elements from `at` on along an axis; only the first `count` if given."""
    storage = access.storage
    exists = inside(context, access, at, along, lanes)
    register = context.register_lanes(str(storage.flat.dtype))
    if exists is not None and lanes > register and lanes % register == 0:
        return _by_registers(context, access, at, lanes, along, count)
    if exists is not None:
        return widen(_padded(context, access, at, lanes, along, count, exists), storage.dtype)
    offset = access.at(at)
    step = contiguity(access, at, along, lanes)
    if lanes == 1 or step == 0:
        at_one = context.lower(offset)
        # Where the one lane does not exist the tensor's first element is read, which is there.
        if count is not None and lanes == 1:
            at_one = tirx.Select(simd.first_lanes(count, 1), at_one, context.writer.index(0))
        value = broadcast(simd.load(storage.flat, at_one, 1), lanes)
    elif step == 1 and count is not None and not fully_readable(access, step):
        mask = simd.first_lanes(count, lanes)
        value = simd.masked_load(storage.flat, context.lower(offset), mask)
    elif step is not None and (count is None or fully_readable(access, step)):
        value = simd.load(storage.flat, context.lower(offset), lanes, step)
    else:
        index = scattered(context, access, at, along, lanes)
        if count is not None:  # what is masked out must not be touched: read one that exists
            safe = tirx.Broadcast(context.writer.index(0), lanes)
            index = tirx.Select(simd.first_lanes(count, lanes), index, safe)
        value = tirx.BufferLoad(storage.flat, [index])
    return widen(value, storage.dtype)


def fully_readable(access: Access, step: int | None) -> bool:
    """Whether a vector of which only the first lanes exist may be read with all of them.

    What was allocated here has room for the rest of a vector behind its end, where the lanes
    are neighbours; those that are further apart would go far beyond it.
    """
    return access.storage.owned and step in (0, 1)


def inside(
    context: Context, access: Access, at: Sequence[Index], along: int, lanes: int
) -> Expr | None:
    """Return which lanes of a padded view lie in its tensor; None where all are known to."""
    if not any(access.leaving):
        return None
    spot, lane = list(at), None
    if lanes > 1:
        ramp = tirx.Ramp(context.writer.index(0), context.writer.index(1), lanes)
        lane = context.indices.fresh(ramp, 0, lanes - 1)
        spot[along] = spot[along] + lane
    conditions: list[Expr] = []
    entries = access.region.at(tuple(spot))
    for entry, extent, leaves in zip(entries, access.storage.shape, access.leaving, strict=True):
        if not leaves:
            continue
        low, high = context.indices.bounds(entry)
        if low < 0:
            conditions.append(context.lower(entry) >= 0)
        if high >= extent:
            conditions.append(context.lower(entry) < context.writer.index(extent))
    if not conditions:
        return None
    total, *rest = (broadcast(c, lanes) for c in conditions)
    for condition in rest:
        total = tirx.And(total, condition)
    return total


def _by_registers(
    context: Context,
    access: Access,
    at: Sequence[Index],
    lanes: int,
    along: int,
    count: Expr | None,
) -> Expr:
    """A vector that may leave its tensor, a register at a time: see `pieces.Masked.masks`."""
    size = context.register_lanes(str(access.storage.flat.dtype))
    parts = []
    for start in range(0, lanes, size):
        spot = [entry + start if n == along else entry for n, entry in enumerate(at)]
        left = None if count is None else count - start
        parts.append(read(context, access, spot, size, along, left))
    return tirx.Shuffle(parts, list(range(lanes)))


def _padded(
    context: Context,
    access: Access,
    at: Sequence[Index],
    lanes: int,
    along: int,
    count: Expr | None,
    exists: Expr,
) -> Expr:
    """Return what is read where it exists, and zeros elsewhere."""
    flat = access.storage.flat
    zero = simd.constant(0, str(flat.dtype), lanes)
    if count is not None:
        exists = tirx.And(exists, simd.first_lanes(count, lanes))
    if lanes > 1 and contiguity(access, at, along, lanes) == 1:
        return simd.masked_load(flat, context.lower(access.at(at)), exists)
    if lanes == 1:
        index = context.lower(access.at(at))
    else:
        index = broadcast(scattered(context, access, at, along, lanes), lanes)
    # Lanes outside read the first element, which is there, and become zeros then.
    first = broadcast(context.writer.index(0), lanes)
    value = tirx.BufferLoad(flat, [tirx.Select(exists, index, first)])
    return tirx.Select(exists, value, zero)


def write(
    context: Context,
    access: Access,
    at: Sequence[Index],
    value: Expr,
    along: int = 0,
    count: Expr | None = None,
) -> None:
    """Store a vector from `at` on along an axis; only its first `count` lanes if given."""
    storage, lanes = access.storage, lanes_of(value)
    value = _as_held(context, value, storage)
    step = contiguity(access, at, along, lanes)
    offset = context.lower(access.at(at))
    if lanes == 1:
        with context.writer.when(True if count is None else simd.first_lanes(count, 1)):
            simd.store(context.writer, storage.flat, offset, value, 1)
    elif count is not None and step == 1:
        mask = simd.first_lanes(count, lanes)
        simd.masked_store(context.writer, storage.flat, offset, value, mask)
    elif count is not None:
        _write_lanes(context, access, at, value, along, count)
    elif step == 1 and storage.streamed and lanes % context.unit.lanes(storage.held) == 0:
        simd.stream(context.writer, storage.flat, offset, value, context.unit.bytes)
    elif step is not None:
        simd.store(context.writer, storage.flat, offset, value, lanes, step)
    else:
        index = scattered(context, access, at, along, lanes)
        context.writer.emit(tirx.BufferStore(storage.flat, value, [index]))


def _write_lanes(
    context: Context, access: Access, at: Sequence[Index], value: Expr, along: int, count: Expr
) -> None:
    """Store the first `count` lanes, all if it is more, one by one through a small buffer."""
    lanes = lanes_of(value)
    spare = context.writer.scratch("lanes", lanes, access.storage.held)
    simd.store(context.writer, spare, context.writer.index(0), value, lanes)
    count = tirx.min(count, simd.constant(lanes, element_of(count)))
    with context.writer.loop("lane", count) as lane:
        number = context.indices.fresh(lane, 0, lanes - 1)
        spot = list(at)
        spot[along] = spot[along] + number
        offset = context.lower(access.at(spot))
        element = simd.load(spare, lane, 1)
        simd.store(context.writer, access.storage.flat, offset, element, 1)


def contiguity(access: Access, at: Sequence[Index], along: int, lanes: int) -> int | None:
    """Elements from lane to lane; None where that is not one number."""
    if lanes == 1:
        return 1
    step = access.stride(along)
    if step is not None:
        return step
    run = access.run(along)
    return 1 if run % lanes == 0 and at[along] % lanes == Index() else None


def scattered(
    context: Context, access: Access, at: Sequence[Index], along: int, lanes: int
) -> Expr:
    """The vector of flat offsets of elements that lie anywhere."""
    start = context.lower(at[along])
    ramp = tirx.Ramp(start, context.writer.index(1), lanes)
    low, high = context.indices.bounds(at[along])
    lane = context.indices.fresh(ramp, low, high + lanes - 1)
    spot = list(at)
    spot[along] = Index.of(lane)
    values: dict[Var, Index] = {axis(n): Index.of(c) for n, c in enumerate(spot)}
    return context.lower(access.offset.substitute(values))

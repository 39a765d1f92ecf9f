"""``gemm`` as one product of the matrix units."""

from __future__ import annotations

from septran.dtypes import is_float
from septran.ir.index import Index, Var, axis
from septran.targets.tpu.access import looped, sizes_of
from septran.targets.tpu.context import Context
from septran.targets.tpu.expressions import Values
from septran.tile.nodes import Compute, Region
from septran.tile.substitution import FIRST


def emit_gemm(context: Context, node: Compute) -> None:
    """``C += A @ B``, with zeros where a sum has no elements, or ``C = A @ B`` in a first step."""
    values, c = Values(context, node.origin), node.operands[0]
    first = dict(node.attributes).get(FIRST)
    product = _product(context, values, node)
    dtype = context.buffer(c.buffer).dtype
    sizes = sizes_of(c.shape, c.valid)
    started = context.indices.simple(Index.of(Var(str(first)))) if first else Index()
    if first is not None and started == Index():
        values.store(c, product, _summed(dtype), sizes)
        return
    sums = values.load(c)
    if first is not None and not started.is_constant:
        sums = f"jnp.where({context.indices.factor(started)} == 0, 0, {sums})"
    sums = values.converted(sums, dtype, _summed(dtype))
    values.store(c, f"{sums} + {product}", _summed(dtype), sizes)


def _summed(dtype: str) -> str:
    """The type that products are summed in."""
    return "float32" if is_float(dtype) else "int32"


def _product(context: Context, values: Values, node: Compute) -> str:
    c, a, b = node.operands
    dtype = context.buffer(c.buffer).dtype
    texts, contracted = [], []
    for region, summed in ((a, 1), (b, 0)):
        text, along = _operand(context, values, region, summed)
        texts.append(values.named(text) if len(text) > 48 else text)
        contracted.append(along)
    options = f"preferred_element_type=jnp.{_summed(dtype)}"
    kinds = {context.buffer(r.buffer).dtype for r in (a, b)}
    if kinds & {"float32", "float16"}:  # else each factor is rounded to bfloat16
        options = f"precision=jax.lax.Precision.HIGHEST, {options}"
    if contracted == [1, 0]:
        call = f"jnp.dot({texts[0]}, {texts[1]}, {options})"
    else:
        axes = f"((({contracted[0]},), ({contracted[1]},)), ((), ()))"
        call = f"jax.lax.dot_general({texts[0]}, {texts[1]}, {axes}, {options})"
    return values.named(call)


def _operand(context: Context, values: Values, region: Region, summed: int) -> tuple[str, int]:
    """An operand as it lies, and the axis that is summed along."""
    exists = context.indices.simple(region.valid[summed])
    turned = _turned(region)
    if turned:  # read as it lies, which costs nothing
        order = (1, 0)
        swap = {axis(0): Index.of(axis(1)), axis(1): Index.of(axis(0))}
        region = Region(
            region.tensor,
            tuple(e.substitute(swap) for e in region.index),
            tuple(region.shape[n] for n in order),
            tuple(region.valid[n] for n in order),
            region.padded,
            region.stage,
        )
        summed = 1 - summed
    text = values.load(region)
    dtype = context.buffer(region.buffer).dtype
    if not exists.is_constant:
        text = values.masked(text, region.shape, region.valid, (summed,), "0")
    if dtype == "float16":
        text = values.converted(text, dtype, "float32")
    elif dtype.startswith("float8"):
        text = values.converted(text, dtype, "bfloat16")
    return text, summed


def _turned(region: Region) -> bool:
    """Whether a matrix lies transposed."""
    if looped(region, strided=True):
        return False
    places = {n: p for p, e in enumerate(region.index) for n in (0, 1) if axis(n) in e.variables()}
    return len(places) == 2 and places[0] > places[1]

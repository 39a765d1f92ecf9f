"""torch's OpInfo: what it feeds to an operator in its own tests, and what it gives in float64.

`ADAPTERS` says for each name of torch's which logic of ours is meant and how the arguments map;
`NOT_COVERED` names what of a sample is left out, and why.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from septran import operators
from septran.dtypes import is_float, numpy_dtype
from tests.oracles import language
from tests.oracles.judging import Array, Sample

LARGEST = 3000
"""Elements of a sample; the few larger ones would only repeat themselves."""
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
"""Those that torch computes with; the other unsigned ones it only stores."""
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e15)
"""What is planted in operands: a square of the largest is still a float32."""


class NotCoveredError(Exception):
    """A sample asks for what ours does not have; the text says what."""


@dataclass(frozen=True)
class Call:
    """One call of torch's function: operands in one element type, the same numbers in float64."""

    origin: str
    function: Callable[..., Any]
    dtype: str
    operands: tuple[Any, ...]
    """Arrays, and whatever else is passed by position."""
    named: Mapping[str, Any]

    def arrays(self) -> tuple[Array, ...]:
        """The operands that are arrays."""
        return tuple(x for x in self.operands if isinstance(x, np.ndarray))

    def exactly(self, *operands: Any, **named: Any) -> Any:
        """torch's answer in float64, or in integers."""
        given = operands or self.operands
        wide = [_wide(x) for x in given]
        options = {k: _wide(v) for k, v in (named or self.named).items()}
        return self.function(*wide, **options)


def _wide(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    wide = x.astype(np.float64) if is_float(str(x.dtype)) else x
    return torch.from_numpy(np.ascontiguousarray(wide)).reshape(x.shape)


def as_array(x: torch.Tensor, dtype: str) -> Array:
    """Its elements in an element type; those of another kind keep their own."""
    x = x.detach().resolve_neg()
    if not x.is_floating_point():
        return x.numpy().copy()
    return x.double().numpy().astype(numpy_dtype(dtype))


@functools.cache
def database() -> dict[str, Any]:
    """torch's operators by name, with the variant after a dot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {f"{o.name}.{o.variant_test_name}".rstrip("."): o for o in op_db}


def calls(name: str, dtype: str) -> Iterator[Call]:
    """torch's samples of an operator, its reference inputs among them."""
    info = database()[name]
    drawn = getattr(torch, "float32" if dtype == "float8_e4m3fn" else dtype)
    if drawn not in info.dtypes:
        return
    torch.manual_seed(0)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        # For its own messages torch looks for the running test through the whole stack, and keeps
        # where each seed was set, for devices that may come: a third of the time of this module.
        patch.setattr("torch.testing._internal.common_utils.extract_test_fn", lambda: None)
        patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        samples = list(info.reference_inputs("cpu", drawn, requires_grad=False))
    for number, sample in enumerate(samples):
        passed = (sample.input, *sample.args)
        tensors = [x for x in passed if isinstance(x, torch.Tensor)]
        if max((x.numel() for x in tensors), default=0) > LARGEST:
            continue
        with np.errstate(all="ignore"):
            operands = tuple(_operand(x, dtype) for x in passed)
            named = {k: _operand(v, dtype) for k, v in sample.kwargs.items()}
        yield Call(f"torch {name} {number} {dtype}", info.op, dtype, operands, named)


def _operand(x: Any, dtype: str) -> Any:
    return as_array(x, dtype) if isinstance(x, torch.Tensor) else x


Adapter = Callable[[Call], Iterable[Sample]]


# Functions of elements


def elementwise(logic: Any, function: str | None = None) -> Adapter:
    """Operands are stretched to one shape, numbers take the tensors' element type."""

    def adapt(call: Call) -> Iterator[Sample]:
        if set(call.named) - {"memory_format"}:
            raise NotCoveredError(f"the flags {', '.join(call.named)}")
        exactly = call.exactly()
        operands = _typed(call)
        static = () if function is None else (("function", function),)
        yield _of_elements(call, logic, operands, exactly, static)

    return adapt


def _typed(call: Call) -> tuple[Array, ...]:
    kinds = {str(x.dtype) for x in call.arrays()}
    if len(kinds) != 1:
        raise NotCoveredError("operands of several types: what a 0-dimensional tensor is worth")
    return tuple(_constant(x, call.dtype) for x in call.operands)


def _constant(x: Any, dtype: str) -> Array:
    if isinstance(x, np.ndarray):
        return x
    if not isinstance(x, int | float):
        raise NotCoveredError(f"{type(x).__name__} operands")
    with np.errstate(all="ignore"):
        made = np.asarray(x).astype(numpy_dtype(dtype))
    if float(made.astype(np.float64)) != x and not (math.isnan(x) and is_float(dtype)):
        raise NotCoveredError("numbers that the tensors' element type does not have")
    return made


def _of_elements(
    call: Call, logic: Any, operands: tuple[Array, ...], exactly: torch.Tensor, static: Any
) -> Sample:
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    assert tuple(exactly.shape) == shape, call.origin
    wanted, kind = _result(call, exactly)
    inputs = tuple(np.broadcast_to(x, shape).copy() for x in operands)
    return Sample(call.origin, logic, inputs, (wanted,), (kind,), static, joined="elements")


def _result(call: Call, exactly: torch.Tensor) -> tuple[Array, str]:
    """The expected values, and the element type in which torch has them."""
    kind = str(exactly.dtype).removeprefix("torch.")
    if is_float(kind):
        kind = call.dtype if is_float(call.dtype) else "float32"
    return exactly.double().numpy() if exactly.is_floating_point() else exactly.numpy(), kind


def quotient(call: Call) -> Iterator[Sample]:
    """Integers divided are numbers, exact in float64."""
    wide = tuple(x.astype(np.float64) if isinstance(x, np.ndarray) else x for x in call.operands)
    operands = _typed(call)
    exactly = call.exactly(*wide)
    yield _of_elements(call, language.binary, operands, exactly, (("function", "divide"),))


def float_of_integers(function: str) -> Adapter:
    """A function whose result is a float whatever it is given."""

    def adapt(call: Call) -> Iterator[Sample]:
        wide = call.operands[0].astype(np.float64)
        exactly = call.exactly(wide)
        static = (("function", function),)
        yield _of_elements(call, language.unary, (call.operands[0],), exactly, static)

    return adapt


def where(call: Call) -> Iterator[Sample]:
    """torch's samples have the condition in the middle; it is bytes here."""
    yes, condition, no = call.operands
    exactly = call.exactly()
    values = _typed(replace(call, operands=(yes, no)))
    operands = (condition.astype(np.uint8), *values)
    yield _of_elements(call, language.where, operands, exactly, ())


def clamp(call: Call) -> Iterator[Sample]:
    """A bound that is left out is the type's own."""
    given = dict(zip(("x", "min", "max"), call.operands, strict=False)) | dict(call.named)
    kind = numpy_dtype(call.dtype)
    low, high = (-np.inf, np.inf) if is_float(call.dtype) else _ends(kind)
    bounds = [given.get("min"), given.get("max")]
    filled = [end if x is None else x for x, end in zip(bounds, (low, high), strict=True)]
    exactly = call.exactly()
    operands = _typed(replace(call, operands=(given["x"], *filled)))
    yield _of_elements(call, language.clamp, operands, exactly, ())


def _ends(kind: np.dtype[Any]) -> tuple[int, int]:
    return int(np.iinfo(kind).min), int(np.iinfo(kind).max)


def convert(call: Call) -> Iterator[Sample]:
    """One element type to another."""
    x = call.operands[0]
    exactly = call.exactly()
    kind = str(exactly.dtype).removeprefix("torch.")
    wanted = exactly.double().numpy() if exactly.is_floating_point() else exactly.numpy()
    if exactly.is_floating_point():
        wanted = x.astype(np.float64)  # exact: the rounding is ours
    elif is_float(str(x.dtype)) and kind != "bool":
        wanted = _modulo(x.astype(np.float64), wanted)
    static = (("dtype", kind),)
    yield Sample(call.origin, language.convert, (x,), (wanted,), (kind,), static, joined="elements")


def _modulo(x: Array, wanted: Array) -> Array:
    """What torch has, and our decision where C++ leaves it open: beyond the range of int64."""
    open_ = ~(np.abs(x) < 2.0**63)
    bits = 8 * wanted.dtype.itemsize
    for at in map(tuple, np.argwhere(open_)):
        whole = int(x[at]) % 2**bits if np.isfinite(x[at]) else 0
        wanted[at] = np.array(whole, np.uint64).astype(wanted.dtype)
    return wanted


# Reductions


def reduction(function: str, operator: bool = False) -> Adapter:
    """The axes that are summed over go last, and become one."""

    def adapt(call: Call) -> Iterator[Sample]:
        named = {k: v for k, v in call.named.items() if k != "keepdim"}
        axes = call.operands[1] if len(call.operands) > 1 else named.pop("dim", None)
        if set(named) - {"dtype"} or named.get("dtype") is not None:
            raise NotCoveredError(f"the flags {', '.join(named)}")
        x = call.operands[0]
        exactly = call.exactly()
        if isinstance(exactly, tuple):
            exactly = exactly[0]
        wanted, kind = _result(call, exactly)
        rows = as_rows(x, axes)
        static = (("function", function),)
        logic = operators.load("reduce") if operator else language.reduction
        yield Sample(
            call.origin, logic, (rows,), (wanted.reshape(-1),), (kind,), static, joined="rows"
        )

    return adapt


def as_rows(x: Array, axes: Any) -> Array:
    """[M, N] with `axes` (all where None or empty) as N."""
    if axes is None or axes == () or axes == []:
        axes = tuple(range(x.ndim))
    axes = tuple(a % max(1, x.ndim) for a in (axes if isinstance(axes, list | tuple) else (axes,)))
    kept = [n for n in range(x.ndim) if n not in axes]
    if not x.ndim:
        return x.reshape(1, 1)
    size = math.prod(x.shape[n] for n in kept)
    return x.transpose(*kept, *axes).reshape(size, math.prod(x.shape[n] for n in axes)).copy()


# Operators


def softmax(call: Call) -> Iterator[Sample]:
    """Any axis goes last."""
    x = call.operands[0]
    axis = call.operands[1] if len(call.operands) > 1 else call.named["dim"]
    for part in planted(call):
        x = part.operands[0]
        exactly = torch.softmax(_wide(x), axis).numpy()
        if not x.ndim:
            x, exactly = x.reshape(1, 1), exactly.reshape(1, 1)
        last = (np.moveaxis(a, axis, -1) for a in (x, exactly))
        rows, wanted = (a.reshape(math.prod(a.shape[:-1]), a.shape[-1]).copy() for a in last)
        logic = operators.load("softmax")
        yield Sample(part.origin, logic, (rows,), (wanted,), (call.dtype,), joined="rows")


def norm(name: str) -> Adapter:
    """The normalised axes become one; weights that are left out are 1, biases 0."""

    def adapt(call: Call) -> Iterator[Sample]:
        for part in planted(call):
            x, shape, *rest = part.operands
            size = math.prod(shape)
            given = [part.named.get(k) for k in ("weight", "bias")][: 2 if "layer" in name else 1]
            given = (rest + [None] * 2)[: len(given)] if rest else given
            eps = rest[len(given)] if len(rest) > len(given) else part.named.get("eps")
            eps = 1e-5 if eps is None else eps
            wide = [None if w is None else _wide(w) for w in given]
            function = getattr(torch.nn.functional, name)
            exactly = function(_wide(x), shape, *wide, eps=eps).numpy()
            plain = (np.ones, np.zeros)
            full = [
                make(size, x.dtype) if w is None else w.reshape(-1)
                for w, make in zip(given, plain, strict=False)
            ]
            rows = (x.reshape(-1, size), *full)
            yield Sample(
                part.origin, operators.load(name), rows, (exactly.reshape(-1, size),),
                (call.dtype,), scalars=(("eps", eps),),
            )  # fmt: skip

    return adapt


def planted(call: Call) -> Iterator[Call]:
    """The call, and for floats the same with awkward numbers at places that a seed picks."""
    yield call
    if not is_float(call.dtype):
        return
    rng = np.random.default_rng(len(call.origin))
    for value in SPECIAL:
        operands = list(call.operands)
        for n, x in enumerate(operands):
            if isinstance(x, np.ndarray) and is_float(str(x.dtype)) and x.size:
                operands[n] = x.copy()
                with np.errstate(all="ignore"):
                    operands[n].reshape(-1)[rng.integers(x.size)] = value
                break  # one operand at a time: the first that has elements
        yield replace(call, origin=f"{call.origin} with {value}", operands=tuple(operands))


def product(call: Call) -> Iterator[Sample]:
    """Products of matrices, of stacks of them, and of vectors."""
    named = {k: v for k, v in call.named.items() if k != "out_dtype"}
    if named:
        raise NotCoveredError(f"the flags {', '.join(named)}")
    for part in planted(call):
        a, b = part.operands
        wide = [(x if is_float(call.dtype) else x.astype(np.int32)) for x in (a, b)]
        exactly = call.exactly(*wide)
        yield from products(part.origin, a, b, exactly.numpy(), _sum_type(call.dtype))


def _sum_type(dtype: str) -> str:
    return dtype if is_float(dtype) else "int32"


def products(origin: str, a: Array, b: Array, exactly: Array, kind: str) -> Iterator[Sample]:
    """`a @ b` by the operators that have it."""
    rows = a[None, :] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b
    full = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    m, k, n = *rows.shape[-2:], columns.shape[-1]
    if not full:
        wanted = (exactly.reshape(m, n),)
        yield Sample(origin, operators.load("gemm"), (rows, columns), wanted, (kind,))
        turned = (("trans_b", True),)
        other = (rows, np.ascontiguousarray(columns.T))
        yield Sample(f"{origin} turned", operators.load("gemm"), other, wanted, (kind,), turned)
        yield Sample(origin, operators.load("gemm_splitk"), (rows, columns), wanted, (kind,))
        return
    count = math.prod(full)
    left = np.broadcast_to(rows, (*full, m, k)).reshape(count, m, k).copy()
    right = np.broadcast_to(columns, (*full, k, n)).reshape(count, k, n).copy()
    wanted = (exactly.reshape(count, m, n),)
    yield Sample(origin, operators.load("batched_gemm"), (left, right), wanted, (kind,))


def linear(call: Call) -> Iterator[Sample]:
    """Weights are turned; without a bias it is a product."""
    for part in planted(call):
        x, weight, *rest = part.operands
        bias = rest[0] if rest else None
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        if weight.ndim != 2:
            raise NotCoveredError("a weight that is a vector")
        columns = np.ascontiguousarray(weight.T)
        size = (rows.shape[0], columns.shape[1])
        if bias is None:
            exactly = call.exactly(*_integers(call, x, weight)).reshape(size).numpy()
            yield from products(part.origin, rows, columns, exactly, _sum_type(call.dtype))
            continue
        exactly = call.exactly(*_integers(call, x, weight, bias)).reshape(size).numpy()
        yield _epilogue(part.origin, rows, columns, bias, exactly, _sum_type(call.dtype))


def _integers(call: Call, *arrays: Array) -> tuple[Array, ...]:
    return tuple(x if is_float(call.dtype) else x.astype(np.int32) for x in arrays)


def _epilogue(origin: str, a: Array, b: Array, bias: Array, exactly: Array, kind: str) -> Sample:
    logic = operators.load("gemm_bias_act")
    return Sample(origin, logic, (a, b, bias), (exactly,), (kind,), (("act", "none"),))


def conv2d(call: Call) -> Iterator[Sample]:
    """Without the bias, which ours does not have; one image gets a batch of one."""
    names = ("x", "weight", "bias", "stride", "padding", "dilation", "groups")
    for part in planted(call):
        given = dict(zip(names, part.operands, strict=False)) | dict(part.named)
        x, weight = given["x"], given["weight"]
        images = x if x.ndim == 4 else x[None]
        dilation = _pair(given.get("dilation", 1))
        padding = _padding(given.get("padding", 0), weight.shape[2:], dilation)
        static = {
            "stride": _pair(given.get("stride", 1)), "padding": padding,
            "dilation": dilation, "groups": given.get("groups", 1),
        }  # fmt: skip
        wide = (_wide(x) for x in _integers(call, images, weight))
        exactly = torch.nn.functional.conv2d(*wide, **static).numpy()
        yield from convolutions(part.origin, images, weight, exactly, static, call.dtype)


def convolutions(
    origin: str, x: Array, weight: Array, exactly: Array, static: dict[str, int], kind: str
) -> Iterator[Sample]:
    """Channels first, and last where there are no groups."""
    kind, flags = _sum_type(kind), tuple(static.items())
    yield Sample(origin, operators.load("conv2d"), (x, weight), (exactly,), (kind,), flags)
    if static["groups"] == 1:
        last = (x.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0))
        wanted = exactly.transpose(0, 2, 3, 1)
        flags = tuple((k, v) for k, v in flags if k != "groups")
        arrays = tuple(map(np.ascontiguousarray, last))
        yield Sample(
            f"{origin} nhwc", operators.load("conv2d_nhwc"), arrays, (wanted,), (kind,), flags
        )


def _pair(value: Any) -> int:
    if isinstance(value, int):
        return value
    if len(set(value)) > 1:
        raise NotCoveredError("another stride, padding or dilation along each axis")
    return int(value[0])


def _padding(value: Any, size: tuple[int, ...], dilation: int) -> int:
    if value == "valid":
        return 0
    if value != "same":
        return _pair(value)
    total = {dilation * (n - 1) for n in size}
    if len(total) > 1 or total.copy().pop() % 2:
        raise NotCoveredError("padding on one side only, or another along each axis")
    return total.pop() // 2


def attention(call: Call) -> Iterator[Sample]:
    """A mask is a bias, of truth values 0 and -inf; dropout is random, so it is left out."""
    if call.named.get("dropout_p"):
        raise NotCoveredError("dropout")
    for part in planted(call):
        q, k, v = part.operands[:3]
        q, k, v = (x[:, None] if x.ndim == 3 else x for x in (q, k, v))
        if v.shape[-1] != q.shape[-1]:
            raise NotCoveredError("values of another size than keys")
        mask = part.operands[3] if len(part.operands) > 3 else part.named.get("attn_mask")
        causal, scale = bool(part.named.get("is_causal")), part.named.get("scale")
        if causal and q.shape[2] != k.shape[2]:
            raise NotCoveredError("causal with fewer or more keys than queries, see the decision")
        if q.shape[1] % k.shape[1]:
            raise NotCoveredError("one head of queries stretched over heads of keys")
        wide = None if mask is None else _wide(mask)
        if wide is not None and wide.ndim == 3:
            wide = wide[:, None]
        # torch's definition: its fused kernel for CPUs gives 0 for a query with NaN.
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            exactly = torch.nn.functional.scaled_dot_product_attention(
                *map(_wide, (q, k, v)), wide, is_causal=causal, scale=scale,
                enable_gqa=bool(part.named.get("enable_gqa")),
            ).numpy()  # fmt: skip
        bias = None if wide is None else wide.numpy()
        yield from attentions(part.origin, q, k, v, exactly, bias, causal, scale)


def attentions(
    origin: str, q: Array, k: Array, v: Array, exactly: Array, bias: Array | None,
    causal: bool, scale: float | None,
) -> Iterator[Sample]:  # fmt: skip
    """By the operator that fits; without a mask also one query at a time."""
    kind = (str(q.dtype),)
    flags = () if scale is None else (("scale", float(scale)),)
    if bias is not None:
        if bias.dtype == bool:
            bias = np.where(bias, 0.0, -np.inf)
        full = np.broadcast_to(bias, (*q.shape[:3], k.shape[2])).astype(q.dtype)
        logic = operators.load("attention_bias")
        yield Sample(origin, logic, (q, k, v, full), (exactly,), kind, flags)
        return
    flags = (*flags, ("causal", True)) if causal else flags
    yield Sample(origin, operators.load("attention"), (q, k, v), (exactly,), kind, flags)
    if not causal or q.shape[2] == k.shape[2]:
        packed = [np.concatenate([*x.swapaxes(1, 2)]) for x in (q, k, v, exactly)]
        starts = [np.arange(len(x) + 1, dtype=np.int64) * x.shape[2] for x in (q, k)]
        logic, wanted = operators.load("attention_varlen"), (packed.pop(),)
        yield Sample(f"{origin} packed", logic, (*packed, *starts), wanted, kind, flags)
    if not causal and q.shape[2]:
        logic, last = operators.load("attention_decode"), q.shape[2] - 1
        one = np.ascontiguousarray(q[:, :, last])
        wanted = (exactly[:, :, last],)
        yield Sample(f"{origin} last query", logic, (one, k, v), wanted, kind, flags)


def topk(call: Call) -> Iterator[Sample]:
    """Any axis goes last; the smallest are the greatest of the negated."""
    if not is_float(call.dtype):
        raise NotCoveredError("integers")
    for part in planted(call):
        x, k, *rest = part.operands
        axis = rest[0] if rest else part.named.get("dim", -1)
        largest = rest[1] if len(rest) > 1 else part.named.get("largest", True)
        rows = np.moveaxis(x, axis, -1) if x.ndim else x.reshape(1, 1)
        rows = rows.reshape(-1, rows.shape[-1]).copy()
        rows = rows if largest else -rows
        # Of equal ones torch.topk gives any; its stable sort gives the first, as ours.
        values, indices = torch.sort(_wide(rows), dim=-1, descending=True, stable=True)
        wanted = (values[:, :k].numpy(), indices[:, :k].numpy())
        kinds, flags = (call.dtype, "int64"), (("k", k),)
        yield Sample(
            part.origin, operators.load("topk"), (rows,), wanted, kinds, flags, joined="rows"
        )


_UNARY = {
    "abs": "abs", "neg": "neg", "floor": "floor", "ceil": "ceil", "round": "round",
    "nn.functional.relu": "relu", "nn.functional.silu": "silu", "square": "square",
    "bitwise_not": "invert", "logical_not": "logical_not", "isnan": "isnan", "isinf": "isinf",
}  # fmt: skip
_FLOAT = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "sigmoid",
    "reciprocal",
)  # fmt: skip
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "floor_divide": "floor_divide",
    "remainder": "remainder", "pow": "power", "maximum": "maximum", "minimum": "minimum",
    "clamp_min": "maximum", "clamp_max": "minimum", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}  # fmt: skip
_TYPES = ("half", "bfloat16", "float", "double", "char", "short", "int", "long", "byte", "bool")


def gelu(call: Call) -> Iterator[Sample]:
    """The exact one, by erf."""
    if call.named.get("approximate", "none") != "none":
        raise NotCoveredError("the approximation by tanh")
    yield from elementwise(language.unary, "gelu")(replace(call, named={}))


def by_operator(name: str, function: str) -> Adapter:
    """The library's operator on elements: the same as a matrix of one row."""

    def adapt(call: Call) -> Iterator[Sample]:
        for sample in elementwise(operators.load(name), function)(call):
            inputs = tuple(x.reshape(-1, 1) for x in sample.inputs)
            wanted = tuple(x.reshape(-1, 1) for x in sample.wanted)
            yield replace(sample, inputs=inputs, wanted=wanted, joined="rows")

    return adapt


ADAPTERS: Mapping[str, Adapter] = {
    **{name: elementwise(language.unary, f) for name, f in _UNARY.items()},
    **{name: float_of_integers(name) for name in _FLOAT},
    **{name: elementwise(language.binary, f) for name, f in _BINARY.items()},
    **dict.fromkeys(_TYPES, convert),
    "nn.functional.gelu": gelu,
    "true_divide": quotient,
    "where": where, "clamp": clamp,
    "sum": reduction("sum"), "mean": reduction("mean"),
    "amax": reduction("max"), "amin": reduction("min"),
    "softmax": softmax,
    "nn.functional.layer_norm": norm("layer_norm"), "nn.functional.rms_norm": norm("rms_norm"),
    "mm": product, "bmm": product, "matmul": product,
    "nn.functional.linear": linear, "nn.functional.conv2d": conv2d,
    "nn.functional.scaled_dot_product_attention": attention,
    "topk": topk,
}  # fmt: skip
"""torch's operators, and how their samples become ours."""


@np.errstate(all="ignore")
def samples(name: str, dtype: str) -> tuple[list[Sample], list[str]]:
    """All samples of an operator in an element type; and what is not covered, with the reason."""
    made: list[Sample] = []
    left: list[str] = []
    for call in calls(name, dtype):
        try:
            made += list(ADAPTERS[name](call))
        except NotCoveredError as reason:
            left.append(f"{call.origin}: {reason}")
        except NotImplementedError as reason:  # dilated convolutions of integers
            left.append(f"{call.origin}: torch itself: {reason}")
    return made, left

"""ONNX's node test cases: small models of one operator, their inputs and expected outputs.

`ADAPTERS` says for each ONNX operator which logic of ours is meant and how its inputs and
attributes map. What a case asks for and ours lacks raises `NotCoveredError` with the reason.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran import operators
from septran.dtypes import is_float
from tests.oracles import language
from tests.oracles.judging import Array, Sample
from tests.oracles.opinfo import NotCoveredError, as_rows

TYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)  # fmt: skip
GREATEST_FLOAT8 = 448.0


@dataclass(frozen=True)
class Case:
    """One of ONNX's cases."""

    name: str
    operator: str
    flags: Mapping[str, Any]
    inputs: tuple[Array | None, ...]
    """In the operator's order; None for one that is left out."""
    outputs: tuple[Array, ...]

    @property
    def kind(self) -> str:
        """The element type of the first output."""
        return str(self.outputs[0].dtype)

    def input(self, number: int) -> Array | None:
        """None where there are fewer."""
        return self.inputs[number] if number < len(self.inputs) else None


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases of one node that have an adapter."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    made = []
    for case in found:
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in ADAPTERS and not nodes[0].domain:
            flags = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[0].attribute}
            given, wanted = ([_array(x) for x in side] for side in case.data_sets[0])
            passed = iter(given)
            inputs = tuple(next(passed, None) if name else None for name in nodes[0].input)
            made.append(Case(case.name, nodes[0].op_type, flags, inputs, tuple(wanted)))
    return tuple(made)


def _array(x: Any) -> Array | None:
    import onnx

    if isinstance(x, onnx.TensorProto):
        return onnx.numpy_helper.to_array(x)
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic) else None


Adapter = Callable[[Case], Iterator[Sample]]


def of_elements(
    case: Case, logic: Any, operands: tuple[Array, ...], function: str | None, **static: Any
) -> Sample:
    """Operands stretched to the output's shape."""
    wanted = case.outputs[0]
    if len({str(x.dtype) for x in operands}) > 1 and logic is language.binary:
        raise NotCoveredError("operands of several types")
    for x in (*operands, wanted):
        if str(x.dtype) not in TYPES:
            raise NotCoveredError(f"element type {x.dtype}")
    inputs = tuple(np.broadcast_to(x, wanted.shape).copy() for x in operands)
    flags = ((("function", function),) if function else ()) + tuple(static.items())
    return Sample(
        f"onnx {case.name}", logic, inputs, (exactly(wanted),), (case.kind,), flags,
        joined="elements",
    )  # fmt: skip


def exactly(x: Array) -> Array:
    """Floats in float64."""
    return x.astype(np.float64) if is_float(str(x.dtype)) else x


def unary(function: str, **only: Any) -> Adapter:
    """A function of one tensor; attributes other than `only` are not covered."""

    def adapt(case: Case) -> Iterator[Sample]:
        if any(case.flags[name] != only.get(name) for name in case.flags):
            raise NotCoveredError(f"attributes {dict(case.flags)}")
        yield of_elements(case, language.unary, (case.inputs[0],), function)

    return adapt


def binary(function: str) -> Adapter:
    """A function of two tensors; ONNX's ``Max`` and its kin of more are folded."""

    def adapt(case: Case) -> Iterator[Sample]:
        if len(case.inputs) == 2:
            yield of_elements(case, language.binary, case.inputs, function)
            return
        if len(case.inputs) != 3:
            raise NotCoveredError("a function of one tensor")
        a, b, c = case.inputs
        first = {"maximum": np.maximum, "minimum": np.minimum}.get(function)
        if first is None:  # a sum of three has other roundings than one of two
            raise NotCoveredError("a sum of three")
        yield of_elements(case, language.binary, (first(a, b), c), function)

    return adapt


def divide(case: Case) -> Iterator[Sample]:
    """Integers are divided rounding down; ONNX truncates."""
    a, b = case.inputs
    if is_float(case.kind):
        yield of_elements(case, language.binary, (a, b), "divide")
        return
    if (np.sign(a) * np.sign(np.broadcast_to(b, a.shape)) < 0).any():
        raise NotCoveredError("truncating division of numbers of different signs")
    yield of_elements(case, language.binary, (a, b), "floor_divide")


def remainder(case: Case) -> Iterator[Sample]:
    """The remainder of the divisor's sign."""
    if case.flags.get("fmod"):
        raise NotCoveredError("the remainder with the dividend's sign")
    yield of_elements(case, language.binary, case.inputs, "remainder")


def shift(case: Case) -> Iterator[Sample]:
    """Left or right."""
    way = case.flags["direction"].decode().lower()
    yield of_elements(case, language.binary, case.inputs, f"{way}_shift")


def where(case: Case) -> Iterator[Sample]:
    """The condition is bytes here."""
    condition, yes, no = case.inputs
    yield of_elements(case, language.where, (condition.astype(np.uint8), yes, no), None)


def clip(case: Case) -> Iterator[Sample]:
    """A bound that is left out is the type's own."""
    x = case.inputs[0]
    info = None if is_float(case.kind) else np.iinfo(x.dtype)
    ends = (-np.inf, np.inf) if info is None else (info.min, info.max)
    bounds = [case.input(n + 1) for n in range(2)]
    filled = [np.asarray(e, x.dtype) if b is None else b for b, e in zip(bounds, ends, strict=True)]
    yield of_elements(case, language.clamp, (x, *filled), None)


def convert(case: Case) -> Iterator[Sample]:
    """One type to another; a float8 that is too large is NaN, where ONNX saturates by default."""
    x, wanted = case.inputs[0], case.outputs[0]
    if x is None or wanted is None or {str(x.dtype), str(wanted.dtype)} - set(TYPES):
        raise NotCoveredError("element types that ours does not have")
    kind = str(wanted.dtype)
    sample = of_elements(case, language.convert, (x,), None, dtype=kind)
    if kind == "float8_e4m3fn" and case.flags.get("saturate", 1):
        kept = x.astype(np.float64).astype(np.float32).astype(wanted.dtype).astype(np.float64)
        wide = sample.wanted[0]
        assert (np.abs(wide[np.isnan(kept) & ~np.isnan(wide)]) == GREATEST_FLOAT8).all()
        wide[np.isnan(kept)] = np.nan
    yield sample


def gate(case: Case) -> Iterator[Sample]:
    """SwiGLU of two tensors: a * sigmoid(a) * b."""
    if case.flags.get("alpha", 1.0) != 1.0:
        raise NotCoveredError("alpha other than 1")
    yield of_elements(case, language.binary, case.inputs, "swish_gate")
    a, b, wanted = (x.reshape(-1, x.shape[-1]) for x in (*case.inputs, case.outputs[0]))
    flags = (("function", "silu_mul"),)
    logic = operators.load("elementwise_binary")
    yield Sample(f"onnx {case.name}", logic, (a, b), (exactly(wanted),), (case.kind,), flags)


def reduction(function: str) -> Adapter:
    """The axes that are summed over go last, and become one."""

    def adapt(case: Case) -> Iterator[Sample]:
        x, axes = case.inputs[0], case.input(1)
        if axes is None:
            axes = np.asarray(case.flags.get("axes", []))
        if not axes.size and case.flags.get("noop_with_empty_axes"):
            raise NotCoveredError("no axis at all")
        rows = as_rows(x, tuple(int(a) for a in axes))
        wanted = exactly(case.outputs[0]).reshape(-1)
        flags = (("function", function),)
        yield Sample(
            f"onnx {case.name}", language.reduction, (rows,), (wanted,), (case.kind,), flags,
            joined="rows",
        )  # fmt: skip

    return adapt


def softmax(case: Case) -> Iterator[Sample]:
    """Any axis goes last."""
    axis = case.flags.get("axis", -1)
    last = (np.moveaxis(a, axis, -1) for a in (case.inputs[0], exactly(case.outputs[0])))
    rows, wanted = (a.reshape(-1, a.shape[-1]).copy() for a in last)
    logic = operators.load("softmax")
    yield Sample(f"onnx {case.name}", logic, (rows,), (wanted,), (case.kind,), joined="rows")


def norm(name: str) -> Adapter:
    """From an axis on all are normalised together; a bias that is left out is 0."""

    def adapt(case: Case) -> Iterator[Sample]:
        x, weight, bias = case.inputs[0], case.inputs[1], case.input(2)
        axis = case.flags.get("axis", -1) % x.ndim
        size = math.prod(x.shape[axis:])
        if weight.size != size:
            raise NotCoveredError("weights that are stretched")
        arrays = [x.reshape(-1, size), weight.reshape(-1)]
        if name == "layer_norm":
            arrays.append(np.zeros(size, x.dtype) if bias is None else bias.reshape(-1))
        wanted = exactly(case.outputs[0]).reshape(-1, size)
        scalars = (("eps", float(case.flags.get("epsilon", 1e-5))),)
        logic, origin = operators.load(name), f"onnx {case.name}"
        yield Sample(origin, logic, tuple(arrays), (wanted,), (case.kind,), scalars=scalars)

    return adapt


def product(case: Case) -> Iterator[Sample]:
    """MatMul is torch's matmul."""
    from tests.oracles.opinfo import products

    a, b = case.inputs
    yield from products(f"onnx {case.name}", a, b, exactly(case.outputs[0]), case.kind)


def integer_product(case: Case) -> Iterator[Sample]:
    """The zero points are taken off first."""
    a, b = (
        x.astype(np.int16) - z.astype(np.int16)
        for x, z in zip(case.inputs[:2], case.inputs[2:], strict=True)
    )
    if max(np.abs(a).max(), np.abs(b).max()) > 127:
        raise NotCoveredError("differences that are not int8")
    arrays = (a.astype(np.int8), b.astype(np.int8))
    wanted = (case.outputs[0],)
    yield Sample(f"onnx {case.name}", operators.load("gemm"), arrays, wanted, ("int32",))


def gemm(case: Case) -> Iterator[Sample]:
    """With a row that is added, or nothing."""
    if case.flags.get("alpha", 1) != 1 or case.flags.get("beta", 1) != 1:
        raise NotCoveredError("alpha and beta other than 1")
    a, b, added = case.inputs[0], case.inputs[1], case.input(2)
    turned = {"trans_a": bool(case.flags.get("transA")), "trans_b": bool(case.flags.get("transB"))}
    wanted, origin = exactly(case.outputs[0]), f"onnx {case.name}"
    if added is None or not added.any():
        flags = tuple(turned.items())
        yield Sample(origin, operators.load("gemm"), (a, b), (wanted,), (case.kind,), flags)
    if added is None:
        return
    if added.ndim and added.size != added.shape[-1]:
        raise NotCoveredError("a matrix that is added")
    a, b = a.T if turned["trans_a"] else a, b.T if turned["trans_b"] else b
    bias = np.broadcast_to(added.reshape(-1), wanted.shape[-1:])
    arrays = tuple(map(np.ascontiguousarray, (a, b, bias)))
    logic = operators.load("gemm_bias_act")
    yield Sample(origin, logic, arrays, (wanted,), (case.kind,), (("act", "none"),))


def conv(case: Case) -> Iterator[Sample]:
    """Equal along both axes, and padded alike on all sides."""
    from tests.oracles.opinfo import convolutions

    names = ("strides", "pads", "dilations")
    values = [case.flags.get(name, [end]) for name, end in zip(names, (1, 0, 1), strict=True)]
    if case.flags.get("auto_pad", b"NOTSET") != b"NOTSET" or any(len(set(v)) > 1 for v in values):
        raise NotCoveredError("padding on one side only, or another along each axis")
    if len(case.inputs) > 2 or case.inputs[0].ndim != 4:
        raise NotCoveredError("a bias, or other than two dimensions")
    static = dict(zip(("stride", "padding", "dilation"), (v[0] for v in values), strict=True))
    static["groups"] = case.flags.get("group", 1)
    wanted = exactly(case.outputs[0])
    yield from convolutions(f"onnx {case.name}", *case.inputs, wanted, static, case.kind)


def attention(case: Case) -> Iterator[Sample]:
    """Past keys go before the new ones; masks, and causal ones that are not as ours, are biases."""
    from tests.oracles.opinfo import attentions

    for flag in ("softcap", "left_window_size", "right_window_size"):
        if case.flags.get(flag, -1) not in (-1, 0.0):
            raise NotCoveredError(flag)
    q, k, v = case.inputs[:3]
    heads = case.flags.get("q_num_heads"), case.flags.get("kv_num_heads")
    flat = q.ndim == 3
    if flat:
        q, k, v = (_heads(x, n) for x, n in zip((q, k, v), (*heads, heads[1]), strict=True))
    for number, new in ((4, "k"), (5, "v")):
        past = case.input(number)
        if past is not None and new == "k":
            k = np.concatenate((past, k), 2)
        elif past is not None:
            v = np.concatenate((past, v), 2)
    if v.shape[-1] != q.shape[-1]:
        raise NotCoveredError("values of another size than keys")
    wanted = exactly(case.outputs[0])
    wanted = _heads(wanted, heads[0]) if flat else wanted
    bias, causal = _bias(case, q, k)
    scale = case.flags.get("scale")
    yield from attentions(f"onnx {case.name}", q, k, v, wanted, bias, causal, scale)


def _heads(x: Array, count: int) -> Array:
    """[B, M, H * D] as [B, H, M, D]."""
    parts = x.reshape(*x.shape[:2], count, x.shape[2] // count)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3))


def _bias(case: Case, q: Array, k: Array) -> tuple[Array | None, bool]:
    """What is added to the scores; or, for causal attention as ours is, nothing."""
    mask, lengths = case.input(3), case.input(6)
    rows, columns = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])
    past = case.input(4)
    ahead = np.full(q.shape[0], 0 if past is None else past.shape[2])
    seen = np.ones((q.shape[0], 1, q.shape[2], k.shape[2]), bool)
    if lengths is not None:
        seen &= columns < lengths[:, None, None, None]
        ahead = lengths - q.shape[2]
    if case.flags.get("is_causal"):
        if mask is None and (ahead == k.shape[2] - q.shape[2]).all():
            return None, True
        seen &= columns <= rows + ahead[:, None, None, None]
    if mask is None:
        return (None if seen.all() else np.where(seen, 0.0, -np.inf)), False
    added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
    short = k.shape[2] - mask.shape[-1]  # keys beyond a mask are hidden
    added = np.pad(added, (*[(0, 0)] * (mask.ndim - 1), (0, short)), constant_values=-np.inf)
    return np.where(seen, added, -np.inf), False


def rotary(case: Case) -> Iterator[Sample]:
    """One sequence at a time; interleaved pairs are sorted into halves, and back."""
    x, cos, sin, places = (*case.inputs, None)[:4]
    wanted = exactly(case.outputs[0])
    if x.ndim == 3:
        x, wanted = (_heads(a, case.flags["num_heads"]) for a in (x, wanted))
    size = case.flags.get("rotary_embedding_dim", 0) or x.shape[-1]
    for b in range(x.shape[0]):
        angles = [a[b] if places is None else a[places[b]] for a in (cos, sin)]
        turned, result = (a[b, ..., :size].transpose(1, 0, 2) for a in (x, wanted))
        if case.flags.get("interleaved"):
            turned, result = (
                np.concatenate((a[..., ::2], a[..., 1::2]), -1) for a in (turned, result)
            )
        arrays = tuple(map(np.ascontiguousarray, (turned, *angles)))
        logic = operators.load("rope")
        yield Sample(f"onnx {case.name} {b}", logic, arrays, (result,), (case.kind,))


def linear_attention(case: Case) -> Iterator[Sample]:
    """Without decay and past; ONNX scales the result, by 1/sqrt of the key's size by default."""
    if case.flags.get("update_rule") != b"linear" or case.input(3) is not None:
        raise NotCoveredError("decay, delta rule, or a state from before")
    heads = case.flags["q_num_heads"], case.flags["kv_num_heads"]
    if heads[0] != heads[1]:
        raise NotCoveredError("heads that share keys")
    q, k, v = (_heads(x, heads[0]) for x in case.inputs[:3])
    scale = case.flags.get("scale") or 1 / math.sqrt(q.shape[-1])
    wanted = _heads(exactly(case.outputs[0]), heads[0]) / scale
    logic = operators.load("linear_attention")
    yield Sample(f"onnx {case.name}", logic, (q, k, v), (wanted,), (case.kind,))


def topk(case: Case) -> Iterator[Sample]:
    """The smallest are the greatest of the negated."""
    x, count = case.inputs[0], int(case.inputs[1][0])
    if not is_float(str(x.dtype)):
        raise NotCoveredError("integers")
    axis, largest = case.flags.get("axis", -1), case.flags.get("largest", 1)
    values, indices = (np.moveaxis(a, axis, -1) for a in case.outputs)
    rows = np.moveaxis(x, axis, -1)
    rows, values = (rows, exactly(values)) if largest else (-rows, -exactly(values))
    arrays = (rows.reshape(-1, rows.shape[-1]).copy(),)
    wanted = tuple(a.reshape(-1, count) for a in (values, indices))
    flags, kinds = (("k", count),), (str(x.dtype), "int64")
    yield Sample(f"onnx {case.name}", operators.load("topk"), arrays, wanted, kinds, flags)


def dequantise(case: Case) -> Iterator[Sample]:
    """The weights that dequant_gemm multiplies by, as its product with the identity."""
    x, scale, zero = (*case.inputs, None)[:3]
    if x is None or x.dtype != np.uint8 or zero is None or scale.ndim != x.ndim or x.ndim < 2:
        raise NotCoveredError("other than blocks of bytes, each with a zero point")
    axis, group = case.flags["axis"], case.flags["block_size"]
    parts = [np.moveaxis(a, axis, 0) for a in (x, scale, zero, case.outputs[0])]
    w, scales, zeros, wanted = (a.reshape(a.shape[0], -1) for a in parts)
    kind = wanted.dtype
    # ONNX's bytes are unsigned, ours signed: both the weight and the zero move by 128.
    arrays = (np.eye(w.shape[0], dtype=kind), w ^ 128, scales, zeros.astype(kind) - 128)
    arrays = tuple(map(np.ascontiguousarray, arrays))
    flags = (("bits", 8), ("group", group))
    logic = operators.load("dequant_gemm")
    yield Sample(f"onnx {case.name}", logic, arrays, (exactly(wanted),), (str(kind),), flags)


ADAPTERS: Mapping[str, Adapter] = {
    "Abs": unary("abs"), "Neg": unary("neg"), "Exp": unary("exp"), "Log": unary("log"),
    "Sqrt": unary("sqrt"), "Sin": unary("sin"), "Cos": unary("cos"), "Tanh": unary("tanh"),
    "Erf": unary("erf"), "Sigmoid": unary("sigmoid"), "Relu": unary("relu"),
    "Floor": unary("floor"), "Ceil": unary("ceil"), "Round": unary("round"),
    "Reciprocal": unary("reciprocal"), "Not": unary("logical_not"), "BitwiseNot": unary("invert"),
    "IsNaN": unary("isnan"), "IsInf": unary("isinf"), "Gelu": unary("gelu", approximate=b"none"),
    "Swish": unary("silu", alpha=1.0),
    "Add": binary("add"), "Sub": binary("subtract"), "Mul": binary("multiply"), "Div": divide,
    "Pow": binary("power"), "Mod": remainder, "Max": binary("maximum"), "Min": binary("minimum"),
    "Sum": binary("add"), "Less": binary("less"), "LessOrEqual": binary("less_equal"),
    "Greater": binary("greater"), "GreaterOrEqual": binary("greater_equal"),
    "Equal": binary("equal"), "And": binary("bitwise_and"), "Or": binary("bitwise_or"),
    "Xor": binary("bitwise_xor"), "BitwiseAnd": binary("bitwise_and"),
    "BitwiseOr": binary("bitwise_or"), "BitwiseXor": binary("bitwise_xor"), "BitShift": shift,
    "Where": where, "Clip": clip, "Cast": convert, "CastLike": convert, "SwiGLU": gate,
    "ReduceSum": reduction("sum"), "ReduceMean": reduction("mean"), "ReduceMax": reduction("max"),
    "ReduceMin": reduction("min"), "ReduceSumSquare": reduction("sum_of_squares"),
    "ReduceL1": reduction("sum_of_sizes"),
    "Softmax": softmax, "LayerNormalization": norm("layer_norm"),
    "RMSNormalization": norm("rms_norm"), "MatMul": product, "MatMulInteger": integer_product,
    "Gemm": gemm, "Conv": conv, "Attention": attention, "RotaryEmbedding": rotary,
    "LinearAttention": linear_attention, "TopK": topk, "DequantizeLinear": dequantise,
}  # fmt: skip
"""ONNX's operators, and how their cases become ours."""


@np.errstate(all="ignore")
def samples(operator: str) -> tuple[list[Sample], list[str]]:
    """All samples of an operator; and the cases that are not covered, with the reason."""
    made: list[Sample] = []
    left: list[str] = []
    for case in cases():
        if case.operator != operator:
            continue
        try:
            if any(x is None for x in case.outputs):
                raise NotCoveredError("element types that NumPy does not have")
            made += list(ADAPTERS[operator](case))
        except NotCoveredError as reason:
            left.append(f"onnx {case.name}: {reason}")
    return made, left

"""Direct calls of one kernel: the plans by which ``caller.c`` chooses what to run."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from septran.dtypes import is_float, numpy_dtype
from septran.runtime.arguments import range_of, scalar_values
from septran.runtime.calls import FastCall
from septran.runtime.direct.library import prepared, torch_number
from septran.runtime.signature import Signature, Specialisation, TensorParam, UseMark
from septran.task.tree import ScalarParam

TENSORS, RANK, SCALARS, DYNAMIC = 32, 8, 8, 4
INTEGER, FLOAT = 1, 3
"""Indices of types of TVM's FFI (tvm/ffi/c_api.h)."""
GREATEST = 2**63 - 1
"""What one of them may be."""


class _Value(ctypes.Union):
    _fields_ = (("integer", ctypes.c_int64), ("real", ctypes.c_double))


class _Any(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", _Value))


class _Element(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32), ("rank", ctypes.c_int32), ("extents", ctypes.c_int64 * RANK),
        ("element", _Element), ("place", ctypes.c_int32), ("allocate", ctypes.c_void_p),
        ("type", ctypes.c_void_p), ("torch", ctypes.c_int32),
    )  # fmt: skip


class _Scalar(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("type", ctypes.c_int32),
        ("least", ctypes.c_int64), ("most", ctypes.c_int64),
    )  # fmt: skip


class _Integer(ctypes.Structure):
    _fields_ = (
        ("may", ctypes.c_int32), ("numpy", ctypes.c_int32), ("element", _Element),
        ("least", ctypes.c_int64), ("most", ctypes.c_int64),
    )  # fmt: skip


class _Plan(ctypes.Structure):
    """A plan as ``caller.c`` has it; objects that it names are in `keeps`."""

    _fields_ = (
        ("owner", ctypes.c_void_p), ("function", ctypes.c_void_p), ("recent", ctypes.c_void_p),
        ("numpy", ctypes.c_int32), ("scalars", ctypes.c_int32), ("open", ctypes.c_int32),
        ("least", ctypes.c_int64 * DYNAMIC), ("most", ctypes.c_int64 * DYNAMIC),
        ("tensors", _Tensor * TENSORS), ("values", _Any * SCALARS),
        ("given", _Scalar * SCALARS),
    )  # fmt: skip
    keeps: tuple[Any, ...]
    use: UseMark

    @property
    def key(self) -> tuple[Any, ...]:
        """What two plans for the same calls have in common."""
        return self.function, self.numpy, bytes(self.tensors), bytes(self.least), bytes(self.most)

    def sizes(self, outputs: int) -> tuple[Any, Any]:
        """Types and extents of the outputs, and of the inputs."""
        found = [(self.numpy, t.kind, t.rank, bytes(t.extents)) for t in self.tensors]
        return found[:outputs], found[outputs:]


class _Caller(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_void_p), ("other", ctypes.c_void_p), ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32), ("count", ctypes.c_int32), ("plans", ctypes.c_void_p),
        ("integers", _Integer * TENSORS),
    )  # fmt: skip
    keeps: tuple[Any, ...]


class Caller:
    """The direct calls of one kernel."""

    def __init__(self, kernel: Any, signature: Signature, other: Callable[..., Any]) -> None:
        """`other` is the function, of the kernel and a call's arguments, for all other calls."""
        self._plans: list[_Plan] = []
        weak, inputs = weakref.ref(kernel), signature.inputs
        self._struct = _Caller(id(weak), id(other), len(inputs), len(signature.outputs), 0, None)
        for number, tensor in enumerate(inputs[:TENSORS]):
            self._struct.integers[number] = _integer(tensor)
        self._struct.keeps = (weak, other)
        self._signature = signature

    def function(self) -> Callable[..., Any] | None:
        """The compiled function, as a class's ``__call__``; None where there are no plans."""
        library = prepared("NumPy") if self._plans else None
        if library is None:
            return None
        made: Callable[..., Any] = library.septran_function(
            ctypes.addressof(self._struct), self._struct
        )
        return made

    def add(self, plan: FastCall, specialisation: Specialisation) -> bool:
        """Add a plan; returns False where calls of its kind cannot be direct."""
        made = _plan(plan, specialisation, self._signature)
        if made is None:
            return False
        if all(made.key != known.key for known in self._plans):
            self._set([*self._plans, made])
        return True

    def forget(self, use: UseMark) -> None:
        """Drop the plans of a compilation."""
        self._set([p for p in self._plans if p.use is not use])

    def _set(self, plans: list[_Plan]) -> None:
        sizes = [plan.sizes(len(self._signature.outputs)) for plan in plans]
        for plan, (made, given) in zip(plans, sizes, strict=True):
            plan.open = any(given == inputs and made != outputs for outputs, inputs in sizes)
        # In this order, as calls in other threads may look between the steps.
        table = (ctypes.c_void_p * len(plans))(*map(ctypes.addressof, plans))
        self._struct.count = min(self._struct.count, len(plans))
        self._struct.plans = ctypes.addressof(table)
        self._struct.keeps = (*self._struct.keeps[:2], table, plans)
        self._plans, self._struct.count = plans, len(plans)


def _plan(plan: FastCall, specialisation: Specialisation, signature: Signature) -> _Plan | None:
    """A plan as ``caller.c`` has it; None where it cannot be one."""
    import tvm_ffi

    executable = specialisation.stages.executable
    numpy, scalars = plan.library.name == "NumPy", specialisation.scalars
    if not getattr(executable, "checks_arguments", False):
        return None
    if not isinstance(plan.run, tvm_ffi.Function) or prepared(plan.library.name) is None:
        return None
    order = [*signature.outputs, *signature.inputs]
    by_name = {t.name: (place, t) for place, t in enumerate(specialisation.tensors)}
    spans = specialisation.spans
    told = {name for t in specialisation.tensors if not t.writes for name in t.told}
    if len(order) > TENSORS or len(scalars) > SCALARS or len(spans) > DYNAMIC:
        return None
    if not spans.keys() <= told:
        return None
    made = _Plan(numpy=numpy, scalars=len(scalars), function=plan.run.__chandle__())
    made.owner, made.recent = id(made), plan.use.address
    for number, (least, most) in enumerate(spans.values()):
        made.least[number], made.most[number] = least, most
    kept: list[Any] = [plan.run, plan.use, plan.allocators]
    for number, wanted in enumerate(order):
        place, found = by_name[wanted.name]
        allocate = plan.allocators[number] if found.writes and found.reads else None
        described = _tensor(found, tuple(spans), numpy)
        if described is None or (allocate and spans):
            return None
        described.place, described.allocate = place, id(allocate) if allocate else None
        kept.append(numpy_dtype(found.dtype or "") if numpy else None)
        described.type = id(kept[-1]) if numpy else None
        made.tensors[number] = described
    for number, scalar in enumerate(scalars):
        made.given[number] = _scalar(scalar)
        if scalar.default is not None:
            [value] = scalar_values(signature.name, [scalar], {})
            made.values[number] = _value(value)
    made.keeps, made.use = tuple(kept), plan.use
    return made


def _tensor(tensor: TensorParam, dynamic: Sequence[str], numpy: bool) -> _Tensor | None:
    import tvm_ffi

    shape, dtype = tensor.shape or (), tensor.dtype or ""
    if len(shape) > RANK:
        return None
    element = tvm_ffi.dtype(dtype)
    code, bits, lanes = element.type_code, element.bits, element.lanes
    made = _Tensor(rank=len(shape), element=_Element(code, bits, lanes))
    made.kind = numpy_dtype(dtype).num if numpy else code | bits << 8 | lanes << 16
    made.torch = 0 if numpy else torch_number(dtype)
    for axis, extent in enumerate(shape):
        name = tensor.told[axis] if tensor.told else ""
        made.extents[axis] = -1 - dynamic.index(name) if name in dynamic else extent
    return made


def _integer(tensor: TensorParam) -> _Integer:
    """What a call may pass as a number; nothing where it takes a tensor alone."""
    import tvm_ffi

    if tensor.span is None or tensor.dtype not in ("int32", "int64"):
        return _Integer()
    element = tvm_ffi.dtype(tensor.dtype)
    kept = _Element(element.type_code, element.bits, element.lanes)
    return _Integer(1, numpy_dtype(tensor.dtype).num, kept, *tensor.span)


def _scalar(scalar: ScalarParam) -> _Scalar:
    name = scalar.name.encode()
    if is_float(scalar.dtype):
        return _Scalar(name, FLOAT)
    least, most = range_of(scalar.dtype)
    return _Scalar(name, INTEGER, least, min(most, GREATEST))


def _value(value: float | int) -> _Any:
    if isinstance(value, int):
        return _Any(INTEGER, 0, _Value(integer=value))
    return _Any(FLOAT, 0, _Value(real=value))

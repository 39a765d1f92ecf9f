"""The compiled side of direct calls: ``caller.c`` as a library of this process.

It is compiled once and kept in the user's folder. Without a C compiler, and where an interpreter or
an array library is not laid out as ``caller.c`` takes it to be, there is none: calls then take the
way of `septran.runtime.calls`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran.runtime.cache import Cache
from septran.temporary import TemporaryFolder, opened_apart
from septran.user_folder import user_folder

SOURCE, FILE = Path(__file__).with_name("caller.c"), "caller.so"
HEAD = 2 * ctypes.sizeof(ctypes.c_void_p)
"""The bytes of an object's head: references and type."""
NEW_ARRAY = 94
"""The place of PyArray_NewFromDescr in NumPy's table of functions (numpy/__multiarray_api.h)."""
EXCHANGE = 5
"""The place of dltensor_from_py_object_no_sync in DLPack's DLPackExchangeAPI, in pointers."""


class Addresses(ctypes.Structure):
    """The addresses that ``caller.c`` uses, in its order."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "run", "error", "release", "array", "new_array", "tensor", "exchange",
            "requires_grad", "is_negated", "new_tensor", "delete_tensor", "wrap", "is_inference",
            "bump_version",
        )
    )  # fmt: skip


@dataclass(frozen=True)
class _Library:
    """The text of a shared library as the cache keeps it."""

    code: bytes

    def save(self, folder: Path) -> None:
        (folder / FILE).write_bytes(self.code)


@functools.cache
def library() -> ctypes.PyDLL | None:
    """The compiled ``caller.c``; None where there is none."""
    from septran.targets.c_compiler import c_compiler

    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    if os.name != "posix" or HEAD != 16 or c_compiler() is None:
        return None
    text = SOURCE.read_bytes() + repr((platform.machine(), c_compiler())).encode()
    key = hashlib.sha256(text).hexdigest()
    try:
        kept = _cache().load_or_build(key, lambda f: _Library((f / FILE).read_bytes()), _compiled)
        found = opened_apart(kept.code, lambda path: ctypes.PyDLL(str(path)))
    except (OSError, subprocess.SubprocessError):
        return None
    found.septran_function.restype = ctypes.py_object
    found.septran_function.argtypes = (ctypes.c_void_p, ctypes.py_object)
    return found


def _cache() -> Cache:
    """A folder beside that of kernels, as this is none of them."""
    root = user_folder() / "calls"
    return Cache(root, use=Cache.default().problem is None)


def _compiled() -> _Library:
    from septran.targets.c_compiler import c_compiler, include_options

    with TemporaryFolder("calls") as folder:
        options = ["-O2", "-fPIC", "-shared", *include_options(), str(SOURCE)]
        subprocess.run(
            [str(c_compiler()), *options, "-o", str(folder / FILE)],
            capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        return _Library((folder / FILE).read_bytes())


def prepared(name: str) -> ctypes.PyDLL | None:
    """The library, ready for arrays of ``NumPy`` or ``torch``; None where it cannot be."""
    found = library()
    return found if found is not None and _found(name) is not None else None


@functools.cache
def _found(name: str) -> Addresses | None:
    """The addresses for an array library, given to the compiled side; None where some lack."""
    known = _known()
    try:
        values = _of_numpy() if name == "NumPy" else _of_torch()
    except (AttributeError, ImportError, OSError, ValueError):
        return None
    for field, value in values.items():
        setattr(known, field, value)
    library_ = library()
    assert library_ is not None
    library_.septran_prepare(ctypes.byref(known))
    return known


@functools.cache
def _known() -> Addresses:
    import tvm_ffi

    ffi = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    names = ("TVMFFIFunctionCall", "TVMFFIErrorMoveFromRaised", "TVMFFIObjectDecRef")
    return Addresses(*(_address(ffi, name) for name in names))


def _address(library: ctypes.CDLL, name: str) -> int:
    """The address of a function; raises AttributeError."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _of_numpy() -> dict[str, Any]:
    """NumPy's addresses; raises ValueError where an array is not as ``caller.c`` reads it."""
    import numpy as np

    sample = np.zeros((2, 3), np.float32)
    start = id(sample) + HEAD
    extents = ctypes.c_void_p.from_address(start + 16).value or 0
    seen = (
        ctypes.c_void_p.from_address(start).value,
        ctypes.c_int.from_address(start + 8).value,
        (ctypes.c_ssize_t * 2).from_address(extents)[:],
        ctypes.c_void_p.from_address(start + 40).value,
        ctypes.c_int.from_address(id(sample.dtype) + HEAD + 12).value,
        ctypes.c_char.from_address(id(sample.dtype) + HEAD + 10).value,
    )
    if seen != (sample.ctypes.data, 2, [2, 3], id(sample.dtype), sample.dtype.num, b"="):
        raise ValueError("another layout of arrays")
    core: Any = np._core if hasattr(np, "_core") else np.core
    table = _pointer(core._multiarray_umath._ARRAY_API, None)
    made = (ctypes.c_void_p * (NEW_ARRAY + 1)).from_address(table)[NEW_ARRAY]
    return {"array": id(np.ndarray), "new_array": made}


def _of_torch() -> dict[str, Any]:
    """The addresses of torch; raises AttributeError or ValueError where its build has others."""
    import torch

    sample = torch.ones(2)
    if ctypes.c_void_p.from_address(id(sample) + HEAD).value != sample._cdata:
        raise ValueError("another layout of tensors")
    folder = Path(torch.__file__).parent / "lib"
    core, cpu, python = (
        ctypes.CDLL(str(folder / f"lib{name}.so")) for name in ("c10", "torch_cpu", "torch_python")
    )
    api = _pointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    exchange = (ctypes.c_void_p * (EXCHANGE + 1)).from_address(api)[EXCHANGE]
    if not exchange:
        raise ValueError("no exchange without owning")
    found = {
        "requires_grad": _address(core, "_ZNK3c1010TensorImpl13requires_gradEv"),
        "is_negated": _address(cpu, "_ZN2at6native6is_negERKNS_6TensorE"),
        "new_tensor": _address(cpu, "aoti_torch_empty_strided"),
        "delete_tensor": _address(cpu, "aoti_torch_delete_tensor_object"),
        "wrap": _address(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE"),
        "is_inference": _address(cpu, "_ZN2at6native12is_inferenceERKNS_6TensorE"),
        "bump_version": _address(
            cpu, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE"
        ),
        "tensor": id(torch.Tensor), "exchange": exchange,
    }  # fmt: skip
    _checked(found, sample, torch._neg_view(sample), torch.ones(2, requires_grad=True))
    return found


def _checked(found: dict[str, Any], plain: Any, negated: Any, differentiable: Any) -> None:
    """Raise ValueError where what torch's functions say of three tensors is not true."""
    asks: dict[str, Callable[..., bool]] = {
        name: ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(found[name])
        for name in ("requires_grad", "is_negated", "is_inference")
    }
    seen = [
        (
            asks["requires_grad"](x._cdata),
            asks["is_negated"](id(x) + HEAD),
            asks["is_inference"](id(x) + HEAD) == x.is_inference(),
        )
        for x in (plain, negated, differentiable)
    ]
    if seen != [(False, False, True), (False, True, True), (True, False, True)]:
        raise ValueError("torch's functions say something else")


def torch_number(dtype: str) -> int:
    """The number of an element type in torch; raises AttributeError where it has none."""
    import torch

    cpu = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    return int(getattr(cpu, f"aoti_torch_dtype_{dtype}")())


def _pointer(capsule: Any, name: bytes | None) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, name) or 0

"""Arguments of a PTX kernel as words of a command line, and the program that they make.

float16[128,64]      an array of random numbers
zeros:float32[128]   an array of zeros
a.npy                an array from a file
int32=5              a number
null                 an address of nothing
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from septran.emulator.errors import MisuseError
from septran.emulator.launch import CudaProgram, Pointer, ShapedLaunch, StructArgument
from septran.emulator.ptx.parse import Module, PtxFunction

Array = np.ndarray[Any, Any]
_ARRAY = re.compile(r"(zeros:)?(\w+)\[(\d+(?:,\d+)*)\]$")
_NUMBER = re.compile(r"(\w+)=([-+.\w]+)$")
FORMS = "float16[128,64], zeros:float32[128], a.npy, int32=5 or null"


@dataclass(frozen=True)
class LaunchShape:
    """The grid, block and cluster of a launch."""

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    cluster: int = 1
    shared_bytes: int = 0


def kernel_of(module: Module, name: str | None) -> PtxFunction:
    """The kernel of that name, or the only one; raises MisuseError."""
    names = ", ".join(f.name for f in module.kernels)
    if name is None and len(module.kernels) == 1:
        return module.kernels[0]
    found = module.kernel(name) if name else None
    if found is None:
        said = f"no kernel {name!r}" if name else f"{len(module.kernels)} kernels"
        raise MisuseError(f"the PTX text has {said}", hint=f"name one by --kernel: {names}")
    return found


def program_of(
    text: str, kernel: PtxFunction, target: str, words: Sequence[str], shape: LaunchShape, seed: int
) -> tuple[CudaProgram, dict[str, Array]]:
    """The program and its arrays, by the kernel's parameters; raises MisuseError."""
    if len(words) != len(kernel.parameters):
        wanted = ", ".join(f"{p.name} ({p.bytes} bytes)" for p in kernel.parameters)
        raise MisuseError(
            f"{kernel.name} has {len(kernel.parameters)} parameters, and {len(words)} arguments "
            "are given", hint=f"its parameters are {wanted or 'none'}",
        )  # fmt: skip
    arrays: dict[str, Array] = {}
    arguments: list[Pointer | StructArgument] = []
    random = np.random.default_rng(seed)
    for parameter, word in zip(kernel.parameters, words, strict=True):
        value = _value(word, random)
        if isinstance(value, bytes):
            if len(value) != parameter.bytes:
                raise MisuseError(
                    f"{word} has {len(value)} bytes, and {parameter.name} has {parameter.bytes}"
                )
            arguments.append(
                StructArgument(parameter.name, _constant(value), max(16, parameter.align))
            )
        elif parameter.bytes != 8:
            raise MisuseError(f"{parameter.name} has {parameter.bytes} bytes: no address of {word}")
        else:
            arrays[parameter.name] = value
            arguments.append(Pointer(parameter.name, str(value.dtype), parameter.name))
    launch = ShapedLaunch(
        kernel.name, prod(shape.grid), prod(shape.block), shape.cluster, shape.shared_bytes,
        tuple(arguments), blocks=shape.grid, threads=shape.block,
    )  # fmt: skip
    return CudaProgram(text, (launch,), (), tuple(arrays), (), target), arrays


def _constant(value: bytes) -> Any:
    return lambda _: value


def _value(word: str, random: np.random.Generator) -> Array | bytes:
    """An array, or a number's bytes."""
    if word == "null":
        return bytes(8)
    if word.endswith(".npy"):
        try:
            # A pickled array would run code of whoever wrote the file.
            return np.ascontiguousarray(np.load(Path(word), allow_pickle=False))
        except (OSError, ValueError) as error:
            raise MisuseError(f"{word} cannot be read: {error}") from None
    if found := _ARRAY.match(word):
        shape = tuple(int(n) for n in found[3].split(","))
        kind = _dtype(found[2])
        if found[1]:
            return np.zeros(shape, kind)
        if kind.kind in "iub":
            return random.integers(0, 100, shape).astype(kind)
        return random.standard_normal(shape).astype(kind)
    if found := _NUMBER.match(word):
        kind = _dtype(found[1])
        try:
            number = int(found[2], 0) if kind.kind in "iu" else float(found[2])
            return np.array([number]).astype(kind).tobytes()
        except (ValueError, OverflowError):
            pass
    raise MisuseError(f"no argument of a kernel: {word!r}", hint=f"write it as {FORMS}")


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise MisuseError(f"no element type {name!r}", hint="such as float16 or int32") from None

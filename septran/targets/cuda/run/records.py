"""Launch records as JSON, for archives of compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from septran.emulator.launch import (
    Argument,
    CudaProgram,
    KernelLaunch,
    Pointer,
    ScalarArgument,
    TensorMap,
)

_KINDS: Mapping[str, type[Argument]] = {
    "map": TensorMap,
    "pointer": Pointer,
    "scalar": ScalarArgument,
}


def program_to(program: CudaProgram) -> dict[str, Any]:
    """`program` as JSON-ready data."""
    data = asdict(program)
    for launch, record in zip(data["launches"], program.launches, strict=True):
        for argument, given in zip(launch["arguments"], record.arguments, strict=True):
            argument["kind"] = next(k for k, kind in _KINDS.items() if isinstance(given, kind))
    return data


def program_from(data: Mapping[str, Any]) -> CudaProgram:
    """Return what `program_to` gave."""
    launches = (
        KernelLaunch(**{**launch, "arguments": tuple(map(_argument, launch["arguments"]))})
        for launch in data["launches"]
    )
    return CudaProgram(
        **{
            **data,
            "launches": tuple(launches),
            "scratch": tuple((name, size) for name, size in data["scratch"]),
            "params": tuple(data["params"]),
            "scalars": tuple((name, dtype) for name, dtype in data["scalars"]),
        }
    )


def _argument(data: Mapping[str, Any]) -> Argument:
    fields: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k != "kind"
    }
    return _KINDS[data["kind"]](**fields)

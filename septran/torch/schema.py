"""The schema of an operator in torch's words, made from the kernel's signature."""

from __future__ import annotations

from collections.abc import Sequence

from septran.runtime.signature import Signature
from septran.task.tree import ScalarParam

_KINDS = {"float": "float", "int": "int", "uint": "int", "bool": "bool"}
"""Types of a schema by the beginning of a scalar's dtype."""


def schema(signature: Signature, passed: Sequence[str], changed: tuple[str, ...]) -> str:
    """Return the schema without the name: ``(Tensor A, Tensor B, float eps=1e-06) -> Tensor``."""
    marks = {name: f"({'abcdefghijklmnopqrstuvwxyz'[n]}!)" for n, name in enumerate(changed)}
    arguments = [f"Tensor{marks.get(name, '')} {name}" for name in passed]
    for scalar in ordered_scalars(signature):
        default = "" if scalar.default is None else f"={scalar.default!r}"
        arguments.append(f"{_kind(scalar)} {scalar.name}{default}")
    count = len(signature.outputs) - len(changed)
    results = ", ".join(["Tensor"] * count)
    return f"({', '.join(arguments)}) -> {results if count == 1 else f'({results})'}"


def ordered_scalars(signature: Signature) -> list[ScalarParam]:
    """Return the scalars as a schema has them: those without a default first."""
    return sorted(signature.scalars, key=lambda s: s.default is not None)


def _kind(scalar: ScalarParam) -> str:
    return next((kind for word, kind in _KINDS.items() if scalar.dtype.startswith(word)), "int")

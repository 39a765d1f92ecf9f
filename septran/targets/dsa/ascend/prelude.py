"""The functions of `functions.h` that a generated kernel calls, and its own part of UB.

A command of the DSA is on a tile of any rows and columns, an instruction of the vector core is not:
each function makes the calls of Ascend C for one kind of tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

SPREADS = (0, 4096)
"""Bytes of the generator's own part of UB where columns of numbers are spread into blocks."""
SPREAD_ROWS = 128
"""The number of rows that one of them has room for."""
PARTS, PARTS_BYTES = 8192, 3072
"""Where partial results of reductions are, and how many bytes."""
NUMBERS = (11264, 11296)
"""Blocks of one number each."""
BINARY = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "maximum": "Max",
    "minimum": "Min",
}  # fmt: skip
SCALAR = {"add": "Adds", "multiply": "Muls", "maximum": "Maxs", "minimum": "Mins"}
UNARY = {"exp": "Exp", "log": "Ln", "sqrt": "Sqrt", "abs": "Abs"}
COUNTED = {
    "tanh": "Tanh", "erf": "Erf", "sin": "Sin", "cos": "Cos", "sigmoid": "Sigmoid",
    "log2": "Log2", "floor": "Floor", "ceil": "Ceil", "exp2": "Power",
}  # fmt: skip
"""Of the library above the instructions: without strides."""
REDUCTIONS = {"sum": "WholeReduceSum", "max": "WholeReduceMax", "min": "WholeReduceMin"}
"""Each table: the function of Ascend C by that of a tensor expression."""


def prelude(text: str) -> str:
    """The functions that a text calls, in their order."""
    called = set(re.findall(r"\b([a-z_]\w*)\s*\(", text))
    return "\n".join(body for name, body in FUNCTIONS.items() if name in called)


def _functions() -> Iterator[tuple[str, str]]:
    text = Path(__file__).with_name("functions.h").read_text(encoding="utf-8")
    _, *pairs = re.split(r"^//@ (\w+)\n", text, flags=re.M)
    templates = dict(
        zip(pairs[::2], (body.strip("\n") + "\n" for body in pairs[1::2]), strict=True)
    )
    for name, body in templates.items():
        if name.islower():
            yield name, body
    plain = {"more": "", "value": "", "order": "", "room": str(PARTS_BYTES)}
    valued = {**plain, "more": "T value, ", "value": "value, "}
    for table, kind, words, prefix, suffix in (
        (BINARY, "BINARY", plain, "", ""),
        (SCALAR, "UNARY", valued, "", "s"),
        (UNARY, "UNARY", plain, "", ""),
        (COUNTED, "COUNTED", plain, "", ""),
        (REDUCTIONS, "REDUCTION", plain, "reduce_", ""),
    ):
        for function, call in table.items():
            name, more = f"{prefix}{function}{suffix}", dict(words)
            if call in ("WholeReduceMax", "WholeReduceMin"):
                more["order"] = ", ReduceOrder::ORDER_ONLY_VALUE"
            if function == "exp2":
                more["value"] = "T(2), "
            found = {**more, "name": name, "call": call}
            yield f"rows_{name}", re.sub(r"@(\w+)@", lambda m: found[m[1]], templates[kind])  # noqa: B023


FUNCTIONS: Mapping[str, str] = dict(_functions())
"""By name."""

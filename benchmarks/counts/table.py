"""What `benchmarks.gcn` and `benchmarks.sass` count of compiled kernels, and their table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import septran

OURS = "SepTran"
SQUARE = {"M": 4096, "N": 4096, "K": 4096}
ROWS = {"M": 8192, "N": 4096}


@dataclass(frozen=True)
class Counted:
    """One operator whose instructions are counted."""

    family: str
    operator: str
    dtype: str
    dims: Mapping[str, int] = field(default_factory=lambda: SQUARE)
    static: Mapping[str, Any] = field(default_factory=dict)
    elements: int = 0
    """Elements of all rows, where there are no products."""

    @property
    def products(self) -> int:
        """Multiplications with their additions; 0 for rows."""
        dims = self.dims
        if self.elements:
            return 0
        if "D" not in dims:
            return dims["M"] * dims["N"] * dims["K"]
        whole = 2 * dims["B"] * dims["H"] * dims["M"] * dims["N"] * dims["D"]
        return whole // 2 if self.static.get("causal") else whole


def _heads(d: int) -> dict[str, int]:
    return {"B": 4, "H": 16, "G": 16, "M": 4096, "N": 4096, "D": d}


def _rows(name: str) -> Counted:
    return Counted(name, name, "float16", ROWS, elements=ROWS["M"] * ROWS["N"])


CASES = (
    Counted("gemm_f16", "gemm", "float16", static={"trans_b": True}),
    Counted("gemm_f16_rows", "gemm", "float16"),
    Counted("gemm_bf16", "gemm", "bfloat16", static={"trans_b": True}),
    Counted("gemm_int8", "gemm", "int8", static={"trans_b": True}),
    Counted("gemm_int8_rows", "gemm", "int8"),
    Counted("gemm_fp8", "gemm", "float8_e4m3fn", static={"trans_b": True}),
    Counted("gemm_f32", "gemm", "float32"),
    Counted("attention_64", "attention", "float16", _heads(64)),
    Counted("attention_128", "attention", "float16", _heads(128)),
    Counted("attention_128_causal", "attention", "float16", _heads(128), {"causal": True}),
    _rows("softmax"), _rows("layer_norm"), _rows("rms_norm"),
)  # fmt: skip
"""Each family of `benchmarks.gpu` that has a rival without a GPU."""


class Side(Protocol):
    """A row of the table: one kernel of a family, ours or another's."""

    @property
    def family(self) -> str:
        """As `Counted` names it."""

    @property
    def side(self) -> str:
        """`OURS`, or a rival's name."""

    @property
    def cost(self) -> float:
        """What sides are compared by: instructions for as much work."""

    def cells(self) -> list[str]:
        """As the table has them."""


def options_of(
    description: str | None, machine: str, others: str, *flags: tuple[str, str]
) -> argparse.Namespace:
    """The options of a run, each checked; ends the process with what is wrong.

    `machine` is the one where none is given, whose backend every other must have, too. `others`
    says what ``--beside`` has; `flags` are further options without a value, with their help.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default=machine)
    parser.add_argument("--beside", type=Path, help=others)
    parser.add_argument("--families", nargs="+", choices=[c.family for c in CASES])
    for name, told in flags:
        parser.add_argument(name, action="store_true", help=told)
    options = parser.parse_args()
    backend = septran.load_machine(machine).backend
    try:
        given = septran.load_machine(options.machine)
    except septran.SepTranError as error:
        parser.error(f"--machine: {error}")
    if given.backend != backend:
        parser.error(
            f"--machine: {given.name} is of backend {given.backend}; what is counted here is "
            f"the code of {backend}, such as {machine}'s"
        )
    if options.beside is not None and not options.beside.is_dir():
        parser.error(f"--beside: there is no folder {options.beside}")
    return options


def chosen(families: Sequence[str] | None) -> list[Counted]:
    """The cases of some families, or all."""
    return [case for case in CASES if not families or case.family in families]


def table(head: Sequence[str], rows: Sequence[Side]) -> str:
    """As Markdown; the ratio is ours to the least of the others, by instructions."""
    lines = [(*head, "ratio"), ("---",) * (len(head) + 1)]
    for row in rows:
        others = [r.cost for r in rows if r.family == row.family and r.side != OURS]
        ratio = f"{row.cost / min(others):.2f}" if others and row.side == OURS else ""
        lines.append((*row.cells(), ratio))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

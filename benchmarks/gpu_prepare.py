"""The half of `benchmarks.gpu` that needs SepTran and no GPU: compile, count, export."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu_bundle import write
from benchmarks.gpu_cases import LIBRARY, GpuCase

if TYPE_CHECKING:
    from septran.tile.nodes import TileProgram
    from septran.tuning.model import Prediction


@dataclass(frozen=True)
class Prepared:
    """What is known of a case before it runs."""

    case: GpuCase
    error: str
    """Why it cannot be compiled, in one line; empty where it can."""
    facts: Mapping[str, Any]
    flops: int
    bytes_moved: int
    predicted_seconds: float
    seconds: float
    """Of compiling, from the logic to the cubin."""
    stages: int = 0
    """Of the deepest ring of asynchronous copies into shared memory."""
    copied: int = 0
    """Bytes that all blocks together bring from main memory or its cache."""
    fetched: int = 0
    """Those of them that no block beside brings at the same time, by the model."""

    @property
    def registers(self) -> int:
        """Of the kernel with most."""
        return max(self._figures("registers a thread"), default=0)

    @property
    def spills(self) -> int:
        """Bytes, of all kernels."""
        return sum(self._figures("spill bytes"))

    @property
    def shared(self) -> int:
        """Bytes, of the kernel with most."""
        return max(self._figures("dynamic shared bytes"), default=0)

    def _figures(self, name: str) -> list[int]:
        return [v for k, v in self.facts.items() if k == name or k.endswith(f": {name}")]


def prepare(
    case: GpuCase, machine: str, folder: Path | None = None, where: Mapping[str, Any] | None = None
) -> Prepared:
    """Compile a case, and write it to `folder` where there is one, with its place among others."""
    import septran
    from septran.errors import SepTranError
    from septran.runtime.work import work
    from septran.tuning.model import predict

    start = time.perf_counter()
    try:
        kernel = septran.compile(
            case.operator, case.mapping(machine), shapes=dict(case.dims), dtypes=_dtypes(case),
            static=dict(case.static), tunables=dict(case.tunables),
        )  # fmt: skip
        elapsed = time.perf_counter() - start
        done, program = work(kernel.stages.task_tree), kernel.stages.tile_program
        expected = predict(program)
        result = Prepared(
            case, "", kernel.stages.source.facts, done.flops, done.bytes_moved,
            expected.seconds, elapsed, max((c.stages for c in program.channels), default=1),
            *_traffic(program, expected),
        )  # fmt: skip
        if folder is not None:
            facts = {**meta(result), **(where or {})}
            write(kernel, folder / case.name, facts, exact=case.family == LIBRARY)
    except Exception as error:  # a case that cannot be compiled yet is a row of the table
        lines = str(error).strip().splitlines() or [""]
        line = lines[0] if isinstance(error, SepTranError) else lines[-1]
        return Prepared(case, f"{type(error).__name__}: {line}", {}, 0, 0, 0.0, 0.0)
    return result


def _traffic(program: TileProgram, expected: Prediction) -> tuple[int, int]:
    """Bytes into blocks, and from main memory."""
    from septran.tile.ledger import ledger

    main = program.machine.main_memory.name
    into = sum(n for edge, n in ledger(program).edges.items() if edge.startswith(f"{main} -> "))
    limits = (x for x in expected.limits if x.kind == "edge")
    return into, int(sum(x.amount for x in limits if x.name.startswith(f"{main} -> ")))


def _dtypes(case: GpuCase) -> dict[str, str] | str:
    if case.operator == "dequant_gemm":
        return {name: case.dtype for name in ("A", "scale", "zero")}
    return case.dtype


def meta(prepared: Prepared) -> dict[str, Any]:
    """What the half that runs on a GPU is told."""
    return {
        "name": prepared.case.name,
        **{k: v for k, v in asdict(prepared.case).items() if k not in ("rules", "tunables")},
        "flops": prepared.flops, "bytes_moved": prepared.bytes_moved,
        "predicted_seconds": prepared.predicted_seconds, "registers": prepared.registers,
        "spills": prepared.spills,
    }  # fmt: skip


HEAD = (
    "| case | registers | spill bytes | shared bytes | wgmma | TMA | setmaxnreg | GFLOP | MB | "
    "predicted us | predicted TFLOP/s | compiled in s |"
)


def table(prepared: Iterable[Prepared]) -> Iterable[str]:
    """The lines of a dry run, one as soon as a case is done."""
    yield HEAD
    yield "|" + " --- |" * (HEAD.count("|") - 1)
    for row in prepared:
        if row.error:
            yield f"| {row.case.name} | {row.error} |" + " |" * (HEAD.count("|") - 3)
            continue
        counts = [
            row.facts.get(name, 0)
            for name in ("wgmma.mma_async", "cp.async.bulk.tensor", "setmaxnreg")
        ]
        rate = row.flops / row.predicted_seconds / 1e12 if row.predicted_seconds else 0.0
        cells = (
            row.case.name, row.registers, row.spills, row.shared, *counts,
            f"{row.flops / 1e9:.1f}", f"{row.bytes_moved / 1e6:.1f}",
            f"{row.predicted_seconds * 1e6:.1f}", f"{rate:.0f}", f"{row.seconds:.2f}",
        )  # fmt: skip
        yield "| " + " | ".join(map(str, cells)) + " |"


STEPS = (
    "| step | what is new in the mapping | blocks | threads | cluster | stages | registers | "
    "spill bytes | shared bytes | wgmma | TMA | setmaxnreg | GB into blocks | GB from memory | "
    "predicted us |"
)


def ladder_table(prepared: Iterable[Prepared]) -> Iterable[str]:
    """What each field of the mapping changes, as far as that is known without a GPU."""
    yield STEPS
    yield "|" + " --- |" * (STEPS.count("|") - 1)
    before: list[str] = []
    for row in prepared:
        label = row.case.label.partition(" ")[2]
        if row.error:
            yield f"| {label} | {row.error} |" + " |" * (STEPS.count("|") - 3)
            continue
        facts = row.facts
        counts = [
            facts.get(name, 0) for name in ("wgmma.mma_async", "cp.async.bulk.tensor", "setmaxnreg")
        ]
        fields = [f"{k}: {v}" for k, v in row.case.tunables.items()] + [*row.case.rules]
        changes = [f"`{f}`" for f in fields if f not in before]
        changes = changes or [f"without `{f}`" for f in before if f not in fields]
        cells = (
            label, "; ".join(changes), facts["grid"],
            facts["threads a block"], facts.get("blocks a cluster", 1), row.stages, row.registers,
            row.spills, row.shared, *counts, f"{row.copied / 1e9:.2f}", f"{row.fetched / 1e9:.2f}",
            f"{row.predicted_seconds * 1e6:.0f}",
        )  # fmt: skip
        before = fields
        yield "| " + " | ".join(map(str, cells)) + " |"

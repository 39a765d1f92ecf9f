"""Every operator on every machine: compiled, run, and compared with the exact result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from septran import operators
from septran.compiler import compile as compile_kernel
from septran.errors import Errors, SepTranError, is_fault_of_passes
from septran.format_units import time_text
from septran.operators import Case
from septran.runtime.checks import Check
from septran.runtime.errors import NoGpuError
from septran.runtime.kernel import Kernel
from septran.runtime.profile import Profile
from septran.targets.base import Driven, Untimed
from septran.tuning.answering import answer_requests
from septran.tuning.cluster.hosts import this_host
from septran.tuning.cluster.work import cluster_worker, side_by_side
from septran.tuning.measuring import MeasuringWorker

MACHINES = ("cpu-x86", "cpu-arm", "dsa-sim", "npu-cube")
"""The machines that run here: this processor, one that QEMU emulates, and the simulated ones."""
EMULATED = ("nvidia-h200", "nvidia-a100", "amd-mi300x")
"""The machines whose generated code an emulator runs."""
SAMPLES = 5
"""The number of timed calls; cycles need one, as a simulator always counts the same."""
MODULE = "septran.matrix"
CELL_SECONDS = 600.0
"""For how long a cell may take on a cluster."""
FIGURES = (
    "right", "worst", "unknown", "seconds", "cycles", "message", "ran", "executor", "refused",
)  # fmt: skip
"""What a cell says beside the names of its case and machine."""
_WIDTH = 32


@dataclass(frozen=True)
class Cell:
    """One case of an operator on one machine."""

    case: Case
    machine: str
    right: bool
    worst: float
    """The greatest error of all outputs, as a fraction of the error bound."""
    unknown: int
    """The number of elements without a finite error bound; they do not make a cell wrong."""
    seconds: float | None
    """Seconds of the fastest call; None on simulated and emulated machines."""
    cycles: int | None
    """Simulated cycles of a call; None on real machines, and on emulated ones, without time."""
    message: str
    """The mistake, or the reason why it was not run; empty when right."""
    ran: bool = True
    """Whether the kernel was executed; what was only compiled is neither right nor wrong."""
    executor: str = ""
    """Who ran it, where that is none of SepTran's own: another's emulator or interpreter."""
    refused: str = ""
    """The code of the error by which it was not compiled, or could not be run here."""

    @property
    def failed(self) -> bool:
        """Whether it gave a wrong result, or none although it was compiled."""
        return not self.right and not self.refused

    @property
    def cost(self) -> str:
        """The cell's time or cycles as text: ``12.3 us`` or ``4,688 cycles``."""
        if self.cycles is not None:
            return f"{self.cycles:,} cycles"
        return "" if self.seconds is None else time_text(self.seconds, 3)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell's figures by name."""
        return {
            "operator": self.case.operator, "machine": self.machine,
            "sizes": dict(self.case.sizes), "static": dict(self.case.static),
            "dtype": self.case.dtype, "right": self.right, "worst": self.worst,
            "unknown": self.unknown, "seconds": self.seconds, "cycles": self.cycles,
            "message": self.message, "ran": self.ran, "executor": self.executor,
            "refused": self.refused,
        }  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """The whole table, by operator, case and machine."""

    cells: tuple[Cell, ...]

    @property
    def right(self) -> bool:
        """Whether every cell is right."""
        return all(cell.right for cell in self.cells)

    @property
    def failed(self) -> bool:
        """Whether a cell gave a wrong result, or every cell was refused."""
        refused = bool(self.cells) and all(cell.refused for cell in self.cells)
        return refused or any(cell.failed for cell in self.cells)

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines in the order of the columns."""
        return tuple(dict.fromkeys(cell.machine for cell in self.cells))

    def _heads(self) -> list[str]:
        """The machines, with who ran the cells where that is another's program."""
        who = {cell.machine: f" ({cell.executor})" for cell in self.cells if cell.executor}
        return [machine + who.get(machine, "") for machine in self.machines]

    def to_markdown(self) -> str:
        """Return a Markdown table with a row per operator.

        A column has the cases that are right, the worst share of the error bound, and the cost of
        the middle case.
        """
        lines = [
            f"| operator | {' | '.join(self._heads())} |",
            f"| --- |{' --- |' * len(self.machines)}",
        ]
        for name, cells in groupby(self.cells, lambda c: c.case.operator):
            row = list(cells)
            columns = (self._summary([c for c in row if c.machine == m]) for m in self.machines)
            lines.append(f"| `{name}` | {' | '.join(columns)} |")
        return "\n".join(lines)

    @staticmethod
    def _summary(cells: list[Cell]) -> str:
        if not any(cell.ran for cell in cells):
            return "compiled only"
        right = sum(cell.right for cell in cells)
        if all(cell.refused for cell in cells):
            return f"refused ({', '.join(dict.fromkeys(cell.refused for cell in cells))})"
        worst = max(cell.worst for cell in cells if not cell.refused)
        words = (f"{right}/{len(cells)}", f"{worst:.2g}", cells[len(cells) // 2].cost)
        return ", ".join(filter(None, words))

    def __str__(self) -> str:
        cases = dict.fromkeys(f"{c.case.operator}  {c.case}" for c in self.cells)
        width = max(map(len, cases), default=0)
        lines = [f"{'':{width}}" + "".join(f"  {head:>{_WIDTH}}" for head in self._heads())]
        for case, cells in groupby(self.cells, lambda c: c.case):
            row = list(cells)
            head = f"{f'{case.operator}  {case}':{width}}"
            lines.append(head + "".join(f"  {_text(cell):>{_WIDTH}}" for cell in row))
            lines += [f"  {c.machine}: {c.message}" for c in row if not c.right]
        ran = [cell for cell in self.cells if cell.ran]
        refused = sum(bool(cell.refused) for cell in ran)
        also = f", {refused} refused" if refused else ""
        note = "shares are of the error that rounding allows"
        lines.append(f"{sum(cell.right for cell in ran)} of {len(ran)} right{also}; {note}")
        why = {cell.message for cell in self.cells if not cell.ran}
        lines += [f"{len(self.cells) - len(ran)} only compiled: {text}" for text in sorted(why)]
        return "\n".join(lines)


def measure_matrix(
    names: Iterable[str] | None = None,
    machines: Iterable[str] = MACHINES,
    *,
    jobs: int = 1,
    first: bool = False,
    emulate: bool = False,
    workers: Any = None,
    show: Callable[[Cell], None] = lambda _: None,
) -> Matrix:
    """Run the cases of operators (all where None) on machines.

    Args:
        names: Operators of the library.
        machines: By name; each needs a backend that runs here.
        jobs: Processes side by side, whose times then disturb each other.
        first: Only the first case of each operator.
        emulate: Run generated GPU code on the CPU, in every order of its asynchronous copies.
        workers: What runs cells side by side, as `septran.tune` takes it; before `jobs`.
        show: Called with each cell when it is there.

    Raises:
        SepTranError: for an operator that there is not. A cell's own mistakes are in it.
    """
    columns = tuple(machines)
    cases = [
        case
        for name in (operators.names() if names is None else names)
        for case in operators.cases(name)[: 1 if first else None]
    ]
    asked = [(case, machine) for case in cases for machine in columns]
    cells: list[Cell] = []
    if workers is not None:
        return Matrix(tuple(_on_cluster(asked, emulate, workers, show)))
    if jobs == 1:
        for case, machine in asked:
            cells.append(measure_cell(case, machine, emulate))
            show(cells[-1])
        return Matrix(tuple(cells))
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        how = [emulate] * len(asked)
        for cell in pool.map(measure_cell, *zip(*asked, strict=True), how):
            cells.append(cell)
            show(cell)
    return Matrix(tuple(cells))


def _on_cluster(
    asked: list[tuple[Case, str]], emulate: bool, workers: Any, show: Callable[[Cell], None]
) -> list[Cell]:
    """The cells, each of which only costs itself whatever becomes of its worker.

    Times are taken on hosts like this one; they suffer from what else runs there.
    """
    cells: dict[int, Cell] = {}
    here = MeasuringWorker((sys.executable, "-m", MODULE))
    with cluster_worker(workers, here, MODULE, _is_cell, this_host()) as (worker, width):

        def run(number: int) -> Cell:
            case, machine = asked[number]
            request = {
                "operator": case.operator, "case": operators.cases(case.operator).index(case),
                "machine": machine, "emulate": emulate,
            }  # fmt: skip
            answer = worker.ask(request, CELL_SECONDS)
            if answer["kind"] == "cell":
                return Cell(case, machine, **answer["cell"])
            return _failed(case, machine, f"{answer['kind']}: {answer['message']}")

        def note(number: int, cell: Cell) -> bool:
            cells[number] = cell
            show(cell)
            return True

        side_by_side(width, range(len(asked)), run, note)
    return [cells[number] for number in sorted(cells)]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Measure the cell that a request names, in a process that belongs to it."""
    case = operators.cases(request["operator"])[request["case"]]
    cell = measure_cell(case, request["machine"], request["emulate"])
    return {"kind": "cell", "cell": {name: getattr(cell, name) for name in FIGURES}}


def _is_cell(answer: Mapping[str, Any]) -> bool:
    cell = answer.get("cell")
    return answer.get("kind") == "cell" and isinstance(cell, dict) and set(cell) == set(FIGURES)


def _failed(case: Case, machine: str, message: str, refused: str = "") -> Cell:
    return Cell(
        case, machine, right=False, worst=float("inf"), unknown=0, seconds=None, cycles=None,
        message=message, refused=refused,
    )  # fmt: skip


def _refused(case: Case, machine: str, error: SepTranError) -> Cell:
    """The cell of what was not accepted; a fault of the compiler's own passes is no refusal."""
    inner = error.errors if isinstance(error, Errors) else (error,)
    codes = ", ".join(dict.fromkeys(one.code for one in inner))
    return _failed(case, machine, str(error), "" if is_fault_of_passes(error) else codes)


def measure_cell(case: Case, machine: str, emulate: bool = False) -> Cell:
    """Check one case on one machine with random inputs, then time it; or only emulate it."""
    try:
        kernel = compile_kernel(
            case.operator, machine, shapes=case.sizes, dtypes=case.dtype, static=case.static,
            emulate=emulate,
        )  # fmt: skip
        _ = kernel.stages.executable  # made now, so that whatever refuses it does
        inputs = kernel.sample()
    except SepTranError as error:
        return _refused(case, machine, error)
    try:
        return _run(case, machine, kernel, inputs, emulate)
    except NoGpuError as error:
        return _refused(case, machine, error)
    except SepTranError as error:  # after it was accepted
        return _failed(case, machine, str(error))


def _run(case: Case, machine: str, kernel: Kernel, inputs: dict[str, Any], emulate: bool) -> Cell:
    if emulate:
        return _cell(case, machine, _emulated(kernel, inputs), None, None)
    executable = kernel.stages.executable
    if isinstance(executable, Untimed):
        lacks = executable.missing()
        if lacks:
            why = f"this host has no {' and no '.join(lacks)}"
            return Cell(
                case, machine, right=True, worst=0.0, unknown=0, seconds=None, cycles=None,
                message=why, ran=False,
            )  # fmt: skip
        cell = _cell(case, machine, [kernel.check(**inputs)], None, None)
        return replace(cell, executor=executable.emulator)
    check = kernel.check(**inputs)
    profile = kernel.profile(**inputs, repeat=SAMPLES)
    who = executable.executor if isinstance(executable, Driven) else ""
    times = (profile.best, None) if isinstance(profile, Profile) else (None, int(profile.cycles))
    return replace(_cell(case, machine, [check], *times), executor=who)


def _emulated(kernel: Kernel, inputs: dict[str, Any]) -> list[Check]:
    """Return a check for each order in which asynchronous operations may take effect."""
    from septran.emulator import MODES, emulation

    checks: list[Check] = []
    for mode in MODES:
        with emulation(mode):
            checks.append(kernel.check(**inputs))
    return checks


def _cell(
    case: Case, machine: str, checks: list[Check], seconds: float | None, cycles: int | None
) -> Cell:
    outputs = [output for check in checks for output in check.outputs]
    wrong = [str(check) for check in checks if not check.right]
    return Cell(
        case,
        machine,
        not wrong,
        max((output.worst for output in outputs), default=0.0),
        max((output.unknown for output in outputs), default=0),
        seconds,
        cycles,
        wrong[0] if wrong else "",
    )


def _text(cell: Cell) -> str:
    if not cell.ran:
        return "compiled only"
    if cell.refused:
        return f"refused ({cell.refused})"
    return f"right {cell.worst:7.2g} {cell.cost:>14}" if cell.right else "WRONG"


if __name__ == "__main__":
    answer_requests(answer)

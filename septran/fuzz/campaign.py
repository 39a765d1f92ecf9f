"""Run random cases: compiled on the CPU, interpreted on any machine, checked by the bound."""

from __future__ import annotations

import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from septran.compiler import compile, produce_stages
from septran.dtypes import numpy_dtype
from septran.errors import MappingError, SepTranError, TileError
from septran.fuzz.cases import Case, make_case
from septran.runtime.accuracy import WrongResultError, compare, error_bounds
from septran.runtime.kernel import Kernel
from septran.runtime.stages import Stages
from septran.tile.interpreter import interpret
from septran.tile.nodes import TileProgram
from septran.tile.verify import verify


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    case: Case
    kind: str
    """``right``, ``rejected`` (a located error), ``wrong`` or ``crash``."""
    message: str = ""
    worst: float = 0.0
    """The greatest error as a fraction of what rounding allows."""

    def __str__(self) -> str:
        text = f"{self.kind}: {self.case}"
        if self.message:
            text += f"\n  {self.message}"
        if self.kind in ("wrong", "crash"):
            text += f"\n  repeat with: septran fuzz --seed {self.case.seed} --programs 1"
        return text


@dataclass(frozen=True)
class Campaign:
    """All outcomes of one run."""

    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Those that show a mistake of SepTran's."""
        return tuple(o for o in self.outcomes if o.kind in ("wrong", "crash"))

    def __str__(self) -> str:
        counts = Counter(o.kind for o in self.outcomes)
        kinds = ("right", "rejected", "wrong", "crash")
        worst = max((o.worst for o in self.outcomes), default=0.0)
        head = ", ".join(f"{counts[k]} {k}" for k in kinds)
        lines = [f"{len(self.outcomes)} programs: {head}; largest error {worst:.2f} of the bound"]
        return "\n".join([*lines, *map(str, self.failures)])


def run_campaign(
    seed: int, programs: int, progress: Callable[[Outcome], None] | None = None
) -> Campaign:
    """Run the cases of seeds ``seed .. seed + programs - 1``."""
    outcomes: list[Outcome] = []
    for number in range(programs):
        outcomes.append(run_case(make_case(seed + number)))
        if progress is not None:
            progress(outcomes[-1])
    return Campaign(tuple(outcomes))


def run_case(case: Case) -> Outcome:
    """Compile and interpret one case, and compare both with the exact result."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            logic = case.logic
            if "\n" in logic:
                file = Path(folder) / "logic.py"
                file.write_text(logic, encoding="utf-8")
                logic = str(file)
            return _checked(case, logic)
    except SepTranError as error:
        if isinstance(error, WrongResultError):
            return Outcome(case, "wrong", str(error))
        kind = "rejected" if _located(error) else "crash"
        return Outcome(case, kind, str(error))
    except Exception:
        return Outcome(case, "crash", traceback.format_exc(limit=-4))


def _located(error: SepTranError) -> bool:
    inner = getattr(error, "errors", (error,))
    return all(e.where is not None for e in inner)


def _checked(case: Case, logic: str) -> Outcome:
    arrays = _inputs(case)
    kernel = compile(logic, case.mapping, static=case.static, tunables=case.tunables)
    result = kernel.check(*arrays.values())
    if not result.right:
        return Outcome(case, "wrong", f"compiled: {result}")
    worst = max((a.worst for a in result.outputs), default=0.0)
    for stages in _programs(case, logic, kernel, arrays):
        exact = error_bounds(stages.task_tree, arrays)
        for where, outputs in _interpreted(stages.tile_program, arrays, case.seed):
            for name, found in outputs.items():
                accuracy = compare(name, found, exact[name])
                if not accuracy.right:
                    return Outcome(case, "wrong", f"interpreted on {where}: {accuracy}")
                worst = max(worst, accuracy.worst)
    return Outcome(case, "right", worst=worst)


def _programs(case: Case, logic: str, kernel: Kernel, arrays: dict[str, Any]) -> Iterator[Stages]:
    """The compiled program's stages, and those for another machine where it fits there."""
    shapes = {n: a.shape for n, a in arrays.items()}
    dtypes = {n: str(a.dtype) for n, a in arrays.items()}
    yield kernel.specialise(shapes, dtypes).stages
    if case.machine != "cpu-x86":
        stages = produce_stages(
            logic, case.machine, shapes=shapes, dtypes=dtypes,
            static=case.static, tunables=case.tunables,
        )  # fmt: skip
        try:
            verify(stages.tile_program)
        except TileError as error:
            if error.code.startswith("SEP42"):  # the passes made a program that races
                raise WrongResultError(f"{case.machine}: {error}") from error
            return  # it does not fit there
        except MappingError:
            return
        yield stages


def _interpreted(
    program: TileProgram, arrays: dict[str, Any], seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The outputs under every schedule."""
    given = {n: arrays[n] for n in program.params if n in arrays}
    for order in ("early", "late", seed):
        yield f"{program.machine.name} ({order})", interpret(program, given, order=order)


def _inputs(case: Case) -> dict[str, Any]:
    rng = np.random.default_rng(case.seed)
    return {
        name: rng.standard_normal(shape).astype(numpy_dtype(case.dtype))
        for name, shape in case.shapes.items()
    }

"""One case run in every way that its machine has, each compared by the error bound."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from septran.backends import backend_of, with_code
from septran.checking.special import with_special_values
from septran.checking.subject import CheckCase, Subject
from septran.compiler import compile_request, fitted
from septran.errors import SepTranError, is_fault_of_passes
from septran.fuzz.executors import checked, emulated, interpreted, on_other_width, simulated
from septran.request import CompileRequest
from septran.runtime.accuracy import WrongResultError
from septran.runtime.checks import sample
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Specialisation
from septran.runtime.stages import Stages
from septran.targets.base import Untimed
from septran.targets.registry import has_emulator

FAILURES = ("wrong", "crash", "hang")
"""The kinds of results that no right mapping has."""
WAYS: Mapping[str, str] = {
    "code": "the generated code, between guard pages",
    "other width": "the same for vectors of the width that this host's own do not have",
    "simulator": "the generated code on the simulator, with no delays and with random ones",
    "emulator": "the generated code on the emulator: asynchronous work at once, late, at random",
    "interpreter": "the tile program, node by node: copies land early, late, at random",
}
"""The ways to run a case; which of them there are depends on the machine."""


@dataclass(frozen=True)
class CaseResult:
    """What became of a case."""

    case: CheckCase
    kind: str
    """The kind: ``right``, ``refused``, ``wrong``, ``crash`` or ``hang``.

    A refusal is an error that names a place in the user's files.
    """
    way: str = ""
    """The way that failed."""
    message: str = ""
    worst: float = 0.0
    """The greatest error as a fraction of the error bound."""
    ran: Sequence[str] = ()
    """The ways in which it was right."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {**vars(self), "case": self.case.to_dict(), "ran": list(self.ran)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> CaseResult:
        """Return the result that `to_dict` wrote, perhaps through JSON."""
        return CaseResult(**{**data, "case": CheckCase.from_dict(data["case"])})


def ways_of(stages: Stages, dynamic: bool) -> tuple[str, ...]:
    """Return the ways in which a case runs here; builds code of a CPU, to see whose it is."""
    backend = stages.mapping.machine.backend
    # The tile program of extents that calls tell is that of each case with fixed ones.
    rest = () if dynamic else ("interpreter",)
    if backend_of(backend).simulated:
        return ("simulator", *rest)
    if has_emulator(backend):
        return ("emulator", *rest)
    if backend not in with_code():
        return rest
    executable = stages.executable
    if not isinstance(executable, Untimed):
        return ("code", "other width", *rest)
    return rest if executable.missing() else ("code", *rest)


def run_case(subject: Subject, case: CheckCase, only: str = "") -> CaseResult:
    """Compile and run a case in each way, or in one; the first failure ends it."""
    ran: list[str] = []
    worst, way = 0.0, ""
    try:
        request = subject.request(case)
        stages = fitted(request)
        inputs = sample(Specialisation.of(stages), case.seed)
        if case.special:
            inputs = with_special_values(inputs, case.seed)
        for way in (only,) if only else ways_of(stages, bool(case.dynamic)):
            worst = max(worst, _run(way, request, stages, inputs, case))
            ran.append(way)
    # Before its base class: a result that is wrong is no refusal.
    except WrongResultError as error:
        return CaseResult(case, "wrong", way, error.message, worst, ran)
    except SepTranError as error:
        kind = "crash" if is_fault_of_passes(error) else "refused"
        return CaseResult(case, kind, way, str(error), worst, ran)
    except Exception:  # a fault of SepTran's, or an error in a user's file
        return CaseResult(case, "crash", way, traceback.format_exc(limit=-4), worst, ran)
    return CaseResult(case, "right", "", "", worst, ran)


def _run(
    way: str, request: CompileRequest, stages: Stages, inputs: Mapping[str, Any], case: CheckCase
) -> float:
    match way:
        case "interpreter":
            return interpreted(stages, inputs, case.seed)
        case "simulator":
            return simulated(_kernel(request, case), inputs, case.seed)
        case "emulator":
            return emulated(_kernel(replace(request, emulate=True), case), inputs, case.seed)
        case "other width":
            with on_other_width():
                return checked(_kernel(request, case), inputs)
        case _:
            kernel = _kernel(request, case)
            foreign = isinstance(kernel.stages.executable, Untimed)
            return checked(kernel, inputs, guard=not foreign)


def _kernel(request: CompileRequest, case: CheckCase) -> Kernel:
    if case.dynamic:
        request = replace(request, dynamic={n: (1, most) for n, most in case.dynamic.items()})
    return compile_request(request)

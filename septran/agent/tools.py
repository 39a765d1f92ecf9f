"""What the server's tools do, as functions from plain data to plain data.

They run in a process of their own (`septran.agent.worker`), where logic may crash or hang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from septran import operators
from septran.backends import backend_of, with_code
from septran.checking import CheckCase, CheckLimits, Subject, check_mapping
from septran.compiler import compile_request
from septran.machine.loader import load_machine, machine_names
from septran.mapping.loader import load_mapping, mapping_names
from septran.request import CompileRequest, load_pair
from septran.runtime.kernel import Kernel
from septran.targets.base import Untimed
from septran.tuning.changes import Change, Proposals, cost_of, propose
from septran.views import explain as explain_pair
from septran.views.comparisons.comparison import Comparison
from septran.views.text.proposals import report_data
from septran.views.text.report import report

Arguments = Mapping[str, Any]
PROPOSED = 12
"""The number of proposals of one answer."""
LINES = 400
"""The number of lines of one stage."""


def list_operators(_: Arguments) -> dict[str, Any]:
    """Return the operators of the library with formula, dimensions and flags."""
    return {"operators": [_operator(name) for name in operators.names()]}


def _operator(name: str) -> dict[str, Any]:
    task, module = operators.load(name), operators.module(name)
    return {
        "name": name, "summary": (module.__doc__ or "").strip().partition("\n")[0],
        "tensors": {n: list(kind.dims or ()) for n, kind in task.tensors},
        "flags": {k.name: k.default for k in task.keywords if k.static},
        "example": dict(getattr(module, "EXAMPLE", {})),
    }  # fmt: skip


def list_machines(_: Arguments) -> dict[str, Any]:
    """Return the machines with their levels, memories and instructions."""
    return {"machines": [_machine(name) for name in machine_names()]}


def _machine(name: str) -> dict[str, Any]:
    machine = load_machine(name)
    return {
        "name": name, "backend": machine.backend, "has_mapping": name in mapping_names(),
        "has_code": machine.backend in with_code(),
        "simulated": backend_of(machine.backend).simulated,
        "processors": {p.name: p.count for p in machine.processors},
        "memories": {
            m.name: {"seen_by": m.visible_to, "bytes": m.capacity_bytes} for m in machine.memories
        },
        "engines": [engine.name for engine in machine.engines],
        "instructions": {i.name: i.primitive for i in machine.instructions},
    }  # fmt: skip


def explain(arguments: Arguments) -> dict[str, Any]:
    """Return what limits a kernel and what is legal at each place; or one stage as text."""
    request = _request(arguments)
    explanation = explain_pair(
        request.entry, request.mapping, shapes=arguments["shapes"], dtypes=arguments["dtypes"],
        static=arguments["static"], tunables=arguments["tunables"],
    )  # fmt: skip
    stage = arguments["stage"]
    if stage:
        lines = explanation.text(stage).splitlines()
        more = [f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else []
        return {"stage": stage, "text": "\n".join([*lines[:LINES], *more])}
    data = report_data(explanation, Proposals((), explanation.prediction.seconds))
    del data["proposals"]
    return {**data, "text": report(explanation)}


def compile(arguments: Arguments) -> dict[str, Any]:  # the tool's name
    """Compile, and return the seconds of each stage, and the remarks."""
    kernel = _kernel(arguments)
    program = kernel.stages.tile_program
    return {
        "compiled": True, "name": kernel.name, "machine": program.machine.name,
        "seconds": kernel.timings, "mapping": kernel.stages.mapping.to_yaml(),
        "remarks": [
            {"kind": r.kind, "about": r.about, "message": r.message, "hint": r.hint}
            for r in kernel.remarks
        ],
    }  # fmt: skip


def check(arguments: Arguments) -> dict[str, Any]:
    """Return the verdict of `septran check`."""
    fixed = CheckCase(
        "as given", _sizes(arguments["shapes"]), arguments["dtypes"], arguments["static"] or {}
    )  # fmt: skip
    subject = Subject(
        arguments["logic"], arguments["mapping"], arguments["machine"], arguments["tunables"] or {},
        arguments["folder"],
    )  # fmt: skip
    limits = CheckLimits(arguments["cases"], arguments["seconds"], arguments["seconds"])
    verdict = check_mapping(subject, fixed, limits)
    data = verdict.to_dict()
    cases = [f"{result.kind}: {result.case}" for result in verdict.results]
    return {**data, "cases": cases, "text": str(verdict)}


def profile(arguments: Arguments) -> dict[str, Any]:
    """Run once, check the result, and return times or cycles with what they come from."""
    kernel = _kernel(arguments)
    found = kernel.check()
    data: dict[str, Any] = {"right": found.right, "check": str(found)}
    if isinstance(kernel.stages.executable, Untimed):
        return {**data, "profile": None, "text": "emulated code has no times"}
    figures = kernel.profile()
    return {**data, "profile": figures.to_dict(), "text": str(figures)}


def compare(arguments: Arguments) -> dict[str, Any]:
    """Return the figures of several mappings side by side, and what differs between them."""
    names, explanations, costs = [], [], {}
    for number, mapping in enumerate(arguments["mappings"]):
        request = _request({**arguments, "mapping": mapping})
        name = f"text {number + 1}" if "\n" in mapping else Path(mapping).name
        names.append(name)
        explanations.append(
            explain_pair(
                request.entry, request.mapping, shapes=arguments["shapes"],
                dtypes=arguments["dtypes"], static=arguments["static"],
                tunables=arguments["tunables"],
            )
        )  # fmt: skip
        if arguments["measure"]:
            costs[name] = cost_of(request.with_example())
    data = Comparison(tuple(names), tuple(explanations)).to_dict()
    del data["diffs"]  # of stages, as long as they
    return {**data, "measured": {n: {"cost": c, "unit": u} for n, (c, u) in costs.items()}}


def propose_changes(arguments: Arguments) -> dict[str, Any]:
    """Return the best single changes of a mapping; each compiles."""
    keys = arguments["keys"]

    def wanted(change: Change) -> bool:
        return not keys or change.key.partition(".")[0] in keys

    found = propose(
        _request(arguments), wanted=wanted, measured=arguments["measure"],
        seconds=arguments["seconds"], folder=Path(arguments["folder"]),
    )  # fmt: skip
    data = found.to_dict()
    return {**data, "found": data["found"][:PROPOSED], "compiled": len(found.found)}


TOOLS: Mapping[str, Callable[[Arguments], dict[str, Any]]] = {
    "list_operators": list_operators, "list_machines": list_machines, "explain": explain,
    "compile": compile, "check": check, "profile": profile, "compare": compare,
    "propose": propose_changes,
}  # fmt: skip
"""The tools by name."""


def _request(arguments: Arguments) -> CompileRequest:
    plan, machine = arguments["mapping"], arguments["machine"]
    if plan is not None:
        plan = load_mapping(plan, machine, folder=Path(arguments["folder"]))
        machine = None
    task, mapping = load_pair(arguments["logic"], plan, machine)
    return CompileRequest.of(
        task, mapping, shapes=_sizes(arguments["shapes"]) or None, dtypes=arguments["dtypes"],
        static=arguments["static"], tunables=arguments["tunables"],
    )  # fmt: skip


def _kernel(arguments: Arguments) -> Kernel:
    return compile_request(_request(arguments).with_example())


def _sizes(shapes: Mapping[str, Any] | None) -> dict[str, Any]:
    return {n: tuple(e) if isinstance(e, list) else e for n, e in (shapes or {}).items()}

"""``septran run``: compile, run on random input, check, and compare the speed with torch's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.backends import backend_of
from septran.commands import arguments as options
from septran.commands.arguments import CommandOptions, print_json, request, require_writable
from septran.commands.emulate import emulate_operator
from septran.commands.trust import offer

if TYPE_CHECKING:
    from septran.runtime.checks import Check
    from septran.runtime.kernel import Kernel
    from septran.runtime.profile import Profile
    from septran.runtime.torch_baseline import TorchTiming
    from septran.targets.base import CycleProfile

ORDERS: tuple[str | int, ...] = ("early", "late", 0)
"""The times when asynchronous copies land in interpreted runs: early, late, or at random."""

ORIGINS = 16
"""The number of origins of a simulated run's cycles that are listed."""

PERFETTO = "https://ui.perfetto.dev"

BUSY = 0.5
"""The number of cores that other programs may use before times are called unreliable."""

Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads, of torch, too; all if absent.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the random input.")]
NoTorch = Annotated[bool, typer.Option("--no-torch", help="Do not measure torch.")]
Profiled = Annotated[
    bool,
    typer.Option(
        "--profile",
        help="On a simulated machine: every engine's timeline, and what the cycles come from.",
    ),
]
Timeline = Annotated[
    bool,
    typer.Option(
        "--timeline",
        help="When each engine, warpgroup (of a GPU or emulated) or core worked, in one more run "
        "that takes notes.",
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write the timeline as JSON for https://ui.perfetto.dev.",
    ),
]
Interpret = Annotated[
    bool,
    typer.Option(
        "--interpret",
        help="Run the tile program node by node instead, on any machine's mapping: with copies "
        "landing as early, as late, and as randomly as its waits allow.",
    ),
]
Emulate = Annotated[
    bool,
    typer.Option(
        "--emulate",
        help="On a GPU's mapping: run the generated code on the CPU, thread by thread, with "
        "asynchronous copies and products at once, late, and at random.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    logic: options.Logic,
    on: options.On = None,
    mapping: options.MappingPath = None,
    shape: options.Sizes = None,
    dtype: options.Dtypes = None,
    tunable: options.Tunables = None,
    static: options.Static = None,
    threads: Threads = None,
    seed: Seed = 0,
    interpret: Interpret = False,
    emulated: Emulate = False,
    no_torch: NoTorch = False,
    profiled: Profiled = False,
    timeline: Timeline = False,
    trace: Trace = None,
    as_json: options.AsJson = False,
) -> None:
    """Compile, run on random input, check the result, and measure it beside torch.

    A result is right if its error is within the bound that rounding allows for this input;
    otherwise the exit code is 1. Simulated machines (DSAs) count cycles instead of time.

    \b
    Examples:
      septran run gemm --on cpu-x86
      septran run gemm -s M=512 -s N=384 -s K=256 --dtype float16 -t block_M=64
      septran run attention --static causal=true --threads 1
      septran run gemm --on dsa-sim --profile --trace gemm.json
      septran run attention --timeline
      septran run gemm --on nvidia-h200 --interpret -s M=64 -s N=64 -s K=64
      septran run gemm --on nvidia-h200 --emulate -s M=200 -s N=328 -s K=136 --dtype float16
    """  # noqa: D301  # \b is typer's mark for lines to keep
    import septran
    from septran.runtime.profile import Profile
    from septran.targets.base import Untimed

    # Before anything runs here: what this command does itself would count as well.
    busy = _busy_cores()
    require_writable(trace, "--trace")
    asked = request(logic, on, mapping, shape, dtype, tunable, static)
    if interpret:
        _not_beside(emulated)
        _no_times({"--profile": profiled, "--timeline": timeline, "--trace": trace})
        _interpret(asked, seed, as_json)
        return
    _only_simulated(asked.mapping.machine.backend, profiled)
    if emulated:
        emulate_operator(asked, seed, trace, as_json, timeline)
        return
    if threads is not None:
        _use_threads(asked.mapping.machine.backend, threads)
    offer(asked.mapping.machine, as_json)
    kernel = septran.compile(asked.logic, asked.mapping, **asked.settings)
    inputs = kernel.sample(seed)
    check = kernel.check(**inputs)
    if isinstance(kernel.stages.executable, Untimed):
        _untimed(kernel, check, kernel.stages.executable.emulator, as_json)
        return
    profile = kernel.profile(**inputs, timeline=timeline or trace is not None)
    if not isinstance(profile, Profile):
        _simulated(kernel, check, profile, profiled, timeline, trace, as_json)
        return
    beside = None
    # How fast a wrong result is says nothing.
    if not no_torch and check.right and kernel.device == "cpu":
        beside = _beside(asked, logic, kernel, inputs, threads)
    _measured(kernel, check, profile, beside, busy, timeline, trace, as_json)
    if not check.right:
        raise typer.Exit(1)


def _show_timeline(profile: Profile, timeline: bool, trace: Path | None) -> None:
    if trace is not None:
        typer.echo(f"  trace: {trace}, for {PERFETTO}")
    if timeline:
        typer.echo("\n" + profile.timeline.to_text())


def _not_beside(emulated: bool) -> None:
    if emulated:
        message = "a run is interpreted or emulated: give one of --interpret and --emulate"
        raise typer.BadParameter(message, param_hint="--emulate")


def _no_times(asked: dict[str, object]) -> None:
    for option, value in asked.items():
        if value:
            message = "an interpreted run takes no time: it has no timeline"
            raise typer.BadParameter(message, param_hint=option)


def _only_simulated(backend: str, profiled: bool) -> None:
    if profiled and not backend_of(backend).simulated:
        message = f"a {backend} machine's cycles are not simulated; --timeline shows what ran when"
        raise typer.BadParameter(message, param_hint="--profile")


def _measured(
    kernel: Kernel,
    check: Check,
    profile: Profile,
    beside: TorchTiming | None,
    busy: float,
    timeline: bool,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Print the result of a run on a real machine; `busy` is how many cores others keep busy."""
    if trace is not None:
        profile.timeline.to_chrome_trace(trace)
    if as_json:
        lanes = {"timeline": profile.timeline.to_dict()["lanes"]} if timeline else {}
        print_json({**_data(kernel, check, profile, beside), **lanes, "busy_cores": busy})
        return
    typer.echo(_text(kernel, check, profile, beside))
    _show_timeline(profile, timeline, trace)
    if busy >= BUSY:
        typer.echo(f"  note: other programs keep {busy:.1f} cores busy: times are unreliable")


def _simulated(
    kernel: Kernel,
    check: Check,
    profile: CycleProfile,
    profiled: bool,
    timeline: bool,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Print the result of a run on a simulated machine; exits with 1 where it is wrong."""
    written = profile.to_chrome_trace(trace) if trace else None
    if as_json:
        data = {**_facts(kernel, check), "profile": profile.to_dict()}
        print_json(data | ({"by_origin": _origins(profile)} if profiled else {}))
    else:
        figures = str(profile).partition(": ")[2]  # the head has said which kernel and where
        lines = [*_head(kernel, check), *_indented(f"simulated: {figures}"), *_notes(kernel)]
        if timeline or profiled:
            lines += ["", profile.timeline_text()]
        if profiled:
            lines += ["", "where the cycles come from"]
            lines += [
                f"  {row['cycles']:>12,}  {row['queue']:8}  {row['origin']}"
                for row in _origins(profile)[:ORIGINS]
            ]
        if written is not None:
            lines.append(f"  trace: {written}, for {PERFETTO}")
        typer.echo("\n".join(lines))
    if not check.right:
        raise typer.Exit(1)


def _origins(profile: CycleProfile) -> list[dict[str, Any]]:
    """Return the origins of the cycles, longest first."""
    rows: list[dict[str, Any]] = profile.by_origin().to_dict("records")
    return [row for row in rows if row["cycles"]]


def _busy_cores() -> float:
    """Return the number of cores that other programs have used over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _use_threads(backend: str, count: int) -> None:
    from septran.targets.registry import threaded_for

    target = threaded_for(backend)
    if target is None:
        raise typer.BadParameter(f"a {backend} machine has none to choose", param_hint="--threads")
    if count > (usable := target.usable_cores()):
        raise typer.BadParameter(
            f"{count} is more than the {usable} usable cores", param_hint="--threads"
        )
    target.set_threads(count)


def _beside(
    asked: CommandOptions, logic: str, kernel: Kernel, inputs: dict[str, Any], threads: int | None
) -> TorchTiming | None:
    from septran import operators
    from septran.runtime.torch_baseline import time_against_torch

    if logic not in operators.names():
        return None  # a file may call its task gemm and compute something else
    arrays = list(inputs.values())
    return time_against_torch(logic, kernel, arrays, asked.static, threads=threads)


def _sizes(kernel: Kernel) -> str:
    tree = kernel.stages.task_tree
    dtypes = dict.fromkeys(p.dtype for p in tree.root.params)
    named = [f"{name} = {extent}" for name, extent in tree.dims]
    return ", ".join([*named, " and ".join(dtypes)])


def _text(kernel: Kernel, check: Check, profile: Profile, beside: TorchTiming | None) -> str:
    lines = _head(kernel, check)
    alone = "measured alone, call after call: " if beside is not None else "measured: "
    first, *rest = str(profile).splitlines()
    lines += [f"  {alone}{first.partition(': ')[2]}", *(f"  {line.strip()}" for line in rest)]
    lines += _notes(kernel)
    if (profile.fraction_of_peak or 0.0) > 1.0:
        lines.append(
            "  note: more than the machine file's peak; `septran machines --measure -o here.yaml` "
            "writes this host's figures, and `--on here.yaml` uses them"
        )
    if beside is not None:
        timing = beside.timing
        lines += [
            f"  measured beside {beside.function} of torch {beside.version}: {timing.ratio:.2f}x "
            f"its speed (median of {timing.pairs} pairs)",
            "    single calls in turns, both on torch's threads: times to compare with each other, "
            "not with those alone",
            f"    {_rate(profile, timing.ours_seconds)} septran",
            f"    {_rate(profile, timing.theirs_seconds)} torch",
        ]
    return "\n".join(lines)


def _head(kernel: Kernel, check: Check) -> list[str]:
    machine = kernel.stages.tile_program.machine.name
    seconds = sum(kernel.timings.values())
    head = f"{kernel.name} on {machine}: {_sizes(kernel)}; compiled in {seconds:.2f} s"
    return [head, *_indented(str(check))]


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _notes(kernel: Kernel) -> list[str]:
    """Return remarks on requests without effect, and on what was not checked.

    Keys without effect in a mapping that comes with SepTran are for other logic: `explain` lists
    them.
    """
    from septran.machine.loader import mappings_root

    shipped = str(mappings_root())
    lines = []
    for remark in kernel.remarks:
        ours = remark.where is not None and remark.where.file.startswith(shipped)
        if remark.kind == "unchecked" or (remark.kind == "no-effect" and not ours):
            place = f" [{remark.where}]" if remark.where is not None else ""
            hint = f" ({remark.hint})" if remark.hint else ""
            lines.append(f"  note: {remark.message}{hint}{place}")
    return lines


def _untimed(kernel: Kernel, check: Check, emulator: str, as_json: bool) -> None:
    """Print whether an emulated run is right."""
    if as_json:
        print_json({**_facts(kernel, check), "profile": None, "torch": None})
    else:
        machine = kernel.stages.tile_program.machine
        typer.echo(f"{kernel.name} on {machine.name}, {machine.arch} emulated by {emulator}")
        typer.echo(f"  {check}")
        typer.echo("  emulated code has no times")
    if not check.right:
        raise typer.Exit(1)


def _rate(profile: Profile, seconds: float) -> str:
    return f"{profile.flops / seconds / 1e9:7.2f} GFLOP/s, {seconds * 1e3:.3g} ms"


def _data(
    kernel: Kernel, check: Check, profile: Profile, beside: TorchTiming | None
) -> dict[str, Any]:
    data = {**_facts(kernel, check), "profile": profile.to_dict(), "torch": None}
    if beside is not None:
        data["torch"] = {
            "function": beside.function,
            "version": beside.version,
            "ratio": beside.timing.ratio,
            "ours_s": beside.timing.ours_seconds,
            "theirs_s": beside.timing.theirs_seconds,
            "pairs": beside.timing.pairs,
        }
    return data


def _facts(kernel: Kernel, check: Check) -> dict[str, Any]:
    tree = kernel.stages.task_tree
    return {
        "operator": kernel.name,
        "machine": kernel.stages.tile_program.machine.name,
        "dims": dict(tree.dims),
        "dtypes": {p.name: p.dtype for p in tree.root.params},
        "right": check.right,
        "check": str(check).splitlines(),
        "compile_s": kernel.timings,
    }


def _interpret(asked: CommandOptions, seed: int, as_json: bool) -> None:
    import septran
    from septran.runtime.checks import sample
    from septran.runtime.signature import Specialisation

    stages = septran.produce_stages(asked.logic, asked.mapping, **asked.settings)
    inputs = sample(Specialisation.of(stages), seed)
    found = {str(order): interpreted(stages, inputs, order) for order in ORDERS}
    wrong = [a for outcomes in found.values() for a in outcomes if not a.right]
    name, machine = stages.task_tree.name, stages.tile_program.machine.name
    if as_json:
        texts = {order: [str(a) for a in outcomes] for order, outcomes in found.items()}
        print_json({"operator": name, "machine": machine, "right": not wrong, "interpreted": texts})
    else:
        typer.echo(f"{name} on {machine}, interpreted")
        for order, outcomes in found.items():
            when = "at random" if order.isdigit() else order
            typer.echo("\n".join(f"  copies land {when}: {outcome}" for outcome in outcomes))
    if wrong:
        raise typer.Exit(1)


def interpreted(stages: Any, inputs: dict[str, Any], order: str | int) -> list[Any]:
    """Return the comparison of an interpreted run's outputs with the exact results."""
    import numpy as np

    from septran.dtypes import numpy_dtype
    from septran.runtime.accuracy import compare, error_bounds
    from septran.tile.interpret.interpreter import interpret

    arrays = dict(inputs)
    for param in stages.task_tree.root.params:
        if param.writes and param.reads:  # it adds to its output, which a call starts at zero
            arrays[param.name] = np.zeros(param.shape, numpy_dtype(param.dtype))
    results = interpret(stages.tile_program, arrays, order=order)
    bounds = error_bounds(stages.task_tree, arrays)
    return [compare(name, results[name], bound) for name, bound in bounds.items()]

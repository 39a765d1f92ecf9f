"""``septran run --emulate``: generated GPU code on the CPU, in every order of its copies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from septran.commands.arguments import CommandOptions, print_json

SAYS = {
    "eager": "asynchronous operations take effect at once",
    "late": "they take effect as late as waits allow",
    "random": "they take effect at random",
}


def emulate(
    asked: CommandOptions, seed: int, trace: Path | None, as_json: bool, timeline: bool = False
) -> None:
    """Run in each mode, check each result; exits with 1 where one is wrong.

    The timeline, and its file, are those of the first run.
    """
    import septran
    from septran.emulator import MODES, emulation

    kernel = septran.compile(asked.logic, asked.mapping, emulate=True, **asked.settings)
    inputs = kernel.sample(seed)
    kernel.stages.executable  # noqa: B018  # so that the first run's time is its own
    rows: list[dict[str, Any]] = []
    noted = timeline or trace is not None
    lanes = ""
    for mode in MODES:
        start = time.perf_counter()
        with emulation(mode, seed, trace=noted and mode == "eager"):
            check = kernel.check(**inputs)
        profile = kernel.stages.executable.profiles[0]  # type: ignore[attr-defined]
        rows.append(
            {
                "mode": mode, "right": check.right, "check": str(check).splitlines(),
                "seconds": time.perf_counter() - start, "profile": profile.to_dict(),
                "summary": str(profile).splitlines()[1:],
            }
        )  # fmt: skip
        if trace is not None and mode == "eager":
            profile.to_chrome_trace(trace)
        if timeline and mode == "eager":
            found = profile.timeline()
            rows[-1]["timeline"] = found.to_dict()["lanes"]
            lanes = "\n" + found.to_text()
    _print(kernel, rows, trace, as_json)
    if lanes and not as_json:
        typer.echo(lanes)
    if not all(row["right"] for row in rows):
        raise typer.Exit(1)


def _print(kernel: Any, rows: list[dict[str, Any]], trace: Path | None, as_json: bool) -> None:
    machine = kernel.stages.tile_program.machine.name
    if as_json:
        right = all(row["right"] for row in rows)
        head = {"operator": kernel.name, "machine": machine, "right": right}
        print_json({**head, "emulated": rows, "compile_s": kernel.timings})
        return
    lines = [f"{kernel.name} on {machine}, emulated"]
    for row in rows:
        lines.append(f"  {row['mode']}: {SAYS[row['mode']]} ({row['seconds']:.2f} s)")
        lines += [f"    {line.strip()}" for line in (*row["check"], *row["summary"])]
    if trace is not None:
        lines.append(f"  trace: {trace}, for https://ui.perfetto.dev")
    typer.echo("\n".join(lines))

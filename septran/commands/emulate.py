"""``septran emulate``: a kernel's PTX, from any compiler, on the CPU in every order.

``septran run --emulate`` does the same with generated GPU code.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import CommandOptions, print_json

if TYPE_CHECKING:
    from septran.emulator import Emulation

SAYS = {
    "eager": "asynchronous operations take effect at once",
    "late": "they take effect as late as waits allow",
    "random": "they take effect at random",
}
MOST_CONFLICTS = 5
File = Annotated[Path, typer.Argument(metavar="FILE", help="A PTX file, kernel.ptx.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ARGUMENT]...",
        help="The kernel's arguments in order: float16[128,64] (random), zeros:float32[128], "
        "a.npy, int32=5, null.",
    ),
]
Name = Annotated[
    str | None, typer.Option("--kernel", "-k", help="Which kernel of the file; the only one.")
]
Grid = Annotated[str, typer.Option("--grid", "-g", metavar="X[,Y[,Z]]", help="Blocks.")]
Block = Annotated[
    str | None,
    typer.Option("--block", "-b", metavar="X[,Y[,Z]]", help="Threads; .reqntid if it is there."),
]
Cluster = Annotated[int, typer.Option("--cluster", min=1, help="Blocks of a cluster, along x.")]
Shared = Annotated[int, typer.Option("--shared", min=0, help="Bytes of dynamic shared memory.")]
Mode = Annotated[
    str | None, typer.Option("--mode", help="eager, late or random; all three if absent.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Of random arguments and of the random order.")
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Also what documents ask for and hardware does without."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FOLDER", help="Keep the arrays, each as x.npy.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(emulate)


def emulate(
    file: File,
    words: Words = None,
    kernel: Name = None,
    grid: Grid = "1",
    block: Block = None,
    cluster: Cluster = 1,
    shared: Shared = 0,
    mode: Mode = None,
    seed: Seed = 0,
    strict: Strict = False,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a kernel's PTX on the CPU, with asynchronous work early, late and at random.

    Mistakes are reported with the line of PTX and, by .loc, of its source: accesses out of
    bounds, races, missing fences and waits, deadlocks. Otherwise the counts and the bank
    conflicts of each run are printed, and whether the runs agree.

    \b
    Examples:
      septran emulate add.ptx float32[256] float32[256] zeros:float32[256] -b 256
      septran emulate gemm.ptx a.npy b.npy zeros:float16[512,512] int32=512 -g 4,4 -b 128 --shared 65536
    """  # noqa: D301, E501  # \b is typer's mark for lines to keep
    from septran import emulator
    from septran.emulator import MODES
    from septran.emulator.ptx.arguments import LaunchShape, kernel_of, program_of
    from septran.emulator.ptx.parse import parse

    text = _text(file)
    module = parse(text)
    chosen = kernel_of(module, kernel)
    threads = _three(block, "--block") if block else _required(chosen.numbers("reqntid"))
    shape = LaunchShape(_three(grid, "--grid"), threads, cluster, shared)
    if mode is not None and mode not in MODES:
        raise typer.BadParameter(f"one of {', '.join(MODES)}", param_hint="--mode")
    rows: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    for each in [mode] if mode else MODES:
        program, arrays = program_of(text, chosen, module.target, words or [], shape, seed)
        start = time.perf_counter()
        run = emulator.emulate(program, arrays, mode=each, seed=seed, strict=strict)
        rows.append(_row(each, run, time.perf_counter() - start))
        rows[-1]["differs"] = [n for n, a in arrays.items() if _differs(first.get(n, a), a)]
        first = first or arrays
    if out:
        _keep(out, first)
    if as_json:
        print_json({"kernel": chosen.name, "target": module.target, "emulated": rows})
    else:
        typer.echo("\n".join([f"{chosen.name} for {module.target}", *map(_row_text, rows)]))


def _text(file: Path) -> str:
    from septran.emulator import MisuseError
    from septran.emulator.ptx.parse import is_ptx

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="FILE") from None
    if not is_ptx(text):
        raise MisuseError(f"{file} is no PTX text: it does not begin with .version")
    return text


def _three(text: str, name: str) -> tuple[int, int, int]:
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*){0,2}", text):
        raise typer.BadParameter(f"{text!r} is not like 4,2,1", param_hint=name)
    x, y, z = (*map(int, text.split(",")), 1, 1)[:3]
    return x, y, z


def _required(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    if not numbers:
        raise typer.BadParameter("the kernel does not say its threads", param_hint="--block")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _row(mode: str, run: Emulation, seconds: float) -> dict[str, Any]:
    conflicts = [
        {"line": c.place.line, "source": c.place.origin, "text": c.place.text,
         "conflicts": c.conflicts, "wavefronts": c.wavefronts}
        for c in run.conflicts
    ]  # fmt: skip
    counts = {name: count for name, count in run.statistics.items() if count}
    return {"mode": mode, "seconds": seconds, "counts": counts, "conflicts": conflicts}


def _differs(a: Any, b: Any) -> bool:
    return bool((a.reshape(-1).view("u1") != b.reshape(-1).view("u1")).any())


def _row_text(row: dict[str, Any]) -> str:
    lines = [f"  {row['mode']}: {SAYS[row['mode']]} ({row['seconds']:.2f} s)"]
    lines += [f"    {name.replace('_', ' ')}: {count:,}" for name, count in row["counts"].items()]
    for c in row["conflicts"][:MOST_CONFLICTS]:
        place = f"line {c['line']}" + (f" ({c['source']})" if c["source"] else "")
        lines.append(f"    {c['conflicts']:,} bank conflicts at {place}: {c['text'][:80]}")
    if row["differs"]:
        lines.append(f"    differs from the first run: {', '.join(row['differs'])}")
    return "\n".join(lines)


def _keep(folder: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}.npy", array)


def emulate_operator(
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

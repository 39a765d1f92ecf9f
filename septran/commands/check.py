"""``septran check``: a mapping against the reference, over sizes, types and schedules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import given_dtypes, given_sizes, given_values, print_json

if TYPE_CHECKING:
    from septran.checking import CaseResult, Subject

YAML = (".yaml", ".yml")
Logic = Annotated[
    str,
    typer.Argument(
        metavar="LOGIC|MAPPING",
        help="An operator of the library, a logic file, or a mapping file alone: then that of its "
        "entrypoint or of --logic is checked, or all operators of the library.",
    ),
]
LogicFile = Annotated[
    str | None,
    typer.Option("--logic", metavar="LOGIC", help="The logic, where the argument is a mapping."),
]
Told = Annotated[
    list[str] | None,
    typer.Option(
        "--dynamic", metavar="NAME=MOST", help="With --one: an extent that the call tells. "
        "Repeatable.",
    ),
]  # fmt: skip
Cases = Annotated[
    int, typer.Option("--cases", min=1, help="Sets of sizes, types and flags at most.")
]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0, help="After which no other case is begun.")
]
Way = Annotated[
    str,
    typer.Option(
        "--way", metavar="NAME",
        help="One way to run alone: code, other width, simulator, emulator or interpreter.",
    ),
]  # fmt: skip
One = Annotated[bool, typer.Option("--one", help="The sizes, types and flags given, no others.")]
Special = Annotated[
    bool, typer.Option("--special", help="A few NaN and infinities among the inputs of each case.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of random inputs and delays.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(check)


def check(
    logic: Logic,
    on: options.On = None,
    mapping: options.MappingPath = None,
    logic_file: LogicFile = None,
    shape: options.Sizes = None,
    dtype: options.Dtypes = None,
    tunable: options.Tunables = None,
    static: options.Static = None,
    dynamic: Told = None,
    cases: Cases = 24,
    seconds: Seconds = 300.0,
    way: Way = "",
    one: One = False,
    seed: Seed = 0,
    special: Special = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare a mapping with the reference: over sizes, element types and timing.

    The sizes are the operator's own, those around the ends of tiles, one element, and on a CPU
    extents that the call tells; some inputs have NaN and infinities. Generated code runs between
    guard pages, on the simulator with random delays, or on the emulator in every order of its
    asynchronous work; the tile program is interpreted likewise. A failure is made small. What -s,
    --dtype and --static say holds in each case. The exit code is 0 only if something ran and all
    was right.

    \b
    Examples:
      septran check gemm --on dsa-sim
      septran check mine.mapping.yaml --logic my_gemm.py --cases 8
      septran check attention -m mine.mapping.yaml --static causal=true --json
      septran check gemm --on dsa-sim -s M=3 -s N=17 -s K=1 --way simulator --one
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.checking import WAYS, CheckCase, CheckLimits, Subject, check_mapping

    if way and way not in WAYS:
        raise typer.BadParameter(f"there are {', '.join(WAYS)}", param_hint="--way")
    logics, plan = _what(logic, mapping, logic_file, on)
    told = {name: value for name, value in given_sizes(dynamic).items() if isinstance(value, int)}
    fixed = CheckCase(
        "as given", given_sizes(shape), given_dtypes(dtype), given_values(static, "--static"), told,
        seed, special,
    )  # fmt: skip
    tuned = given_values(tunable, "--tunable")
    limits = CheckLimits(cases, seconds / len(logics))
    verdicts = []
    for name in logics:
        subject = Subject(name, plan, on, tuned)
        show = _progress(subject)
        found = check_mapping(subject, fixed, limits, way=way, one=one, show=show)
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
        verdicts.append(found)
        if not as_json:
            typer.echo(str(found))
    right = all(verdict.right for verdict in verdicts)
    if as_json:
        data = [verdict.to_dict() for verdict in verdicts]
        print_json(data[0] if len(data) == 1 else {"right": right, "verdicts": data})
    elif len(verdicts) > 1:
        good = sum(verdict.right for verdict in verdicts)
        typer.echo(f"{good} of {len(verdicts)} operators are right")
    if not right:
        raise typer.Exit(1)


def _what(
    given: str, mapping: str | None, logic: str | None, on: str | None
) -> tuple[tuple[str, ...], str | None]:
    """Return the logics to check, and the mapping file; raises SepTranError."""
    if Path(given).suffix not in YAML:
        if logic is not None:
            raise typer.BadParameter("the argument is the logic already", param_hint="--logic")
        return (given,), mapping
    if mapping is not None:
        raise typer.BadParameter("the argument is a mapping already", param_hint="--mapping")
    if logic is not None:
        return (logic,), given
    from septran import operators
    from septran.mapping.loader import load_mapping

    plan = load_mapping(given, on)
    if plan.entrypoint is None:
        return operators.names(), given  # rules are for any logic
    variant = plan.instances[plan.entrypoint.value].variant
    task = variant.value if variant is not None else plan.entrypoint.value
    if task not in operators.names():
        message = f"its entrypoint is {task}, no operator of the library: pass the logic file, too"
        raise typer.BadParameter(message, param_hint="--logic")
    return (task,), given


def _progress(subject: Subject) -> Any:
    def show(result: CaseResult) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{subject.logic}: {result.kind}: {result.case}")

    return show

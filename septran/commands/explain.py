"""``septran explain``: every stage of a compilation, and why each thing in it is there."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from septran.commands import arguments as options
from septran.commands.arguments import CommandOptions, emit, request

if TYPE_CHECKING:
    from septran.views.explanation import Explanation


class StageName(StrEnum):
    """The stages that can be shown alone."""

    task_tree = "task_tree"
    mapping = "mapping"
    tile_program = "tile_program"
    tensor_ir = "tensor_ir"
    source = "source"
    tilelang = "tilelang"


class Format(StrEnum):
    """The formats of the output."""

    text = "text"
    full = "full"
    html = "html"
    report = "report"
    json = "json"
    yaml = "yaml"


Only = Annotated[
    StageName | None,
    typer.Option("--stage", help="One stage alone, as text; tilelang is a program for TileLang."),
]
As = Annotated[
    Format,
    typer.Option(
        "--format", "-f",
        help="What one reads first; all stages in full; one HTML page that needs no network; a "
        "short report of what limits the kernel, what is legal at each place and which changes "
        "help; JSON; or the resolved mapping as an explicit mapping file.",
    ),
]  # fmt: skip
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")
]
Passes = Annotated[
    bool, typer.Option("--passes", help="The tile program after each pass that changes it.")
]

Measured = Annotated[
    bool,
    typer.Option("--measure", help="In a report: run the changes, too, where the machine is here."),
]
Seconds = Annotated[
    float,
    typer.Option("--seconds", min=0, help="In a report: after which no other change is tried."),
]
Part = Annotated[
    str | None,
    typer.Option("--part", help="One part of the source alone: ptx, sass; assembly of a CPU's."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explain)


def explain(
    logic: options.Logic,
    on: options.On = None,
    mapping: options.MappingPath = None,
    shape: options.Sizes = None,
    dtype: options.Dtypes = None,
    tunable: options.Tunables = None,
    static: options.Static = None,
    stage: Only = None,
    part: Part = None,
    passes: Passes = False,
    form: As = Format.text,
    measure: Measured = False,
    seconds: Seconds = 60.0,
    output: Output = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the stages of a compilation, with the reason of each copy, wait and choice.

    Nothing is run, and the machine need not be here. Code comes with --stage or --format full.
    With --format report every single change of the mapping is compiled, and predicted; those that
    it says to try do compile. With --measure they are run, too, and --json is for programs.

    \b
    Examples:
      septran explain gemm --on cpu-x86 -s M=512 -s N=384 -s K=256
      septran explain softmax --on dsa-sim --stage tile_program
      septran explain gemm --on nvidia-h200 --format html -o gemm.html
      septran explain gemm --on nvidia-h200 --dtype float16 --part sass
      septran explain gemm --format report -t block_K=128
      septran explain swiglu --on dsa-sim --format report --measure --json
      septran explain gemm --on cpu-x86 --format yaml -o gemm.mapping.yaml
    """  # noqa: D301  # \b is typer's mark for lines to keep
    import septran

    if measure and form is not Format.report:
        raise typer.BadParameter("changes are tried for --format report", param_hint="--measure")
    reported = form is Format.report
    form = Format.json if as_json and not reported else form
    if sum(map(bool, (stage, part, passes))) > 1:
        raise typer.BadParameter("--stage, --part and --passes go one at a time")
    if form is not Format.text and (stage or part or passes):
        raise typer.BadParameter(f"there is no {form} of one stage", param_hint="--format")
    asked = request(logic, on, mapping, shape, dtype, tunable, static)
    explanation = septran.explain(asked.logic, asked.mapping, **asked.settings)
    if reported:
        emit(_report(asked, explanation, measure, seconds, as_json), output)
        return
    if part:
        text = explanation.part(part)
    else:
        text = _passes(explanation) if passes else _rendered(explanation, form, stage)
    emit(text, output)


def _report(
    asked: CommandOptions, explanation: Explanation, measured: bool, seconds: float, as_json: bool
) -> str:
    from septran.request import CompileRequest
    from septran.tuning.changes import propose
    from septran.views.text.proposals import report_data
    from septran.views.text.report import report

    request = CompileRequest.of(asked.logic, asked.mapping, **asked.settings)
    proposals = propose(request, measured=measured, seconds=seconds)
    if as_json:
        data = report_data(explanation, proposals)
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return report(explanation, proposals)


def _rendered(explanation: Explanation, form: Format, stage: StageName | None) -> str:
    match form:
        case Format.html:
            from septran.views.panels.explanation import explanation_page

            return explanation_page(explanation)
        case Format.json:
            return json.dumps(explanation.to_dict(), indent=2, ensure_ascii=False) + "\n"
        case Format.yaml:
            return explanation.mapping.to_yaml()
        case Format.text:
            return explanation.text(stage.value) if stage else str(explanation)
        case _:
            return explanation.text()


def _passes(explanation: Explanation) -> str:
    parts, before = [], ""
    for number, step in enumerate(explanation.passes, 1):
        text = str(step.program).rstrip()
        head = f"{number}. {step.name}: {step.summary}"
        parts.append(f"{head}\n{text}\n" if text != before else f"{head}\n    (changes nothing)\n")
        before = text
    return "\n".join(parts)

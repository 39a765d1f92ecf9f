"""Options that several commands share, and the meaning of their texts."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.argument_checks import WrongArgumentError, as_writable_path

if TYPE_CHECKING:
    from septran.mapping.mapping import MappingFile
    from septran.task.frontend.definition import Task

Logic = Annotated[
    str,
    typer.Argument(
        metavar="LOGIC", help="An operator of the library (`septran ops`) or a logic file, x.py."
    ),
]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="MACHINE", help="A machine, by name or file; cpu-x86 if absent."),
]
MappingPath = Annotated[
    str | None,
    typer.Option("--mapping", "-m", metavar="FILE", help="A mapping; the machine's own if absent."),
]
Sizes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", "-s", metavar="NAME=SIZE",
        help="A dimension, M=512, or a tensor's shape, A=512x256. Repeatable; "
        "the operator's example for the rest.",
    ),
]  # fmt: skip
Dtypes = Annotated[
    list[str] | None,
    typer.Option(
        "--dtype", metavar="[NAME=]TYPE",
        help="Element type of all tensors, float16, or of one, A=int8. Repeatable.",
    ),
]  # fmt: skip
Tunables = Annotated[
    list[str] | None,
    typer.Option(
        "--tunable", "-t", metavar="NAME=VALUE",
        help="A tunable, before the mapping's value: block_M=64. Repeatable.",
    ),
]  # fmt: skip
Static = Annotated[
    list[str] | None,
    typer.Option(
        "--static", metavar="NAME=VALUE",
        help="A static flag of the logic: causal=true. Repeatable.",
    ),
]  # fmt: skip
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers", metavar="N|dask://HOST:PORT",
        help="Processes side by side: so many here, or those of a Dask scheduler, which --on "
        "takes, too.",
    ),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

SCHEME = "dask://"

Value = bool | int | float | str | tuple[int, ...] | None


def split_on(on: str | None, workers: str | None) -> tuple[str | None, str | None]:
    """The machine and the workers, of which --on may name either."""
    if on is None or not on.startswith(SCHEME):
        return on, workers
    if workers is not None:
        raise typer.BadParameter("--workers names them, too", param_hint="--on")
    return None, on


def workers_of(text: str | None) -> int | str | None:
    """What `septran.tune` takes as workers."""
    return int(text) if text is not None and text.isdecimal() else text


@dataclass(frozen=True)
class CommandOptions:
    """The options of a compilation, as `septran.compile` takes them."""

    logic: Task
    mapping: MappingFile
    shapes: dict[str, int | tuple[int, ...]] | None
    dtypes: dict[str, str] | str | None
    tunables: dict[str, Any]
    static: dict[str, Value]

    @property
    def settings(self) -> dict[str, Any]:
        """All arguments but logic and mapping, by keyword."""
        return {
            "shapes": self.shapes, "dtypes": self.dtypes,
            "tunables": self.tunables, "static": self.static,
        }  # fmt: skip


def request(
    logic: str | Task,
    on: str | None = None,
    mapping: str | MappingFile | None = None,
    shape: list[str] | None = None,
    dtype: list[str] | None = None,
    tunable: list[str] | None = None,
    static: list[str] | None = None,
) -> CommandOptions:
    """Read the options and load logic and mapping; raises SepTranError, typer.BadParameter."""
    from septran.request import load_pair

    given, types = given_sizes(shape), given_dtypes(dtype)
    flags, tuned = given_values(static, "--static"), given_values(tunable, "--tunable")
    task, plan = load_pair(logic, mapping, on)
    return CommandOptions(task, plan, _with_example(task, given), types, tuned, flags)


def _with_example(
    task: Task, given: dict[str, int | tuple[int, ...]]
) -> dict[str, int | tuple[int, ...]]:
    """Return `given`, with the operator's example for dimensions that it leaves open."""
    example: dict[str, int] = task.function.__globals__.get("EXAMPLE", {})
    if any(isinstance(size, tuple) for size in given.values()):
        return given  # shapes say all, and the example could contradict them
    if not given and not example:
        names = ", ".join(name for name, _ in task.tensors)
        raise typer.BadParameter(
            f"{task.name} has no example sizes, so give shapes, such as -s A=512x256, of {names}",
            param_hint="--shape",
        )
    # What is given wins, dimension by dimension.
    return {**example, **given}


def _pairs(texts: Iterable[str] | None, option: str) -> Iterable[tuple[str, str]]:
    for text in texts or ():
        yield name_and_value(text, option)


def name_and_value(text: str, option: str) -> tuple[str, str]:
    """Return the halves of NAME=VALUE; raises typer.BadParameter."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
    return name, value


def _size(text: str) -> tuple[str, int | tuple[int, ...]]:
    name, value = name_and_value(text, "--shape")
    if re.fullmatch(r"\d+", value):
        return name, int(value)
    if re.fullmatch(r"\d+([x,]\d+)+|\d+,", value):
        return name, tuple(int(part) for part in re.split("[x,]", value) if part)
    raise typer.BadParameter(
        f"{value!r} is neither a size such as 512 nor a shape such as 512x256 (512, for one axis)",
        param_hint="--shape",
    )


def given_sizes(texts: list[str] | None) -> dict[str, int | tuple[int, ...]]:
    """Return what `--shape` says of dimensions and tensors; raises typer.BadParameter."""
    return dict(_size(text) for text in texts or ())


def given_values(texts: list[str] | None, option: str) -> dict[str, Value]:
    """Return what a repeated NAME=VALUE says; raises typer.BadParameter."""
    return {name: value_of(text) for name, text in _pairs(texts, option)}


def given_dtypes(texts: list[str] | None) -> dict[str, str] | str | None:
    """Return what `--dtype` says: one type for all, or one each; raises typer.BadParameter."""
    texts = texts or []
    for_all = [text for text in texts if "=" not in text]
    if not texts:
        return None
    if for_all and len(texts) > 1:
        raise typer.BadParameter("give one type for all, or NAME=TYPE each", param_hint="--dtype")
    return for_all[0] if for_all else dict(_pairs(texts, "--dtype"))


def value_of(text: str) -> Value:
    """Return a text's value as YAML reads it: true, 12, 0.5, null or a word; `0,2,1` is a tuple."""
    words: dict[str, Value] = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    entries = text.split(",")
    if len(entries) > 1 and all(entry.strip().isdecimal() for entry in entries):
        return tuple(map(int, entries))
    return text


def print_json(data: Any) -> None:
    """Print data for programs."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def require_writable(output: Path | None, option: str) -> None:
    """Raise typer.BadParameter, before all work, for a path that could not be written after it."""
    if output is None:
        return
    try:
        as_writable_path(option, output)
    except WrongArgumentError as error:
        raise typer.BadParameter(error.message, param_hint=option) from None


def emit(text: str, output: Path | None) -> None:
    """Print a text, or write it to a file and say so on the error stream."""
    if output is None:
        typer.echo(text.rstrip("\n"))
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(
            f"{output} cannot be written: {error.strerror}", param_hint="--output"
        ) from None
    sys.stderr.write(f"wrote {output}\n")


def rows_of(file: Path, option: str) -> list[list[str]]:
    """Return the lines of a CSV file, each as ``NAME=SIZE``; raises typer.BadParameter.

    What a line leaves empty is not in it; a size is 128, or 512x256 of a tensor.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, skipinitialspace=True)
            names = [name.strip() for name in next(reader, ())]
            found = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise typer.BadParameter(f"{file} cannot be read: {reason}", param_hint=option) from None
    if not found or not all(names):
        message = f"{file} has no sizes: its first line names dimensions, each other one has sizes"
        raise typer.BadParameter(message, param_hint=option)
    for line, row in found:
        if len(row) != len(names):
            message = f"{file}:{line}: {len(row)} sizes for {len(names)} names"
            raise typer.BadParameter(message, param_hint=option)
        for name, size in zip(names, row, strict=True):
            if size and not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", size):
                message = f"{file}:{line}: {size!r} is no size of {name}"
                raise typer.BadParameter(message, param_hint=option)
    return [[f"{n}={e}" for n, e in zip(names, row, strict=True) if e] for _, row in found]

"""``septran ops``: the operators of the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json

if TYPE_CHECKING:
    from septran.task.frontend.definition import Task

One = Annotated[
    str | None, typer.Argument(metavar="[OPERATOR]", help="An operator; all if absent.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ops)


def ops(operator: One = None, as_json: options.AsJson = False) -> None:
    """List the operators of the library, or describe one.

    \b
    Examples:
      septran ops
      septran ops attention
      septran ops --json
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran import operators

    names = list(operators.names()) if operator is None else [operator]
    described = [_data(name) for name in names]
    if as_json:
        print_json(described[0] if operator else described)
    elif operator:
        typer.echo(_details(described[0]))
    else:
        width = max(map(len, names))
        for one in described:
            typer.echo(f"{one['name']:{width}}  {one['summary']}")


def _data(name: str) -> dict[str, Any]:
    from septran import operators

    module = operators.module(name)
    task: Task = operators.load(name)
    text = (module.__doc__ or "").strip()
    return {
        "name": name,
        "summary": text.splitlines()[0] if text else "",
        "text": text,
        "tensors": {tensor: _dims(kind.dims) for tensor, kind in task.tensors},
        "static": {k.name: k.default for k in task.keywords if k.static},
        "scalars": {k.name: k.default for k in task.keywords if not k.static},
        "example": dict(getattr(module, "EXAMPLE", {})),
        "file": str(Path(module.__file__ or "")),
    }


def _dims(dims: tuple[str | int | None, ...] | None) -> list[str | int | None] | None:
    return None if dims is None else list(dims)


def _details(one: dict[str, Any]) -> str:
    lines = [one["text"], ""]
    for name, dims in one["tensors"].items():
        extents = "" if dims is None else f" [{', '.join(str(d) for d in dims)}]"
        lines.append(f"  {name}{extents}")
    for name, default in {**one["static"], **one["scalars"]}.items():
        kind = "--static" if name in one["static"] else "scalar"
        lines.append(f"  {name}: {kind}, {default} by default")
    example = ", ".join(f"{name} = {size}" for name, size in one["example"].items())
    return "\n".join([*lines, f"  example: {example}", f"  logic: {one['file']}"])

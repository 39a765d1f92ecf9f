"""``%load_ext septran``: ``%%logic`` and ``%%mapping`` cells, ``%septran``."""

from __future__ import annotations

import argparse
import linecache
import shlex
from pathlib import Path
from typing import Any

import typer
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

import septran
from septran.commands.arguments import CommandOptions, request
from septran.mapping.loader import load_mapping
from septran.task import Task

VERBS = ("explain", "explore", "edit", "run", "check", "compile")


def load(shell: Any) -> None:
    """Add the magics."""
    shell.register_magics(SepTranMagics)


@magics_class
class SepTranMagics(Magics):
    """Cells that hold a logic or a mapping, and a command line."""

    shell: Any

    @cell_magic
    def logic(self, line: str, cell: str) -> Any:
        """Run a cell that defines tasks; errors name its lines.

        ``%%logic NAME`` also calls the entry task, the last composite of the cell, NAME.
        """
        name = _one_name(line, "%%logic")
        before = {n: t for n, t in self.shell.user_ns.items() if isinstance(t, Task)}
        file, text = self._remembered(cell)
        code = compile(text, file, "exec")
        self.shell.user_ns.setdefault("task", septran.task)
        exec(code, self.shell.user_ns)
        tasks = [
            t for n, t in self.shell.user_ns.items()
            if isinstance(t, Task) and before.get(n) is not t
        ]  # fmt: skip
        own = [t for t in tasks if t.file == file and t.name == t.variant]
        if not own:
            raise UsageError("%%logic: the cell defines no task")
        entry = ([t for t in own if not t.leaf] or own)[-1]
        if name:
            self.shell.user_ns[name] = entry
        return entry

    @cell_magic
    def mapping(self, line: str, cell: str) -> Any:
        """Read a cell as a mapping; errors name its lines. ``%%mapping NAME`` keeps it."""
        name = _one_name(line, "%%mapping")
        file, text = self._remembered(cell)
        loaded = load_mapping(text, folder=Path.cwd(), name=file)
        if not name:
            return loaded
        self.shell.user_ns[name] = loaded
        return None

    @line_magic
    def septran(self, line: str) -> Any:
        """``%septran explain|explore|edit|run|check|compile LOGIC [--on MACHINE] [-s M=64]``.

        LOGIC is an operator, a file, or a task of the notebook; ``--on`` and ``--mapping``
        name a machine, a file, or a mapping of the notebook.
        """
        given = _parser().parse_args(shlex.split(line.rstrip("; ")))
        names = self.shell.user_ns
        logic = names[given.logic] if isinstance(names.get(given.logic), Task) else given.logic
        mapping = names.get(given.mapping or given.on or "", None)
        if isinstance(mapping, str | Path):
            mapping = None
        return _carried_out(given, logic, mapping)

    def _remembered(self, cell: str) -> tuple[str, str]:
        """A name for the cell, and its text; the magic's own line is the first."""
        file = f"<cell In[{self.shell.displayhook.prompt_count}]>"
        text = f"\n{cell}"
        lines = [*text.splitlines(keepends=True)]
        linecache.cache[file] = (len(text), None, lines, file)
        return file, text


def _one_name(line: str, magic: str) -> str:
    name = line.strip()
    if name and not name.isidentifier():
        raise UsageError(f"{magic} takes one name or none, not {name!r}")
    return name


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(f"%septran: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%septran", add_help=False)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("logic")
    parser.add_argument("--on")
    parser.add_argument("--mapping", "-m")
    for long, short in (("shape", "s"), ("tunable", "t"), ("dtype", "d"), ("static", "f")):
        parser.add_argument(f"--{long}", f"-{short}", action="append", default=[])
    return parser


def _carried_out(given: argparse.Namespace, logic: Any, mapping: Any) -> Any:
    asked = _asked(given, logic, mapping)
    if given.verb == "edit":
        named = {k: v for k, v in asked.settings.items() if v}
        return septran.edit(asked.logic, given.mapping or given.on or "cpu-x86", **named)
    if given.verb in ("explain", "explore"):
        explanation = septran.explain(asked.logic, asked.mapping, **asked.settings)
        return explanation if given.verb == "explain" else explanation.explore()
    shapes = asked.settings.get("shapes") or asked.logic.function.__globals__.get("EXAMPLE")
    kernel = septran.compile(asked.logic, asked.mapping, **{**asked.settings, "shapes": shapes})
    if given.verb == "compile":
        return kernel
    return kernel.profile() if given.verb == "run" else kernel.check()


def _asked(given: argparse.Namespace, logic: Any, mapping: Any) -> CommandOptions:
    """What the words ask for, read as the command line reads them."""
    try:
        return request(
            logic, given.on if mapping is None else None, mapping or given.mapping,
            given.shape, given.dtype, given.tunable, given.static,
        )  # fmt: skip
    except typer.BadParameter as error:
        raise UsageError(f"%septran: {error.format_message()}") from None

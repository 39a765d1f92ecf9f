"""The server: tools with typed arguments, run in a child process, on files of one folder."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from septran.agent.folder import Folder
from septran.errors import CallError, SepTranError
from septran.tuning.measuring import MeasuringWorker

COMMAND_MODULE = "septran.agent.worker"
SECONDS = 120.0
"""The seconds that a call may take."""
START_SECONDS = 300.0
"""The seconds that a process may take until it can answer."""
INSTRUCTIONS = """\
SepTran compiles an operator from two files: a logic file in Python says what is computed, a
mapping in YAML says which processor runs each task and which memory holds each tensor. Start with
the mapping of a machine (`list_machines`), `explain` what limits it, `propose` single changes, pass
a proposal's `mapping` text on as the mapping of the next call, and `check` the result before you
give it to anybody. Logic is an operator of the library (`list_operators`) or a .py file of the
server's folder; a mapping is a machine's name, a .yaml file of the folder, or the text itself.
"""

Shapes = dict[str, int | list[int]] | None
Types = dict[str, str] | str | None
Values = dict[str, Any] | None


class NoServerPackageError(CallError):
    """`septran mcp` needs the package `mcp`, which is not installed."""

    code = "SEP699"


class ToolFailure(Exception):
    """What a client is told of a call that has no answer."""


@dataclass
class Calls:
    """The calls of one server: checked here, run in a process that is replaced when it breaks."""

    folder: Folder
    seconds: float = SECONDS
    _worker: MeasuringWorker = field(init=False)
    # One call at a time, and always by this thread: Linux ends a child that is to end with its
    # parent as soon as the thread that started it is gone, and the server's threads come and go.
    _caller: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __post_init__(self) -> None:
        self._worker = MeasuringWorker((sys.executable, "-m", COMMAND_MODULE))

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return a tool's answer; raises ToolFailure."""
        try:
            arguments = self._checked(arguments)
        except SepTranError as error:
            raise ToolFailure(str(error)) from None
        found = self._caller.submit(self._answer, tool, arguments).result()
        if found["kind"] == "answer":
            return dict(found["answer"])
        raise ToolFailure(_failure(found, self.seconds))

    def _answer(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self._worker.running:  # a call's time is its own, not that of imports
            self._worker.ask({}, START_SECONDS)
        found = self._worker.ask({"tool": tool, "arguments": arguments}, self.seconds)
        if found["kind"] == "crashed":  # one that is out of memory may still be there
            self._worker.close()
        return found

    def close(self) -> None:
        """End the process."""
        self._worker.close()
        self._caller.shutdown(wait=False)

    def _checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with files as paths, each in the folder; raises OutsideFolderError."""
        checked = {**arguments, "folder": str(self.folder.root)}
        if "logic" in checked and checked["logic"].endswith((".py", "/")):
            checked["logic"] = self.folder.file(checked["logic"])
        elif "/" in checked.get("logic", "") or os.sep in checked.get("logic", ""):
            self.folder.file(checked["logic"])  # no operator has such a name: says why not
        for name in ("mapping", "machine"):
            if checked.get(name) is not None:
                checked[name] = self._plan(checked[name])
        if "mappings" in checked:
            checked["mappings"] = [self._plan(text) for text in checked["mappings"]]
        if "seconds" in checked:
            # So that what was found until then is the answer, and not that there was no time.
            checked["seconds"] = min(checked["seconds"], 0.6 * self.seconds)
        return checked

    def _plan(self, text: str) -> str:
        """Return a mapping's text, a machine's name, or the path of a file in the folder."""
        if "\n" in text or (text.isascii() and text.replace("-", "").replace("_", "").isalnum()):
            return text
        return self.folder.file(text)


def _failure(found: dict[str, Any], seconds: float) -> str:
    match found["kind"]:
        case "mistake":
            return f"{found['message']}\n{json.dumps({'mistakes': found['mistakes']})}"
        case "timed out":
            return f"no answer after {seconds:g} seconds: the call was ended; ask for less"
        case "crashed":
            return (
                f"the process of this call broke down: {found['message']}; the next has a new one"
            )
        case _:
            return str(found["message"])


def tools(calls: Calls) -> tuple[Callable[..., dict[str, Any]], ...]:
    """Return the tools as functions, whose annotations are the schema that clients see."""

    def list_operators() -> dict[str, Any]:
        """Operators of the library: formula, dimensions of each tensor, flags, example sizes."""
        return calls.ask("list_operators")

    def list_machines() -> dict[str, Any]:
        """Machines: processor levels, memories with their bytes, engines, instructions."""
        return calls.ask("list_machines")

    def explain(
        logic: str, mapping: str | None = None, machine: str | None = None, stage: str = "",
        shapes: Shapes = None, dtypes: Types = None, static: Values = None, tunables: Values = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What limits a kernel, the predicted time, and the legal values at each place.

        With `stage` (task_tree, mapping, tile_program, tensor_ir, source) that stage as text.
        """
        return calls.ask(
            "explain", logic=logic, mapping=mapping, machine=machine, stage=stage, shapes=shapes,
            dtypes=dtypes, static=static, tunables=tunables,
        )  # fmt: skip

    def compile(
        logic: str, mapping: str | None = None, machine: str | None = None, shapes: Shapes = None,
        dtypes: Types = None, static: Values = None, tunables: Values = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Compile to code: the resolved mapping, the remarks; mistakes come with line and hint."""
        return calls.ask(
            "compile", logic=logic, mapping=mapping, machine=machine, shapes=shapes, dtypes=dtypes,
            static=static, tunables=tunables,
        )  # fmt: skip

    def check(
        logic: str, mapping: str | None = None, machine: str | None = None, cases: int = 8,
        shapes: Shapes = None, dtypes: Types = None, static: Values = None, tunables: Values = None,
        seconds: float = 60.0,
    ) -> dict[str, Any]:  # fmt: skip
        """Compare with the reference over sizes, ragged edges, types and timing: one verdict.

        `right` is true only if something ran and nothing failed; else `text` has the smallest case
        that fails. What `shapes`, `dtypes` and `static` say holds in each case.
        """
        return calls.ask(
            "check", logic=logic, mapping=mapping, machine=machine, cases=cases, shapes=shapes,
            dtypes=dtypes, static=static, tunables=tunables, seconds=seconds,
        )  # fmt: skip

    def profile(
        logic: str, mapping: str | None = None, machine: str | None = None, shapes: Shapes = None,
        dtypes: Types = None, static: Values = None, tunables: Values = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Run on random input, check the result, and count cycles or measure time."""
        return calls.ask(
            "profile", logic=logic, mapping=mapping, machine=machine, shapes=shapes, dtypes=dtypes,
            static=static, tunables=tunables,
        )  # fmt: skip

    def compare(
        logic: str, mappings: list[str], measure: bool = False, shapes: Shapes = None,
        dtypes: Types = None, static: Values = None, tunables: Values = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Set mappings side by side: figures, keys that differ; with `measure` what each costs."""
        return calls.ask(
            "compare", logic=logic, mappings=mappings, machine=None, measure=measure, shapes=shapes,
            dtypes=dtypes, static=static, tunables=tunables,
        )  # fmt: skip

    def propose(
        logic: str, mapping: str | None = None, machine: str | None = None, measure: bool = False,
        keys: list[str] | None = None, seconds: float = 60.0, shapes: Shapes = None,
        dtypes: Types = None, static: Values = None, tunables: Values = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Single changes of the mapping that compile, the best first, each with the whole text.

        `predicted` and `measured` are shares of the time now: below 1 is faster. `keys` restricts
        the search: tunables, mems, pipeline, binding, warpspecialize, roles.
        """
        return calls.ask(
            "propose", logic=logic, mapping=mapping, machine=machine, measure=measure, keys=keys,
            seconds=seconds, shapes=shapes, dtypes=dtypes, static=static, tunables=tunables,
        )  # fmt: skip

    return (list_operators, list_machines, explain, compile, check, profile, compare, propose)


def serve(folder: str, seconds: float = SECONDS) -> None:
    """Answer a client on standard input and output until it goes; raises SepTranError."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise NoServerPackageError(
            "the package `mcp` (2.3 or later) is not installed", hint="pip install 'septran[agent]'"
        ) from None
    from septran import __version__

    root = Folder.of(folder)
    os.chdir(root.root)  # messages name files as the client does
    calls = Calls(root, seconds)
    server = MCPServer("septran", instructions=INSTRUCTIONS, version=__version__)
    for tool in tools(calls):

        def run(*given: Any, tool: Callable[..., dict[str, Any]] = tool, **named: Any) -> Any:
            try:
                return tool(*given, **named)
            except ToolFailure as failure:
                raise ToolError(str(failure)) from None

        wrapped = functools.wraps(tool)(run)
        server.add_tool(wrapped, name=tool.__name__)
    try:
        server.run("stdio")
    finally:
        calls.close()

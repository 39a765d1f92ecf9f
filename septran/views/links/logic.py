"""The pane of the logic: which lines and words of it became what."""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from collections.abc import Iterator

from septran.location import Location
from septran.task.tree import Allocate, Statement, TaskNode, statements
from septran.views.links.model import Document, KeyedLines, Keys, Word
from septran.views.links.origins import Origins


def logic_documents(origins: Origins) -> tuple[Document, ...]:
    """The files that the tasks are written in, the entry task's first."""
    tasks: defaultdict[str, list[TaskNode]] = defaultdict(list)
    for task in origins.tree.tasks():
        tasks[task.location.file].append(task)
    for origin in origins.whys:
        if origin.logic is not None:
            tasks[origin.logic.file] += []
    documents = (_document(file, own, origins) for file, own in tasks.items())
    return tuple(document for document in documents if document.text)


def source_of(file: str) -> str:
    """The text of a file or of a notebook's cell; empty where it cannot be read."""
    return "".join(linecache.getlines(file))


def _document(file: str, tasks: list[TaskNode], origins: Origins) -> Document:
    text = source_of(file)
    lines = KeyedLines()
    for number, origin in enumerate(origins.whys):
        if origin.logic is not None and origin.logic.file == file:
            lines.add(origin.logic.line, {f"why:{number}"})
    for task in tasks:
        keys = {f"task:{task.path}"} | origins.whys_of_task(task.path)
        lines.add(task.location.line, keys)
    words = tuple(_words(text, tasks, origins))
    short = Location(file, 1).short_file.strip("<>")  # <cell In[3]> has no file
    name, start = short.rpartition("/")[2], tasks[0].location.line if tasks else 1
    return Document(name, "python", text, lines.done(), words, file, start=start)


def _words(text: str, tasks: list[TaskNode], origins: Origins) -> Iterator[Word]:
    """Tensors by the buffers that hold them, launched tasks by their own."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return  # a cell with magics, or a file that has changed since: lines are linked still
    found: defaultdict[tuple[int, int, int], set[str]] = defaultdict(set)
    rows = text.splitlines()
    functions = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef)]
    for task in tasks:
        function = _function(functions, task)
        if function is None:
            continue
        meanings = _meanings(function, task, origins)
        for name, line, column in _names(function):
            if name in meanings:
                # `ast` counts columns in bytes of UTF-8, documents in characters.
                start = len(rows[line - 1].encode()[:column].decode(errors="replace"))
                found[line, start, len(name)] |= meanings[name]
    for (line, start, length), keys in sorted(found.items()):
        yield Word(line, start, length, frozenset(keys))


def _function(functions: list[ast.FunctionDef], task: TaskNode) -> ast.FunctionDef | None:
    for function in functions:
        first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
        last = function.end_lineno or function.lineno
        if function.name == task.variant and first <= task.location.line <= last:
            return function
    return None


def _names(function: ast.FunctionDef) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno, node.col_offset
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, node.col_offset


def _meanings(function: ast.FunctionDef, task: TaskNode, origins: Origins) -> dict[str, Keys]:
    """Return what each Python name of a task's function stands for."""
    names = [p.name for p in task.params]
    names += [s.name for s in statements(task.body) if isinstance(s, Allocate)]
    found = {name: origins.tensor(task.path, name) for name in names}
    for node in ast.walk(function):  # Ap = task.partition(A, ...) is A in tiles
        match node:
            case ast.Assign(
                targets=[ast.Name(id=alias)],
                value=ast.Call(func=ast.Attribute(attr="partition"), args=[ast.Name(id=of), *_]),
            ) if of in found:
                found[alias] = found[of]
    for launch in task.launches():
        own = {f"task:{launch.task.path}"} | origins.whys_of_task(launch.task.path)
        for name in {launch.task.name, launch.task.variant}:
            found[name] = found.get(name, frozenset()) | own
    return found


def statement_keys(statement: Statement, task: TaskNode, origins: Origins) -> Keys:
    """The reasons that a statement of one task gave rise to."""
    inside = f"{task.path}/"
    where = getattr(statement, "location", None)
    if where is None:
        return frozenset()
    return origins.whys_where(
        lambda o: (
            o.logic is not None
            and o.logic.file == where.file
            and o.logic.line == where.line
            and (o.task == task.path or o.task.startswith(inside))
        )
    )

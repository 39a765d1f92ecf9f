"""The index behind all links: reasons by number, nodes by number, buffers by tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from septran.location import Location
from septran.task.tree import Allocate, TaskNode, TaskTree, statements
from septran.tile.nodes import Buffer, Channel, For, Node, Origin, Role, TileProgram, nodes
from septran.views.links.model import NO_KEYS, Keys

Named = tuple[str, str]
"""A task's path and the name of one of its tensors."""


@dataclass(frozen=True)
class Origins:
    """The parts of a tile program by the reason that they are there for."""

    tree: TaskTree
    program: TileProgram
    whys: tuple[Origin, ...]
    """Each once: of buffers and channels, then of nodes in program order."""
    numbers: dict[Origin, int] = field(repr=False)

    @classmethod
    def of(cls, tree: TaskTree, programs: Iterable[TileProgram]) -> Origins:
        """Collect the reasons of a program's versions; those of the last one come first."""
        history = list(programs)
        numbers: dict[Origin, int] = {}
        for program in reversed(history):
            for origin in _all(program):
                numbers.setdefault(origin, len(numbers))
        return cls(tree, history[-1], tuple(numbers), numbers)

    def why(self, origin: Origin | None) -> Keys:
        """The key of one reason."""
        number = self.numbers.get(origin) if origin is not None else None
        return NO_KEYS if number is None else frozenset({f"why:{number}"})

    def whys_where(self, accepted: Callable[[Origin], bool]) -> Keys:
        """The keys of all reasons that `accepted` takes."""
        return frozenset(f"why:{n}" for n, origin in enumerate(self.whys) if accepted(origin))

    def whys_of_task(self, path: str) -> Keys:
        """Return the keys of all reasons of one task of the tree."""
        return self.whys_where(lambda o: o.task == path)

    @cached_property
    def by_text(self) -> dict[str, tuple[Origin, ...]]:
        """Reasons by what targets write into comments."""
        found: defaultdict[str, list[Origin]] = defaultdict(list)
        for origin in self.whys:
            found[note_text(str(origin))].append(origin)
        return {text: tuple(origins) for text, origins in found.items()}

    @cached_property
    def places(self) -> tuple[frozenset[str], ...]:
        """The places that each reason names, as they are printed."""
        return tuple(
            frozenset(str(p) for p in (o.logic, o.mapping) if p is not None) for o in self.whys
        )

    @cached_property
    def nodes_by_text(self) -> dict[str, tuple[int, ...]]:
        """Numbers of the final program's nodes by what targets write for them."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number, node in enumerate(nodes(self.program.body)):
            if not isinstance(node, For | Role):
                found[note_text(str(node.origin))].append(number)
        return {text: tuple(numbers) for text, numbers in found.items()}

    @cached_property
    def held(self) -> dict[Named, tuple[str, ...]]:
        """The buffers that hold each tensor of each task."""
        own: defaultdict[Named, list[str]] = defaultdict(list)
        for buffer in self.program.buffers:
            if buffer.origin is not None and buffer.name not in self.program.params:
                own[buffer.origin.task, buffer.tensor].append(buffer.name)
        root: dict[str, tuple[str, ...]] = {name: (name,) for name in self.program.params}
        return dict(_held(self.tree.root, root, {k: tuple(v) for k, v in own.items()}))

    def tensor(self, path: str, name: str) -> Keys:
        """The keys of the buffers that hold a task's tensor."""
        return frozenset(f"buffer:{b}" for b in self.held.get((path, name), ()))


def _all(program: TileProgram) -> Iterator[Origin]:
    things: tuple[Buffer | Channel | Node, ...] = (
        *program.buffers, *program.channels, *nodes(program.body),
        *(removed.copy for removed in program.removed),
    )  # fmt: skip
    for thing in things:
        if thing.origin is not None:
            yield thing.origin


def _held(
    task: TaskNode, outer: dict[str, tuple[str, ...]], own: dict[Named, tuple[str, ...]]
) -> Iterator[tuple[Named, tuple[str, ...]]]:
    known: dict[str, tuple[str, ...]] = {}
    for param in task.params:
        # Where a task has no buffer of its own for a parameter, the caller's buffer serves it.
        known[param.name] = own.get((task.path, param.name)) or outer.get(param.name, ())
    for statement in statements(task.body):
        if isinstance(statement, Allocate):
            known[statement.name] = own.get((task.path, statement.name), ())
    yield from (((task.path, name), buffers) for name, buffers in known.items())
    for launch in task.launches():
        pairs = zip(launch.task.params, launch.arguments, strict=True)
        passed = {param.name: known.get(view.tensor, ()) for param, view in pairs}
        yield from _held(launch.task, passed, own)


def same_line(one: Location, other: Location) -> bool:
    """Whether two places are in one line."""
    return one.file == other.file and one.line == other.line


def note_text(text: str) -> str:
    """A reason as it comes out of a comment of generated code."""
    # Printers escape double quotes and break lines: both sides of a look-up go without them.
    return " ".join(text.replace('"', "'").split())


def about(origins: Origins) -> dict[str, str]:
    """A sentence on each buffer, channel and task."""
    program = origins.program
    found = {}
    for b in program.buffers:
        shape = " x ".join(map(str, b.shape)) or "scalar"
        stages = f", {b.stages} stages" if b.stages > 1 else ""
        why = f": {b.origin.rule}" if b.origin is not None else ""
        found[f"buffer:{b.name}"] = f"{b.name}, {b.dtype} {shape} in {b.memory}{stages}{why}"
    for c in program.channels:
        stages = f"{c.stages} stage{'s' if c.stages != 1 else ''}"
        found[f"channel:{c.name}"] = f"{c.name}, {stages} filled by {c.engine}: {c.origin.rule}"
    for task in origins.tree.tasks():
        words = " ".join(task.doc.split("\n\n")[0].split())
        found[f"task:{task.path}"] = f"{task.path}: {words}" if words else task.path
    return found

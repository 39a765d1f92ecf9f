"""The five stages of one compilation, each made when it is first asked for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from septran.errors import nearest

if TYPE_CHECKING:
    from septran.mapping.resolved import ResolvedMapping
    from septran.targets.base import Executable, Source, TensorIR
    from septran.task.tree import TaskTree
    from septran.tile.nodes import TileProgram
    from septran.tile.user_passes import UserPass

NAMES = ("task_tree", "mapping", "tile_program", "tensor_ir", "source")
"""In the order of the compilation."""

Step = Callable[["Stages"], Any]


class Stages:
    """A compilation that goes as far as one looks.

    `steps` has a function for each of ``task_tree``, ``mapping``, ``tile_program``,
    ``tensor_ir`` and ``executable``; each takes these stages, reads what it needs of the
    earlier ones, and is called once (again after `forget`). The source comes with the
    executable, unless there is a step for it, too.
    """

    def __init__(self, steps: Mapping[str, Step], passes: Sequence[UserPass] = ()) -> None:
        """`passes` are those of the caller's own that `steps` place the program with."""
        self.passes = tuple(passes)
        self._steps = dict(steps)
        self._made: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}
        self._nested: list[float] = []
        self._lock = threading.RLock()

    @property
    def task_tree(self) -> TaskTree:
        """What is computed: the traced logic."""
        tree: TaskTree = self._get("task_tree")
        return tree

    @property
    def mapping(self) -> ResolvedMapping:
        """Who runs it and where the data is."""
        mapping: ResolvedMapping = self._get("mapping")
        return mapping

    @property
    def tile_program(self) -> TileProgram:
        """Every copy, wait and computation on tiles."""
        program: TileProgram = self._get("tile_program")
        return program

    @property
    def tensor_ir(self) -> TensorIR:
        """What TVM compiles."""
        ir: TensorIR = self._get("tensor_ir")
        return ir

    @property
    def executable(self) -> Executable:
        """What runs."""
        executable: Executable = self._get("executable")
        return executable

    @property
    def source(self) -> Source:
        """The code that was generated."""
        if "source" not in self._steps:
            return self.executable.source
        source: Source = self._get("source")
        return source

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of each step so far, without those of the steps before it."""
        return {name: self._seconds[name] for name in self._steps if name in self._seconds}

    @property
    def made(self) -> tuple[str, ...]:
        """The steps that have been carried out."""
        return tuple(name for name in self._steps if name in self._made)

    def forget(self) -> None:
        """Drop what led to an executable, once there is one: it is made anew if looked at."""
        with self._lock:
            if "executable" in self._made:
                self._made = {"executable": self._made["executable"]}

    def items(self) -> Iterator[tuple[str, Any]]:
        """The five stages with their names, in order; makes those that are not made yet."""
        for name in NAMES:
            yield name, self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(f"no stage {name!r}; {nearest(name, NAMES)}")
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self.made)})"

    def _get(self, name: str) -> Any:
        with contextlib.suppress(KeyError):  # in one step, as another thread may forget it
            return self._made[name]
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def _make(self, name: str) -> Any:
        start = time.perf_counter()
        self._nested.append(0.0)
        try:
            return self._steps[name](self)
        finally:
            elapsed = time.perf_counter() - start
            # A step that asks for an earlier stage first pays for it: count that there.
            self._seconds[name] = elapsed - self._nested.pop()
            if self._nested:
                self._nested[-1] += elapsed

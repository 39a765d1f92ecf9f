"""The five stages of one compilation, each made when it is first read."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from septran.errors import nearest
from septran.runtime.errors import EditedCodeError

if TYPE_CHECKING:
    from septran.mapping.resolved import ResolvedMapping, Setting
    from septran.targets.base import Executable, Source, TensorIR
    from septran.task.tree import TaskTree
    from septran.tile.nodes import TileProgram
    from septran.tile.user_passes import UserPass

T = TypeVar("T", covariant=True)

NAMES = ("task_tree", "mapping", "tile_program", "tensor_ir", "source")
"""The stages in the order of the compilation."""
STEPS = (*NAMES[:-1], "executable")
"""The steps in order; the source comes with the executable."""


class stage(Generic[T]):  # noqa: N801 (as `property`)
    """A property of `Stages` that is made once and timed (again after `Stages.forget`)."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, stages: None, owner: type) -> stage[T]: ...
    @overload
    def __get__(self, stages: Stages, owner: type) -> T: ...
    def __get__(self, stages: Stages | None, owner: type) -> stage[T] | T:
        return self if stages is None else stages._get(self)


class Stages:
    """A compilation that makes only the stages that are read.

    A subclass says how each of `STEPS` is made from the earlier ones.
    """

    def __init__(self, passes: Sequence[UserPass] = ()) -> None:
        """`passes` are the caller's own, which run among the compiler's."""
        self.passes = tuple(passes)
        self.sizes: Mapping[tuple[str, str], Setting[int]] = {}
        """The tunables that may be made smaller, by the task's name and their own; known once
        there is a task tree."""
        self.compiled_here = False
        """Whether the executable was compiled for these stages, not found in the cache."""
        self._made: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}
        self._nested: list[float] = []
        self._lock = threading.RLock()

    @stage
    def task_tree(self) -> TaskTree:
        """The task tree: the traced logic."""
        raise NotImplementedError

    @stage
    def mapping(self) -> ResolvedMapping:
        """The resolved mapping: the processor that runs each task, the memory of each tensor."""
        raise NotImplementedError

    @stage
    def tile_program(self) -> TileProgram:
        """The tile program: every copy, wait and computation on tiles."""
        raise NotImplementedError

    @stage
    def tensor_ir(self) -> TensorIR:
        """The TensorIR module that TVM compiles."""
        raise NotImplementedError

    @stage
    def executable(self) -> Executable:
        """The executable."""
        raise NotImplementedError

    @property
    def source(self) -> Source:
        """The generated code."""
        return self.executable.source

    @property
    def timings(self) -> dict[str, float]:
        """The seconds of each step so far, without those of the steps before it."""
        return {name: self._seconds[name] for name in STEPS if name in self._seconds}

    @property
    def made(self) -> tuple[str, ...]:
        """The steps that have been carried out."""
        return tuple(name for name in STEPS if name in self._made)

    @property
    def code_origin(self) -> str:
        """``compiled`` for these stages, or ``cached`` before; empty without an executable."""
        if "executable" not in self._made:
            return ""
        return "compiled" if self.compiled_here else "cached"

    def forget(self) -> None:
        """Drop the stages before the executable, once there is one: they are made anew if read."""
        with self._lock:
            if "executable" in self._made:
                self._made = {"executable": self._made["executable"]}

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the five stages with their names, in order; makes those that are not made yet."""
        for name in NAMES:
            yield name, self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(f"no stage {name!r}; {nearest(name, NAMES)}")
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self.made)})"

    def _get(self, step: stage[Any]) -> Any:
        with contextlib.suppress(KeyError):  # in one step, as another thread may forget it
            return self._made[step.name]
        with self._lock:
            if step.name not in self._made:
                self._made[step.name] = self._timed(step)
            return self._made[step.name]

    def _timed(self, step: stage[Any]) -> Any:
        start = time.perf_counter()
        self._nested.append(0.0)
        try:
            return step.make(self)
        finally:
            elapsed = time.perf_counter() - start
            # A step that asks for an earlier stage first pays for it: count that there.
            self._seconds[step.name] = elapsed - self._nested.pop()
            if self._nested:
                self._nested[-1] += elapsed


def _as_before(name: str) -> Callable[[EditedStages], Any]:
    return lambda stages: stages._before[name]


class EditedStages(Stages):
    """The stages of a compilation whose generated code somebody has edited."""

    def __init__(self, before: Stages, executable: Executable) -> None:
        super().__init__(before.passes)
        self._before, self._edited = before, executable

    @stage
    def executable(self) -> Executable:
        """The edited code, compiled."""
        return self._edited

    def refuse(self, what: str) -> None:
        """Raise EditedCodeError: what is kept or written elsewhere is what the compiler made."""
        raise EditedCodeError(
            f"the code of {self.source.name} was edited, and {what} keeps what was generated",
            hint="save or export the kernel that with_source was called on, and edit the file that "
            "this writes",
        )

    task_tree, mapping, tile_program, tensor_ir = (stage(_as_before(name)) for name in NAMES[:-1])

"""A first estimate of memory use: a lower bound; the exact plan is made in Tile IR."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from septran.dtypes import itemsize
from septran.ir.expressions import loads
from septran.location import Location
from septran.machine.model import Machine, Memory
from septran.mapping.keys import PIPELINE
from septran.mapping.memories import outer_memories
from septran.mapping.mistakes import MappedCapacityError
from septran.mapping.resolved import Decision, Instance
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Primitive,
    TaskNode,
    TaskTree,
    statements,
)

_STEP = 16
"""The least step in which a panel is streamed along the axis that is summed over."""


@dataclass(frozen=True)
class Held:
    """A buffer that a task instance needs in a memory."""

    tensor: str
    task: str
    memory: str
    shape: tuple[int, ...]
    dtype: str
    stages: int
    streamed: bool
    """Whether it may be loaded in steps, as a gemm sums along an axis of it."""
    where: Location | None

    @property
    def size(self) -> int:
        """The least number of bytes that it takes, all stages together."""
        shape = self.shape
        if self.streamed and shape and max(shape) > _STEP:
            # Whichever axis is summed over: with the longest one cut, the fewest bytes are left.
            shape = tuple(_STEP if n == shape.index(max(shape)) else e for n, e in enumerate(shape))
        return math.prod(shape) * itemsize(self.dtype) * self.stages

    def __str__(self) -> str:
        extents = " x ".join(map(str, self.shape))
        times = f" x {self.stages} stages" if self.stages > 1 else ""
        steps = f", in steps of {_STEP}" if self.streamed else ""
        return (
            f"{self.size:>12,}  {self.tensor} of {self.task} ({extents} {self.dtype}{times}{steps})"
        )


def check_capacity(
    tree: TaskTree,
    machine: Machine,
    instances: tuple[Instance, ...],
    decisions: list[Decision],
    few_stages: bool = False,
) -> None:
    """Raise MappedCapacityError where a memory cannot hold what is in it at one time.

    Caches spill instead: a remark reports buffers that are too large for one. With `few_stages`
    one stage of each buffer counts, as `pipeline_loops` takes away those that do not fit.
    """
    by_path = {i.path: i for i in instances}
    fullest: dict[str, tuple[int, tuple[Held, ...]]] = {}
    for held in _paths(tree.root, None, None, machine, by_path, ()):
        for name in dict.fromkeys(h.memory for h in held):
            own = tuple(h for h in held if h.memory == name)
            own = tuple(replace(h, stages=1) for h in own) if few_stages else own
            total = sum(h.size for h in own)
            if total > fullest.get(name, (0, ()))[0]:
                fullest[name] = (total, own)
    for name, (total, held) in fullest.items():
        memory = machine.memory(name)
        limit = _capacity(memory, machine, by_path, held)
        if limit is not None and total > limit:
            _complain(memory, limit, total, held, decisions)


def _complain(
    memory: Memory, limit: int, total: int, held: tuple[Held, ...], decisions: list[Decision]
) -> None:
    largest = max(held, key=lambda h: h.size)
    hint = f"make the tiles of {largest.task} smaller, or leave {largest.tensor} where it is (NONE)"
    if largest.stages > 1:
        hint = f"{hint}, or lower `pipeline`"
    if memory.cached:
        text = f"{memory.name} of {limit:,} bytes is to hold {total:,}: it will spill"
        decisions.append(Decision("missed", memory.name, text, hint, largest.where))
        return
    table = "\n".join(f"    {h}" for h in sorted(held, key=lambda h: -h.size))
    raise MappedCapacityError(
        f"{memory.name} is to hold {total:,} bytes at one time and has {limit:,}:\n{table}",
        largest.where,
        hint=hint,
    ).of(memory.name, total, limit)


def _capacity(
    memory: Memory, machine: Machine, by_path: dict[str, Instance], held: tuple[Held, ...]
) -> int | None:
    """Return the bytes of all units together, where a level outside holds tensors in the memory."""
    if memory.capacity_bytes is None:
        return None
    procs = [by_path[h.task].proc.value for h in held]
    outermost = min(machine.depth(p) for p in procs)
    inside = machine.processors[outermost + 1 : machine.depth(memory.visible_to) + 1]
    return memory.capacity_bytes * math.prod(p.count for p in inside)


def _paths(
    task: TaskNode,
    caller: Instance | None,
    launch: Launch | None,
    machine: Machine,
    by_path: dict[str, Instance],
    held: tuple[Held, ...],
) -> Iterator[tuple[Held, ...]]:
    """Yield the buffers in use at each leaf of the tree, those of its callers included."""
    instance = by_path[task.path]
    # Tasks that are launched one after another reuse memory, so only one path is held at a time.
    held = (*held, *_staged(task, instance, caller, launch, machine), *_temporaries(task, instance))
    inner = list(task.launches())
    if not inner:
        yield held
    for child in inner:
        yield from _paths(child.task, instance, child, machine, by_path, held)


def _staged(
    task: TaskNode,
    instance: Instance,
    caller: Instance | None,
    launch: Launch | None,
    machine: Machine,
) -> Iterator[Held]:
    outer = outer_memories(task, caller, launch, machine)
    for param in task.params:
        place = instance.mems[param.name].memory
        if place == outer[param.name]:
            continue
        # Only what an asynchronous engine brings has several stages.
        moving = any(e.asynchronous for e in machine.engines_for(outer[param.name], place))
        stages = (
            caller.settings.get(PIPELINE).value if caller and moving and not param.writes else 1
        )
        cached = machine.memory(place).cached  # what is too large for a cache is not cut
        streamed = not cached and not param.writes and feeds_gemm(task, param.name)
        where = instance.mems[param.name].where
        yield Held(param.name, task.path, place, param.shape, param.dtype, stages, streamed, where)


def _temporaries(task: TaskNode, instance: Instance) -> Iterator[Held]:
    for statement in statements(task.body):
        if isinstance(statement, Allocate):
            name = statement.name
            place = instance.mems[name]
            yield Held(
                name, task.path, place.memory, statement.shape, statement.dtype, stages=1,
                streamed=False, where=place.where or statement.location,
            )  # fmt: skip


def feeds_gemm(task: TaskNode, tensor: str) -> bool:
    """Return whether a task uses a tensor only as a factor of gemms."""
    uses = list(_uses(task, tensor))
    return bool(uses) and all(uses)


def _uses(task: TaskNode, tensor: str) -> Iterator[bool]:
    for statement in statements(task.body):
        match statement:
            case Primitive(name, operands):
                names = [o.tensor for o in operands]
                if tensor in names:
                    yield name == "gemm" and names[0] != tensor
            case Launch(callee, arguments):
                for param, argument in zip(callee.params, arguments, strict=True):
                    if argument.tensor == tensor:
                        yield feeds_gemm(callee, param.name)
            case Allocate() | Loop():
                continue
            case _:
                if tensor in _named(statement):
                    yield False


def _named(statement: object) -> set[str]:
    if not isinstance(statement, Assign):
        return set()
    return {statement.target.tensor, *(v.tensor for v in loads(statement.value))}

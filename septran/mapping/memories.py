"""The memories of a task's tensors: those that `mems` names, and those that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.errors import SepTranError
from septran.ir.primitives import PRIMITIVES
from septran.machine.model import NONE, Machine
from septran.mapping.choose import Scope
from septran.mapping.keys import MEMS
from septran.mapping.mistakes import NoParallelLoopError, NotVisibleError
from septran.mapping.resolved import INHERITED, Instance, Setting, TensorMemory
from septran.task.check.privileges import accesses
from septran.task.tree import (
    Allocate,
    Launch,
    Loop,
    Param,
    Primitive,
    Statement,
    TaskNode,
    TaskTree,
    statements,
)


@dataclass(frozen=True)
class Memories:
    """The memories of one task's tensors."""

    machine: Machine
    task: TaskNode
    tensors: Mapping[str, Param | Allocate]
    """The parameters and temporaries by name."""
    proc: str
    """The level that runs it."""
    scope: Scope
    caller: Instance | None
    launch: Launch | None
    errors: list[SepTranError]
    """The list to which mistakes are added."""
    parts: Callable[[str], tuple[str, ...]] = lambda tensor: ()
    """The parts that a tensor plays in products: ``product.right``."""

    def mapped(self) -> dict[str, Setting[str]]:
        """Return the mapped memory of each; ``NONE`` where it stays where its caller has it."""
        mems: dict[str, Setting[str]] = {}
        used = {a.view.tensor for s in statements(self.task.body) for a in accesses(s)}
        for name, tensor in self.tensors.items():
            temporary = isinstance(tensor, Allocate)
            if self.caller is not None and name not in used and not temporary:
                mems[name] = Setting(NONE, "no element of it is used, only its place")
                continue
            said = self._memory(name, tensor)
            # A temporary has no caller's memory to stay in, so NONE leaves it to the default.
            if said is None or (temporary and said.value == NONE):
                mems[name] = self._for_temporary() if temporary else Setting(NONE, INHERITED)
                continue
            if said.value != NONE:
                said = canonical(self.machine, said)
                self._check_visible(name, said)
            mems[name] = said
        return mems

    def _memory(self, name: str, tensor: Param | Allocate) -> Setting[str] | None:
        """Return the first plan's memory, by the tensor's own name or one of its groups."""
        for plan in self.scope.plans:
            table = plan.table(MEMS)
            # Parts of products have a dot in their names: without one, none is looked for.
            parts = self.parts(name) if any("." in key for key in table) else ()
            for key in (name, *groups_of(name, tensor, self.task, parts)):
                if key in table:
                    return table[key]
        return self._as_callers_temporaries() if isinstance(tensor, Allocate) else None

    def _as_callers_temporaries(self) -> Setting[str] | None:
        """Return the memory of temporaries of the nearest caller whose plans name one."""
        scope = self.scope.caller
        while scope is not None:
            for plan in scope.plans:
                if "temporaries" in plan.table(MEMS):
                    return plan.table(MEMS)["temporaries"]
            scope = scope.caller
        return None

    def _for_temporary(self) -> Setting[str]:
        """Return the largest memory of the processor's own level, else of the nearest outside."""
        reason = f"default of {self.machine.name}"
        # From its own level outwards; memories are listed largest first.
        for level in reversed(self.machine.processors[: self.machine.depth(self.proc) + 1]):
            for memory in self.machine.memories:
                if memory.visible_to == level.name:
                    return Setting(memory.name, reason)
        return Setting(self.machine.main_memory.name, reason)

    def _check_visible(self, tensor: str, said: Setting[str]) -> None:
        if sees(self.machine, self.proc, said.value):
            return
        seen = [m.name for m in self.machine.memories if sees(self.machine, self.proc, m.name)]
        owner = self.machine.memory(said.value).visible_to
        self.errors.append(
            NotVisibleError(
                f"{self.proc}, which runs {self.task.variant}, does not see {said.value}, "
                f"where {tensor} is to be",
                said.where,
                hint=f"{said.value} belongs to a {owner}; {self.proc} sees {', '.join(seen)}",
            )
        )

    def placed(self, mems: Mapping[str, Setting[str]]) -> dict[str, TensorMemory]:
        """Return the memory that each tensor is really in, with ``NONE`` resolved."""
        outer = outer_memories(self.task, self.caller, self.launch, self.machine)
        return {
            n: TensorMemory.of(s, outer[n] if s.value == NONE else s.value) for n, s in mems.items()
        }


def outer_memories(
    task: TaskNode, caller: Instance | None, launch: Launch | None, machine: Machine
) -> dict[str, str]:
    """Return the memory of each parameter in a task's caller; the entry's are in main memory."""
    if caller is None or launch is None:
        return {param.name: machine.main_memory.name for param in task.params}
    pairs = zip(task.params, launch.arguments, strict=True)
    return {param.name: caller.mems[view.tensor].memory for param, view in pairs}


def groups_of(
    name: str, tensor: Param | Allocate, task: TaskNode, parts: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the groups of `mems` that a tensor belongs to, the most specific first."""
    operands = (*_operands(name, task), *parts)
    if isinstance(tensor, Allocate):
        sums = ("accumulators",) if _only_sums(name, task) else ()
        return (*operands, *sums, "temporaries", "*")
    sums = ("accumulators",) if tensor.accumulates else ()
    return (*operands, *sums, "writes" if tensor.writes else "reads", "*")


def _only_sums(name: str, task: TaskNode) -> bool:
    """Return whether a temporary is only filled, summed into by launched tasks, and copied away."""
    sums = False
    for statement in statements(task.body):
        # Builtin tasks are what fills it and copies it away.
        if not isinstance(statement, Launch) or statement.task.builtin:
            continue
        for param, view in zip(statement.task.params, statement.arguments, strict=True):
            if view.tensor == name:
                if not param.accumulates:
                    return False
                sums = True
    return sums


def _operands(name: str, task: TaskNode) -> Iterator[str]:
    """Yield the operand names of a tensor in the primitives of a task's own body: ``gemm.A``."""
    for statement in statements(task.body):
        if isinstance(statement, Primitive) and statement.name in PRIMITIVES:
            operands = PRIMITIVES[statement.name].operands
            for view, operand in zip(statement.operands, operands, strict=True):
                if view.tensor == name:
                    yield f"{statement.name}.{operand}"


def sees(machine: Machine, proc: str, memory: str) -> bool:
    """Return whether tasks on a level can hold tensors in a memory.

    The memory's own level and those inside see it. A level outside, but not the host, holds a
    tensor in it together with its units, each a part (a block's fragments in its threads'
    registers).
    """
    if machine.sees(proc, memory):
        return True
    return machine.processor(proc) != machine.host


def canonical(machine: Machine, setting: Setting[str]) -> Setting[str]:
    """Return a name as the machine file spells it, with the one that was written in the reason."""
    own = machine.canonical(setting.value)
    if own == setting.value:
        return setting
    return replace(setting, value=own, reason=f"{setting.reason} ({setting.value})")


def unspread(
    tree: TaskTree, machine: Machine, instances: Sequence[Instance], errors: Sequence[SepTranError]
) -> SepTranError | None:
    """Return one mistake in the logic's words for many on memories that the host does not see."""
    # What fills and copies outside of loops is spread by itself, and says nothing of the rest.
    host, own = machine.host.name, [task for task in tree.root.walk() if not task.builtin]
    spread = any(_parallel(s) for task in own for s in statements(task.body))
    outside = list(_outside(tree.root))
    alone = {task.path for launch in outside for task in launch.task.walk()} if spread else {}
    known = {i.path: i for i in instances}
    placed = {t.path: _unseen(machine, known[t.path]) for t in own if t.path in known}
    missed = list(dict.fromkeys(m for unseen in placed.values() for m in unseen))
    if any(unseen and spread and path not in alone for path, unseen in placed.items()):
        return None
    # Next to mistakes of other kinds, each is reported by itself.
    if not missed or any(not isinstance(e, NotVisibleError) for e in errors):
        return None
    if not spread and any(known[path].proc.value != host for path in placed):
        return None
    unit = machine.processors[1].name  # nothing is foreign where the host is alone
    launch = next((x for x in outside if any(placed.get(t.path) for t in x.task.walk())), None)
    launch = launch or next(iter(outside), None)
    hint = "launch the leaf from a composite: for i in task.parallel_range(1)"
    what = f"no loop of {tree.root.name} is parallel, so all of it"
    if launch:
        hint = f"write `for i in task.parallel_range(1):` around task.launch({launch.task.name}, "
        hint += f"...): what it launches is then one block, which a {unit} runs"
    if launch and spread:
        what = f"{launch.task.name} is launched in no parallel loop, so it"
    return NoParallelLoopError(
        f"{what} would run on {host}, which does not see {' and '.join(missed)}",
        launch.location if launch else tree.root.location,
        hint=f"{hint}; to use several, partition the tensors",
        notes=[("the mapping places the entry here", where)]
        if (where := instances[0].proc.where)
        else (),
    )


def _outside(task: TaskNode) -> Iterator[Launch]:
    """Yield the launches of tasks without a parallel loop in them, or around them."""
    loops = (s for s in statements(task.body) if isinstance(s, Loop) and s.parallel)
    inside = {id(x) for loop in loops for x in statements(loop.body)}
    for launch in task.launches():
        if launch.task.builtin or id(launch) in inside:
            continue
        if any(_parallel(s) for t in launch.task.walk() for s in statements(t.body)):
            yield from _outside(launch.task)
        else:
            yield launch


def _unseen(machine: Machine, instance: Instance) -> list[str]:
    """Return the memories of a task of the host's that the host does not see."""
    if instance.proc.value != machine.host.name:
        return []
    return [p.memory for p in instance.mems.values() if _foreign(machine, p.memory)]


def _parallel(statement: Statement) -> bool:
    """Return whether it is a parallel loop over launches of the logic's own tasks."""
    if not isinstance(statement, Loop) or not statement.parallel:
        return False
    inside = statements(statement.body)
    return any(isinstance(s, Launch) and not s.task.builtin for s in inside)


def _foreign(machine: Machine, memory: str) -> bool:
    """Return whether the host has no part in a memory."""
    held = machine.memory(memory)
    return not held.cached and not machine.sees(machine.host.name, memory)

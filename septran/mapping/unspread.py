"""Logic that spreads nothing over a machine's units: all of it would run on the host."""

from __future__ import annotations

from collections.abc import Sequence

from septran.errors import SepTranError
from septran.machine.model import Machine
from septran.mapping.mistakes import NoParallelLoopError, NotVisibleError
from septran.mapping.resolved import Instance
from septran.task.tree import Launch, Loop, Statement, TaskTree, statements


def unspread(
    tree: TaskTree, machine: Machine, instances: Sequence[Instance], errors: Sequence[SepTranError]
) -> SepTranError | None:
    """One mistake in the logic's words, where it would be many on memories that the host lacks."""
    # What fills and copies outside of loops is spread by itself, and says nothing of the rest.
    own = {task.path for task in tree.root.walk() if not task.builtin}
    instances = [i for i in instances if i.path in own]
    if any(i.proc.value != machine.host.name for i in instances):
        return None
    if any(_parallel(s) for t in tree.root.walk() for s in statements(t.body)):
        return None
    missed = list(
        dict.fromkeys(m for i in instances for m in i.placed.values() if _foreign(machine, m))
    )
    if not missed or any(not isinstance(e, NotVisibleError) for e in errors):
        return None
    unit = machine.processors[1].name  # nothing is foreign where the host is alone
    launch = next((x for x in tree.root.launches() if not x.task.builtin), None)
    hint = "launch the leaf from a composite: for i in task.parallel_range(1)"
    if launch:
        hint = f"write `for i in task.parallel_range(1):` around task.launch({launch.task.name}, "
        hint += f"...): what it launches is then one block, which a {unit} runs"
    return NoParallelLoopError(
        f"no loop of {tree.root.name} is parallel, so all of it would run on {machine.host.name}, "
        f"which does not see {' and '.join(missed)}",
        launch.location if launch else tree.root.location,
        hint=f"{hint}; to use several, partition the tensors",
        notes=[("the mapping places the entry here", where)]
        if (where := instances[0].proc.where)
        else (),
    )


def _parallel(statement: Statement) -> bool:
    """Whether it is a parallel loop over launches of the logic's own tasks."""
    if not isinstance(statement, Loop) or not statement.parallel:
        return False
    inside = statements(statement.body)
    return any(isinstance(s, Launch) and not s.task.builtin for s in inside)


def _foreign(machine: Machine, memory: str) -> bool:
    """Whether the host has no part in a memory."""
    held = machine.memory(memory)
    return not held.cached and not machine.sees(machine.host.name, memory)

"""Binding: the instruction for each primitive of a leaf, and why others were refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.backends import backend_of
from septran.ir import expressions as ex
from septran.ir.primitives import BY_MAP_UNITS, PRIMITIVES, extents
from septran.ir.views import View
from septran.location import Location
from septran.machine.model import Instruction, Machine
from septran.mapping.choose import Scope
from septran.mapping.extern.function import extern_of
from septran.mapping.keys import BINDING, FASTEST, LEAF_TASK_BINDINGS
from septran.mapping.resolved import Setting
from septran.task.tree import Allocate, Assign, Primitive, TaskNode, statements


@dataclass(frozen=True)
class PrimitiveUse:
    """One use of a primitive in a task: its operands, the written one first."""

    primitive: str
    operands: tuple[View, ...]
    location: Location


@dataclass(frozen=True)
class Leaf:
    """A task whose primitives are bound, with its processor level and its tensors' memories."""

    task: TaskNode
    proc: str
    placed: Mapping[str, str]
    dtypes: Mapping[str, str]


_MISPLACED = re.compile(r"(\S+) is in \S+, and it takes ")


@dataclass(frozen=True)
class Refusal:
    """An instruction that does not accept a primitive's operands, with the reason."""

    instruction: str
    reason: str

    @property
    def expected(self) -> bool:
        """Whether the instruction is for other element types or processors.

        A list of instructions by these loses nothing by such a refusal.
        """
        return self.reason.startswith(("operands are ", "it needs "))

    @property
    def misplaced(self) -> str | None:
        """The tensor that is in a memory from which the instruction does not take it."""
        found = _MISPLACED.match(self.reason)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{self.instruction}: {self.reason}"


def uses_of(task: TaskNode) -> dict[str, list[PrimitiveUse]]:
    """Return the uses of each primitive in a task's own body, in order of first use."""
    found: dict[str, list[PrimitiveUse]] = {}
    for statement in statements(task.body):
        match statement:
            case Primitive():
                name = "copy" if statement.name == "cast" else statement.name
                use = PrimitiveUse(name, statement.operands, statement.location)
            case Assign():
                operands = (statement.target, *ex.loads(statement.value))
                use = PrimitiveUse("map", operands, statement.location)
            case Allocate(fill=value) if value is not None:
                whole = View.whole(statement.name, statement.shape, statement.valid)
                use = PrimitiveUse("fill", (whole,), statement.location)
            case _:
                continue
        found.setdefault(use.primitive, []).append(use)
    return found


def wanted_for(
    machine: Machine, task: TaskNode, scope: Scope, primitive: str, used: tuple[str, ...]
) -> Sequence[Setting[str]]:
    """Return the instructions that the mapping lists for a primitive, best first; none if open."""
    listed = _listed(task, scope, primitive)
    return _meant(machine, _named(machine, listed, primitive), primitive, used)


def function_for(task: TaskNode, scope: Scope) -> Setting[str] | None:
    """Return the function of the user's that the mapping binds a leaf to; None without one.

    Raises ExternSourceError where it names others beside it.
    """
    launched = _by_caller(task, scope)
    if launched is not None:
        return extern_of(launched)
    # The first plan that binds anything of the leaf decides whether a function computes all of it.
    own = next((lists for plan in scope.plans if (lists := plan.lists(BINDING))), {})
    return extern_of(own.get("*", ()))


def _listed(task: TaskNode, scope: Scope, primitive: str) -> Sequence[Setting[str]]:
    """Return the instructions that the mapping lists for a primitive of a leaf."""
    launched = _by_caller(task, scope)
    if launched is not None:
        return launched
    for plan in scope.plans:
        for key in (primitive, "*"):
            # A function is for whole leaves, and another plan has bound a part of this one.
            if key in plan.lists(BINDING) and not extern_of(plan.lists(BINDING)[key]):
                return plan.lists(BINDING)[key]
    return ()


def _by_caller(task: TaskNode, scope: Scope) -> Sequence[Setting[str]] | None:
    """Return what the caller lists for a leaf that it launches, which goes before the leaf's own.

    None where it lists nothing.
    """
    for plan in scope.caller.plans if scope.caller else ():
        for key in (task.path.rpartition("/")[2], task.name, task.variant):
            if key in plan.lists(LEAF_TASK_BINDINGS):
                return plan.lists(LEAF_TASK_BINDINGS)[key]
    return None


def _named(machine: Machine, listed: Sequence[Setting[str]], primitive: str) -> list[Setting[str]]:
    """Return a list in which ``fastest`` stands for the machine's instructions in that order."""
    found = list[Setting[str]]()
    for setting in listed:
        if setting.value != FASTEST:
            found.append(setting)
            continue
        # Of equal ones the machine file's order decides; without a figure, an instruction is last.
        ranked = sorted(_default(machine, primitive), key=lambda i: -(i.throughput or 0))
        found += (replace(setting, value=i.name) for i in ranked)
    return found


def _meant(
    machine: Machine, wanted: Sequence[Setting[str]], primitive: str, used: tuple[str, ...]
) -> Sequence[Setting[str]]:
    """Return those that are for this primitive, where the leaf uses several."""
    if len(used) == 1:
        return wanted
    # A list without names of primitives is for whichever its instructions compute.
    kinds = [machine.instruction(s.value).primitive for s in wanted]
    own = [s for s, kind in zip(wanted, kinds, strict=True) if kind == primitive]
    # A list for other primitives of the leaf says nothing of this one.
    return own if own or any(kind in used for kind in kinds) else wanted


def bind(
    machine: Machine, leaf: Leaf, uses: Sequence[PrimitiveUse], wanted: Sequence[Setting[str]]
) -> tuple[Setting[str] | None, list[Refusal]]:
    """Return the first instruction of `wanted` that accepts all uses, and the refusals before it.

    Without `wanted`, the machine's instructions are tried in their order.
    """
    primitive = uses[0].primitive
    candidates = list(wanted)
    if not candidates:
        default = f"default of {machine.name}"
        candidates = [Setting(i.name, default) for i in _default(machine, primitive)]
    refusals: list[Refusal] = []
    for setting in candidates:
        instruction = machine.instruction(setting.value)
        reason = next((r for use in uses if (r := refuse(machine, instruction, leaf, use))), None)
        if reason is None:
            return Setting(instruction.name, setting.reason, setting.where), refusals
        refusals.append(Refusal(instruction.name, reason))
    return None, refusals


def _default(machine: Machine, primitive: str) -> Iterator[Instruction]:
    # Own instructions first; a fill or a copy is a map of one load, so map units can do it, too.
    for kind in dict.fromkeys((primitive, "map")):
        if kind == primitive or primitive in BY_MAP_UNITS:
            yield from (i for i in machine.instructions if i.primitive == kind)


def computes(instruction: Instruction, primitive: str) -> bool:
    """Return whether an instruction is for a primitive; ``map`` units fill, copy and scan, too."""
    if instruction.primitive == primitive:
        return True
    return instruction.primitive == "map" and primitive in BY_MAP_UNITS


def refuse(machine: Machine, instruction: Instruction, leaf: Leaf, use: PrimitiveUse) -> str | None:
    """Return why the instruction's contract does not accept a use; None where it does."""
    return _refuse_kind(machine, instruction, leaf, use) or _refuse_extents(instruction, use)


def _refuse_kind(
    machine: Machine, instruction: Instruction, leaf: Leaf, use: PrimitiveUse
) -> str | None:
    """Return why it does not accept a use, whatever the extents are; None where it may."""
    if not computes(instruction, use.primitive):
        return f"it computes {instruction.primitive}, not {use.primitive}"
    return (
        _refuse_level(machine, instruction, leaf)
        or _refuse_dtypes(instruction, leaf, use)
        or _refuse_memories(machine, instruction, leaf, use)
        or _refuse_processor(machine, instruction)
    )


def moved(machine: Machine, leaf: Leaf, use: PrimitiveUse) -> bool:
    """Return whether a copy is between memories that an engine joins."""
    target, source = (operand.tensor for operand in use.operands[:2])
    a, b = leaf.placed[source], leaf.placed[target]
    same = leaf.dtypes[source] == leaf.dtypes[target]
    return a != b and same and bool(machine.engines_for(a, b))


def faster_rounded(
    machine: Machine,
    leaf: Leaf,
    uses: Sequence[PrimitiveUse],
    wanted: Sequence[Setting[str]],
    bound: str,
) -> Setting[str] | None:
    """Return the instruction before `bound` that is the fastest on tiles padded to its sizes.

    None where `bound` has sizes of its own, as then it is fast, too. What is multiplied beyond the
    edge counts: tiles that are mostly padding are rounded up only where that is still faster.
    """
    accepted = machine.instruction(bound)
    names = [machine.instruction(setting.value).name for setting in wanted]
    best, cost = None, _cycles(accepted, uses)
    if accepted.multiple_of or cost is None or bound not in names:
        return None
    for setting in wanted[: names.index(bound)]:
        instruction = machine.instruction(setting.value)
        its = _cycles(instruction, uses)
        if its is None or its >= cost or not instruction.options.get("whole_tiles"):
            continue
        if not any(_refuse_kind(machine, instruction, leaf, use) for use in uses):
            best, cost = replace(setting, value=instruction.name), its
    return best


def _cycles(instruction: Instruction, uses: Sequence[PrimitiveUse]) -> float | None:
    """Return the relative time for whole tiles of its sizes; None where it is not known."""
    if not instruction.throughput:
        return None
    work = sum(
        math.prod(-(-extent // step) * step for extent, step in _sizes(instruction, use).values())
        for use in uses
    )
    return work / instruction.throughput


def _refuse_processor(machine: Machine, instruction: Instruction) -> str | None:
    features = backend_of(machine.backend).features
    if not instruction.requires or features is None:
        return None
    missing = sorted(set(instruction.requires) - features(machine.arch))
    if not missing:
        return None
    return f"it needs {', '.join(missing)}, which arch {machine.arch or 'native'} does not have"


def _refuse_level(machine: Machine, instruction: Instruction, leaf: Leaf) -> str | None:
    level = instruction.issued_by
    if level and machine.depth(leaf.proc) > machine.depth(level):
        return f"it is issued by a {level}, and {leaf.task.name} runs on a {leaf.proc}"
    return None


def _refuse_dtypes(instruction: Instruction, leaf: Leaf, use: PrimitiveUse) -> str | None:
    if not instruction.dtypes:
        return None
    have = tuple(leaf.dtypes[o.tensor] for o in use.operands)
    # A primitive's operands have one of the listed rows of types; a tensor expression has any
    # number of operands, each of any listed type.
    if use.primitive in PRIMITIVES and have in instruction.dtypes:
        return None
    accepted = {d for option in instruction.dtypes for d in option}
    if use.primitive not in PRIMITIVES and set(have) <= accepted:
        return None
    options = "; ".join(", ".join(option) for option in instruction.dtypes)
    return f"operands are {', '.join(have)}; it takes {options}"


def _refuse_memories(
    machine: Machine, instruction: Instruction, leaf: Leaf, use: PrimitiveUse
) -> str | None:
    names = operand_names(use)
    for name, operand in zip(names, use.operands, strict=False):
        allowed = {machine.canonical(m) for m in instruction.operands.get(name, ())}
        place = leaf.placed[operand.tensor]
        if allowed and place not in allowed:
            listed = " or ".join(m for m in (x.name for x in machine.memories) if m in allowed)
            return f"{operand.tensor} is in {place}, and it takes {name} from {listed}"
    return None


def demanded(
    machine: Machine,
    instruction: str,
    leaf: Leaf,
    uses: Sequence[PrimitiveUse],
    free: frozenset[str],
) -> dict[str, str]:
    """Return a memory for each `free` operand that is not in one the instruction takes it from."""
    found: dict[str, str] = {}
    contract = machine.instruction(instruction).operands
    for use in uses:
        for name, operand in zip(operand_names(use), use.operands, strict=False):
            allowed = [machine.canonical(m) for m in contract.get(name, ())]
            if operand.tensor in free and allowed and leaf.placed[operand.tensor] not in allowed:
                found[operand.tensor] = allowed[0]
    return found


def operand_names(use: PrimitiveUse) -> tuple[str, ...]:
    """Return the operands' names in contracts; a tensor expression writes Y and reads X."""
    if use.primitive in PRIMITIVES:
        return PRIMITIVES[use.primitive].operands
    return ("Y", *("X" for _ in use.operands[1:]))


def _refuse_extents(instruction: Instruction, use: PrimitiveUse) -> str | None:
    for letter, (extent, step) in _sizes(instruction, use).items():
        if extent % step:
            name = f"axis {letter}" if isinstance(letter, int) else letter
            return f"{name} is {extent}, not a multiple of {step}"
    return None


def _sizes(instruction: Instruction, use: PrimitiveUse) -> dict[int | str, tuple[int, int]]:
    """Return the extent of each axis, and the number that it must be a multiple of."""
    extent: dict[int | str, int] = {}
    if use.primitive in PRIMITIVES and "*" not in PRIMITIVES[use.primitive].axes:
        contract = PRIMITIVES[use.primitive]
        named = extents(contract, [o.shape for o in use.operands])
        extent.update({a: named[a] for a in dict.fromkeys("".join(contract.axes))})
    elif instruction.multiple_of:
        extent.update(enumerate(use.operands[0].shape[-len(instruction.multiple_of) :]))
    # Axes behind the listed ones may have any extent.
    steps = [*instruction.multiple_of, *(1 for _ in extent)]
    return {a: (n, step) for (a, n), step in zip(extent.items(), steps, strict=False)}

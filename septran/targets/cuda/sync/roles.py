"""Roles: warpgroups of one block that run different bodies beside each other."""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import tirx

from septran.emulator.launch import REGISTER_UNIT as UNIT
from septran.emulator.launch import registers_at_launch
from septran.targets.cuda.context import Context, Threads
from septran.targets.cuda.fragment.fragments import GROUP, WARP
from septran.targets.cuda.gemm.wgmma import NAMES, ROWS
from septran.targets.cuda.lowering import enter
from septran.targets.cuda.run.instrumentation import lane
from septran.targets.cuda.sync import channels
from septran.targets.cuda.text.ptx import elected, ptx
from septran.targets.cuda.unsupported import unsupported
from septran.targets.cuda.warps import below
from septran.targets.lower.writer import both
from septran.tile.analyses.engine_limits import BOX
from septran.tile.analyses.liveness import role_groups
from septran.tile.nodes import (
    Acquire,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Role,
    TileProgram,
    Wait,
    nodes,
)

SIZES = {"WARPGROUP": GROUP, "WARP": WARP, "THREAD": 1}
"""Threads of a unit of each level."""
FEWEST = 24
"""Registers that a thread keeps at least (PTX ISA, setmaxnreg)."""
GATHERING = 88
"""Registers of a thread that copies through them: eight vectors under way, and addresses."""


def block_threads(program: TileProgram, body: tuple[Node, ...]) -> int | None:
    """Threads of all roles that stand side by side; None without roles."""
    groups = [[body[p] for p in group] for group in role_groups(body)]
    counts = [sum(_size(r) for r in group if isinstance(r, Role)) for group in groups]
    inner = [block_threads(program, n.body) for n in body if isinstance(n, For)]
    found = max([*counts, *(n for n in inner if n is not None)], default=None)
    return found if found is not None else _warpgroups(body)


def _warpgroups(body: tuple[Node, ...]) -> int | None:
    """Without roles, at most two warpgroups with whole tiles of rows of every wgmma."""
    rows = [
        node.operands[0].shape[0] // ROWS
        for node in nodes(body)
        if isinstance(node, Compute) and node.instruction in NAMES
    ]
    return GROUP * math.gcd(2, *rows) if rows else None


def hoisted(body: tuple[Node, ...]) -> tuple[Node, ...]:
    """A loop around roles as roles around the loop: each goes on as soon as it can.

    Their channels hold them together; the slots of a channel begin anew in each iteration.
    """
    if len(body) != 1 or not isinstance(body[0], For):
        return body
    loop = body[0]
    inside = hoisted(loop.body)
    if not inside or not all(isinstance(n, Role) for n in inside):
        return body
    return tuple(
        replace(n, body=(replace(loop, body=n.body),)) for n in inside if isinstance(n, Role)
    )


def prepare(context: Context, body: tuple[Node, ...]) -> None:
    """Say which threads take each role, and make the channels' mbarriers."""
    _check_around(body)
    context.state.body = body
    context.state.roles = {}
    _place(context, body)
    channels.begin(context, body)
    # Roles enter one by one, where their bodies are written (`_run`).
    if not context.state.roles:
        channels.enter(context, body)


def _check_around(body: tuple[Node, ...]) -> None:
    """Roles are those of the whole kernel; raises UnsupportedByCudaError for ones in a loop.

    PTX ISA, mbarrier: phases follow each other as long as the object lives, and a thread that
    waits says which parity it means. Roles that began anew in each iteration would begin with the
    parity of the first phase, while their mbarriers go on.
    """
    for loop in (n for n in body if isinstance(n, For)):
        role = next((n for n in nodes(loop.body) if isinstance(n, Role)), None)
        if role is not None:
            message = f"the {role.name} is in the loop over {loop.variable}, beside other nodes"
            hint = "roles are around the loops of a kernel: leave `warpspecialize` out here"
            raise unsupported(role.origin, message, hint)


def _place(context: Context, body: tuple[Node, ...]) -> None:
    # Groups follow one another, so that each begins with the block's first thread.
    for group in role_groups(body):
        first = 0
        for number, at in enumerate(group):
            role = body[at]
            assert isinstance(role, Role)
            # Named barrier 0 is the whole block's.
            context.state.roles[id(role)] = Threads(first, _size(role), number + 1)
            first += _size(role)
    for node in body:
        if isinstance(node, For):
            _place(context, node.body)


def _size(role: Role) -> int:
    return SIZES[role.processor] * role.count


def emit_role(context: Context, role: Role) -> None:
    """The body of a role, run by its threads alone."""
    threads = context.state.roles[id(role)]
    writer = context.writer
    # The first role has no lower bound, and the last one no upper one.
    after = tirx.Not(below(context, threads.first)) if threads.first else None
    end = threads.first + threads.count
    before = below(context, end) if end < context.block else None
    writer.note(f"role {role.name}: {role.origin}")
    with writer.when(both(after, before)):
        if role.registers is not None and any(n is role for n in context.state.body):
            context.state.alone = True
            count = _registers(context, role)
            # PTX ISA, setmaxnreg: `.dec` gives registers to the block's pool, `.inc` waits for
            # them.
            change = "dec" if count < _at_launch(context) else "inc"
            ptx(context, f"setmaxnreg.{change}.sync.aligned.u32", count)
            context.state.registers = count
        _run(context, role, threads)
        context.state.registers = None


def _registers(context: Context, role: Role) -> int:
    """Registers a thread of a role: as asked, if the block was launched with as many for all.

    Where not, those that ask for most get less, and where copies go through registers they
    get enough. PTX ISA, setmaxnreg: what a role gets comes from the pool of its block, which is
    what other roles gave back; what it does not have is waited for, for ever.
    """
    assert role.registers is not None
    groups = [n for n in context.state.body if isinstance(n, Role)]
    wanted = {id(n): _wanted(context, n) for n in groups}
    movers = [n for n in groups if _gathers(context, n)]
    count, most = wanted[id(role)], max(wanted.values())
    taken = sum(wanted[id(n)] * _size(n) for n in groups if wanted[id(n)] < most)
    threads = sum(_size(n) for n in groups if wanted[id(n)] == most)
    has = _at_launch(context) * context.block
    left = (has - taken) // threads // UNIT * UNIT
    if count == most and left < count:
        count, why = left, f"the block is launched with {has:,} for all roles"
        why = f"the {movers[0].name} copies through registers" if movers else why
    else:
        why = "it copies through registers" if role in movers else f"they go by {UNIT}"
    if count != role.registers:
        message = f"the {role.name} has {count} registers a thread, not {role.registers}: {why}"
        context.remark("missed", role.name, message)
    return count


def _wanted(context: Context, role: Role) -> int:
    """Return the registers of a role's thread, in whole units; by default those at launch."""
    if role.registers is None:
        return _at_launch(context)
    asked = max(FEWEST, role.registers // UNIT * UNIT)
    return max(asked, GATHERING) if _gathers(context, role) else asked


def _gathers(context: Context, role: Role) -> bool:
    """Whether a role has copies through registers."""
    rings = context.state.rings
    names = {n.channel for n in nodes(role.body) if isinstance(n, Copy) and n.channel in rings}
    return any(rings[name].gathers for name in names)


def _at_launch(context: Context) -> int:
    """Registers a thread has when a block begins, which is alone on its multiprocessor."""
    return registers_at_launch(context.block)


def _run(context: Context, role: Role, threads: Threads) -> None:
    """Run it by one thread where it only issues boxes, else by all threads of the role."""
    if not issues_only(context.program, role):
        channels.enter(context, role.body)
        with lane(context, role.name, threads):
            enter(context, threads, role.body, role)
        return
    # elect.sync wants a converged warp: one enters, and one of its lanes goes on.
    first = below(context, threads.first + WARP)
    with context.writer.when(first), context.writer.when(elected()):
        channels.enter(context, role.body)
        context.state.one_thread = True
        with lane(context, role.name, threads, single=True):
            enter(context, threads, role.body)
        context.state.one_thread = False


def issues_only(program: TileProgram, role: Role) -> bool:
    """Whether a role has nothing but copies of boxes, which a single thread issues."""
    for node in nodes(role.body):
        if isinstance(node, Copy):
            if program.machine.engine(node.engine).completes_by != BOX or node.channel is None:
                return False
        elif not isinstance(node, Acquire | Commit | Wait | For):
            return False
    return True

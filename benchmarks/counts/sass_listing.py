"""One kernel's NVIDIA machine code: its instructions, its control flow, its loops.

What ``nvdisasm -c`` writes is read here, of code for sm_80 and sm_90; `benchmarks.sass` counts it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

LINE = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z]\w*(?:\.\w+)*)\s*([^;]*);")
"""The predicate, the mnemonic with its modifiers, the operands."""
LABEL = re.compile(r"(\.L_x_\d+|\$?[\w$]+):\s*$")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
WAITING = ("SYNCS.PHASECHK", "USETMAXREG.TRY_ALLOC", "NANOSLEEP")
"""What is repeated until it succeeds."""
WORKING = re.compile(
    r"(HGMMA|IGMMA|QGMMA|HMMA|IMMA|DMMA|[FHI]FMA|FADD|FMUL|MUFU|LD|ST[^R]|UTMA|UBLKCP|RED|ATOM)"
)
"""What a loop that only waits has none of."""
ENDING = ("BRA", "EXIT", "RET", "BRX", "JMP", "BPT")
"""Behind which nothing follows, where they have no condition."""


@dataclass(frozen=True)
class Instruction:
    """One line of a listing."""

    predicate: str
    """Such as ``!P0``; empty where it is always carried out."""
    mnemonic: str
    """With its modifiers, such as ``HGMMA.64x256x16.F32``."""
    operands: str


@dataclass(frozen=True)
class Block:
    """Instructions that only run one after another, and the blocks that may come next."""

    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A natural loop: the header, and the blocks from which a back edge to it is reached."""

    header: int
    blocks: frozenset[int]


@dataclass(frozen=True)
class Listing:
    """One kernel."""

    name: str
    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]
    """Each header once, retries of waits left out."""
    rare: frozenset[int]
    """Blocks that a run hardly ever enters: retries of waits, and calls of slow functions."""
    dominators: tuple[frozenset[int], ...]
    """Of each block, those that every way to it passes; empty of what no way leads to."""

    def innermost(self) -> list[Loop]:
        """The loops that hold no other."""
        return [o for o in self.loops if not any(i.blocks < o.blocks for i in self.loops)]

    def instructions(self, blocks: frozenset[int] | None = None) -> list[Instruction]:
        """Of some blocks, or of all that the start leads to, rare ones left out."""
        reached = frozenset(n for n, by in enumerate(self.dominators) if by)
        chosen = (reached if blocks is None else blocks & reached) - self.rare
        return [i for n in sorted(chosen) for i in self.blocks[n].instructions]

    def after(self, loop: Loop) -> frozenset[int]:
        """The blocks that may come behind a loop and lie in none that holds no other.

        Of blocks that stay, what lies between two tiles is among them.
        """
        inner = frozenset().union(*(o.blocks for o in self.innermost()))
        seen, left = set(loop.blocks), list(loop.blocks)
        while left:
            fresh = set(self.blocks[left.pop()].successors) - seen
            seen |= fresh
            left += fresh
        return frozenset(seen) - inner


def kernels(text: str) -> dict[str, Listing]:
    """The kernels of a disassembled cubin, by name."""
    parts = re.split(r"^//-+ \.text\.(\S+)\s+-+$", text, flags=re.M)
    return {n: listing(n, body) for n, body in zip(parts[1::2], parts[2::2], strict=True)}


def listing(name: str, text: str) -> Listing:
    """The control flow of one kernel's section, whose functions follow each other."""
    instructions, labels = _read(text)
    blocks = _blocks(instructions, labels)
    dominators = _dominators(blocks)
    loops = _loops(blocks, dominators)
    waits = [o for o in loops if _only_waits(blocks, o)]
    return Listing(
        name, blocks, tuple(o for o in loops if o not in waits),
        _rare(blocks, frozenset().union(*(o.blocks for o in waits))), dominators,
    )  # fmt: skip


def _rare(blocks: tuple[Block, ...], waiting: frozenset[int]) -> frozenset[int]:
    """Retries with the jump back behind them, and what calls a function."""
    behind = {successor for n in waiting for successor in blocks[n].successors}
    jumps = {n for n in behind if [i.mnemonic for i in blocks[n].instructions] == ["BRA"]}
    calls = {
        n
        for n, b in enumerate(blocks)
        if any(i.mnemonic.startswith("CALL") for i in b.instructions)
    }
    return waiting | jumps | calls


def _read(text: str) -> tuple[list[Instruction], dict[str, int]]:
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if match := LINE.match(line):
            found.append(Instruction(match[1] or "", match[2], match[3].strip()))
        elif match := LABEL.match(line.strip()):
            labels[match[1]] = len(found)
    return found, labels


def _blocks(instructions: list[Instruction], labels: dict[str, int]) -> tuple[Block, ...]:
    starts = {0, len(instructions), *labels.values()}
    starts |= {n + 1 for n, i in enumerate(instructions) if _leaves(i)}
    edges = sorted(n for n in starts if n <= len(instructions))
    place = {start: n for n, start in enumerate(edges)}
    found = []
    for start, end in itertools.pairwise(edges):
        found.append(Block(tuple(instructions[start:end]), tuple(_next(
            instructions[end - 1], place[end], place, labels, len(edges) - 1
        ))))  # fmt: skip
    return tuple(found)


def _leaves(instruction: Instruction) -> bool:
    return instruction.mnemonic.split(".")[0] in (*ENDING, "CALL")


def _next(
    last: Instruction, after: int, place: dict[int, int], labels: dict[str, int], count: int
) -> Iterator[int]:
    """The blocks behind one that ends so; a call comes back."""
    word = last.mnemonic.split(".")[0]
    # BRA U0, and BRA.U UP0, have a condition among their operands.
    sure = not last.predicate and (word != "BRA" or last.operands.startswith("`"))
    if word == "BRA" and (match := TARGET.search(last.operands)) and match[1] in labels:
        yield place[labels[match[1]]]
    if (word not in ENDING or not sure) and after < count:
        yield after


def _dominators(blocks: tuple[Block, ...]) -> tuple[frozenset[int], ...]:
    order = _order(blocks)
    before: dict[int, list[int]] = {n: [] for n in order}
    for n in order:
        for successor in blocks[n].successors:
            before[successor].append(n)
    found: dict[int, frozenset[int]] = {order[0]: frozenset({order[0]})} if order else {}
    changed = True
    while changed:
        changed = False
        for n in order[1:]:
            known = [found[p] for p in before[n] if p in found]
            now = frozenset.intersection(*known) | {n}
            changed |= found.get(n) != now
            found[n] = now
    return tuple(found.get(n, frozenset()) for n in range(len(blocks)))


def _order(blocks: tuple[Block, ...]) -> list[int]:
    """What is reached from the first block, in reverse postorder."""
    seen, done = {0}, []
    stack = [(0, iter(blocks[0].successors))] if blocks else []
    while stack:
        n, rest = stack[-1]
        successor = next(rest, None)
        if successor is None:
            done.append(n)
            stack.pop()
        elif successor not in seen:
            seen.add(successor)
            stack.append((successor, iter(blocks[successor].successors)))
    return done[::-1]


def _loops(blocks: tuple[Block, ...], dominators: tuple[frozenset[int], ...]) -> list[Loop]:
    before: dict[int, list[int]] = {}
    for n, block in enumerate(blocks):
        for successor in block.successors:
            before.setdefault(successor, []).append(n)
    bodies: dict[int, set[int]] = {}
    for n, block in enumerate(blocks):
        # BRA.U.ANY takes a uniform operand's values in turn, of which there is one.
        turns = block.instructions[-1].mnemonic != "BRA.U.ANY"
        for header in block.successors:
            if turns and header in dominators[n]:
                bodies.setdefault(header, {header}).update(_reaching(n, header, before))
    return [Loop(header, frozenset(body)) for header, body in bodies.items()]


def _reaching(tail: int, header: int, before: dict[int, list[int]]) -> set[int]:
    body, left = {header, tail}, [tail] if tail != header else []
    while left:
        for n in before.get(left.pop(), ()):
            if n not in body:
                body.add(n)
                left.append(n)
    return body


def _only_waits(blocks: tuple[Block, ...], loop: Loop) -> bool:
    """Whether a loop tries something again, such as to find a barrier's phase complete."""
    inside = [i.mnemonic for n in loop.blocks for i in blocks[n].instructions]
    return any(m.startswith(WAITING) for m in inside) and not any(map(WORKING.match, inside))

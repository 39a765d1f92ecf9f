"""Machine code that uses the sums of a product by wgmma before it has been waited for.

Registers of sums belong to the product until a wait for its group. PTX says so, and ptxas has
been seen to move their reads up over the wait all the same (`gemm.wgmma_scoreboard.hold`): on an
H100 the last step of K was then missing. What follows is a walk through SASS with the groups that
may be under way at each instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Groups = tuple[frozenset[int], ...]
"""Registers of the groups that may be under way, the oldest first; the last is not closed yet."""

_LABEL = re.compile(r"^\s*(\.\w[\w.$]*):")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,6})\*/\s+([^;]+?)\s*;")
_PRODUCT = re.compile(r"\b[HIQ]GMMA\.64x(\d+)x\d+\.(\w+)\S*\s+R(\d+)")
_WAIT = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")
_TARGET = re.compile(r"`\((\.\w[\w.$]*)\)")
_REGISTER = re.compile(r"\bR(\d+)\b")
MOST_GROUPS = 6
_NOTHING: Groups = (frozenset(),)


@dataclass
class _Block:
    """Instructions that follow each other, with their addresses, and the blocks behind them."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    follows: list[str] = field(default_factory=list)


def uses_in_flight(sass: str) -> tuple[str, ...]:
    """Return the instructions, with their addresses, that use sums of a product under way."""
    blocks = _blocks(sass)
    states = {name: _NOTHING for name in blocks}
    waiting = list(blocks)
    while waiting:
        name = waiting.pop()
        state = states[name]
        for _, text in blocks[name].lines:
            state = _after(state, text)
        for target in blocks[name].follows:
            joined = _joined(states.get(target, _NOTHING), state)
            if target in blocks and joined != states[target]:
                states[target] = joined
                waiting.append(target)
    return tuple(f for name in blocks for f in _uses(states[name], blocks[name]))


def _uses(state: Groups, block: _Block) -> Iterator[str]:
    for address, text in block.lines:
        under_way = frozenset().union(*state)
        if not _PRODUCT.search(text) and under_way & {int(r) for r in _REGISTER.findall(text)}:
            yield f"/*{address}*/ {text}"
        state = _after(state, text)


def _after(state: Groups, text: str) -> Groups:
    """The groups under way behind an instruction."""
    if product := _PRODUCT.search(text):
        columns, kind, first = product.groups()
        # A thread holds a 128th of 64 rows: 32-bit sums, or two 16-bit ones in a register.
        count = int(columns) // (4 if kind == "F16" else 2)
        sums = frozenset(range(int(first), int(first) + count))
        state = (*state[:-1], state[-1] | sums)
        return _bounded((*state, frozenset())) if "gsb0" in text else state
    if wait := _WAIT.search(text):
        younger = int(wait[1], 16)
        return (*state[:-1][max(0, len(state) - 1 - younger) :], state[-1])
    return state


def _joined(one: Groups, other: Groups) -> Groups:
    """What may be under way where two paths meet; the youngest groups are each other's."""
    length = max(len(one), len(other))
    one, other = ((frozenset(),) * (length - len(x)) + x for x in (one, other))
    return _bounded(tuple(a | b for a, b in zip(one, other, strict=True)))


def _bounded(state: Groups) -> Groups:
    """The same in a few groups, as a loop in which nothing waits would add one in each turn."""
    while len(state) > 1 and not state[0]:
        state = state[1:]
    extra = max(0, len(state) - MOST_GROUPS)
    return (frozenset().union(*state[: extra + 1]), *state[extra + 1 :])


def _blocks(sass: str) -> dict[str, _Block]:
    """The blocks of all functions by their labels."""
    current, reconverge = _Block(), dict[str, str]()
    blocks = {"start": current}
    for line in sass.splitlines():
        # A function runs into the next one only behind its last branch, where nothing is under way.
        if label := _LABEL.match(line):
            current = _begun(blocks, label[1], current)
        if not (found := _INSTRUCTION.search(line)):
            continue
        text = found[2].strip()
        current.lines.append((found[1], text))
        operation = re.sub(r"^@!?U?P\w+\s+", "", text)
        target = _TARGET.search(text)
        if operation.startswith("BSSY") and target:
            reconverge[operation.split()[1].rstrip(",")] = target[1]
        elif operation.startswith("BSYNC"):
            current.follows += filter(None, [reconverge.get(operation.split()[1])])
            current = _begun(blocks, f"behind {len(blocks)}", current)
        elif operation.startswith(("BRA", "EXIT", "RET")):
            current.follows += [target[1]] if target else []
            before = current if text.startswith("@") else _Block()
            current = _begun(blocks, f"behind {len(blocks)}", before)
    return blocks


def _begun(blocks: dict[str, _Block], name: str, before: _Block) -> _Block:
    """A block of this name, into which the one before runs."""
    before.follows.append(name)
    blocks[name] = _Block()
    return blocks[name]

"""The base of passes that add buffers for the parts that a node needs apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import ClassVar

from septran.tile.nodes import Buffer, Compute, Node, Remark, TileProgram, rewrite


@dataclass
class PartBuffers(ABC):
    """A rewriting of every node that adds buffers and remarks."""

    NAME: ClassVar[str]
    """The pass's name, for its remarks."""
    program: TileProgram
    buffers: dict[str, Buffer] = field(init=False)
    """All buffers of the program so far."""
    remarks: list[Remark] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.buffers = {b.name: b for b in self.program.buffers}

    def run(self) -> TileProgram:
        """Return the program with every node changed."""
        body = rewrite(self.program.body, self.change)
        program = replace(self.program, body=body, buffers=tuple(self.buffers.values()))
        return program.remark(*self.remarks)

    @abstractmethod
    def change(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that replace a node."""

    def add(
        self, node: Compute, held: Buffer, memory: str, shape: tuple[int, ...], dtype: str, why: str
    ) -> Buffer:
        """Return a new buffer for a part of the elements of `held` that `node` needs apart."""
        name = unused(f"{held.name}_part", self.buffers)
        origin = replace(node.origin, rule=why)
        made = Buffer(name, memory, shape, dtype, tensor=held.tensor, origin=origin)
        self.buffers[name] = made
        return made

    def decided(self, node: Compute, held: Buffer, message: str) -> None:
        """Report a buffer that was added."""
        where = node.origin.mapping or node.origin.logic
        self.remarks.append(Remark("decision", held.name, message, None, where, self.NAME))


def unused(name: str, taken: Collection[str]) -> str:
    """Return the name, or the first with a number that no buffer has."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate

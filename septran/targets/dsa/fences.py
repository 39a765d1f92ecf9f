"""Where all cores have to meet: between loops over cores where one uses what another made."""

from __future__ import annotations

from dataclasses import dataclass, field

from septran.targets.dsa.steps import Fence, Loop, Step, Use, Work, private, works
from septran.tile.nodes import TileProgram


def fenced(program: TileProgram, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """`body` with a fence wherever one core may use what another one wrote."""
    own = {b.name for b in program.buffers if private(program, b.name)}
    return _Fences(own).body(body)


@dataclass
class _Fences:
    own: set[str]
    """Temporaries that each core has for itself."""
    pending: dict[Use, None] = field(default_factory=dict)
    """What was used in main memory since all cores met."""

    def body(self, body: tuple[Step, ...]) -> tuple[Step, ...]:
        found: list[Step] = []
        for step in body:
            if isinstance(step, Loop) and step.node.processor is None:
                found.append(Loop(step.node, self._loop(step)))
                continue
            uses = self._uses(step)
            if any(use.conflicts(before) for use in uses for before in self.pending):
                self.pending.clear()
                found.append(Fence(step.node))
            self.pending.update(dict.fromkeys(uses))
            found.append(step)
        return tuple(found)

    def _loop(self, loop: Loop) -> tuple[Step, ...]:
        """Twice, as the second iteration comes after the first."""
        before = dict(self.pending)
        self.body(loop.body)
        if loop.node.kind == "parallel":  # other iterations use other elements of parameters
            self.pending = {use: None for use in self.pending if use.local}
        self.pending = {**before, **self.pending}
        return self.body(loop.body)

    def _uses(self, step: Step) -> list[Use]:
        inside = works((step,)) if isinstance(step, Loop | Work) else ()
        return [
            use
            for work in inside
            for use in work.uses
            if use.space[0] in ":@" and use.buffer not in self.own
        ]

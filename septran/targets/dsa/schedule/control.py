"""A control program in TensorIR as steps of the clock, and the schedule that follows.

The schedule has every command of the control program, with the costs of the simulator's table. It
needs no data, no compiled code and, as loops settle, not each iteration. What it leaves out, next
to a simulated run: each core has an equal share of main memory's port while a loop is dealt to all
of them, whatever the others do; a set of a flag that is full does not wait; a core that meets the
others does not wait for the slowest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import tirx

from septran.machine.model import Machine
from septran.simulator.commands import ADDRESS, EXTERNS, VALUE
from septran.simulator.hardware import Hardware
from septran.targets.dsa.code.codegen import is_buffer
from septran.targets.dsa.lowering import lower_program
from septran.targets.dsa.schedule.costs import CommandCosts
from septran.targets.dsa.schedule.expressions import ControlVariables
from septran.tile.analyses.indirect import indirect, supposed_tables
from septran.tile.nodes import TileProgram
from septran.timing.clock import Clock
from septran.timing.schedule import UnitSchedule, schedule_of
from septran.timing.steps import (
    BranchStep,
    CommandStep,
    FlagStep,
    Meet,
    Name,
    Number,
    Repeat,
    ShareStep,
    Step,
    run,
)


def work_out(program: TileProgram, tables: Mapping[str, Any] | None = None) -> UnitSchedule:
    """Work out when each unit works in a program on a DSA.

    Raises TargetError as its code does, SimulatedDeadlockError for queues that wait for each other,
    and SimulationError for a program with very many commands that do not repeat themselves.
    `tables` has what tensors of indices hold, by name; where it is None, they hold what
    `supposed_tables` says.
    """
    hardware = Hardware(program.machine)
    control = _Control(program.machine)
    held = supposed_tables(program) if tables is None else tables
    body = control.program(lower_program(program), program, held)
    port = hardware.bytes_per_cycle(program.machine.main_memory)
    lanes = [(queue.name, queue.depth) for queue in hardware.queues]
    clocks = []
    for core in range(hardware.cores):
        clocks.append(Clock(lanes, port, hardware.issue_cycles))
        run(body, [core, *control.values[1:]], clocks[-1])
    return schedule_of(clocks)


@dataclass
class _Control:
    """Turns statements into steps."""

    machine: Machine
    names: ControlVariables = field(default_factory=ControlVariables)
    values: list[int] = field(default_factory=list)
    memories: dict[Any, int] = field(default_factory=dict)
    """The number of each buffer's memory, of the core's."""
    decide: set[int] = field(default_factory=set)
    """The loops on whose indices it depends what is done in the body that is being read."""
    spread: bool = False
    """Whether a loop around is dealt to the cores."""

    def __post_init__(self) -> None:
        self.costs = CommandCosts(self.machine)
        self.cores = Hardware(self.machine).cores
        self.numbers = {memory.name: n for n, memory in enumerate(self.machine.memories)}

    def program(
        self, function: Any, program: TileProgram, tables: Mapping[str, Any]
    ) -> tuple[Step, ...]:
        """The steps of a core, whose number is the first of the values."""
        core, *others = function.params
        names = indirect(program.body)
        buffers = [param for param in others if is_buffer(param)]
        for name, buffer in zip(names, buffers[len(buffers) - len(names) :], strict=True):
            self.names.tables[buffer] = np.asarray(tables[name]).reshape(-1).tolist()
        self.names.place(core)
        self.values.append(0)
        most = {size.name: size.most for size in program.sizes()}
        for variable in others:
            if not is_buffer(variable):
                # Of an extent that a call tells the most, of other numbers any.
                self.names.place(variable)
                self.values.append(most.get(variable.name, 0))
        return self._steps(function.body)

    def _steps(self, statement: Any) -> tuple[Step, ...]:
        if isinstance(statement, tirx.SeqStmt):
            return tuple(step for one in statement.seq for step in self._steps(one))
        if isinstance(statement, tirx.AttrStmt):
            return self._steps(statement.body)
        if isinstance(statement, tirx.DeclBuffer):
            self._declared(statement)
            return ()
        if isinstance(statement, tirx.Bind):
            return (self._name(statement),)
        if isinstance(statement, tirx.IfThenElse):
            condition = self._deciding(statement.condition)
            other = self._steps(statement.else_case) if statement.else_case else ()
            return (BranchStep(condition, self._steps(statement.then_case), other),)
        if isinstance(statement, tirx.For):
            return self._loop(statement)
        if isinstance(statement, tirx.Evaluate):
            return self._command(statement.value)
        raise TypeError(f"no statement of a control program: {type(statement).__name__}")

    def _declared(self, statement: Any) -> None:
        """A buffer in a memory of the core; all others are in main memory."""
        data = statement.data
        if data is not None and hasattr(data, "args") and len(data.args) > 1:
            name = str(data.args[1].value)
            self.memories[statement.buffer] = self.numbers[name]

    def _name(self, statement: Any) -> Name:
        value = self.names.function(statement.value)
        depends = self.names.loops(statement.value)
        place = self.names.place(statement.var, depends or frozenset((-1,)))
        self.values.append(0)
        return Name(place, value)

    def _loop(self, statement: Any) -> tuple[Step, ...]:
        extent = self._deciding(statement.extent)
        # What each core does of a loop that is dealt out depends on its number, the first place.
        dealt = not self.spread and 0 in self.names.loops(statement.extent)
        place = self.names.place(statement.loop_var)
        self.values.append(0)
        self.spread = self.spread or dealt
        outside, self.decide = self.decide, set()
        body = self._steps(statement.body)
        loop = Repeat(place, extent, body, place in self.decide)
        self.decide |= outside
        if not dealt:
            return (loop,)
        self.spread = False
        return (ShareStep(self._sharing(extent)), loop, ShareStep(lambda _: 1))

    def _sharing(self, extent: Number) -> Number:
        """How many cores have something of a loop that is dealt out."""
        cores = range(self.cores)
        return lambda values: max(1, sum(extent([core, *values[1:]]) > 0 for core in cores))

    def _command(self, call: Any) -> tuple[Step, ...]:
        if not hasattr(call, "args"):
            return ()
        extern, *given = call.args
        name = str(extern.value)
        command, _ = EXTERNS[name]
        if command.name in ("sync", "barrier"):
            return (Meet(),)
        arguments = {a.name: value for a, value in zip(command.arguments, given, strict=True)}
        if command.name in ("set_flag", "wait_flag"):
            ends = (self.names.function(arguments[n]) for n in ("src", "dst", "flag"))
            return (FlagStep(command.name == "set_flag", *ends),)
        texts = [repr(name)]
        for argument, value in zip(command.arguments, given, strict=True):
            if argument.kind == ADDRESS:
                texts.append(repr(self._memory(value)))
            else:
                texts.append("0" if argument.kind == VALUE else self.names.text(value))
                self.decide |= set() if argument.kind == VALUE else self.names.loops(value)
        key = self.names.compiled(f"({', '.join(texts)})")
        return (CommandStep(self.names.function(arguments["queue"]), key, self.costs.of),)

    def _deciding(self, expression: Any) -> Number:
        """The function of an expression on which it depends what is done."""
        self.decide |= self.names.loops(expression)
        return self.names.function(expression)

    def _memory(self, address: Any) -> int:
        return self.memories.get(address.args[0].source, -1)

"""A walker of TensorIR: what the control core says when it runs a lowered program."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tvm

from septran.compiler import produce_stages
from septran.dtypes import numpy_dtype
from septran.simulator import simulate
from septran.simulator.commands import (
    CODES,
    EXTERNS,
    RECORD,
    memory_address,
    parameter_address,
)
from septran.targets.dsa.lowering import lower_program
from septran.targets.dsa.steps import core_count, workspaces
from septran.task.reference import run_tree

BINARY = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Min": min, "Max": max, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b, "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b, "Mod": lambda a, b: int(np.fmod(a, b)),
    "Div": lambda a, b: -(-a // b) if a < 0 else a // b,
}  # fmt: skip


class Walker:
    """Runs one core's control program; collects its commands."""

    def __init__(self, machine, function, core, scalars):
        self.machine, self.core = machine, core
        self.values, self.addresses, self.records = {}, {}, []
        first, *rest = function.params
        self.values[first.name] = core
        buffers = [p for p in rest if p.name not in scalars]
        for number, param in enumerate(buffers):
            self.addresses[param.name] = parameter_address(number)
        self.values |= {p.name: scalars[p.name] for p in rest if p.name in scalars}
        self.run(function.body)

    def run(self, node):
        getattr(self, f"run_{type(node).__name__.lower()}")(node)

    def run_seqstmt(self, node):
        for part in node.seq:
            self.run(part)

    def run_attrstmt(self, node):
        self.run(node.body)

    def run_declbuffer(self, node):
        call = node.data
        if call.op.name == "tirx.buffer_data":
            self.addresses[node.buffer.name] = self.addresses[call.args[0].name]
            return
        name, memory, offset = call.args
        assert name.value == "dsa.pointer"
        number = [m.name for m in self.machine.memories].index(memory.value)
        self.addresses[node.buffer.name] = memory_address(number) + int(offset)

    def run_bind(self, node):
        self.values[node.var.name] = self.value(node.value)

    def run_for(self, node):
        for number in range(self.value(node.extent)):
            self.values[node.loop_var.name] = number
            self.run(node.body)

    def run_ifthenelse(self, node):
        if self.value(node.condition):
            self.run(node.then_case)

    def run_evaluate(self, node):
        call = node.value
        name = call.args[0].value
        record = np.zeros((), RECORD)
        record["code"], record["core"] = CODES[name], self.core
        record["line"] = len(self.records)
        command, _ = EXTERNS[name]
        arguments = [self.value(a) for a in call.args[1:]]
        assert len(arguments) == len(command.arguments), name
        for n, value in enumerate(arguments):
            if isinstance(value, float):
                value = int(np.float64(value).view(np.int64))
            record["arguments"][n] = value
        self.records.append(record)

    def value(self, node):
        kind = type(node).__name__
        if kind in BINARY:
            return BINARY[kind](self.value(node.a), self.value(node.b))
        match kind:
            case "int" | "float":
                return node
            case "IntImm":
                return int(node.value)
            case "FloatImm":
                return float(node.value)
            case "Var":
                return self.values[node.name]
            case "Cast":
                inner = self.value(node.value)
                return float(inner) if "float" in str(node.ty.dtype) else int(inner)
            case "Select":
                yes = self.value(node.condition)
                return self.value(node.true_value if yes else node.false_value)
            case "Call":
                return self.call(node)
        raise TypeError(f"{kind}: {node}")

    def call(self, node):
        name = node.op.name
        if name == "tirx.address_of":
            load = node.args[0]
            item = numpy_dtype(str(load.source.dtype)).itemsize
            return self.addresses[load.source.name] + item * self.value(load.indices[0])
        raise TypeError(name)


def record(program, scalars=None):
    """The commands of all cores of a tile program."""
    function = lower_program(program)
    given = {s.name: s.default for s in program.scalars} | (scalars or {})
    records = []
    for core in range(core_count(program)):
        records += Walker(program.machine, function, core, given).records
    return np.array(records, RECORD)


def run(operator, machine, shapes=None, static=None, scalars=None, seed=0, **options):
    """Outputs of the simulated kernel, those of the reference in float64, and the run."""
    stages = produce_stages(operator, machine, shapes=shapes or {}, static=static or {}, **options)
    program = stages.tile_program
    rng = np.random.default_rng(seed)
    arrays = {}
    for name in program.params:
        buffer = program.buffer(name)
        dtype = numpy_dtype(buffer.dtype)
        if name in program.outputs:
            arrays[name] = np.zeros(buffer.shape, dtype)
        elif dtype.kind in "iu":
            arrays[name] = rng.integers(-3, 4, buffer.shape).astype(dtype)
        else:
            arrays[name] = rng.standard_normal(buffer.shape).astype(dtype)
    inputs = {n: a for n, a in arrays.items() if n not in program.outputs}
    wanted = run_tree(stages.task_tree, inputs, scalars or {}, "float64")
    extra = [np.zeros(size, np.uint8) for _, size in workspaces(program)]
    result = simulate(program.machine, record(program, scalars), [*arrays.values(), *extra])
    return arrays, wanted, result


def script(program):
    """TensorIR as text."""
    name = program.name
    return str(tvm.IRModule({name: lower_program(program)}).script())


@pytest.fixture
def walked():
    """`record`, `run` and `script`, by attribute."""
    return SimpleNamespace(record=record, run=run, script=script)

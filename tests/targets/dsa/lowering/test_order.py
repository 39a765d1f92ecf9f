"""Flags and fences: as few as the program's dependences ask for, always balanced."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from septran.compiler import produce_stages
from septran.machine.loader import load_machine
from septran.simulator.commands import COMMANDS, EXTERNS
from septran.simulator.queues import Queues
from septran.targets.dsa.channels import flags
from septran.targets.dsa.context import UnsupportedByDsaError
from septran.targets.dsa.dependences import orders
from septran.targets.dsa.lowering import lower_program
from septran.targets.dsa.steps import Fence, QueuedWork, StepLoop, Stepper, walk
from septran.tile.nodes import Role

MACHINES = ("dsa-sim", "npu-cube")
OPERATORS = ("gemm", "gemm_bias_act", "softmax", "attention", "batched_gemm")


def program_of(operator, machine, **options):
    return produce_stages(operator, machine, **options).tile_program


def commands(stream, name):
    """All commands of a name, as dicts, with their position."""
    names = list(EXTERNS)
    command = COMMANDS[name]
    for at, one in enumerate(stream):
        if EXTERNS[names[one["code"]]][0].name == name:
            values = one["arguments"].tolist()
            found = {a.name: v for a, v in zip(command.arguments, values, strict=False)}
            yield {"at": at, "core": int(one["core"]), **found}


def key(flag):
    return flag["core"], flag["src"], flag["dst"], flag["flag"]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.one_in(3)
def test_every_flag_is_set_before_it_is_waited_for_and_as_often(operator, machine, walked):
    stream = walked.record(program_of(operator, machine))
    left: Counter = Counter()
    both = [(f, 1) for f in commands(stream, "set_flag")]
    both += [(f, -1) for f in commands(stream, "wait_flag")]
    for flag, step in sorted(both, key=lambda pair: pair[0]["at"]):
        left[key(flag)] += step
        assert left[key(flag)] >= 0, f"{flag} is waited for before it is set"
    assert not +left


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.one_in(3)
def test_flags_stay_within_the_machine(operator, machine, walked):
    stream = walked.record(program_of(operator, machine))
    limit = load_machine(machine).vendor["flags"]
    assert all(f["flag"] < limit for f in commands(stream, "set_flag"))
    assert all(f["src"] != f["dst"] for f in commands(stream, "set_flag"))


def test_a_step_of_gemm_has_the_flags_of_its_ring_and_no_others(walked):
    """In the steady state: the slot is free, the fill has arrived, each way one flag."""
    few, many = (
        walked.record(program_of("gemm", "dsa-sim", shapes={"M": 128, "N": 64, "K": k}))
        for k in (1024, 2048)
    )
    steps = (len(list(commands(many, "mma"))) - len(list(commands(few, "mma"))),)
    for name in ("set_flag", "wait_flag"):
        added = len(list(commands(many, name))) - len(list(commands(few, name)))
        assert added == 2 * steps[0]


def test_copies_of_the_next_tile_do_not_wait_for_the_last_product(walked):
    """The queue of copies runs ahead of the matrix unit into the next tile."""
    _, _, run = walked.run("gemm", "dsa-sim", {"M": 512, "N": 512, "K": 512})
    assert run.utilisation["MMA"] > 0.96


def steps_of(program):
    queues = Queues(program.machine)
    steps = Stepper(program, queues).body(program.body)
    found = flags(program, steps, queues)
    return steps, orders(steps, found, queues), queues


def test_what_one_nest_writes_and_another_reads_is_ordered_once_in_front_of_it():
    program = program_of("gemm_bias_act", "dsa-sim")
    steps, needed, queues = steps_of(program)
    second = steps[-1]
    assert isinstance(second, StepLoop)
    first = next(step for step in walk((second,)) if isinstance(step, QueuedWork))
    pairs = {(queues.names[o.before], queues.names[o.after]) for o in needed[first]}
    assert ("dma_out", "dma_in") in pairs


def test_cores_meet_between_nests_that_depend_on_each_other():
    program = program_of("gemm_bias_act", "npu-cube", shapes={"M": 70, "N": 45, "K": 50})
    text = str(lower_program(program).script())
    assert text.count("dsa.barrier") == 1


def test_batches_do_not_meet():
    program = program_of("batched_gemm", "npu-cube")
    assert "dsa.barrier" not in str(lower_program(program).script())


def test_a_role_is_refused_where_it_is_asked_for():
    program = program_of("softmax", "dsa-sim")
    loop = program.body[0]
    role = Role("producer", "CORE", 1, loop.body, loop.origin)
    with pytest.raises(UnsupportedByDsaError, match="one thread of control") as caught:
        lower_program(replace(program, body=(replace(loop, body=(role,)),)))
    assert caught.value.where is not None


def test_fences_are_steps(walked):
    from septran.targets.dsa.dependences import fenced

    program = program_of("gemm_bias_act", "npu-cube")
    steps = fenced(program, Stepper(program, Queues(program.machine)).body(program.body))
    assert sum(isinstance(step, Fence) for step in walk(steps)) == 1


@pytest.mark.parametrize("machine", MACHINES)
def test_turned_operands_are_copied_as_they_lie(machine, walked):
    """A transposed operand costs as many copies as one that is not."""
    sizes = {"M": 128, "N": 128, "K": 256}
    plain, turned = (
        walked.record(program_of("gemm", machine, shapes=sizes, static=static))
        for static in ({}, {"trans_a": True, "trans_b": True})
    )
    assert len(plain) == len(turned)
    assert {c["a_transposed"] for c in commands(turned, "mma")} == {1}

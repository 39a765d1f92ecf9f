"""Correct pipelined programs with one hand-over missing or moved are found wrong.

By the verifier, and by the interpreter under at least one schedule. Both use the rings
of rings.py; beyond them the verifier looks at order alone, the interpreter at numbers.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from septran.compiler import produce_stages
from septran.errors import SepTranError
from septran.ir.bounds import greatest, least
from septran.task.reference import run_tree
from septran.tile.analyses.loops import ranges
from septran.tile.interpret.execution import ADVERSARIES
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import (
    Acquire,
    Commit,
    Compute,
    Copy,
    For,
    Release,
    Role,
    Wait,
    nodes,
    writes,
)
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.passes.schedule.pipeline_loops import pipeline_loops
from septran.tile.verify.verifier import verify

HANDOVERS = (Acquire, Commit, Wait, Release)


def cases(programs):
    yield "prefetch of 2", programs.pipelined_gemm(2), gemm_inputs()
    yield "prefetch of 3", programs.pipelined_gemm(3), gemm_inputs()
    yield "prefetch without slots", programs.pipelined_gemm(2, slots=False), gemm_inputs()
    for stages, outer in ((1, 1), (2, 2), (3, 1), (3, 2)):
        name = f"passes with {stages} and {outer} stages"
        yield name, placed(programs.unpipelined_gemm(pipeline=stages, outer=outer)), gemm_inputs()
    yield "roles of 1", programs.roles_gemm(1), gemm_inputs()
    yield "roles of 2", programs.roles_gemm(2), gemm_inputs()
    yield "roles of 3", programs.roles_gemm(3), gemm_inputs()
    yield "copy out of 1", programs.copy_out(1), copy_inputs()
    yield "copy out of 2", programs.copy_out(2), copy_inputs()


def placed(program):
    return insert_sync(pipeline_loops(program))


def gemm_inputs():
    rng = np.random.default_rng(1)
    a, b = rng.integers(1, 5, (20, 40)), rng.integers(1, 5, (40, 12))
    a, b = a.astype(np.float32), b.astype(np.float32)
    return [a, b], a @ b


def copy_inputs():
    x = np.arange(160, dtype=np.float32).reshape(20, 8)
    return [x], x


def bodies(body, path=()):
    """Every body with the way to it."""
    yield path, body
    for number, node in enumerate(body):
        if isinstance(node, For | Role):
            yield from bodies(node.body, (*path, number))


def with_body(body, path, new):
    if not path:
        return new
    inner = replace(body[path[0]], body=with_body(body[path[0]].body, path[1:], new))
    return (*body[: path[0]], inner, *body[path[0] + 1 :])


def interesting(node):
    fill = isinstance(node, Compute) and node.primitive == "fill"
    return fill or isinstance(node, (*HANDOVERS, Copy))


def dropped(program):
    """The program without one hand-over, copy or fill, for each of them."""
    for path, body in bodies(program.body):
        for number, node in enumerate(body):
            if interesting(node):
                new = (*body[:number], *body[number + 1 :])
                yield node, replace(program, body=with_body(program.body, path, new))


def moved(program):
    """The program with one hand-over exchanged with a neighbour."""
    for path, body in bodies(program.body):
        for number, (node, other) in enumerate(itertools.pairwise(body)):
            if isinstance(node, HANDOVERS) or isinstance(other, HANDOVERS):
                new = (*body[:number], other, node, *body[number + 2 :])
                yield (node, other), replace(program, body=with_body(program.body, path, new))


def verifier_finds(program, full=False):
    try:
        verify(program, full=full)
    except SepTranError:
        return True
    return False


def interpreter_finds(program, inputs, wanted):
    name = program.outputs[0]
    for order in (*ADVERSARIES, *range(8)):
        try:
            result = interpret(program, inputs, order=order)[name]
        except SepTranError:
            return True
        if not np.array_equal(result, wanted):
            return True
    return False


def harmless(node, program):
    """The first fills find their slots free, and need not be released for anyone."""
    known = ranges(program.body)
    if isinstance(node, Copy | Commit | Compute):
        return False
    stages = program.channel(node.channel).stages
    match node:
        case Acquire():
            return greatest(node.index, known) < stages
        case Wait():
            return greatest(node.index, known) < 0
        case _:
            acquired = [n for n in nodes(program.body) if isinstance(n, Acquire)]
            mine = [n for n in acquired if n.channel == node.channel]
            last = max((greatest(n.index, known) for n in mine), default=0)
            return least(node.index, known) + stages > last


def numbers_only(node, program):
    """Without it a program is sound but means something else: an output is added to what
    the caller passes, or a buffer keeps what an earlier synchronous node wrote.
    """
    if isinstance(node, HANDOVERS) or (isinstance(node, Copy) and node.channel):
        return False
    (target,) = writes(node)
    writers = [n for n in nodes(program.body) if target.buffer in {r.buffer for r in writes(n)}]
    return target.buffer in program.outputs or len(writers) > 1


@pytest.mark.slow
def test_correct_programs_pass(programs):
    for name, program, (inputs, wanted) in cases(programs):
        assert not interpreter_finds(program, inputs, wanted), name
        verify(program)
        verify(program, full=True)


def test_every_dropped_node_is_found_by_both(programs):
    count = 0
    for name, program, (inputs, wanted) in cases(programs):
        for node, mutant in dropped(program):
            if harmless(node, program):
                continue
            count += 1
            assert interpreter_finds(mutant, inputs, wanted), (name, node)
            if not numbers_only(node, program):
                assert verifier_finds(mutant), (name, node)
                assert verifier_finds(mutant, full=True), (name, node)
    assert count >= 60


@pytest.mark.slow
def test_verifier_and_interpreter_agree_on_every_moved_node(programs):
    found = count = 0
    for name, program, (inputs, wanted) in cases(programs):
        for pair, mutant in moved(program):
            count += 1
            wrong = interpreter_finds(mutant, inputs, wanted)
            assert verifier_finds(mutant) == wrong, (name, *pair)
            found += wrong
    assert count >= 80
    assert found >= 40


def compiled(operator, machine, shapes):
    """A library operator's tile program, its inputs, and what it must give."""
    stages = produce_stages(operator, machine, shapes=shapes)
    program, rng = stages.tile_program, np.random.default_rng(0)
    names = [n for n in program.params if n not in program.outputs]
    inputs = [rng.integers(1, 4, program.buffer(n).shape).astype(np.float32) for n in names]
    given = dict(zip(names, inputs, strict=True))
    return program, inputs, run_tree(stages.task_tree, given)[program.outputs[0]]


@pytest.mark.parametrize(
    ("operator", "machine", "shapes"),
    [
        ("gemm", "dsa-sim", {"M": 140, "N": 20, "K": 150}),
        ("gemm", "nvidia-h200", {"M": 140, "N": 72, "K": 200}),
        ("softmax", "dsa-sim", {"M": 300, "N": 20}),
        ("conv2d", "dsa-sim", {"B": 2, "C": 5, "H": 9, "W": 8, "O": 6, "R": 3, "S": 3}),
        ("gemm", "cpu-x86", {"M": 140, "N": 70, "K": 200}),
    ],
)
@pytest.mark.one_in(2, first=1)
def test_mutants_of_compiled_operators(operator, machine, shapes):
    program, inputs, wanted = compiled(operator, machine, shapes)
    for node, mutant in dropped(program):
        wrong = interpreter_finds(mutant, inputs, wanted)
        assert wrong or harmless(node, program), node
        if numbers_only(node, program):
            continue
        assert verifier_finds(mutant) == wrong, node
    for pair, mutant in moved(program):
        assert verifier_finds(mutant) == interpreter_finds(mutant, inputs, wanted), pair

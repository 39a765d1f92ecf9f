"""Random small loops: asynchrony never changes what a program gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septran.ir.index import Index, Var
from septran.tile.interpret.interpreter import interpret
from septran.tile.passes.layout.plan_memory import plan_memory
from septran.tile.passes.schedule.assign_roles import assign_roles
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.passes.schedule.pipeline_loops import pipeline_loops
from septran.tile.verify.verifier import verify

SIZE = 4
ORDERS = ("early", "late", 0, 1)


@dataclass(frozen=True)
class Case:
    """A loop over k inside of a loop over j: what it holds and what is asked of it."""

    extent: int
    grows: bool
    """Whether the extent of k is j + extent: another one in each iteration of j."""
    rows: int
    stages: int
    outer: int
    """Pipeline of the loop over j."""
    second: bool
    late_use: bool
    """The second input is used by a later node than the first."""
    each: bool
    """Whether each k stores a result of its own, too."""
    output: bool
    """Whether stores are asynchronous."""
    specialize: bool
    consumers: int
    parallel: bool


CASES = st.builds(
    Case,
    extent=st.integers(0, 7),
    grows=st.booleans(),
    rows=st.integers(1, 3),
    stages=st.integers(1, 5),
    outer=st.integers(1, 3),
    second=st.booleans(),
    late_use=st.booleans(),
    each=st.booleans(),
    output=st.booleans(),
    specialize=st.booleans(),
    consumers=st.integers(1, 2),
    parallel=st.booleans(),
)


def program_of(case: Case, make, part):
    """acc[j] = sum over k of X[j, k] @ Y[k] (+ Y[k] @ X[j, k]); optionally each product, too."""
    b, n, most = make(), SIZE, case.extent + case.rows
    unit = (n, n)
    x = b.buffer("X", "DRAM", (case.rows * n, max(1, most) * n))
    y = b.buffer("Y", "DRAM", (max(1, most) * n, n))
    out = b.buffer("OUT", "DRAM", (case.rows * n, n))
    steps = b.buffer("STEPS", "DRAM", (case.rows * n, max(1, most) * n))
    xs, ys, acc, one = (b.buffer(name, "SPM", unit) for name in ("xs", "ys", "acc", "one"))
    j, k = Index.of(Var("j")), Index.of(Var("k"))
    load = [b.copy(part(xs), part(x, (j * n, k * n), unit), "DMA_IN")]
    work = [b.gemm(part(acc), part(xs), part(xs))]
    if case.second:
        load.append(b.copy(part(ys), part(y, (k * n, 0), unit), "DMA_IN"))
        product = b.gemm(part(acc), part(xs), part(ys))
        work = [*work, product] if case.late_use else [product]
    if case.each:
        engine = "DMA_OUT" if case.output else "MOVE"
        work += [b.fill(part(one), 1), b.gemm(part(one), part(xs), part(xs))]
        work.append(b.copy(part(steps, (j * n, k * n), unit), part(one), engine))
    kind = "parallel" if case.parallel and case.each and not case.grows else "sequential"
    inner = [*load, *work]
    if kind == "parallel":  # iterations that share an accumulator are not parallel
        inner = [node for node in inner if node not in work[: 1 + (case.second and case.late_use)]]
    extent = j + case.extent if case.grows else case.extent
    asked = {"specialize": case.specialize, "consumers": case.consumers}
    loop = b.loop("k", extent, *inner, kind=kind, pipeline=case.stages, **asked)
    engine = "DMA_OUT" if case.output else "MOVE"
    store = b.copy(part(out, (j * n, 0), unit), part(acc), engine)
    row = b.loop("j", case.rows, b.fill(part(acc), 2), loop, store, pipeline=case.outer)
    body = b.loop("core", 1, row, kind="parallel", over="CORE")
    outputs = ["OUT", "STEPS"] if case.each else ["OUT"]
    inputs = ["X", "Y"] if case.second else ["X"]
    return b.program([*outputs, *inputs], outputs, body)


def placed(program):
    return plan_memory(insert_sync(assign_roles(pipeline_loops(program))))


def arrays(program):
    rng = np.random.default_rng(1)
    return {
        name: rng.integers(-2, 3, program.buffer(name).shape).astype(np.float32)
        for name in program.params
        if name not in program.outputs
    }


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_asynchronous_equals_synchronous(build, part, case):
    program = program_of(case, type(build), part)
    given_arrays = arrays(program)
    wanted = interpret(program, given_arrays)
    result = placed(program)
    verify(result)
    for order in ORDERS:
        got = interpret(result, given_arrays, order=order)
        for name in program.outputs:
            np.testing.assert_array_equal(got[name], wanted[name])

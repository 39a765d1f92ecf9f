"""Tile programs run on NumPy give what their logic means, under every schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran.argument_checks import WrongArgumentError
from septran.dtypes import numpy_dtype
from septran.ir import expressions as ex
from septran.ir.index import Index, Var, axis
from septran.targets.registry import NoTargetError
from septran.task.tree import ScalarParam
from septran.tile.interpret.channel_state import DeadlockError
from septran.tile.interpret.execution import ADVERSARIES
from septran.tile.interpret.interpreter import ArgumentError, interpret
from septran.tile.interpret.storage import CapacityError, ExtentError, OutOfBoundsError
from septran.tile.interpret.unwritten import UnwrittenResultError
from septran.tile.layouts import Layout
from septran.tile.nodes import Barrier, Region
from septran.tile.records import Placement
from septran.tile.verify.bijection import LayoutError
from septran.tile.verify.races import LoopRaceError
from septran.tile.verify.verifier import verify

ORDERS = [*ADVERSARIES, "early", "late", 0, 1, 2]


def operands(m, n, k, seed=0):
    """Small integers: products and sums are exact, so results must be equal."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    return a.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_synchronous_gemm(programs, order):
    a, b = operands(20, 12, 40)
    assert np.array_equal(interpret(programs.plain_gemm(), [a, b], order=order)["C"], a @ b)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("k", [8, 19, 40, 41])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.one_in(3, first=1)
def test_pipelined_gemm(programs, order, k, stages):
    a, b = operands(20, 12, k)
    program = programs.pipelined_gemm(stages, k)
    assert np.array_equal(interpret(program, [a, b], order=order)["C"], a @ b)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.one_in(3)
def test_gemm_by_producer_and_consumer(programs, order, stages):
    a, b = operands(20, 12, 40)
    program = programs.roles_gemm(stages)
    assert np.array_equal(interpret(program, [a, b], order=order)["C"], a @ b)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_asynchronous_copy_out(programs, order, stages):
    x = np.arange(160, dtype=np.float32).reshape(20, 8)
    assert np.array_equal(interpret(programs.copy_out(stages), [x], order=order)["Y"], x)


# ---- what single nodes do

AT = Index.of(Var("i"))


def test_arguments_are_checked(programs):
    program, (a, b) = programs.plain_gemm(), operands(20, 12, 40)
    with pytest.raises(ArgumentError, match=r"takes 2 inputs \(A, B\) or all 3 parameters, not 1"):
        interpret(program, [a])
    with pytest.raises(ArgumentError, match=r"A is float32\[40, 20\], not float32\[20, 40\]"):
        interpret(program, [a.T, b])
    with pytest.raises(ArgumentError, match="no parameter 'D'"):
        interpret(program, {"A": a, "D": b})
    with pytest.raises(ArgumentError, match="needs B"):
        interpret(program, {"A": a})
    with pytest.raises(ArgumentError, match=r"A is \[\[.*, not a NumPy array"):
        interpret(program, {"A": a.tolist(), "B": b})


def test_scalars_are_checked(build, part):
    y = build.buffer("Y", "DRAM", (4,))
    program = build.program("Y", "Y", build.fill(part(y)))
    program = replace(program, scalars=(ScalarParam("s", "float32"),))
    with pytest.raises(ArgumentError, match="needs the scalar s"):
        interpret(program, [])
    with pytest.raises(ArgumentError, match="no scalar 't'"):
        interpret(program, [], scalars={"s": 1.0, "t": 1.0})
    with pytest.raises(ArgumentError, match="scalar s is 'one', not a number"):
        interpret(program, [], scalars={"s": "one"})


def test_inputs_are_left_alone_and_outputs_may_be_given(build, part):
    y, x = build.buffer("Y", "DRAM", (4, 4)), build.buffer("X", "DRAM", (4, 4))
    program = build.program("YX", "Y", build.move(part(y, (0, 0), (2, 4)), part(x, (2, 0), (2, 4))))
    given, data = np.full((4, 4), 7, np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)
    result = interpret(program, {"Y": given, "X": data})["Y"]
    assert np.array_equal(result[:2], data[2:])
    assert (result[2:] == 7).all()
    assert (given == 7).all()


def test_what_is_not_written_is_poison(build, part):
    for dtype, poison in (("float32", np.isnan), ("int32", lambda v: v == np.int32(-1431655766))):
        y = build.buffer("Y", "DRAM", (4, 4), dtype)
        program = build.program("Y", "Y", build.fill(part(y, (0, 0), (2, 4)), 1))
        result = interpret(replace(program, buffers=(y,)), [])["Y"]
        assert (result[:2] == 1).all()
        assert poison(result[2:]).all()


def test_temporaries_are_fresh_in_every_iteration(build, part):
    """What the first iteration writes to S would be there in the second one if S were kept."""
    y, s = build.buffer("Y", "DRAM", (4, 4)), build.buffer("S", "SPM", (1, 4))
    one = build.fill(part(s, (0, AT), (1, 1)), 3)
    body = [one, build.copy(part(y, (AT, 0), (1, 1)), part(s, (0, 0), (1, 1)))]
    once = interpret(build.program("Y", "Y", build.loop("i", 1, *body)), [])["Y"]
    assert once[0, 0] == 3
    with pytest.raises(UnwrittenResultError, match=r"S\[0, 0\] is read, and nobody has"):
        interpret(build.program("Y", "Y", build.loop("i", 2, *body)), [])


@pytest.mark.parametrize("through", ["a copy", "a computation"])
def test_what_a_copy_does_not_bring_is_unwritten_though_it_was_written_before(build, part, through):
    """The second copy to S brings one row, and its other row no longer has what it had."""
    y, x, s, t = (
        build.buffer(name, memory, (2, 4), "int32")
        for name, memory in (("Y", "DRAM"), ("X", "DRAM"), ("S", "SPM"), ("T", "SPM"))
    )
    short = part(x, (0, 0), (2, 4), valid=(1, 4))
    body = [build.fill(part(t), 1), build.copy(part(s), part(x)), build.copy(part(s), short)]
    last = s if through == "a copy" else t
    if last is t:
        body.append(build.move(part(t), part(s)))
    given = {"X": np.ones((2, 4), np.int32)}
    for rows in (1, 2):
        out = build.copy(part(y, (0, 0), (rows, 4)), part(last, (0, 0), (rows, 4)))
        program = build.program("YX", "Y", *body, out)
        if rows == 1:  # what is not used may be missing
            assert (interpret(program, given)["Y"][0] == 1).all()
            continue
        with pytest.raises(UnwrittenResultError, match=r"S\[1, 0\] is read, and nobody has"):
            interpret(program, given)


def test_leaving_a_buffer_is_an_error_with_its_place(build, part):
    y, x = build.buffer("Y", "DRAM", (4, 4)), build.buffer("X", "DRAM", (6, 4))
    tile = part(x, (AT * 2, 0), (2, 4), valid=(2, 4))
    program = build.program(
        "YX", "Y", build.loop("i", 4, build.move(part(y, (0, 0), (2, 4)), tile))
    )
    with pytest.raises(
        OutOfBoundsError, match="reaches from 6 to 7 of X, which has 0 to 5 at i=3"
    ) as e:
        interpret(program, [np.zeros((6, 4), np.float32)])
    assert str(e.value.where) == "toy.py:1"
    assert "toy calls copy" in e.value.hint


def test_stage_that_there_is_not(build, part):
    s = build.buffer("S", "SPM", (4,), stages=2)
    program = build.program("", "", build.loop("i", 3, build.fill(part(s, stage=AT))))
    with pytest.raises(OutOfBoundsError, match="names stage 2 of 2"):
        interpret(program, [])


def test_padded_windows_read_zeros(build, part):
    """A 3-wide window along rows, one element of padding at each side."""
    y, _ = build.buffer("Y", "DRAM", (4, 3)), build.buffer("X", "DRAM", (4,))
    entry = Index.of(axis(0)) + axis(1) - 1
    window = Region("X", (entry,), (4, 3), part(y).valid, padded=True)
    data = np.array([1, 2, 3, 4], np.float32)
    result = interpret(build.program("YX", "Y", build.move(part(y), window)), [data])["Y"]
    assert result.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]]
    bare = build.program("YX", "Y", build.move(part(y), replace(window, padded=False)))
    with pytest.raises(OutOfBoundsError):
        interpret(bare, [data])


def test_transposed_and_merged_views(build, part):
    y, z, _ = (build.buffer(n, "DRAM", s) for n, s in (("Y", (3, 2)), ("Z", (6,)), ("X", (2, 3))))
    turned = Region("X", (Index.of(axis(1)), Index.of(axis(0))), (3, 2), part(y).valid)
    flat = Region("X", (Index.of(axis(0)) // 3, Index.of(axis(0)) % 3), (6,), (Index.of(6),))
    body = [build.move(part(y), turned), build.move(part(z), flat)]
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = interpret(build.program("YZX", "YZ", *body), [data])
    assert np.array_equal(result["Y"], data.T)
    assert np.array_equal(result["Z"], data.reshape(-1))
    back = build.program("YZX", "X", build.move(flat, part(z)))
    assert np.array_equal(interpret(back, {"Y": data.T, "Z": data.reshape(-1)})["X"], data)


def test_expressions_positions_and_scalars(build, part):
    """Y[i, :] = X[i, :] * s + position along the row, in the home tensor."""
    y, x = build.buffer("Y", "DRAM", (4, 6)), build.buffer("X", "DRAM", (4, 6))
    s = build.buffer("S", "SPM", (1, 3))
    home = part(x, (AT, 3), (1, 3))
    value = ex.binary("multiply", ex.Load(part(s), "float32"), ex.Scalar("s", "float32"))
    value = ex.binary("add", value, ex.Position(home, 1))
    target = part(y, (AT, 3), (1, 3))
    compute = replace(build.move(target, part(s)), primitive="map", expression=value)
    loop = build.loop("i", 4, build.copy(part(s), home), compute)
    program = replace(build.program("YX", "Y", loop), scalars=(ScalarParam("s", "float32", 2.0),))
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    wanted = data[:, 3:] * 2 + np.arange(3, 6)
    assert np.array_equal(interpret(program, [data])["Y"][:, 3:], wanted)
    wanted = data[:, 3:] * 5 + np.arange(3, 6)
    assert np.array_equal(interpret(program, [data], scalars={"s": 5.0})["Y"][:, 3:], wanted)


def test_bfloat16_is_rounded_once(build, part):
    """1 + 2^-9 + 2^-9 is 1.0039 in float32, and 1 if each step is rounded to bfloat16."""
    y = build.buffer("Y", "DRAM", (4,), "bfloat16")
    x = build.buffer("X", "DRAM", (4,), "bfloat16")
    load = ex.Load(part(x), "bfloat16")
    small = ex.Constant(2.0**-9, "float32")
    value = ex.binary("add", ex.binary("add", load, small), small)
    compute = replace(build.move(part(y), part(x)), primitive="map", expression=value)
    data = np.ones(4, numpy_dtype("bfloat16"))
    result = interpret(build.program("YX", "Y", compute), [data])["Y"]
    exact = (np.ones(4, np.float32) + np.float32(2.0**-8)).astype(numpy_dtype("bfloat16"))
    assert np.array_equal(result, exact)
    assert result.dtype == data.dtype


def test_half_precision_gemm_sums_in_the_accumulator(programs):
    program = programs.plain_gemm(8, 8, 40, dtype="float16")
    c = replace(program.buffer("C"), dtype="float32")
    program = replace(program, buffers=(c, *program.buffers[1:]))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((8, 40), (40, 8)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = 40 * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert (np.abs(interpret(program, [a, b])["C"] - exact) <= bound).all()


def test_first_step_overwrites(build, part):
    b = build
    c, x, y = (b.buffer(n, "DRAM", (4, 4)) for n in "CXY")
    once = b.program("CXY", "C", b.gemm(part(c), part(x), part(y), first=""))
    steps = b.gemm(part(c), part(x, (0, AT * 2), (4, 2)), part(y, (AT * 2, 0), (2, 4)), first="i")
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-3, 4, (4, 4)).astype(np.float32) for _ in "XY")
    for program in (once, replace(once, body=(b.loop("i", 2, steps),))):
        assert np.array_equal(interpret(program, [left, right])["C"], left @ right)


def test_ragged_copies(build, part):
    """What the source has not is undefined in the target, or zero where asked."""
    y, x, s = (build.buffer(n, m, (4, 4)) for n, m in (("Y", "DRAM"), ("X", "DRAM"), ("S", "SPM")))
    some = part(x, (0, 0), (4, 4), valid=(2, 4))
    out, data = build.copy(part(y), part(s)), np.ones((4, 4), np.float32)
    plain = build.program("YX", "Y", build.copy(part(s), some), out)
    zeros = build.program("YX", "Y", build.copy(part(s), some, zero_fill=True), out)
    with pytest.raises(UnwrittenResultError, match=r"S\[2, 0\] is read"):
        interpret(plain, [data])
    assert (interpret(zeros, [data])["Y"][2:] == 0).all()
    less = build.program("YX", "Y", build.copy(part(s, valid=(1, 4)), some), out)
    with pytest.raises(ExtentError, match=r"of \(1, 4\) cannot take X"):
        interpret(less, [data])


def test_operands_must_fit_each_other(build, part):
    y, x, z = (build.buffer(n, "DRAM", (4, 4)) for n in "YXZ")
    some, data = part(x, (0, 0), (2, 4)), np.ones((4, 4), np.float32)
    move = build.program("YXZ", "Y", build.move(part(y), some))
    with pytest.raises(ExtentError, match=r"cannot take \(2, 4\) in \(4, 4\)"):
        interpret(move, [data, data])
    product = replace(move, body=(build.gemm(part(y), part(x), part(z, (0, 0), (2, 4))),))
    with pytest.raises(ExtentError, match=r"gemm cannot take .*Z.* of \(2, 4\)"):
        interpret(product, [data, data])
    row = Region("X", (Index.of(0), Index.of(axis(0))), (4,), (Index.of(4),))
    fewer = replace(move, body=(build.copy(part(y), row),))
    with pytest.raises(ExtentError, match="cannot take X"):
        interpret(fewer, [data, data])


def test_more_elements_than_a_tile_has(build, part):
    y = build.buffer("Y", "DRAM", (8, 4))
    beyond = part(y, (0, 0), (4, 4), valid=(5, 4))
    with pytest.raises(ExtentError, match="has 5 of 4 elements"):
        interpret(build.program("Y", "Y", build.fill(beyond)), [])


def test_merged_views_stay_inside(build, part):
    """A view whose index is divided is looked at element by element."""
    y, _ = build.buffer("Y", "DRAM", (4,)), build.buffer("X", "DRAM", (2, 2))
    at = Index.of(axis(0))
    flat = Region("X", ((at + 1) // 2, (at + 1) % 2), (4,), (Index.of(4),))
    read = build.program("YX", "Y", build.move(part(y), flat))
    with pytest.raises(OutOfBoundsError, match="is read outside"):
        interpret(read, [np.ones((2, 2), np.float32)])
    written = build.program("YX", "X", build.copy(flat, part(y)))
    with pytest.raises(OutOfBoundsError, match="is written outside"):
        interpret(written, [np.ones(4, np.float32)])


def test_order_of_parallel_iterations_shows_a_race(build, part):
    y, x = build.buffer("Y", "DRAM", (1, 4)), build.buffer("X", "DRAM", (3, 4))
    row = build.move(part(y), part(x, (AT, 0), (1, 4)))
    program = build.program("YX", "Y", build.loop("i", 3, row, kind="parallel"))
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    results = [interpret(program, [data], order=o)["Y"].tolist() for o in ("early", "late")]
    assert results == [data[2:].tolist(), data[:1].tolist()]


# ---- memory


def test_a_plan_that_gives_two_buffers_one_place_shows(build, part):
    y, x = build.buffer("Y", "DRAM", (4, 4)), build.buffer("X", "DRAM", (4, 4))
    p, q = build.buffer("P", "SPM", (4, 4)), build.buffer("Q", "SPM", (4, 4))
    body = [build.copy(part(p), part(x)), build.fill(part(q), 5), build.copy(part(y), part(p))]
    program, data = build.program("YX", "Y", *body), np.ones((4, 4), np.float32)
    apart = (Placement("P", "SPM", 0, 64, 0, 2), Placement("Q", "SPM", 64, 64, 1, 1))
    assert (interpret(replace(program, plan=apart), [data])["Y"] == 1).all()
    same = (apart[0], replace(apart[1], offset_bytes=0))
    assert (interpret(replace(program, plan=same), [data])["Y"] == 5).all()
    beyond = (apart[0], replace(apart[1], offset_bytes=65536))
    with pytest.raises(CapacityError, match="65,600 bytes of SPM, which has 65,536"):
        interpret(replace(program, plan=beyond), [data])


def test_a_layout_must_be_a_bijection(build, part):
    s = build.buffer("S", "SPM", (4,), layout=Layout("column"))
    with pytest.raises(LayoutError):
        interpret(build.program("", "", build.fill(part(s))), [])
    for text in ("panels(1, 4)", "fractal(4, 4)", "padded(3)", "column", "swizzle64"):
        t = build.buffer("S", "SPM", (8, 16), "float16", layout=Layout.parse(text))
        interpret(build.program("", "", build.fill(part(t))), [])


# ---- threads


def test_a_deadlock_says_who_waits_for_what(build, part):
    x, s = build.buffer("X", "DRAM", (4, 4)), build.buffer("S", "SPM", (4, 4), stages=2)
    ring = build.channel("ring", "DMA_IN", 2, s)
    fetch = [build.copy(part(s), part(x), "DMA_IN", ring), build.commit(ring, 0)]
    producer = build.role("producer", *fetch, build.acquire(ring, 2), build.release(ring, 0))
    consumer = build.role("consumer", build.wait(ring, 0), build.wait(ring, 1))
    program = build.program("X", "", producer, consumer)
    with pytest.raises(DeadlockError) as caught:
        interpret(program, [np.zeros((4, 4), np.float32)])
    assert caught.value.message == (
        "deadlock: producer waits for fill 0 of ring to be released; "
        "consumer waits for fill 1 of ring to be committed"
    )
    assert str(caught.value.where) == "toy.py:1"


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_two_consumers_release_every_fill(build, part, order):
    """A slot is free when both have released it."""
    b, steps = build, 6
    y, z, x = (b.buffer(n, "DRAM", (steps, 4)) for n in "YZX")
    s = b.buffer("S", "SPM", (1, 4), stages=2)
    ring = b.channel("ring", "DMA_IN", 2, s)

    def index(name):
        return Index.of(Var(name))

    i = index("i")
    fetch = b.loop(
        "i", steps, b.acquire(ring, i),
        b.copy(part(s, stage=i % 2), part(x, (i, 0), (1, 4)), "DMA_IN", ring), b.commit(ring, i),
    )  # fmt: skip

    def use(name, out):
        n = index(name)
        target = part(out, (n, 0), (1, 4))
        return b.loop(
            name, steps, b.wait(ring, n), b.copy(target, part(s, stage=n % 2)), b.release(ring, n)
        )

    roles = [b.role("producer", fetch), b.role("one", use("j", y)), b.role("two", use("k", z))]
    program = b.program("YZX", "YZ", *roles)
    verify(program)
    data = np.arange(24, dtype=np.float32).reshape(steps, 4)
    result = interpret(program, [data], order=order)
    assert np.array_equal(result["Y"], data)
    assert np.array_equal(result["Z"], data)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_barrier_lets_iterations_exchange(build, part, order):
    """Each lane writes a row, then reads its neighbour's."""
    b = build
    y, x, s = (
        b.buffer("Y", "DRAM", (4, 4)),
        b.buffer("X", "DRAM", (4, 4)),
        b.buffer("S", "SPM", (4, 4)),
    )
    row = b.copy(part(s, (AT, 0), (1, 4)), part(x, (AT, 0), (1, 4)))
    other = b.copy(part(y, (AT, 0), (1, 4)), part(s, ((AT + 1) % 4, 0), (1, 4), valid=(1, 4)))
    row, other = (replace(n, processor="LANE") for n in (row, other))
    barrier = Barrier("LANE", row.origin)
    lanes = b.loop("i", 4, row, barrier, other, kind="parallel", over="LANE")
    program = b.program("YX", "Y", lanes)
    data = np.arange(16, dtype=np.float32).reshape(4, 4)
    verify(program)
    assert np.array_equal(interpret(program, [data], order=order)["Y"], np.roll(data, -1, 0))
    without = replace(program, body=(replace(lanes, body=(row, other)),))
    with pytest.raises(LoopRaceError):
        verify(without)


def test_an_order_is_early_late_or_a_seed(programs):
    with pytest.raises(WrongArgumentError, match="'early', 'late' or a seed"):
        interpret(programs.plain_gemm(), operands(20, 12, 40), order="soon")


@pytest.mark.usefixtures("without_hip")
def test_a_machine_without_a_code_generator_interprets_a_kernel_of_given_shapes():
    """Only a call needs code; arrays on the host are enough for what runs on NumPy."""
    kernel = septran.compile("gemm", "amd-mi300x", shapes={"M": 16, "N": 32, "K": 32})
    a, b = (np.arange(32 * rows, dtype=np.float32).reshape(rows, 32) % 5 for rows in (16, 32))
    assert np.array_equal(kernel.interpret(a, b), a @ b)
    assert np.array_equal(kernel.reference(a, b), a.astype(np.float64) @ b)
    with pytest.raises(NoTargetError):
        _ = kernel.stages.executable


@pytest.mark.usefixtures("without_hip")
def test_a_call_without_a_code_generator_says_so_and_asks_for_no_gpu():
    kernel = septran.compile("gemm", "amd-mi300x", shapes={"M": 16, "N": 32, "K": 32})
    a, b = np.ones((16, 32), np.float16), np.ones((32, 32), np.float16)
    with pytest.raises(NoTargetError):
        kernel(a, b)

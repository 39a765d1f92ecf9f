"""The model of machines with caches: where data is found, what waits for what, and its limits."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

import septran
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.machine.model import Engine, Instruction, Machine, Memory, Processor
from septran.tile.nodes import Buffer, Compute, Copy, For, Origin, Region, TileProgram
from septran.tuning.cache_model import CacheModel, registers
from septran.tuning.model import CACHE_NOTES, predict
from septran.tuning.operations import rate_of
from septran.tuning.reuse import steps_of

WHY = Origin("t", "t", None, None, "a test")
MB = 1 << 20
CPU = Machine(
    "toy", "cpu", clock_mhz=1000.0,
    processors=(Processor("HOST"), Processor("CORE", 4, "HOST")),
    memories=(
        Memory("DRAM", "HOST", None, 4e9, unit_bytes_per_second=2e9),
        Memory("L3", "HOST", 16 * MB, 40e9, unit_bytes_per_second=10e9, cached=True),
        Memory("L2", "CORE", MB, 50e9, cached=True),
        Memory("L1", "CORE", 32 << 10, 200e9, cached=True),
    ),
    engines=(Engine("load_store", (("DRAM", "L2"), ("L2", "DRAM"))),),
    instructions=(
        Instruction("fma", "gemm", throughput=16.0), Instruction("alu", "map", throughput=16.0),
    ),
)  # fmt: skip


def region(name, shape):
    view = View.whole(name, shape)
    return Region(name, view.index, view.shape, view.valid)


def add(rows, columns, function="negative"):
    """Y = f(X)."""
    shape = (rows, columns)
    value = ex.unary(function, ex.Load(region("X", shape), "float32"))
    operands = (region("Y", shape), region("X", shape))
    return Compute("map", operands, "alu", "CORE", WHY, expression=value)


def program(*body, on=CPU, outputs=(), **buffers):
    made = tuple(Buffer(n, "DRAM", shape, "float32") for n, shape in buffers.items())
    return TileProgram("t", on, tuple(buffers), outputs, (), made, body)


def loop(count, *body, kind="sequential", processor=None, name="i"):
    return For(Var(name), Index.of(count), kind, processor, body, WHY)


def mapped(rows, columns, times=1, on=CPU, function="negative"):
    """`times` times Y = f(X) of that size."""
    shape = (rows, columns)
    return program(loop(times, add(rows, columns, function)), on=on, Y=shape, X=shape)


def amounts(prediction):
    return {limit.name: limit.amount for limit in prediction.limits}


def on(machine, **changes):
    """The machine with changed figures of its memories, by name."""
    memories = tuple(
        replace(m, **{k: v for k, v in changes.get(m.name, {}).items()}) for m in machine.memories
    )
    return replace(machine, memories=memories)


# ------------------------------------------------------------ where data is found
@pytest.mark.parametrize(
    ("rows", "level"), [(16, "L1"), (512, "L2"), (8192, "L3"), (1 << 20, "DRAM")]
)
def test_data_is_found_in_the_smallest_cache_that_holds_what_is_touched_between(rows, level):
    size = rows * 64 * 4
    found = amounts(predict(mapped(rows, 64, times=3)))
    outer = [n for n in ("L2", "L3", "DRAM") if f"{n} -> compute" in found]
    assert outer == ([level] if level != "L1" else [])
    if outer:
        assert found[f"{level} -> compute"] == pytest.approx(3 * size)
        assert found[f"compute -> {level}"] == pytest.approx(3 * size)


def test_what_is_touched_in_between_pushes_data_out():
    """X alone fits L2; with as much of another tensor touched between, it does not."""
    shape = (2048, 64)  # 512 KiB
    other = Compute(
        "map", (region("Z", (8192, 64)),), "alu", "CORE", WHY,
        expression=ex.Constant(0.0, "float32", (8192, 64), tuple(map(Index.of, (8192, 64)))),
    )  # fmt: skip
    copy = Copy(region("Y", shape), region("X", shape), "load_store", "CORE", WHY)
    alone = predict(program(loop(4, copy), Y=(1024, 64), X=(1024, 64)))
    beside = predict(program(loop(4, copy, other), Y=shape, X=shape, Z=(8192, 64)))
    assert "L3 -> compute" not in amounts(alone)
    assert amounts(beside)["L3 -> compute"] == pytest.approx(4 * 2048 * 64 * 4)


@pytest.mark.parametrize("operator", ["gemm", "softmax", "attention", "conv2d_nhwc", "reduce"])
def test_every_byte_that_is_used_is_found_somewhere(operator):
    """The distances of all uses together are as many bytes as the calls use."""
    model = CacheModel(septran.produce_stages(operator, "cpu-x86").tile_program)
    for step, around in steps_of(model.tree):
        calls = math.prod(model.trip_counts[x.variable] for x in step.loops)
        for node in step.nodes:
            for operand in (*node.operands,) if isinstance(node, Compute) else (node.source,):
                uses = list(model.reuse.uses(operand, step, around))
                each = model.reuse.size(operand, ())
                assert sum(use.size for use in uses) == pytest.approx(calls * each)
                assert all(use.size >= 0 and use.distance >= 0 for use in uses)


def test_outputs_past_the_caches_have_a_rate_of_their_own():
    shape = (1 << 17, 64)  # 32 MiB
    node = add(*shape)
    plain = program(node, outputs=("Y",), Y=shape, X=shape)
    slow = predict(plain)
    quick = on(CPU, DRAM={"stream_bytes_per_second": 8e9})
    streamed = predict(replace(plain, machine=quick))
    wanted = {"compute -> DRAM"}
    before, after = (
        next(x.seconds for x in p.limits if x.name in wanted) for p in (slow, streamed)
    )
    assert after < before


# ------------------------------------------------------------ time
def test_half_of_the_shorter_of_instructions_and_data_is_hidden():
    found = predict(mapped(1 << 20, 64))
    compute = next(x.seconds for x in found.limits if x.kind == "compute")
    line = sum(x.seconds for x in found.limits if "L1" in x.name)
    data = sum(x.seconds for x in found.limits if "DRAM" in x.name)
    busy = max(compute, line)
    assert found.seconds == pytest.approx(max(busy, data) + 0.5 * min(busy, data))
    assert found.seconds <= found.without_overlap
    assert found.notes == CACHE_NOTES


def test_what_a_function_costs_counts():
    dear = replace(CPU.instruction("alu"), costs={"exp": 100.0})
    machine = replace(CPU, instructions=(CPU.instructions[0], dear))
    plain, slow = (
        predict(mapped(64, 64, function="exp", on=machine)) for machine in (CPU, machine)
    )
    computed = [next(x.amount for x in p.limits if x.kind == "compute") for p in (plain, slow)]
    assert computed[1] == pytest.approx(100 / 8 * computed[0])


def computing(operator, shapes, **static):
    """Seconds of the vector unit, of a prediction for the toy's clock and rates."""
    stages = septran.produce_stages(operator, "cpu-x86", shapes=shapes, static=static)
    return sum(x.seconds for x in predict(stages.tile_program).limits if x.kind == "compute")


def test_an_operator_that_exchanges_axes_turns_blocks_in_registers():
    shapes = {"A": 8, "B": 64, "C": 64, "D": 64}
    along = computing("permute", shapes, order=(1, 0, 2, 3))
    across = computing("permute", shapes, order=(0, 1, 3, 2))
    machine = septran.load_machine("cpu-x86")
    rate = rate_of(machine, machine.instruction("vector"), "float32")
    each = math.log2(registers(machine).bytes // 4) / rate
    units = machine.processors[1].count
    assert across - along == pytest.approx(8 * 64**3 * each / units, rel=0.01)


def moved(function=None):
    """Y = X.T, or a function of it, of 64 by 64 elements."""
    across = region("X", (64, 64))
    across = replace(across, index=across.index[::-1])
    value = ex.Load(across, "float32")
    value = ex.unary(function, value) if function else value
    operands = (region("Y", (64, 64)), across)
    node = Compute("map", operands, "alu", "CORE", WHY, expression=value)
    return predict(program(node, Y=(64, 64), X=(64, 64)))


def busy(prediction):
    [compute] = (limit.seconds for limit in prediction.limits if limit.kind == "compute")
    return compute


def test_elements_that_only_change_places_are_turned_in_registers():
    # Sixteen vectors in four steps; what is computed with is gathered, two cycles an element.
    assert busy(moved()) == pytest.approx(64 * 64 / 16 * 4 / 1e9)
    assert busy(moved("negative")) == pytest.approx(64 * 64 * (2 + 1 / 16) / 1e9)


@pytest.mark.parametrize(("axis", "steps"), [(1, 2 * 4 + 2), (0, 1)])
def test_a_scan_takes_some_steps_a_vector(axis, steps):
    operands = (region("Y", (64, 64)), region("X", (64, 64)))
    node = Compute("scan", operands, "alu", "CORE", WHY, attributes=(("axis", axis),))
    found = predict(program(node, Y=(64, 64), X=(64, 64)))
    assert busy(found) == pytest.approx(64 * 64 / 16 * steps / 1e9)


def test_vectors_go_along_the_windows_that_are_reduced_not_in_them():
    """Windows of 6 x 6 are four times the work of 3 x 3, though no vector is as short as either."""
    shapes = {"B": 1, "C": 64, "H": 112, "W": 112}
    small, large = (computing("pool2d", shapes, size=size, stride=1) for size in (3, 6))
    assert 3 < large / small < 5


def product(rows, columns, steps, dtype="float32", *, transposed=False):
    """C = A @ B, or A @ B.T."""
    shapes = {"C": (rows, columns), "A": (rows, steps), "B": (steps, columns)}
    operands = [region(name, shape) for name, shape in shapes.items()]
    if transposed:
        shapes["B"] = shapes["B"][::-1]
        operands[2] = replace(operands[2], index=operands[2].index[::-1])
    made = tuple(Buffer(n, "DRAM", s, "float32" if n == "C" else dtype) for n, s in shapes.items())
    node = Compute("gemm", tuple(operands), "fma", "CORE", WHY)
    return TileProgram("t", CPU, tuple(shapes), ("C",), (), made, (node,))


def test_rows_along_the_sum_are_multiplied_one_by_one():
    steps, vector = 8192, 64
    across = amounts(predict(product(4, 16, steps)))
    along = amounts(predict(product(4, 16, steps, transposed=True)))
    # Of each row and column a vector of B, and of A one for sixteen columns.
    assert along["L1 -> compute"] == 4 * 17 * (steps // 16) * vector
    assert across["L1 -> compute"] == (1 + 4) * steps * vector
    # The rows behind the first one find B where it was left: 512 KiB, in L2.
    size = 16 * steps * 4
    assert along["L2 -> compute"] - across["L2 -> compute"] == 3 * size


@pytest.mark.parametrize(("transposed", "widened"), [(True, 4 * 17), (False, 16 * (4 + 1))])
def test_floats_of_16_bits_are_widened_before_they_are_multiplied(transposed, widened):
    def seconds(dtype):
        return busy(predict(product(4, 16, 256, dtype, transposed=transposed)))

    # Along the sum a vector for sixteen steps, across it one of B and four elements of A a step.
    # 32 operations a cycle are a vector's multiply-adds.
    assert seconds("float16") - seconds("float32") == pytest.approx(widened * 16 / 1e9)


def test_what_occurs_again_is_computed_once():
    value = ex.unary("exp", ex.Load(region("X", (64, 64)), "float32"))
    operands = (region("Y", (64, 64)), region("X", (64, 64)))
    twice, thrice = (
        Compute("map", operands, "alu", "CORE", WHY, expression=one)
        for one in (ex.binary("add", value, value), value)
    )
    counts = [
        next(x.amount for x in predict(program(n, Y=(64, 64), X=(64, 64))).limits
             if x.kind == "compute")
        for n in (twice, thrice)
    ]  # fmt: skip
    assert counts[0] == pytest.approx(counts[1] * 9 / 8)  # and an addition


@pytest.mark.parametrize(("sign", "operations"), [(128, 1), (64, 2 + 1 / 4)])
def test_a_sign_that_is_extended_by_arithmetic_is_a_single_move(sign, operations):
    byte = ex.binary("xor", ex.Load(region("X", (64, 64)), "uint8"), ex.Constant(sign, "uint8"))
    value = ex.binary("subtract", ex.Cast(byte, "int32"), ex.Constant(sign, "int32"))
    operands = (region("Y", (64, 64)), region("X", (64, 64)))
    node = Compute("map", operands, "alu", "CORE", WHY, expression=value)
    found = predict(program(node, Y=(64, 64), X=(64, 64)))
    assert busy(found) == pytest.approx(64 * 64 / 16 * operations / 1e9)


def test_sections_that_a_call_tells_are_taken_for_equal_ones():
    """Each of them reads the matrix of its own; in the first alone only one would be read."""
    shapes = {"T": 512, "E": 8, "N": 512, "K": 512}
    found = septran.explain("grouped_gemm", "cpu-x86", shapes=shapes).prediction
    products = sum(x.amount for x in found.limits if x.kind == "compute" and "fma" in x.name)
    assert products == pytest.approx(2 * 512 * 512 * 512)
    read = sum(x.amount for x in found.limits if x.name in ("L3 -> compute", "DRAM -> compute"))
    assert read > 8 * 512 * 512 * 4
    assert any("sections of one length" in note for note in found.notes)


def test_calls_and_loops_over_cores_take_time_to_start():
    machine = replace(
        CPU, processors=(Processor("HOST", launch_ns=2000), Processor("CORE", 4, "HOST", "", 5000))
    )
    body = loop(8, add(4096, 64), kind="parallel", processor="CORE")
    shape = (4096, 64)
    shared = program(body, on=machine, Y=shape, X=shape)
    quick = predict(replace(shared, machine=CPU))
    found = predict(shared)
    assert found.seconds == pytest.approx(quick.seconds + 7e-6)
    assert (found.units_used, found.units) == (4, 4)
    little = program(loop(8, add(4, 64), kind="parallel", processor="CORE"), on=machine,
                     Y=(4, 64), X=(4, 64))  # fmt: skip
    assert "CORE" not in amounts(predict(little))  # the code generator keeps it on one core


def test_a_machine_without_figures_says_so():
    bare = on(CPU, DRAM={"bytes_per_second": None})
    found = predict(mapped(1 << 20, 64, on=bare))
    assert "no figure for the bandwidth of DRAM: left out" in found.notes


RATES = (
    "bytes_per_second", "write_bytes_per_second", "stream_bytes_per_second",
    "unit_bytes_per_second",
)  # fmt: skip
OPERATORS = ("gemm", "softmax", "attention", "conv2d_nhwc", "dequant_gemm", "rms_norm")


@pytest.fixture(scope="module")
def programs():
    return {name: septran.produce_stages(name, "cpu-x86").tile_program for name in OPERATORS}


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_faster_memory_or_instruction_makes_a_program_slower(programs, operator):
    given = programs[operator]
    before = predict(given).seconds
    assert before > 0
    for memory in given.machine.memories:
        rates = {name: 2 * rate for name in RATES if (rate := getattr(memory, name))}
        # Not the reads of all cores alone: of one core the file has reads only, and it is taken to
        # write as much slower than that as all of them do.
        alone = [{name: rate} for name, rate in rates.items() if name != "bytes_per_second"]
        for faster in (rates, *alone):
            machine = on(given.machine, **{memory.name: faster})
            assert predict(replace(given, machine=machine)).seconds <= before
        larger = {memory.name: {"capacity_bytes": 4 * (memory.capacity_bytes or 1)}}
        if memory.cached:
            machine = on(given.machine, **larger)
            assert predict(replace(given, machine=machine)).seconds <= before * (1 + 1e-9)
    faster = tuple(
        replace(i, throughput=i.throughput and 2 * i.throughput) for i in given.machine.instructions
    )
    assert (
        predict(replace(given, machine=replace(given.machine, instructions=faster))).seconds
        < before
    )


@pytest.mark.parametrize("operator", OPERATORS)
def test_more_cores_are_not_slower(programs, operator):
    given = programs[operator]
    host, core = given.machine.processors
    times = []
    for count in (1, 2, 4, 8):
        machine = replace(given.machine, processors=(host, replace(core, count=count)))
        times.append(predict(replace(given, machine=machine)).seconds)
    assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(times)), times


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_resource_is_busy_for_longer_than_the_whole(programs, operator):
    found = predict(programs[operator])
    assert all(0 < limit.seconds <= found.seconds * (1 + 1e-9) for limit in found.limits)
    assert found.seconds <= found.without_overlap


# ------------------------------------------------------------ the benchmark's column
def test_the_benchmark_says_how_near_the_prediction_is(capsys):
    pytest.importorskip("torch")
    from benchmarks.cpu import _print_predictions
    from benchmarks.cpu_case import near, predicted_seconds

    assert [near(x) for x in (0.66, 0.67, 1.0, 1.5, 1.51)] == [False, True, True, True, False]
    _print_predictions([("a", 1.0), ("a", 4.0), ("b", 1.0)])
    lines = capsys.readouterr().out.splitlines()
    assert "| a | 2 | 50% | 2.00 | 1.00 | 4.00 |" in lines
    assert "| all | 3 | 67% | 1.59 | 1.00 | 4.00 |" in lines
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 512, "N": 512, "K": 512})
    assert predicted_seconds(kernel, 1) > 1.5 * predicted_seconds(kernel, 2)

"""The performance model: times follow from the machine's figures by hand arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

import septran
from septran.ir import expressions as ex
from septran.ir.index import Index, Var, ceil_div
from septran.ir.views import View
from septran.machine.model import Engine, Instruction, Machine, Memory, Processor
from septran.tile.nodes import Buffer, Compute, Copy, For, Origin, Region, TileProgram
from septran.tuning.model import predict
from septran.tuning.operations import COSTLY_STEPS

WHY = Origin("t", "t", None, None, "a test")
GPU = Machine(
    "toy", "cuda", clock_mhz=1000.0,
    processors=(Processor("HOST"), Processor("BLOCK", 4, "HOST")),
    memories=(Memory("GLOBAL", "HOST", None, 1e9), Memory("SHARED", "BLOCK", None, 8e9)),
    engines=(Engine("dma", (("GLOBAL", "SHARED"),), bytes_per_cycle=2.0),),
    instructions=(
        Instruction("mma", "gemm", throughput=100.0, tile=(16, 16, 16)),
        Instruction("fma", "gemm", throughput=100.0),
        Instruction("alu", "map", throughput=10.0),
    ),
)  # fmt: skip


def region(name, shape):
    view = View.whole(name, shape)
    return Region(name, view.index, view.shape, view.valid)


def program(*body, on=GPU, **buffers):
    made = tuple(Buffer(n, m, shape, dtype) for n, (m, shape, dtype) in buffers.items())
    return TileProgram("t", on, (), (), (), made, body)


def blocks(count, *body):
    return For(Var("i"), Index.of(count), "parallel", "BLOCK", body, WHY)


def gemm(instruction="mma", n=16):
    operands = (region("C", (n, n)), region("A", (n, n)), region("B", (n, n)))
    return Compute("gemm", operands, instruction, "BLOCK", WHY, accumulates=True)


def square(dtype="float32", memory="SHARED", n=16):
    return {name: (memory, (n, n), dtype) for name in "CAB"}


def seconds(prediction, name):
    return next(limit.seconds for limit in prediction.limits if limit.name == name)


@pytest.mark.parametrize(("count", "waves"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_parallel_work_is_done_in_whole_waves(count, waves):
    found = predict(program(blocks(count, gemm()), **square()))
    one = 2 * 16**3 / (100 * 2 * 1e9)
    assert seconds(found, "mma") == pytest.approx(one * waves)
    assert found.units_used == min(4, count)
    assert found.units == 4


def test_wide_elements_are_slower_on_vector_units_only():
    narrow = predict(program(gemm("fma"), **square()))
    wide = predict(program(gemm("fma"), **square("float64")))
    assert seconds(wide, "fma") == pytest.approx(2 * seconds(narrow, "fma"))
    matrix = predict(program(gemm("mma"), **square("float64")))
    assert seconds(matrix, "mma") == pytest.approx(seconds(narrow, "fma"))


def test_a_shared_memory_is_shared_by_all_units():
    copy = Copy(region("S", (64, 64)), region("G", (64, 64)), "dma", "BLOCK", WHY)
    buffers = {"S": ("SHARED", (64, 64), "float32"), "G": ("GLOBAL", (64, 64), "float32")}
    one, eight = (predict(program(blocks(n, copy), **buffers)) for n in (1, 8))
    size = 64 * 64 * 4
    # One block draws what its engine gives, 2 bytes a cycle; eight want more than GLOBAL has.
    assert seconds(one, "GLOBAL -> SHARED") == pytest.approx(size / 1e9)
    assert seconds(eight, "GLOBAL -> SHARED") == pytest.approx(8 * size / 1e9)
    assert eight.bytes_moved == 8 * size


def test_the_busiest_resource_bounds_and_the_sum_is_the_other_end():
    copy = Copy(region("A", (16, 16)), region("G", (16, 16)), "dma", "BLOCK", WHY)
    buffers = square() | {"G": ("GLOBAL", (16, 16), "float32")}
    found = predict(program(copy, gemm(), **buffers))
    assert found.bound_by.name == "GLOBAL -> SHARED"
    assert found.seconds == found.limits[0].seconds
    steps = [limit.seconds for limit in found.limits if limit.kind != "memory"]
    assert found.without_overlap == pytest.approx(sum(steps))
    assert found.operations == 2 * 16**3


def test_copies_out_are_named_in_their_direction():
    copy = Copy(region("G", (16, 16)), region("S", (16, 16)), "dma", "BLOCK", WHY)
    buffers = {"S": ("SHARED", (16, 16), "float32"), "G": ("GLOBAL", (16, 16), "float32")}
    found = predict(program(copy, **buffers))
    assert [limit.name for limit in found.limits] == ["SHARED -> GLOBAL"]


def moved(source, target, on=GPU, **buffers):
    copy = Copy(region(target, (64, 64)), region(source, (64, 64)), "dma", "BLOCK", WHY)
    made = {name: (memory, (64, 64), "float32") for name, memory in buffers.items()}
    return predict(program(copy, on=replace(on, engines=(Engine("dma", ()),)), **made))


def test_a_copy_within_a_memory_takes_its_bandwidth_twice():
    found = moved("G", "H", G="GLOBAL", H="GLOBAL")
    assert found.seconds == pytest.approx(2 * 64 * 64 * 4 / 1e9)
    assert found.bytes_moved == 64 * 64 * 4


def memory(name, **changes):
    """The machine with one memory changed."""
    kept = (replace(m, **changes) if m.name == name else m for m in GPU.memories)
    return replace(GPU, memories=tuple(kept))


def through(on=GPU):
    """Read a tensor into SHARED and write another one from there."""
    into = Copy(region("S", (64, 64)), region("G", (64, 64)), "dma", "BLOCK", WHY)
    out = Copy(region("H", (64, 64)), region("S", (64, 64)), "dma", "BLOCK", WHY)
    buffers = {"S": "SHARED", "G": "GLOBAL", "H": "GLOBAL"}
    made = {name: (memory, (64, 64), "float32") for name, memory in buffers.items()}
    on = replace(on, engines=(Engine("dma", ()),))
    return predict(program(into, out, on=on, **made))


def test_reads_and_writes_share_a_memory():
    size = 64 * 64 * 4
    found = through()
    assert (found.bound_by.kind, found.bound_by.name) == ("memory", "GLOBAL")
    assert found.seconds == pytest.approx(2 * size / 1e9)
    # A memory is busy while the edges at it are, which counts them once.
    assert found.bytes_moved == found.bound_by.amount == 2 * size
    assert found.without_overlap == pytest.approx(2 * size / 1e9)


def test_stores_that_are_slower_take_longer():
    size = 64 * 64 * 4
    found = through(memory("GLOBAL", write_bytes_per_second=0.5e9))
    assert seconds(found, "SHARED -> GLOBAL") == pytest.approx(size / 0.5e9)
    assert found.seconds == pytest.approx(size / 1e9 + size / 0.5e9)


def test_a_memory_may_say_that_reads_and_writes_go_beside_each_other():
    found = through(memory("GLOBAL", duplex=True))
    assert found.seconds == pytest.approx(64 * 64 * 4 / 1e9)
    within = moved("G", "H", memory("GLOBAL", duplex=True), G="GLOBAL", H="GLOBAL")
    assert within.seconds == pytest.approx(64 * 64 * 4 / 1e9)


@pytest.mark.parametrize("machine", ["nvidia-a100", "nvidia-h200"])
def test_rows_take_as_long_as_a_copy_of_them(machine):
    """Softmax reads its rows twice, of which a cache answers the second time, and writes them."""
    shapes = {"M": 16384, "N": 4096}
    found = septran.explain("softmax", machine, shapes=shapes, dtypes="float16").prediction
    main = septran.load_machine(machine).main_memory
    assert found.bound_by.name == main.name
    assert found.seconds == pytest.approx(2 * 16384 * 4096 * 2 / main.bytes_per_second)


def test_a_cache_of_main_memory_answers_no_reads_of_another():
    """Each block reads its own tiles of A and B from its shared memory."""
    shapes = {"M": 1024, "N": 1024, "K": 512}
    explained = septran.explain("gemm", "nvidia-h200", shapes=shapes, dtypes="float16")
    amounts = {limit.name: limit.amount for limit in explained.prediction.limits}
    assert amounts["SHARED -> compute"] >= amounts["GLOBAL -> SHARED"]


def test_expressions_count_every_operation_and_costly_ones_more():
    x = ex.Load(region("X", (8, 8)), "float32")
    value = ex.unary("exp", ex.binary("add", x, x))
    node = Compute(
        "map", (region("Y", (8, 8)), region("X", (8, 8))), "alu", "BLOCK", WHY, expression=value
    )
    buffers = {n: ("SHARED", (8, 8), "float32") for n in "XY"}
    found = predict(program(node, **buffers))
    assert found.operations == 64 * (1 + COSTLY_STEPS)
    assert seconds(found, "alu") == pytest.approx(64 * (1 + COSTLY_STEPS) / 10e9)


def test_loops_that_depend_on_outer_ones_count_at_their_greatest_extent():
    inner = For(Var("j"), Index.of(Var("i")) + 1, "sequential", None, (gemm(),), WHY)
    found = predict(program(blocks(4, inner), **square()))
    assert found.operations == 4 * 4 * 2 * 16**3


def test_a_loop_over_nothing_costs_nothing():
    found = predict(program(blocks(0, gemm()), **square()))
    assert found.seconds == 0.0
    ceil = For(Var("i"), ceil_div(0, 32), "parallel", "BLOCK", (gemm(),), WHY)
    assert predict(program(ceil, **square())).seconds == 0.0


def test_figures_that_the_machine_does_not_give_are_named():
    on = replace(GPU, instructions=(Instruction("mma", "gemm"),))
    found = predict(program(gemm(), on=on, **square()))
    assert "no figure for the throughput of mma: left out" in found.notes
    assert found.bound_by is not None  # SHARED -> compute


def test_an_empty_program_has_no_limit():
    found = predict(program())
    assert (found.bound_by, found.seconds) == (None, 0.0)


@pytest.mark.parametrize("operator", ["gemm", "softmax"])
def test_a_machine_that_counts_cycles_has_one_prediction(operator):
    import septran

    program = septran.produce_stages(operator, "dsa-sim").tile_program
    found = predict(program)
    assert found.cycles is not None
    assert found.seconds == found.cycles / (program.machine.clock_mhz * 1e6)
    assert found.bound_by.name == found.bound.by.name
    assert found.bound_by.seconds == found.seconds <= found.without_overlap


@pytest.mark.parametrize("operator", ["embedding", "paged_attention"])
@pytest.mark.parametrize(
    "machine", ["cpu-x86", "cpu-arm", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200"]
)
def test_programs_whose_data_choose_rows_are_predicted_as_supposed(operator, machine):
    found = septran.explain(operator, machine).prediction
    assert found.seconds > 0
    assert any(note.startswith("supposing that") for note in found.notes)

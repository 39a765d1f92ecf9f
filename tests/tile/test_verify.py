"""What is wrong with a tile program is found, by class, with its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran.errors import Errors
from septran.ir.atoms import CallExtent, Element
from septran.ir.index import Index, Var, axis, ceil_div, minimum
from septran.location import Location
from septran.machine.model import Instruction
from septran.tile.analyses.indirect import index_reads
from septran.tile.analyses.scopes import blocks
from septran.tile.interpret.channel_state import ProtocolError
from septran.tile.interpret.storage import CapacityError, ExtentError, OutOfBoundsError
from septran.tile.layouts import Layout
from septran.tile.nodes import Origin, Region
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.passes.schedule.pipeline_loops import pipeline_loops
from septran.tile.records import Placement
from septran.tile.verify.bijection import LayoutError
from septran.tile.verify.names import MissingOriginError, UnknownNodeNameError, UnwrittenBufferError
from septran.tile.verify.places import (
    ClusterError,
    EngineError,
    PlacementError,
    PrivateMemoryError,
    ProcessorError,
)
from septran.tile.verify.races import LoopRaceError, check_races
from septran.tile.verify.sync import OrderError
from septran.tile.verify.verifier import verify

AT = Index.of(Var("i"))


@pytest.fixture
def tensors(build):
    """Y and X of 20 rows of 8 in main memory."""
    return build.buffer("Y", "DRAM", (20, 8)), build.buffer("X", "DRAM", (20, 8))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.one_in(2)
def test_correct_programs_pass(programs, full):
    verify(programs.plain_gemm(), full=full)
    verify(programs.roles_gemm(2, 400), full=full)
    for pipeline in (1, 2, 3, 4, 7):
        for outer in (1, 2):
            for k in (1, 8, 24, 40, 400):
                program = programs.unpipelined_gemm(k=k, pipeline=pipeline, outer=outer)
                verify(insert_sync(pipeline_loops(program)), full=full)


# ---- names and origins


def test_unknown_buffer(build, part, tensors):
    y, x = tensors
    program = build.program("YX", "Y", build.move(part(y), part(replace(x, name="Z"))))
    with pytest.raises(UnknownNodeNameError, match="Compute names buffer 'Z'"):
        verify(program)


def test_unknown_channel(build, part, tensors):
    y, x = tensors
    wait = replace(build.wait(build.channel("ring", "DMA_IN", 2), 0), channel="rang")
    with pytest.raises(UnknownNodeNameError, match="did you mean 'ring'"):
        verify(build.program("YX", "Y", wait, build.move(part(y), part(x))))


def test_unknown_loop_index(build, part, tensors):
    y, x = tensors
    move = build.move(part(y, (AT, 0), (1, 8)), part(x, (AT, 0), (1, 8)))
    with pytest.raises(UnknownNodeNameError, match="loop index 'i'"):
        verify(build.program("YX", "Y", move))


def test_node_without_a_rule(build, part, tensors):
    y, x = tensors
    move = replace(build.move(part(y), part(x)), origin=Origin("t", "t", None, None, ""))
    with pytest.raises(MissingOriginError):
        verify(build.program("YX", "Y", move))


def test_reading_what_nobody_wrote(build, part, tensors):
    s = build.buffer("S", "SPM", (20, 8))
    program = build.program("YX", "Y", build.copy(part(tensors[0]), part(s)))
    with pytest.raises(UnwrittenBufferError, match="S is read before anything is written to it"):
        verify(program)


def test_all_mistakes_are_told_at_once(build, part, tensors):
    y, x = tensors
    body = [build.move(part(y), part(replace(x, name=n))) for n in ("P", "Q")]
    with pytest.raises(Errors) as caught:
        verify(build.program("YX", "Y", *body))
    assert len(caught.value.errors) == 2


# ---- regions


def test_tile_beyond_the_edge(build, part, tensors):
    """20 rows in tiles of 8 whose last is not clipped."""
    _, x = tensors
    tile = replace(part(x, (AT * 8, 0), (8, 8)), valid=(Index.of(8), Index.of(8)))
    s = build.buffer("S", "SPM", (8, 8))
    program = build.program("YX", "", build.loop("i", 3, build.copy(part(s), tile)))
    with pytest.raises(OutOfBoundsError, match="reaches from 16 to 23 along axis 0 of X") as caught:
        verify(program)
    assert str(caught.value.where) == "toy.py:1"
    assert "X is copied to S" in str(caught.value)


def test_clipped_tiles_are_inside(build, part, tensors):
    _, x = tensors
    s = build.buffer("S", "SPM", (8, 8))
    tile = part(x, (AT * 8, 0), (8, 8))
    program = build.program(
        "YX", "", build.loop("i", 3, build.copy(part(s, valid=tile.valid), tile))
    )
    verify(program)


def test_merged_axes_are_enumerated(build, part, tensors):
    """Row ``i % 4 + 4*(i // 4)`` is row i: intervals alone would allow 23."""
    s = build.buffer("S", "SPM", (1, 8))
    tile = Region(
        "X",
        (AT % 4 + (AT // 4) * 4 + axis(0), Index.of(axis(1))),
        (1, 8),
        (Index.of(1), Index.of(8)),
    )
    good = build.program("YX", "", build.loop("i", 18, build.copy(part(s), tile)))
    verify(good)
    bad = replace(good, body=(replace(good.body[0], extent=Index.of(21)),))
    with pytest.raises(OutOfBoundsError, match="20"):
        verify(bad)


def test_stage_that_there_is_not(build, part, tensors):
    _, x = tensors
    s = build.buffer("S", "SPM", (20, 8), stages=2)
    program = build.program("YX", "", build.loop("i", 3, build.copy(part(s, stage=AT), part(x))))
    with pytest.raises(OutOfBoundsError, match="names stage 2 of 2"):
        verify(program)


def test_more_elements_than_nominal(build, part, tensors):
    _, x = tensors
    s = build.buffer("S", "SPM", (8, 8))
    tile = replace(part(x, (0, 0), (8, 8)), valid=(Index.of(9), Index.of(8)))
    with pytest.raises(ExtentError):
        verify(build.program("YX", "", build.copy(part(s), tile)))


def test_padded_reads_may_leave(build, part, tensors):
    y, x = tensors
    window = Region(
        "X", (Index.of(axis(0)) - 1, Index.of(axis(1))), (20, 8), part(x).valid, padded=True
    )
    verify(build.program("YX", "Y", build.move(part(y), window)))
    bare = replace(window, padded=False)
    with pytest.raises(OutOfBoundsError, match="reaches from -1"):
        verify(build.program("YX", "Y", build.move(part(y), bare)))


# ---- places


def test_capacity_with_a_table(build, part, tensors):
    big, small = build.buffer("Big", "SPM", (128, 128)), build.buffer("Small", "SPM", (20, 8))
    y, x = tensors
    program = build.program(
        "YX", "Y", build.fill(part(big)), build.copy(part(small), part(x)),
        build.copy(part(y), part(small)), build.fill(part(big)),
    )  # fmt: skip
    message = "SPM needs 66,176 bytes and has 65,536: Big: 65,536 bytes, Small: 640 bytes"
    with pytest.raises(CapacityError, match=message):
        verify(program)
    cached = tuple(replace(m, cached=m.name == "SPM") for m in program.machine.memories)
    verify(replace(program, machine=replace(program.machine, memories=cached)))


def test_stages_count_towards_capacity(build, part, tensors):
    s = build.buffer("S", "SPM", (64, 64), stages=5)
    program = build.program("YX", "", build.fill(part(s)))
    with pytest.raises(CapacityError, match="81,920"):
        verify(program)


def test_the_plan_decides_about_capacity(build, part, tensors):
    s = build.buffer("S", "SPM", (8, 8))
    program = build.program("YX", "", build.fill(part(s)))
    placed = replace(program, plan=(Placement("S", "SPM", 65536 - 255, 256, 0, 0),))
    with pytest.raises(CapacityError):
        verify(placed)


def test_planned_buffers_that_share_bytes(build, part, tensors):
    p, q = build.buffer("P", "SPM", (8, 8)), build.buffer("Q", "SPM", (8, 8))
    program = build.program("YX", "", build.fill(part(p)), build.move(part(q), part(p)))
    good = (Placement("P", "SPM", 0, 256, 0, 1), Placement("Q", "SPM", 256, 256, 1, 1))
    verify(replace(program, plan=good))
    with pytest.raises(PlacementError, match="P at 0 and Q at 128 share bytes of SPM"):
        verify(replace(program, plan=(good[0], replace(good[1], offset_bytes=128))))


def test_buffers_that_never_live_together_share(build, part, tensors):
    """Two loops with 40 KiB each fit into 64 KiB."""
    first, second = (build.buffer(n, "SPM", (80, 128)) for n in "PQ")
    body = [build.loop(v, 2, build.fill(part(s))) for v, s in (("i", first), ("j", second))]
    verify(build.program("YX", "", *body))


def test_processors_nest(build, part, tensors):
    s = build.buffer("S", "SPM", (8, 8))
    inner = build.loop("j", 2, build.fill(part(s)), kind="parallel", over="CORE")
    outer = build.loop("i", 2, inner, kind="parallel", over="LANE")
    with pytest.raises(ProcessorError, match="For for CORE is inside of what LANE runs"):
        verify(build.program("YX", "", outer))


def test_host_does_not_see_the_scratchpad(build, part, tensors):
    s = build.buffer("S", "SPM", (8, 8))
    fill = replace(build.fill(part(s)), processor="HOST")
    with pytest.raises(ProcessorError, match="HOST does not see SPM"):
        verify(build.program("YX", "", fill))


def test_engine_that_does_not_go_there(build, part, tensors):
    s = build.buffer("S", "SPM", (20, 8))
    program = build.program("YX", "", build.copy(part(s), part(tensors[1]), "DMA_OUT"))
    with pytest.raises(EngineError, match="DMA_OUT does not move from DRAM to SPM") as caught:
        verify(program)
    assert "engines that do: DMA_IN, MOVE" in caught.value.hint


def test_channel_of_a_synchronous_engine(build, part, tensors):
    s = build.buffer("S", "SPM", (20, 8))
    ring = build.channel("ring", "MOVE", 1, s)
    body = [
        build.copy(part(s), part(tensors[1]), "MOVE", ring),
        build.commit(ring, 0),
        build.wait(ring, 0),
    ]
    with pytest.raises(EngineError, match="MOVE is synchronous"):
        verify(build.program("YX", "", *body))


def with_demand(program, **demand):
    """The toy's matrix unit with a stricter contract."""
    mma = Instruction("mma", "gemm", **demand)
    return replace(program, machine=replace(program.machine, instructions=(mma,)))


def test_layout_that_an_instruction_demands(programs):
    program = with_demand(programs.plain_gemm(), layouts={"B": "panels(1, 4)"})
    with pytest.raises(LayoutError, match=r"mma reads Bs as panels\(1, 4\), not row"):
        verify(program)
    fitting = tuple(
        replace(b, layout=Layout("panels", (1, 4))) if b.name == "Bs" else b
        for b in program.buffers
    )
    verify(replace(program, buffers=fitting))


@pytest.mark.parametrize("place", [None, Location("m.yaml", 5)])
def test_layout_of_another_kind_than_demanded(programs, place):
    program = with_demand(programs.plain_gemm(), layouts={"B": "column"})
    other = tuple(
        replace(b, layout=Layout("panels", (1, 4)), asked=place) if b.name == "Bs" else b
        for b in program.buffers
    )
    if place is None:
        with pytest.raises(LayoutError, match=r"mma reads Bs as column, not panels\(1, 4\)"):
            verify(replace(program, buffers=other))
    else:  # what a mapping asks for is judged by the instruction's emitter
        verify(replace(program, buffers=other))


def test_memory_that_an_instruction_demands(programs):
    with pytest.raises(EngineError, match="mma takes A from ACC, but As is in SPM"):
        verify(with_demand(programs.plain_gemm(), operands={"A": ("ACC",)}))


def test_layout_that_gives_two_elements_one_place(build, part, tensors):
    s = build.buffer("S", "SPM", (8,), layout=Layout("column"))
    with pytest.raises(LayoutError, match="does not fit a shape"):
        verify(build.program("YX", "", build.fill(part(s))))


# ---- races


def test_parallel_iterations_that_write_one_row(build, part, tensors):
    y, x = tensors
    row = build.move(part(y, (0, 0), (1, 8)), part(x, (AT, 0), (1, 8)))
    with pytest.raises(LoopRaceError, match="parallel iterations of i write the same elements"):
        verify(build.program("YX", "Y", build.loop("i", 20, row, kind="parallel")))


def test_parallel_reduction(build, part, tensors):
    """Partial products of all steps p are added to one C."""
    b = build
    c, a, bb = (
        b.buffer("C", "DRAM", (8, 8)),
        b.buffer("A", "DRAM", (8, 32)),
        b.buffer("B", "DRAM", (32, 8)),
    )
    step = b.gemm(part(c), part(a, (0, AT * 8), (8, 8)), part(bb, (AT * 8, 0), (8, 8)))
    with pytest.raises(LoopRaceError):
        verify(b.program("CAB", "C", b.fill(part(c)), b.loop("i", 4, step, kind="parallel")))


def test_reading_the_neighbour_that_is_written(build, part, tensors):
    y, _ = tensors
    shift = build.move(part(y, (AT, 0), (1, 8)), part(y, (AT + 1, 0), (1, 8)))
    with pytest.raises(LoopRaceError, match="write and read the same elements"):
        verify(build.program("YX", "Y", build.loop("i", 19, shift, kind="parallel")))


def test_padded_reads_of_what_a_neighbour_writes(build, part, tensors):
    """Row i - 1 is another iteration's; what lies outside of the tensor is nobody's."""
    y, _ = tensors
    for above, left, races in ((1, 0, True), (0, 1, False), (20, 0, False)):
        entries = (Index.of(axis(0)) + AT - above, Index.of(axis(1)) - left)
        window = Region("Y", entries, (1, 8), part(y, (0, 0), (1, 8)).valid, padded=True)
        shift = build.move(part(y, (AT, 0), (1, 8)), window)
        program = build.program("YX", "Y", build.loop("i", 20, shift, kind="parallel"))
        if races:
            with pytest.raises(LoopRaceError, match="write and read the same elements"):
                verify(program)
        else:
            verify(program)


def test_overlapping_tiles(build, part, tensors):
    y, _ = tensors
    for step, races in ((4, False), (3, True)):
        tile = build.fill(part(y, (AT * step, 0), (4, 8), valid=(4, 8)))
        program = build.program("YX", "Y", build.loop("i", 5, tile, kind="parallel"))
        if races:
            with pytest.raises(LoopRaceError):
                verify(program)
        else:
            verify(program)


def test_divided_index_is_enumerated(build, part, tensors):
    """Tile ``(i // 2, i % 2)`` differs for every i; tile ``(i // 2, 0)`` does not."""
    y, _ = tensors
    for column, races in ((AT % 2 * 4, False), (Index(), True)):
        tile = build.fill(part(y, (AT // 2 * 4, column), (4, 4), valid=(4, 4)))
        program = build.program("YX", "Y", build.loop("i", 10, tile, kind="parallel"))
        if races:
            with pytest.raises(LoopRaceError):
                verify(program)
        else:
            verify(program)


def test_an_index_that_another_iteration_writes_is_a_race(build, part):
    b = build
    y, x = b.buffer("Y", "DRAM", (8, 8)), b.buffer("X", "DRAM", (8, 8))
    at = b.buffer("at", "DRAM", (8,), "int32")
    mine = Index.of(Var("i"))
    row = Index(((Element("at", (Index.of(0),), 8), 1),))
    moved = b.copy(part(y, (mine, 0), (1, 8)), part(x, (row, 0), (1, 8)))
    kept = b.copy(part(y, (mine, 0), (1, 8)), part(x, (mine, 0), (1, 8)))
    for copy, races in ((moved, True), (kept, False)):
        loop = b.loop("i", 8, b.fill(part(at, (mine,), (1,))), copy, kind="parallel", over="CORE")
        program = b.program(("Y", "X", "at"), ("Y", "at"), loop)
        chosen = index_reads(program, program)
        found = list(check_races(program, blocks(program), full=False, chosen=chosen))
        assert bool(found) == races


def test_private_buffers_do_not_race(build, part, tensors):
    y, x = tensors
    s = build.buffer("S", "SPM", (1, 8))
    rows = [part(t, (AT, 0), (1, 8)) for t in (y, x)]
    body = [build.copy(part(s), rows[1]), build.copy(rows[0], part(s))]
    verify(build.program("YX", "Y", build.loop("i", 20, *body, kind="parallel", over="CORE")))


# ---- hand-overs (more in test_mutations.py)


def test_read_before_the_wait(build, part, tensors):
    y, x = tensors
    s = build.buffer("S", "SPM", (20, 8))
    ring = build.channel("ring", "DMA_IN", 1, s)
    fetch = [build.copy(part(s), part(x), "DMA_IN", ring), build.commit(ring, 0)]
    use, wait = build.copy(part(y), part(s)), build.wait(ring, 0)
    verify(build.program("YX", "Y", *fetch, wait, use))
    with pytest.raises(ProtocolError, match="before its wait"):
        verify(build.program("YX", "Y", *fetch, use, wait))


def test_source_that_changes_while_it_is_copied(build, part, tensors):
    y, x = tensors
    s = build.buffer("S", "SPM", (20, 8))
    ring = build.channel("out", "DMA_OUT", 1, s)
    body = [build.copy(part(s), part(x)), build.copy(part(y), part(s), "DMA_OUT", ring),
            build.commit(ring, 0)]  # fmt: skip
    change, wait = build.fill(part(s)), build.wait(ring, 0)
    verify(build.program("YX", "Y", *body, wait, change))
    with pytest.raises(OrderError, match="a copy in flight still reads S"):
        verify(build.program("YX", "Y", *body, change, wait))


def test_roles_that_share_without_a_handover(build, part, tensors):
    y, x = tensors
    s = build.buffer("S", "SPM", (20, 8))
    writer = build.role("producer", build.copy(part(s), part(x)))
    reader = build.role("consumer", build.copy(part(y), part(s)))
    with pytest.raises(OrderError, match="nothing orders the two"):
        verify(build.program("YX", "Y", writer, reader))


def test_copy_that_is_never_waited_for(build, part, tensors):
    s = build.buffer("S", "SPM", (20, 8))
    ring = build.channel("ring", "DMA_IN", 1, s)
    fetch = [build.copy(part(s), part(tensors[1]), "DMA_IN", ring), build.commit(ring, 0)]
    with pytest.raises(ProtocolError, match="never waited for"):
        verify(build.program("YX", "", *fetch))


# ---- rules that no other test misses


def test_a_parameter_without_a_buffer(build, part, tensors):
    y, x = tensors
    with pytest.raises(UnknownNodeNameError, match="parameter 'Q' has no buffer"):
        verify(build.program("YXQ", "Y", build.move(part(y), part(x))))


def test_two_buffers_of_one_name(build, part, tensors):
    y, x = tensors
    program = build.program("YX", "Y", build.move(part(y), part(x)))
    with pytest.raises(UnknownNodeNameError, match="two buffers have one name"):
        verify(replace(program, buffers=(*program.buffers, y)))


def test_a_loop_index_inside_of_itself(build, part, tensors):
    y, x = tensors
    inner = build.loop("i", 3, build.move(part(y), part(x)))
    with pytest.raises(UnknownNodeNameError, match="loop index i is that of an outer loop, too"):
        verify(build.program("YX", "Y", build.loop("i", 2, inner)))


def test_an_unknown_processor(build, part, tensors):
    y, x = tensors
    move = replace(build.move(part(y), part(x)), processor="TILE")
    with pytest.raises(ProcessorError, match="toy has no processor 'TILE'") as caught:
        verify(build.program("YX", "Y", move))
    assert "known: " in caught.value.hint


def test_an_unknown_engine(build, part, tensors):
    y, x = tensors
    with pytest.raises(EngineError, match="toy has no engine 'CRANE'"):
        verify(build.program("YX", "Y", build.copy(part(y), part(x), "CRANE")))


def test_a_channel_of_another_engine(build, part, tensors):
    y, x = tensors
    s = build.buffer("S", "SPM", (20, 8))
    ring = build.channel("ring", "DMA_OUT", 1, s)
    body = (
        build.copy(part(s), part(x), "DMA_IN", ring), build.commit(ring, 0),
        build.wait(ring, 0), build.copy(part(y), part(s)),
    )  # fmt: skip
    with pytest.raises(EngineError, match="ring is a channel of DMA_OUT, not of DMA_IN"):
        verify(build.program("YX", "Y", *body))


def test_a_region_of_too_few_axes(build, part, tensors):
    y, _x = tensors
    flat = Region("X", (Index.of(axis(0)),), (20,), (Index.of(20),))
    with pytest.raises(ExtentError, match="has 1 axes, X has 2"):
        verify(build.program("YX", "Y", build.move(part(y), flat)))


def test_what_a_role_s_units_hold_is_not_there_for_the_body_around_it(build, part, tensors):
    y, _ = tensors
    s = build.buffer("S", "ACC", (20, 8))
    role = build.role("consumer", build.move(part(y), part(s)))
    with pytest.raises(PrivateMemoryError, match="both the consumer and the body around it"):
        verify(build.program("YX", "Y", build.fill(part(s)), role))


@pytest.mark.parametrize("rows", [1, 20])
def test_loops_of_two_roles_that_nothing_orders(build, part, tensors, rows):
    """Each loop has no hand-overs in it, and counts as one access."""
    y, x = tensors
    s = build.buffer("S", "SPM", (20, 8))

    def row(buffer):
        return part(buffer, (AT, 0), (1, 8))

    writer = build.role("writer", build.loop("i", rows, build.copy(row(s), row(x))))
    reader = build.role("reader", build.loop("i", rows, build.copy(row(y), row(s))))
    with pytest.raises(OrderError, match="nothing orders the two"):
        verify(build.program("YX", "Y", writer, reader))


def test_a_cluster_inside_of_a_cluster(build, tensors):
    inner = build.loop("j", 2, kind="parallel", over="CORE")
    outer = replace(build.loop("i", 2, inner, kind="parallel", over="CORE"), cluster=True)
    with pytest.raises(ClusterError, match="loop over j is inside of a cluster of the same level"):
        verify(build.program("YX", "", outer))


def test_a_synchronous_copy_is_not_sent_to_several_blocks(build, part, tensors):
    _y, x = tensors
    s = build.buffer("S", "SPM", (20, 8))
    copy = replace(build.copy(part(s), part(x)), multicast=((Var("i"), 2),))
    loop = replace(build.loop("i", 2, copy, kind="parallel", over="CORE"), cluster=True)
    with pytest.raises(ClusterError, match="MOVE cannot send it to several blocks"):
        verify(build.program("YX", "", loop))


def test_an_output_that_nobody_writes(build, part, tensors):
    _, x = tensors
    s = build.buffer("S", "SPM", (20, 8))
    with pytest.raises(UnwrittenBufferError, match="nothing is ever written to the output Y"):
        verify(build.program("YX", "Y", build.copy(part(s), part(x))))


# ---- extents that calls tell


@pytest.mark.parametrize(("valid", "right"), [(Index.of(8), False), (None, True)])
def test_a_tile_beyond_the_end_of_some_length_is_found(build, part, valid, right):
    """Rows in tiles of 8, of at most 24: only where 8 does not divide them a full tile is wrong."""
    rows = Index(((CallExtent("M", 1, 24), 1),))
    extents = (rows, Index.of(8))
    y, x = (replace(build.buffer(n, "DRAM", (24, 8)), exists=extents) for n in "YX")
    build.buffers |= {"Y": y, "X": x}
    left = minimum(8, rows - AT * 8)
    sides = [part(b, (AT * 8, 0), (8, 8), valid=(valid or left, 8)) for b in (y, x)]
    loop = build.loop("i", ceil_div(rows, 8), build.move(*sides))
    program = build.program("YX", "Y", loop)
    if right:
        verify(program)
        return
    with pytest.raises((OutOfBoundsError, Errors), match="reaches"):
        verify(program)

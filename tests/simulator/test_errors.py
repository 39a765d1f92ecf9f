"""Every mistake that a stream can make is found, and both places are named."""

from dataclasses import replace

import numpy as np
import pytest

from septran.simulator import (
    CommandError,
    FlagError,
    HazardError,
    SimulatedBoundsError,
    SimulatedDeadlockError,
    SimulationError,
    TemporaryOverlapError,
    UnwrittenBytesError,
    simulate,
)
from septran.simulator.commands import RECORD, memory_address, parameter_address
from septran.simulator.hazards.control_reads import ControlReads

SPM, ACC = memory_address(1), memory_address(2)
IN, OUT, MMA, VEC = range(4)


def run(machine, script, **options):
    return simulate(
        machine, script.stream(), [np.zeros(4096, np.uint8) for _ in range(3)], **options
    )


def refuses(error, machine, script, match, **options):
    with pytest.raises(error, match=match) as caught:
        run(machine, script, **options)
    return caught.value


# ------------------------------------------------------------------------------ hazards


def product(script, forget=()):
    """One double-buffered product, with some of its flags left out."""
    pairs = {
        "load before mma": (IN, MMA, 0), "mma before load": (MMA, IN, 0),
        "mma before store": (MMA, OUT, 0),
    }  # fmt: skip
    for n in range(2):
        script.load(0, 0, 16, 64)
        script.load(1024, 1, 16, 64)
        if "load before mma" not in forget:
            script.flag(*pairs["load before mma"])
        script.mma(16, 16, 16, b=1024, accumulate=n)
        if "mma before load" not in forget and n == 0:
            script.flag(*pairs["mma before load"])
    if "mma before store" not in forget:
        script.flag(*pairs["mma before store"])
    script.store(2, ACC, 16, 64)
    return script


def test_a_stream_with_all_its_flags_is_accepted(toy, script):
    run(toy, product(script))


@pytest.mark.parametrize("seed", [None, *range(16)])
@pytest.mark.parametrize(
    ("forgotten", "words"),
    [
        ("load before mma", r"dsa.mma on MMA \(line 3\) reads what #[01] dsa.dma_copy on dma_in"),
        ("mma before load", r"dsa.dma_copy on dma_in \(line \d\) writes what #4 dsa.mma on MMA"),
        ("mma before store", r"dsa.dma_copy on dma_out \(line \d+\) reads what #\d+ dsa.mma"),
    ],
)
def test_a_forgotten_flag_is_found_whatever_the_delays(toy, script, forgotten, words, seed):
    refuses(HazardError, toy, product(script, {forgotten}), words, adversary=seed)


@pytest.mark.parametrize("seed", range(16))
def test_a_forgotten_flag_shows_in_the_numbers(toy, script, seed):
    parameters = [np.ones(256, np.float32), np.ones(256, np.float32), np.zeros(256, np.float32)]
    stream = product(script, {"load before mma"}).stream()
    simulate(toy, stream, parameters, checks=False)
    assert np.isnan(parameters[2]).all()


def test_a_hazard_names_lines_origins_and_bytes(toy, script):
    script.load(256, 0, 1, 64)
    script.fill(SPM + 288, 0.0, 1, 4)
    error = refuses(
        HazardError, toy, script, r"hazard in SPM at byte 288: #1 dsa.vec_fill on VEC "
        r"\(line 2: y = 0\) writes what #0 dsa.dma_copy on dma_in \(line 1: load x\) writes, and "
        r"starts at cycle 2, before that ends at 105",
        origins={1: "load x", 2: "y = 0"},
    )  # fmt: skip
    assert error.code == "SEP554"
    assert error.hint is not None


def test_luck_is_not_order(toy, script):
    script.fill(SPM, 0.0, 1, 16)  # ends at 10
    for n in range(30):
        script.fill(ACC + 64 * n, 0.0, 1, 16)  # all of these are issued in the meantime
    script.load(0, 0, 1, 64)
    refuses(HazardError, toy, script, "is later by luck")


def test_tiles_that_interleave_do_not_conflict(toy, script):
    script.load(0, 0, 4, 16, dst_stride=64)
    script.fill(SPM + 16, 0.0, 4, 4, row=64)  # the next 16 bytes of each of those rows
    script.fill(SPM + 32, 0.0, 4, 4, row=128)
    run(toy, script)


@pytest.mark.parametrize("shape", [{"row": 64}, {"row": 48}, {"row": 128, "col": 8}])
def test_tiles_that_cross_do(toy, script, shape):
    script.load(16, 0, 4, 16, dst_stride=64)
    script.fill(SPM, 0.0, 4, 5, **shape)
    refuses(HazardError, toy, script, "hazard")


def test_overlaps_are_exact(toy, random):
    """Against sets of bytes, for many pairs of tiles of random strides."""
    from septran.simulator.hazards.overlaps import overlaps

    def tile():
        rows, columns, run = random.integers(1, 4, 3).tolist()
        step = int(random.integers(run, run + 4))
        stride = int(random.integers((columns - 1) * step + run, columns * step + 9))
        start = int(random.integers(0, 30))
        return (0, start, rows, stride if rows > 1 else 0, columns, step, run)

    def covered(region):
        _, start, rows, stride, columns, step, run = region
        cells = np.ix_(range(rows), range(columns), range(run))
        return set((start + cells[0] * stride + cells[1] * step + cells[2]).ravel().tolist())

    for _ in range(60):
        regions = np.array([tile() for _ in range(12)], np.int64)
        first, second = overlaps(regions, np.ones(12, bool))
        found = set(zip(first.tolist(), second.tolist(), strict=True))
        sets = [covered(r) for r in regions.tolist()]
        wanted = {(a, b) for a in range(12) for b in range(12) if a != b and sets[a] & sets[b]}
        assert found == wanted


def test_a_sync_orders(toy, script):
    script.load(0, 0, 1, 64)
    script.add("sync")
    script.fill(SPM, 0.0, 1, 16)
    run(toy, script)


def test_flags_order_through_a_third_queue(toy, script):
    script.load(0, 0, 1, 64)
    script.flag(IN, VEC)
    script.flag(VEC, OUT)
    script.store(2, SPM, 1, 64)
    run(toy, script)


def test_a_barrier_orders_cores_and_a_sync_does_not(cores, new_script):
    def streams(meeting):
        first, second = new_script(0), new_script(1)
        first.fill(SPM, 1.0, 1, 16)
        first.flag(VEC, OUT)
        first.store(2, SPM, 1, 64)
        for script in (first, second):
            script.add(meeting)
        second.load(0, 2, 1, 64)
        return np.concatenate([first.stream(), second.stream()])

    parameters = [np.zeros(16, np.float32) for _ in range(3)]
    simulate(cores, streams("barrier"), parameters)
    assert (parameters[2] == 1).all()
    with pytest.raises(HazardError, match="hazard in parameter 2"):
        simulate(cores, streams("sync"), parameters)


@pytest.mark.parametrize(
    ("before", "after", "right"),
    [("sync", "", True), ("barrier", "", True), ("", "", False), ("", "sync", False)],
)
def test_a_control_core_reads_behind_a_sync_what_its_queues_write(
    toy, script, before, after, right
):
    script.fill(SPM, 1.0, 1, 16)
    script.flag(VEC, OUT)
    script.store(2, SPM, 1, 64)
    for _ in range(40):  # the store has ended by time
        script.fill(SPM + 1024, 0.0, 16, 16)
    if before:
        script.add(before)
    first = len(script.stream())
    script.load(64, 0, 1, 64)
    if after:
        script.add(after)
    reads = [ControlReads(2, (first,))]
    if right:
        run(toy, script, reads=reads)
    else:
        refuses(HazardError, toy, script, f"#{first} .* follows from .* #3 ", reads=reads)


@pytest.mark.parametrize("store_first", [True, False])
@pytest.mark.parametrize("meeting", ["barrier", "sync"])
def test_a_control_core_reads_behind_a_barrier_what_other_cores_write(
    cores, new_script, meeting, store_first
):
    writer, reader = new_script(0), new_script(1)
    writer.fill(SPM, 1.0, 1, 16)
    writer.flag(VEC, OUT)
    if not store_first:
        writer.add(meeting)
    writer.store(2, SPM, 1, 64)
    if store_first:
        writer.add(meeting)
    for _ in range(40):
        reader.fill(SPM, 0.0, 16, 16)
    reader.add(meeting)
    first = len(writer.stream()) + len(reader.stream())
    reader.load(64, 0, 1, 64)
    stream = np.concatenate([writer.stream(), reader.stream()])
    parameters = [np.zeros(16, np.float32) for _ in range(3)]
    reads = [ControlReads(2, (first,))]
    if meeting == "barrier" and store_first:
        simulate(cores, stream, parameters, reads=reads)
    else:
        with pytest.raises(HazardError, match=f"#{first} .* follows from indices"):
            simulate(cores, stream, parameters, reads=reads)


def test_scratchpads_of_two_cores_are_two(cores, new_script):
    streams = []
    for core in range(2):
        script = new_script(core)
        script.fill(SPM, float(core), 1, 16)
        script.flag(VEC, OUT)
        script.store(core, SPM, 1, 64)
        streams.append(script.stream())
    parameters = [np.full(16, np.nan, np.float32) for _ in range(2)]
    simulate(cores, np.concatenate(streams), parameters)
    assert (parameters[0] == 0).all()
    assert (parameters[1] == 1).all()


# ------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_a_read_of_unwritten_bytes_is_found_for_integers_too(toy, script, kind):
    script.fill(SPM, 0, 2, 16, kind=kind)
    script.add(
        "vec_abs", queue=VEC, dst=ACC, dst_row=64, dst_col=4, x=SPM + 32, x_row=64, x_col=4,
        rows=2, cols=16, type=kind,
    )  # fmt: skip
    refuses(
        UnwrittenBytesError, toy, script, r"x reads 32 of 128 bytes .* first at byte 128 of SPM"
    )


def test_sums_are_read_where_they_accumulate(toy, script):
    script.load(0, 0, 16, 64)
    script.load(1024, 1, 16, 64)
    script.flag(IN, MMA)
    script.mma(16, 16, 16, b=1024, accumulate=1)
    refuses(UnwrittenBytesError, toy, script, "c reads 1024 of 1024 bytes that nobody has written")


def test_a_parameter_that_holds_nothing_yet_is_checked_too(toy, script):
    script.load(0, 1, 1, 64)
    run(toy, script)
    message = r"src reads 64 of 64 bytes .* first at byte 0 of parameter 1"
    refuses(UnwrittenBytesError, toy, script, message, fresh=[1])


def test_a_copy_hands_on_what_nobody_has_written(toy, script):
    """Moving it is no mistake, and what it fills is as fresh as its source."""
    first, *others = toy.engines
    first = replace(first, moves=(*first.moves, ("SPM", "ACC")))
    machine = replace(toy, engines=(first, *others))
    script.fill(SPM, 0.0, 1, 16)
    script.flag(VEC, IN)
    script.add(
        "dma_copy", queue=IN, dst=ACC, dst_stride=128, src=SPM, src_stride=128, rows=1,
        row_bytes=128,
    )  # fmt: skip
    script.flag(IN, VEC)
    for start in (0, 48):
        run(machine, script)
        script.add(
            "vec_abs", queue=VEC, dst=SPM + 4096, dst_row=64, dst_col=4, x=ACC + start, x_row=64,
            x_col=4, rows=1, cols=16, type="float32",
        )  # fmt: skip
    refuses(
        UnwrittenBytesError, machine, script, r"x reads 48 of 64 bytes .* first at byte 64 of ACC"
    )


def test_a_parameter_gets_nothing_that_nobody_has_written(toy, script):
    script.fill(SPM, 0.0, 1, 12)
    script.flag(VEC, OUT)
    script.store(2, SPM, 1, 64)
    refuses(
        UnwrittenBytesError, toy, script, r"src reads 16 of 64 bytes .* first at byte 48 of SPM"
    )


def test_temporaries_lie_apart_from_what_others_use(toy, script):
    script.fill(SPM + 64, 0.0, 1, 16)
    run(toy, script, temporaries={"SPM": 64})
    script.flag(VEC, IN)
    script.load(0, 0, 1, 64)
    run(toy, script, temporaries={"SPM": 64})
    script.load(96, 0, 1, 64)
    message = "dst writes bytes of SPM from byte 64 on, .* it is no vector command"
    refuses(TemporaryOverlapError, toy, script, message, temporaries={"SPM": 64})


def test_a_temporary_is_one_node_s(toy, script):
    script.fill(SPM, 0.0, 1, 16)
    script.add(
        "vec_abs", queue=VEC, dst=SPM + 64, dst_row=64, dst_col=4, x=SPM, x_row=64, x_col=4,
        rows=1, cols=16, type="float32",
    )  # fmt: skip
    run(toy, script, temporaries={"SPM": 0}, origins={1: "y", 2: "y"})
    message = "x reads bytes of SPM from byte 0 on, .* it was written for something else"
    refuses(
        TemporaryOverlapError,
        toy,
        script,
        message,
        temporaries={"SPM": 0},
        origins={1: "y", 2: "z"},
    )


def test_edges_of_blocks_are_masked(toy, script):
    """Only the elements that exist are read: the rest of an edge block may be anything."""
    cube = replace(toy.instruction("mma"), layouts={"C": "fractal(16, 16)"})
    machine = replace(toy, instructions=(cube, toy.instruction("vec")))
    script.fill(ACC, 0.0, 16, 16)  # a whole block
    script.fill(ACC + 1024, 0.0, 16, 4, row=64)  # 4 columns of the next
    for n in range(2):
        script.fill(ACC + 2048 + 1024 * n, 0.0, 3, (16, 4)[n], row=64)  # 3 rows of two more
    script.load(0, 0, 1, 19 * 4)
    script.load(1024, 1, 1, 20 * 4)
    script.flag(IN, MMA)
    script.flag(VEC, MMA)
    script.mma(19, 20, 1, b=1024, c_stride=2048, accumulate=1)
    run(machine, script)
    script.mma(20, 20, 1, b=1024, c_stride=2048, accumulate=1)
    refuses(UnwrittenBytesError, machine, script, "c reads 64 of 256 bytes")


def test_an_access_behind_the_end_is_found(toy, script):
    script.load(65536 - 64, 0, 2, 64)
    refuses(
        SimulatedBoundsError, toy, script, "dst is bytes 65472 to 65600 of SPM, which has 65536"
    )


def test_an_access_before_the_start_is_found(toy, script):
    script.load(-64, 0, 1, 64)  # behind the end of what lies before it in the address map
    refuses(SimulationError, toy, script, "no engine of that queue moves GLOBAL->GLOBAL")
    inside = type(script)()
    inside.fill(SPM - 64, 0.0, 1, 16)
    limited = replace(toy.memory("GLOBAL"), capacity_bytes=1 << 30)
    memories = (limited, *toy.memories[1:])
    refuses(
        SimulatedBoundsError,
        replace(toy, memories=memories),
        inside,
        "of GLOBAL, which has 1073741824",
    )


def test_an_access_behind_a_parameter_is_found(toy, script):
    script.load(0, 0, 65, 64)
    refuses(
        SimulatedBoundsError, toy, script, "src is bytes 0 to 4160 of parameter 0, which has 4096"
    )


def test_a_parameter_that_there_is_not_is_found(toy, script):
    script.load(0, 3, 1, 64)
    refuses(CommandError, toy, script, "src is an address in no memory")


def test_a_tile_that_writes_a_byte_twice_is_refused(toy, script):
    script.fill(SPM, 0.0, 4, 4, row=8)
    refuses(CommandError, toy, script, "writes the same bytes twice")


def test_alignment_is_the_engines(toy, script):
    engines = tuple(replace(e, alignment=32) for e in toy.engines)
    script.load(16, 0, 1, 64)
    message = "dst is 0x.*10, no multiple of 32, the alignment of dma_in"
    refuses(SimulatedBoundsError, replace(toy, engines=engines), script, message)


def test_an_operand_in_the_wrong_memory_is_found(toy, script):
    script.mma(16, 16, 16, c=SPM - ACC)
    refuses(CommandError, toy, script, "c is in SPM, not in ACC")


def test_a_parameter_that_is_read_only_is_not_written(toy, script):
    script.fill(SPM, 0.0, 1, 16)
    script.flag(VEC, OUT)
    script.store(0, SPM, 1, 64)
    array = np.zeros(64, np.uint8)
    array.flags.writeable = False
    with pytest.raises(CommandError, match="parameter 0 is written, and its array is read-only"):
        simulate(toy, script.stream(), [array])


def test_a_seed_is_a_number(toy, script, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", "often")
    refuses(SimulationError, toy, script, "is a seed, a number such as 7, not 'often'")


# ----------------------------------------------------------------------------- commands


def test_a_negative_extent_is_refused(toy, script):
    script.load(0, 0, -1, 64)
    refuses(CommandError, toy, script, "dst has a negative extent")


def test_a_dtype_that_there_is_not_is_refused(toy, script):
    script.fill(SPM, 0, 1, 16, kind=-1)
    refuses(CommandError, toy, script, "type -1 is the number of no dtype")


def test_blocks_have_elements(toy, script):
    script.add(
        "dma_block", queue=IN, dst=SPM, dst_stride=64, src=parameter_address(0), src_stride=64,
        rows=1, cols=16, block_rows=1, block_cols=0, item_bytes=4,
    )  # fmt: skip
    refuses(CommandError, toy, script, "blocks of no elements")


def test_a_vector_operand_in_the_wrong_memory_is_found(toy, script):
    near = replace(toy.instruction("vec"), operands={"X": ("SPM",)})
    machine = replace(toy, instructions=(toy.instruction("mma"), near))
    script.fill(SPM, 0.0, 1, 16)
    run(machine, script)
    script.fill(ACC, 0.0, 1, 16)
    refuses(CommandError, machine, script, "dst is in ACC, not in SPM")


def test_a_command_has_its_own_arguments(script):
    with pytest.raises(TypeError, match="set_flag takes src, dst, flag, not src, dst"):
        script.add("set_flag", src=0, dst=1)


def test_a_stream_is_of_records_and_parameters_are_contiguous(toy, script):
    with pytest.raises(CommandError, match="a stream is a flat array of"):
        simulate(toy, np.zeros(3), [])
    with pytest.raises(CommandError, match="a stream is a flat array of"):
        simulate(toy, np.zeros((1, 0), RECORD), [])
    with pytest.raises(CommandError, match="parameter 0 is not contiguous"):
        simulate(toy, script.stream(), [np.zeros((4, 4))[:, ::2]])


def test_a_queue_that_there_is_not_is_found(toy, script):
    script.add("dma_zero", queue=9, dst=SPM, dst_stride=64, rows=1, row_bytes=64)
    refuses(CommandError, toy, script, "there is no queue 9")


def test_an_engine_that_does_not_go_there_is_found(toy, script):
    script.add(
        "dma_copy", queue=IN, dst=ACC, dst_stride=64, src=parameter_address(0), src_stride=64,
        rows=1, row_bytes=64,
    )  # fmt: skip
    refuses(CommandError, toy, script, "no engine of that queue moves GLOBAL->ACC")


def test_a_command_on_the_wrong_queue_is_found(toy, script):
    script.add(
        "vec_fill", queue=MMA, dst=SPM, dst_row=64, dst_col=4, value=0, rows=1, cols=16,
        type="float32",
    )  # fmt: skip
    refuses(CommandError, toy, script, "no instruction of that queue does this")


def test_dtypes_that_the_unit_does_not_take_are_found(toy, script):
    mma = replace(toy.instruction("mma"), dtypes=(("float32", "float16", "float16"),))
    machine = replace(toy, instructions=(mma, toy.instruction("vec")))
    script.mma(16, 16, 16)
    refuses(CommandError, machine, script, "mma does not multiply float32 into float32")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"code": 999}, "has the number 999 of no command"),
        ({"core": 1}, "is on core 1 of 1"),
    ],
)
def test_records_that_mean_nothing_are_refused(toy, change, match):
    record = np.zeros(1, RECORD)
    for name, value in change.items():
        record[name] = value
    with pytest.raises(CommandError, match=match):
        simulate(toy, record, [])


def test_flags_have_numbers_and_two_queues(toy, new_script):
    script = new_script()
    script.set(IN, MMA, 8)
    refuses(CommandError, toy, script, r"flag 8 is not below 8")
    script = new_script()
    script.set(MMA, MMA, 0)
    refuses(CommandError, toy, script, "a queue is in order, and needs no flag")


# --------------------------------------------------------------------------------- flow


def test_a_wait_without_a_set_is_a_deadlock(toy, script):
    script.wait(IN, MMA, 3)
    script.add("sync")
    error = refuses(SimulatedDeadlockError, toy, script, "deadlock")
    assert "#0 dsa.wait_flag on MMA (line 1) waits for flag 3 from dma_in to MMA" in str(error)
    assert "core 0 at #1 dsa.sync on the control core (line 2) waits for its queues" in str(error)


def test_a_flag_set_too_often_is_a_deadlock(toy, script):
    script.set(IN, MMA)
    script.set(IN, MMA)
    refuses(
        SimulatedDeadlockError,
        toy,
        script,
        "waits for room in flag 0 from dma_in to MMA, which is full",
    )


def test_a_core_that_never_comes_to_the_barrier_is_named(cores, new_script):
    first = new_script(0)
    first.add("barrier")
    with pytest.raises(
        SimulatedDeadlockError, match=r"core 0 at #0 dsa.barrier .* waits for the other cores"
    ):
        simulate(cores, first.stream(), [])


def test_a_full_queue_behind_a_missing_flag_is_a_deadlock(toy, script):
    script.wait(MMA, IN)
    for _ in range(6):
        script.load(0, 0, 1, 64)
    refuses(SimulatedDeadlockError, toy, script, "core 0 at #4 .* waits for a place in that queue")


def test_a_flag_that_stays_set_is_found(toy, script):
    script.set(IN, MMA)
    refuses(FlagError, toy, script, "flag 0 from dma_in to MMA is set more often")


def test_a_deeper_flag_counts_further(toy, script):
    machine = replace(toy, vendor={**toy.vendor, "flag_depth": 2})
    script.set(IN, MMA)
    script.set(IN, MMA)
    script.wait(IN, MMA)
    script.wait(IN, MMA)
    run(machine, script)

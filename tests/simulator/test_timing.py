"""Cycles of small schedules, worked out by hand.

The toy machine: 16 B/cycle, 100 cycles of latency, issue in 1 cycle; an mma of 16^3 takes
8 + 16 cycles; 16 vector lanes, 8 cycles to start.
"""

import numpy as np
import pytest

from septran.simulator import simulate
from septran.simulator.commands import memory_address

SPM, ACC = memory_address(1), memory_address(2)
IN, OUT, MMA, VEC = range(4)
TILE = 16 * 16 * 4  # bytes of a 16 x 16 tile: 64 cycles


def column(run, name):
    return run.trace[name].tolist()


def operands(count=3):
    return [np.zeros(4 * TILE, np.uint8) for _ in range(count)]


def test_one_copy_takes_its_bytes_and_the_latency(toy, script):
    script.load(0, 0, 16, 64)
    run = simulate(toy, script.stream(), operands())
    # issued in cycle 1, 64 cycles on the port, 100 of latency
    assert (column(run, "start"), column(run, "end")) == ([1], [165])
    assert run.cycles == 165
    assert column(run, "bytes") == [1024]


def test_latency_overlaps_the_next_copy(toy, script):
    script.load(0, 0, 16, 64)
    script.load(TILE, 1, 16, 64)
    run = simulate(toy, script.stream(), operands())
    assert column(run, "start") == [1, 65]
    assert column(run, "end") == [165, 229]
    assert column(run, "bandwidth") == [0, 0]


def test_copies_of_two_engines_share_main_memory(toy, script):
    script.fill(ACC, 0.0, 16, 16)
    script.add("sync")  # 1 + 8 + 16 = 25
    script.load(0, 0, 16, 64)  # asks at 26
    script.store(2, ACC, 16, 64)  # asks at 27
    run = simulate(toy, script.stream(), operands())
    start, end = column(run, "start"), column(run, "end")
    assert start == [1, 2, 26, 27]
    # alone for a cycle, then 8 B/cycle each: the first has 1008 left, 126 cycles
    assert end[2] == 27 + 126 + 100
    # the second has then had 1008 of its 1024: one more cycle alone
    assert end[3] == 27 + 127 + 100
    assert column(run, "bandwidth") == [0, 0, 63, 63]


def test_a_flag_holds_the_queue_that_waits(toy, script):
    script.load(0, 0, 16, 64)
    script.load(TILE, 1, 16, 64)
    script.set(IN, MMA)
    script.wait(IN, MMA)
    script.mma(16, 16, 16, b=TILE)
    run = simulate(toy, script.stream(), operands())
    assert column(run, "issue") == [1, 2, 3, 4, 5]
    assert column(run, "end") == [165, 229, 229, 229, 229 + 24]
    assert column(run, "flag") == [0, 0, 0, 225, 0]
    assert run.cycles == 253
    assert run.stalls["flag"] == 225
    assert run.utilisation["MMA"] == pytest.approx(24 / 253)
    assert run.flops["MMA"] == 2 * 16**3


def test_edges_of_an_mma_are_masked(toy, script):
    script.load(0, 0, 17, 4)
    script.load(TILE, 1, 1, 132)
    script.flag(IN, MMA)
    script.mma(17, 33, 1, b=TILE)
    run = simulate(toy, script.stream(), operands())
    length = run.trace["end"][-1] - run.trace["start"][-1]
    assert length == 8 + 2 * 3 * 1 * 16


def test_vector_commands_take_lanes_and_the_factor_of_functions(toy, script):
    script.fill(SPM, 1.0, 3, 11)  # 33 elements: 3 cycles of 16 lanes
    script.add(
        "vec_exp", queue=VEC, dst=SPM, dst_row=44, dst_col=4, x=SPM, x_row=44, x_col=4, rows=3,
        cols=11, type="float32",
    )  # fmt: skip
    run = simulate(toy, script.stream(), operands())
    assert column(run, "start") == [1, 12]
    assert column(run, "end") == [1 + 8 + 3, 12 + 8 + 3 * 4]


def test_the_control_core_waits_for_room_in_a_queue(toy, script):
    for n in range(6):
        script.load(n * 64, 0, 1, 64)  # 4 cycles each
    run = simulate(toy, script.stream(), operands())
    # The queue holds 4: the fifth is in when the first starts. Starts are 1, 5, 9, ...
    assert column(run, "start") == [1, 5, 9, 13, 17, 21]
    # number 4 finds room as number 0 started at 1; number 5 waits for number 1 to start
    assert column(run, "issue") == [1, 2, 3, 4, 5, 6]
    assert run.stalls["full"] == 0


def test_a_full_queue_stalls_the_control_core(toy, script):
    for n in range(8):
        script.load(n * 64, 0, 1, 64)
    run = simulate(toy, script.stream(), operands())
    # number 6 goes in when number 2 starts at 9, number 7 when number 3 does at 13
    assert column(run, "issue") == [1, 2, 3, 4, 5, 6, 10, 14]
    assert column(run, "full") == [0, 0, 0, 0, 0, 0, 3, 3]


def test_sync_waits_for_all_queues(toy, script):
    script.load(0, 0, 16, 64)
    script.load(TILE, 1, 16, 64)
    script.add("sync")
    script.mma(16, 16, 16, b=TILE)
    run = simulate(toy, script.stream(), operands())
    assert column(run, "start") == [1, 65, 3, 230]
    assert column(run, "end") == [165, 229, 229, 254]
    assert column(run, "sync") == [0, 0, 226, 0]
    assert column(run, "queue") == [IN, IN, -1, MMA]


def test_two_buffers_hide_the_copies(toy, new_script):
    """Eight products of 64 x 16 x 16 (4 * 16 + 8 = 72 cycles), operands of 64 + 16 rows."""
    cycles = {}
    for stages in (1, 2):
        script = new_script()
        for n in range(8):
            stage = n % stages * 8192
            if n >= stages:
                script.wait(MMA, IN, n % stages)
            script.load(stage, 0, 64, 8, offset=0)  # 512 bytes: 32 cycles
            script.load(stage + 4096, 1, 2, 64)  # 8 cycles
            script.set(IN, MMA, n % stages)
            script.wait(IN, MMA, n % stages)
            script.mma(64, 16, 2, a=stage, b=stage + 4096, accumulate=int(n > 0))
            script.set(MMA, IN, n % stages)
        for stage in range(stages):
            script.wait(MMA, IN, stage)
        cycles[stages] = simulate(toy, script.stream(), operands()).cycles
    # One buffer: each step is 40 cycles on the port, 100 of latency, 72 of computing.
    # What the control core cannot issue ahead (the queue holds 4) hides in that.
    assert cycles[1] == 1 + 8 * (40 + 100 + 72)
    # Two: two steps every 40 + 100 + 72 cycles, as a buffer is refilled when it is free.
    assert cycles[2] == 1 + 4 * (40 + 100 + 72) + max(40, 72)


def test_a_full_flag_holds_the_queue_that_sets(toy, script):
    script.fill(ACC, 0.0, 16, 16)
    script.add("sync")  # until 25
    script.store(2, ACC, 16, 64)  # from 26, its last byte on the port at 90
    script.set(VEC, OUT)  # 27
    script.set(VEC, OUT)  # 28; counts to 1 only: waits until the first is taken
    script.fill(SPM, 0.0, 1, 16)
    script.wait(VEC, OUT)
    script.wait(VEC, OUT)
    run = simulate(toy, script.stream(), operands())
    assert column(run, "end")[3:] == [27, 90, 99, 90, 90]
    assert column(run, "flag")[3:] == [0, 62, 0, 0, 0]


def test_cores_share_main_memory_and_meet_at_barriers(cores, new_script):
    streams = []
    for core in range(2):
        script = new_script(core)
        script.load(0, 0, 16, 64)
        script.add("barrier")
        script.load(0, 1, 16 if core else 8, 64)
        streams.append(script.stream())
    run = simulate(cores, np.concatenate(streams), operands())
    # Both copies share 16 B/cycle: 128 cycles.
    assert column(run, "end")[0] == column(run, "end")[3] == 1 + 128 + 100
    assert column(run, "end")[1] == column(run, "end")[4] == 229
    # 512 and 1024 bytes: both at half speed for 64 cycles, then one alone for 32.
    assert column(run, "end")[2] == 230 + 64 + 100
    assert column(run, "end")[5] == 230 + 96 + 100


def test_on_chip_bandwidth_bounds_commands(toy, script):
    from dataclasses import replace

    slow = replace(toy.memory("SPM"), bytes_per_second=1e9)  # one byte a cycle
    memories = tuple(slow if m.name == "SPM" else m for m in toy.memories)
    machine = replace(toy, memories=memories)
    script.fill(SPM, 0.0, 1, 16)
    script.load(64, 0, 1, 64)
    run = simulate(machine, script.stream(), operands())
    assert column(run, "end") == [1 + 8 + 64, 2 + 64 + 100]


def test_issue_cycles_come_from_the_machine_file(toy, script):
    from dataclasses import replace

    machine = replace(toy, vendor={**toy.vendor, "issue_cycles": 10})
    script.fill(SPM, 0.0, 1, 16)
    script.fill(SPM, 0.0, 1, 16)
    run = simulate(machine, script.stream(), operands())
    assert column(run, "issue") == [10, 20]


def test_equal_streams_give_equal_runs(toy, script, random):
    for _ in range(40):
        script.load(int(random.integers(64)) * 64, 0, 1, int(random.integers(1, 64)))
        script.store(2, ACC, 0, 64)
        script.fill(ACC, 1.0, 1, int(random.integers(1, 64)))
    first = simulate(toy, script.stream(), operands())
    again = simulate(toy, script.stream(), operands())
    assert first.trace.tobytes() == again.trace.tobytes()
    late = [simulate(toy, script.stream(), operands(), adversary=5) for _ in range(2)]
    assert late[0].trace.tobytes() == late[1].trace.tobytes()
    assert late[0].trace.tobytes() != first.trace.tobytes()
    assert late[0].cycles >= first.cycles


def test_an_empty_stream_takes_no_time(toy, script):
    assert simulate(toy, script.stream(), operands()).cycles == 0

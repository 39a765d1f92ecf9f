"""The machine measured: how levels are told apart, what is written, and that it is a machine."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import septran
from septran.machine.loader import load_machine, read_machine
from septran.targets.cpu.measure import loops
from septran.tuning import caches
from septran.tuning.caches import KINDS, Level, Rates, Size
from septran.tuning.machine_file import machine_text
from septran.tuning.probes import Figure, Probe, sample
from septran.tuning.survey import CannotMeasureError, Survey, loops_of, survey

KIB = 1 << 10


def figure(value):
    return Figure(value, 0.04)


def rates(read, stream=None):
    return Rates(figure(read), figure(read / 2), figure(read), stream and figure(stream))


MADE_UP = Survey(
    load_machine("cpu-x86"), "znver5", 4, figure(3e9), figure(2e-6), figure(5e-6),
    (
        Level("L1", 48 * KIB, 48 * KIB, 48 * KIB, figure(1e-9), rates(4e11), rates(16e11)),
        Level("L2", 768 * KIB, 768 * KIB, None, figure(4e-9), rates(1e11), rates(4e11)),
        Level("L3", 32 << 20, 24 << 20, 32 << 20, figure(2e-8), rates(9e10), rates(2e11)),
        Level("DRAM", None, None, None, figure(1e-7), rates(3e10, 9e10), rates(6e10, 1.5e11)),
    ),
    {"fma_microkernel": (figure(96e9), figure(90e9)), "vector": (figure(48e9), figure(48e9))},
    figure(48e9), {"exp": figure(17.0)}, ("avx512_bf16",),
)  # fmt: skip


# ------------------------------------------------------------ the file
def test_what_is_written_is_read_as_the_machine_that_was_measured():
    machine = read_machine(machine_text(MADE_UP, "a host"), "here.yaml")
    shipped = load_machine("cpu-x86")
    assert machine.name == shipped.name
    assert machine.clock_mhz == 3000
    assert [m.name for m in machine.memories] == [m.name for m in shipped.memories]
    assert machine.memory("L2").capacity_bytes == 768 * KIB
    assert machine.memory("L1").bytes_per_second == pytest.approx(4e11)
    assert machine.memory("L1").write_bytes_per_second == pytest.approx(2e11)
    assert machine.host.launch_ns == 2000
    assert machine.processor("CORE").launch_ns == 5000
    assert machine.instruction("fma_microkernel").throughput == 32
    assert machine.instruction("vector").costs["exp"] == 17.0
    # What was not measured is as in the shipped file.
    assert machine.instruction("avx512_vnni") == shipped.instruction("avx512_vnni")
    assert machine.engines == shipped.engines


def test_a_shared_level_has_the_rate_of_all_cores_and_that_of_one():
    machine = read_machine(machine_text(MADE_UP, "a host"), "here.yaml")
    dram = machine.main_memory
    assert (dram.bytes_per_second, dram.unit_bytes_per_second) == (60e9, 30e9)
    assert dram.stream_bytes_per_second == 150e9
    assert machine.memory("L2").unit_bytes_per_second is None


def test_a_single_core_has_no_loop_over_cores():
    text = machine_text(replace(MADE_UP, cores=1, launch=None), "a host")
    machine = read_machine(text, "here.yaml")
    assert machine.processor("CORE").launch_ns == 0
    assert machine.main_memory.unit_bytes_per_second == 30e9


def test_each_figure_says_how_far_its_rounds_were_apart():
    text = machine_text(MADE_UP, "a host")
    assert "clock_mhz: 3000    # operations that wait for one another; +-2%" in text
    assert "the times show 24 MiB, the system reports 32 MiB" in text
    assert "not on this host: avx512_bf16" in text


def test_a_measured_file_is_used_with_the_shipped_mapping(tmp_path):
    file = tmp_path / "here.yaml"
    file.write_text(machine_text(MADE_UP, "a host"))
    found = septran.explain("gemm", machine=str(file), shapes={"M": 64, "N": 64, "K": 64})
    assert found.mapping.machine.clock_mhz == 3000


# ------------------------------------------------------------ levels
def test_levels_end_where_loads_wait_longer():
    sizes = list(caches.sizes_between(4 * KIB, 8192 * KIB))
    waits = {n: 1.0 if n <= 48 * KIB else 3.0 if n <= 1024 * KIB else 15.0 for n in sizes}
    assert caches.ends_of_plateaus(waits, 2) == [48 * KIB, 1024 * KIB]


def test_a_size_that_is_partly_of_the_next_level_does_not_hide_it():
    sizes = list(caches.sizes_between(4 * KIB, 8192 * KIB))
    waits = {n: 1.0 if n <= 32 * KIB else 3.0 if n <= 512 * KIB else 15.0 for n in sizes}
    waits[48 * KIB] = 2.0
    assert caches.ends_of_plateaus(waits, 2) == [32 * KIB, 512 * KIB]


def test_lines_that_miss_here_and_there_do_not_end_a_level():
    """As measured on a Cascade Lake of 32 KiB and 1 MiB, whose tables of pages reach 256 KiB."""
    waits = dict(
        zip(
            (KIB * n for n in (24, 32, 48, 64, 256, 384, 512, 768, 1024, 1536, 2048, 3072)),
            (1.67, 1.67, 4.59, 4.6, 4.61, 5.59, 6.05, 9.3, 13.95, 21.84, 24.18, 24.62),
            strict=True,
        )
    )
    assert caches.ends_of_plateaus(waits, 2) == [32 * KIB, 768 * KIB]


def test_a_level_that_does_not_show_is_not_made_up():
    waits = dict.fromkeys(caches.sizes_between(4 * KIB, 64 * KIB), 1.0)
    assert caches.ends_of_plateaus(waits, 2) == [None, None]
    assert caches.end_of_slope({1: 10.0, 2: 9.5, 4: 9.0}) is None


def test_a_shared_cache_ends_half_way_down():
    assert caches.end_of_slope({1: 90.0, 2: 90.0, 4: 60.0, 8: 31.0, 16: 30.0}) == 4


def test_a_slow_moment_does_not_end_a_shared_cache():
    assert caches.end_of_slope({1: 90.0, 2: 50.0, 4: 88.0, 8: 85.0, 16: 31.0, 32: 30.0}) == 8


@pytest.mark.parametrize(
    ("found", "reported", "shared", "size"),
    [
        (768, 1024, False, 1024),
        (384, 1024, False, 1024),  # pages that lie anywhere, and other guests
        (384, 1024, True, 384),
        (256, 1024, False, 256),
        (768, None, False, 768),
        (None, 1024, False, 1024),
        (None, None, False, None),
    ],
)
def test_the_system_is_believed_where_the_times_do_not_speak_against_it(
    found, reported, shared, size
):
    assert Size("L2", found, reported, shared=shared).bytes == size


def test_what_the_system_tells_is_read_level_by_level(tmp_path):
    for n, (kind, level, size) in enumerate(
        [("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 3, "32M"), ("Unified", 2, "?")]
    ):
        folder = tmp_path / f"index{n}"
        folder.mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{value}\n")
    assert caches.reported_sizes(tmp_path) == {1: 48 * KIB, 3: 32 << 20}
    assert caches.reported_sizes(tmp_path / "nothing") == {}


# ------------------------------------------------------------ loops
def test_links_go_through_every_line_once():
    links = loops.Links(64 * loops.LINE)
    links.lay(64 * loops.LINE)
    seen = set()
    for _ in range(64):
        seen.add(int(links._end[0]))
        links.follow(1)
    assert seen == {16 * n for n in range(64)}
    assert links._end[0] == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_buffers_count_what_all_threads_move(threads):
    loops.use_threads(threads)
    buffers = loops.Buffers(64 * KIB, threads)
    for kind in (*KINDS, "stream"):
        twice = 2 if kind == "copy" else 1
        assert buffers.run(kind, 32 * KIB, 3) == threads * 32 * KIB * 3 * twice
    loops.use_threads(1)


def test_a_copy_and_a_sum_do_what_they_say():
    buffers = loops.Buffers(8 * KIB, 1)
    buffers._given[0].copyfrom(np.arange(2 * KIB, dtype="float32"))
    buffers.run("copy", 8 * KIB, 1)
    assert buffers._given[1].numpy().sum() == sum(range(2 * KIB))
    buffers.run("read", 8 * KIB, 2)
    assert buffers._sums.numpy().sum() == 2 * sum(range(2 * KIB))


@pytest.mark.parametrize("machine", ["cpu-x86", "cpu-arm"])
def test_every_instruction_that_the_host_has_and_that_has_a_figure_has_a_loop(machine):
    from septran.targets.cpu.run.isa import native

    for one in load_machine(machine).instructions:
        if one.throughput and set(one.requires) <= native().features:
            run, work = loops.sums(one.name)
            run(10)
            assert work > 0
    assert loops.sums("no_such_instruction") is None


@pytest.mark.parametrize(("name", "of_each"), [("amx_int8", 64), ("amx_bf16", 32)])
def test_tile_registers_have_a_loop_of_four_sums(monkeypatch, name, of_each):
    monkeypatch.setenv("SEPTRAN_NATIVE", "amx")
    run, work = loops.sums(name)
    run(2)
    assert work == 4 * 16 * 16 * of_each


def test_a_probe_is_the_median_of_its_rounds():
    probe = Probe(float, samples=[1.0, 4.0, 2.0])
    assert probe.rate == Figure(2.0, 1.5)
    assert probe.seconds.value == 0.5
    used = []
    probes = [Probe(lambda n: float(n)), Probe(lambda n: 2.0 * n)]
    sample(probes, 3, used.append)
    assert used == [1, 1, 1]
    assert all(len(p.samples) == 3 and min(p.samples) > 0 for p in probes)


# ------------------------------------------------------------ hosts
@pytest.mark.parametrize("name", ["nvidia-h200", "dsa-sim"])
def test_what_is_no_cpu_is_not_measured(name):
    with pytest.raises(CannotMeasureError, match="is no CPU"):
        loops_of(load_machine(name))


def test_another_kind_of_processor_is_not_measured():
    from septran.targets.cpu.run.isa import native

    other = "cpu-x86" if "neon" in native().features else "cpu-arm"
    with pytest.raises(CannotMeasureError, match="another kind of processor"):
        loops_of(load_machine(other))
    with pytest.raises(CannotMeasureError, match="another kind of processor"):
        loops_of(replace(load_machine(other), arch="native"))


@pytest.mark.slow
def test_a_survey_has_every_figure_and_is_a_machine(tmp_path):
    from septran.targets.cpu.run.isa import native

    name = "cpu-arm" if "neon" in native().features else "cpu-x86"
    found = survey(load_machine(name), rounds=1, largest=16 << 20)
    assert [level.name for level in found.levels][-1] == "DRAM"
    assert all(level.latency.value > 0 for level in found.levels)
    assert all(math.isfinite(cost.value) and cost.value >= 1 for cost in found.costs.values())
    assert {"vector", "fma_microkernel"} <= set(found.instructions)
    assert not set(found.lacking) & set(found.instructions)
    machine = read_machine(machine_text(found, "a host"), "here.yaml")
    assert machine.clock_mhz > 100

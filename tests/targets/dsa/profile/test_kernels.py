"""The whole route on both DSAs: right, under every delay, and not without any of its flags."""

from __future__ import annotations

import functools
from collections import defaultdict, deque

import numpy as np
import pytest

import septran
from septran.dtypes import numpy_dtype
from septran.machine.loader import mappings_root
from septran.simulator import HazardError, SimulationError, simulate
from septran.simulator.commands import CODES
from septran.targets.dsa.profiles.profile import UNKNOWN, DsaProfile
from tests.tiers import slow_but

MACHINES = ("dsa-sim", "npu-cube")
SIZES = {
    "attention": {"B": 1, "H": 2, "G": 2, "M": 33, "N": 70, "D": 16},
    "batched_gemm": {"S": 3, "M": 40, "N": 33, "K": 70},
    "conv2d": {"B": 2, "C": 3, "H": 10, "W": 9, "O": 5, "R": 3, "S": 2},
    "gemm": {"M": 70, "N": 130, "K": 90},
    "gemm_bias_act": {"M": 70, "N": 40, "K": 66},
    "softmax": {"M": 70, "N": 70},
}
TUNABLES = {"block_M": 32, "block_N": 32, "block_K": 32, "block_rows": 16}
"""Small, so that there are several tiles along each axis, the last of them ragged."""
SET, WAIT = CODES["dsa.set_flag"], CODES["dsa.wait_flag"]
EVERY = [(name, machine) for name in SIZES for machine in MACHINES]


@functools.cache
def kernel(name, machine, dtype="float32"):
    asked = {n for task in septran.produce_stages(name, machine, shapes=SIZES[name])
             .task_tree.tasks() for n, _ in task.tunables}  # fmt: skip
    tunables = {n: value for n, value in TUNABLES.items() if n in asked}
    return septran.compile(name, machine, shapes=SIZES[name], dtypes=dtype, tunables=tunables)


def memory(made, seed=0):
    """The executable's tensors and temporaries, inputs at random."""
    stages, (specialisation,) = made.stages, made.specialisations
    inputs = made.sample(seed)
    tensors = [
        inputs.get(t.name, np.zeros(t.shape, numpy_dtype(t.dtype))).copy()
        for t in specialisation.tensors
    ]
    extra = [np.full(size, 0xFF, np.uint8) for size in stages.executable.workspaces]
    return tensors + extra, [n for n, t in enumerate(specialisation.tensors) if t.writes]


def outcome(made, stream, **options):
    """Bytes of the outputs."""
    arrays, written = memory(made)
    simulate(made.stages.executable.machine, stream, arrays, **options)
    return [arrays[n].tobytes() for n in written]


@pytest.mark.one_in(8, first=2)
@pytest.mark.parametrize("dtype", slow_but(["float16"], ["float32", "float16"]))
@pytest.mark.parametrize(("name", "machine"), EVERY)
def test_every_operator_is_right(name, machine, dtype):
    check = kernel(name, machine, dtype).check()
    assert check.right, str(check)


@pytest.mark.one_in(4, first=1)
@pytest.mark.parametrize(("name", "machine"), slow_but(EVERY[::3], EVERY))
def test_no_delay_changes_a_bit(name, machine):
    made = kernel(name, machine)
    stream = made.stages.executable.stream()
    expected = outcome(made, stream)
    for seed in range(16):
        assert outcome(made, stream, adversary=seed) == expected, f"adversary {seed}"


def test_the_environment_names_the_adversary(monkeypatch):
    made = kernel("gemm", "dsa-sim")
    plain = made.profile().cycles
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", "3")
    assert made.profile().cycles > plain
    assert made.check().right


def pairs(stream):
    """The position of the set_flag that each wait_flag takes, in the order of both."""
    waiting, found = defaultdict(deque), {}
    for n in np.flatnonzero(np.isin(stream["code"], [SET, WAIT])).tolist():
        key = (int(stream["core"][n]), *stream["arguments"][n][:3].tolist())
        if stream["code"][n] == SET:
            waiting[key].append(n)
        else:
            found[n] = waiting[key].popleft()
    return found


def without(stream, positions):
    keep = np.ones(len(stream), bool)
    keep[list(positions)] = False
    return stream[keep]


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("name", "machine"), EVERY)
def test_a_lost_wait_is_always_noticed(name, machine):
    made = kernel(name, machine)
    stream = made.stages.executable.stream()
    lines = stream["line"]
    waits = np.flatnonzero(stream["code"] == WAIT)
    for line in np.unique(lines[waits]):
        first = waits[lines[waits] == line][:1]
        with pytest.raises(SimulationError):
            outcome(made, without(stream, first))


@pytest.mark.parametrize(("name", "machine"), slow_but(EVERY[1::3], EVERY))
@pytest.mark.one_in(2, first=1)
def test_no_flag_that_is_needed_can_be_taken_out(name, machine):
    """Take each place's flags out on both sides, so that only the order is lost.

    Either the race is found, or other flags imply the order: then nothing changes under
    any delay.
    """
    made = kernel(name, machine)
    stream = made.stages.executable.stream()
    expected = outcome(made, stream)
    matched = pairs(stream)
    by_line = defaultdict(list)
    for wait, setter in matched.items():
        by_line[int(stream["line"][wait])].append((wait, setter))
    caught = 0
    for flags in by_line.values():
        mutant = without(stream, [n for pair in flags for n in pair])
        try:
            assert outcome(made, mutant) == expected
        except SimulationError:
            caught += 1
            continue
        for seed in range(4):
            assert outcome(made, mutant, adversary=seed, checks=False) == expected
    assert caught >= max(2, len(by_line) / 4)


def test_without_the_wait_for_its_operands_a_product_is_a_hazard():
    made = kernel("gemm", "dsa-sim")
    stream = made.stages.executable.stream()
    origins = made.stages.executable.origins
    arrivals = {
        wait: setter
        for wait, setter in pairs(stream).items()
        if "arrive in SPM asynchronously" in origins.get(int(stream["line"][wait]), "")
    }
    assert arrivals
    mutant = without(stream, [*arrivals, *arrivals.values()])
    with pytest.raises(HazardError):
        outcome(made, mutant)
    right = outcome(made, stream)
    assert outcome(made, mutant, checks=False) != right


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize(("name", "machine"), EVERY)
def test_a_profile_agrees_with_the_tile_program(name, machine):
    made = kernel(name, machine)
    profile = made.profile()
    assert isinstance(profile, DsaProfile)
    assert profile.cycles >= profile.bound.cycles
    ledger = septran.explain(name, machine, shapes=SIZES[name], tunables=used(made)).ledger
    moved = {edge: n for edge, n in ledger.edges.items() if edge in profile.edge_bytes}
    assert moved
    for edge, amount in moved.items():
        assert profile.edge_bytes[edge] >= amount, edge


def used(made):
    asked = {n for task in made.stages.task_tree.tasks() for n, _ in task.tunables}
    return {n: value for n, value in TUNABLES.items() if n in asked}


def test_every_copy_and_computation_has_an_origin_in_the_users_files():
    frame = kernel("gemm", "dsa-sim").profile().by_origin()
    work = frame[frame.commands > 0]
    assert UNKNOWN not in set(work.origin)
    assert work.mapping.str.contains(r"dsa-sim\.mapping\.yaml:\d+", regex=True).all()
    assert work.origin.str.contains(r"gemm\.py:\d+", regex=True).all()


def test_profiling_leaves_the_callers_output_alone():
    made = kernel("gemm", "dsa-sim")
    a, b = made.sample().values()
    out = np.full((70, 130), 7.0, "float32")
    made.profile(a, b, out=out)
    assert (out == 7).all()


def test_a_saved_kernel_still_tells_its_cycles(tmp_path):
    made = kernel("softmax", "dsa-sim")
    made.save(tmp_path / "kernel.zip")
    loaded = septran.load(tmp_path / "kernel.zip")
    x = made.sample()["X"]
    profile = loaded.profile(x)
    assert profile.cycles == made.profile(x).cycles
    assert profile.bound is None


def test_a_large_product_keeps_the_matrix_unit_busy():
    shapes = {"M": 1024, "N": 1024, "K": 1024}
    made = septran.compile("gemm", "dsa-sim", shapes=shapes, dtypes="float16")
    profile = made.profile()
    assert profile.utilisation["MMA"] >= 0.95
    assert profile.bound.cycles <= profile.cycles <= 1.05 * profile.bound.cycles


def own_machine(folder, bandwidth):
    """Another machine than those that come with SepTran: its file, its header, its mapping."""
    machines = mappings_root() / "machines"
    header = (machines / "dsa-sim.h").read_text(encoding="utf-8")
    (folder / "mine.h").write_text(header.replace("vendor_lib_", "mine_"), encoding="utf-8")
    text = (machines / "dsa-sim.yaml").read_text(encoding="utf-8")
    changes = [("vendor_lib_", "mine_"), ("dsa-sim", "mine"), ("32B/cycle", f"{bandwidth}B/cycle")]
    for old, new in changes:
        text = text.replace(old, new)
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return folder / "mine.yaml"


def test_a_machine_of_ones_own_needs_no_code_and_answers_what_if(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_TRUST", "all")
    mapping = mappings_root() / "dsa-sim.mapping.yaml"
    cycles = []
    for bandwidth in (8, 16, 32, 64):
        folder = tmp_path / str(bandwidth)
        folder.mkdir()
        machine = own_machine(folder, bandwidth)
        made = septran.compile(
            "gemm", mapping, machine=machine, shapes={"M": 128, "N": 128, "K": 256}
        )
        assert made.check().right
        assert "mine_dma_copy(" in made.stages.source.text
        profile = made.profile()
        assert profile.cycles >= profile.bound.cycles
        cycles.append(profile.cycles)
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > 1.5 * cycles[2]


def test_a_second_stage_pays():
    text = (mappings_root() / "dsa-sim.mapping.yaml").read_text(encoding="utf-8")
    shapes = {"M": 128, "N": 128, "K": 512}
    one, two = (
        septran.compile(
            "gemm", text.replace("pipeline: 2", f"pipeline: {stages}"), shapes=shapes
        ).profile()
        for stages in (1, 2)
    )  # fmt: skip
    assert one.cycles > 1.5 * two.cycles
    assert one.main_memory_bytes == two.main_memory_bytes

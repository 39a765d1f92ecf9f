"""Clusters and multicast in the generated CUDA: right in every order of events, faults found."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import septran
from septran.emulator import EmulationError, emulate, emulation
from septran.machine.loader import load_machine
from septran.targets.cuda.run.compile import compile_text, disassemble
from septran.targets.cuda.run.toolchain import INSTALL_DISASSEMBLER
from septran.targets.cuda.target import TARGET
from tests.tiers import slow_but

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
H200 = load_machine("nvidia-h200")
TILES = {"block_M": 64, "block_N": 64, "block_K": 32}
SIZES = {"M": 256, "N": 128, "K": 200}
PLAIN = "{match: {loops: parallel}, warpspecialize: false, pipeline: 2}"


def machine(blocks):
    """An H200 with few multiprocessors, so that small grids have several turns."""
    processors = [replace(p, count=blocks) if p.name == "BLOCK" else p for p in H200.processors]
    return replace(H200, processors=tuple(processors))


def mapping(field, *rules):
    lines = (f"{{match: {{holds: parallel}}, {field}}}", *rules)
    return "extends: nvidia-h200.mapping.yaml\nrules:\n" + "".join(f"  - {x}\n" for x in lines)


CASES = {
    "columns of two": ("gemm", SIZES, "cluster: [2, 1]", (), 132),
    "rows of two, ragged": ("gemm", {"M": 100, "N": 250, "K": 72}, "cluster: [1, 2]", (), 132),
    "four by two": ("gemm", {"M": 256, "N": 128, "K": 64}, "cluster: [4, 2]", (), 132),
    "two panels of B": ("gemm", SIZES | {"N": 256}, "cluster: [2, 1]", (), 132, {"block_N": 128}),
    "four with two panels": (
        "gemm", SIZES | {"N": 256}, "cluster: [4, 1]", (), 132, {"block_N": 128},
    ),
    "persistent": (
        "gemm", {"M": 384, "N": 128, "K": 72}, "cluster: 2, persistent: true, raster: 3", (), 4,
    ),
    "without roles": ("gemm", SIZES, "cluster: [2, 1]", (PLAIN,), 132),
    "keys and values": (
        "attention", {"B": 1, "H": 1, "G": 1, "M": 256, "N": 100, "D": 64}, "cluster: 2", (), 132,
    ),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name", slow_but(["rows of two, ragged", "persistent", "keys and values"], CASES)
)
def test_a_cluster_is_right_in_every_mode(name):
    operator, shapes, field, rules, blocks, *tiles = CASES[name]
    kernel = septran.compile(
        operator, mapping(field, *rules), machine=machine(blocks), shapes=shapes, dtypes="float16",
        tunables=(TILES if operator == "gemm" else {"block_M": 64, "block_N": 64}) | dict(*tiles),
        emulate=True,
    )  # fmt: skip
    for mode in ("eager", "late", "random"):
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()
    (launch,) = kernel.stages.tensor_ir.cuda.launches
    assert launch.cluster > 1
    assert launch.grid % launch.cluster == 0


def lowered(field="cluster: [2, 1]", **options):
    shapes = options.pop("shapes", {"M": 128, "N": 128, "K": 320})
    stages = septran.produce_stages(
        "gemm", mapping(field), shapes=shapes, dtypes="float16", tunables=TILES | options
    )
    return TARGET.lower(stages.tile_program).cuda


@pytest.fixture(scope="module")
def pair():
    return lowered()


def run(program, mode="late"):
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, s).astype("float16") for s in ((128, 320), (320, 128)))
    c = np.full((128, 128), np.nan, np.float16)
    emulate(program, {"A": a, "B": b, "C": c}, mode=mode, seed=1, machine=H200)
    return np.array_equal(c, a.astype("float32") @ b.astype("float32"))


END = "  // no block of the cluster ends before all are done with its memory\n"
FAULTS = {
    "a remote arrival is missing": ("(thread & 31) < 2", "(thread & 31) < 1"),
    "both arrivals go to the block itself": ("int peer = condval;", "int peer = rank;"),
    "the mask names one block": ("(ushort)3)", "(ushort)1)"),
    "the mask names a block that is not there": ("(ushort)3)", "(ushort)5)"),
    "both blocks bring the same half": (r"\(rank \* (2048|16)\)", "0"),
    "the halves are swapped in the tensor": (r"\(rank \* 16\)", "((1 - rank) * 16)"),
    "one arrival for two blocks is waited for": (r"\(uint\)8\)", "(uint)4)"),
    "fewer bytes are waited for": (r", \(uint\)8192\)", ", (uint)6144)"),
    "a block ends before the others": (re.escape(END) + r"(.*\n){2}", ""),
    "no barrier before the first copy": (r"  // no block of the cluster w.*\n(.*\n){2}", ""),
}  # fmt: skip


def test_the_pair_is_right(pair):
    assert pair.launches[0].cluster == 2
    assert all(run(pair, mode) for mode in ("eager", "late", "random"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_handshake_of_a_cluster_is_found(pair, name):
    old, new = FAULTS[name]
    pattern = old if "\\" in old else re.escape(old)
    text, count = re.subn(pattern, new, pair.source)
    assert count, name
    broken = replace(pair, source=text)
    found = []
    for mode in ("late", "random", "eager"):
        try:
            found.append(not run(broken, mode))
        except EmulationError:
            found.append(True)
    assert any(found)


def test_a_descriptor_that_keeps_the_rank_of_its_address_is_found():
    """PTX ISA, matrix-descriptor-encode: 18 bits of the address; more would change the strides."""
    program = lowered(shapes={"M": 128, "N": 256, "K": 64}, block_N=128)
    masked = " & (uint)262143)"
    assert masked in program.source
    program = replace(program, source=program.source.replace(masked, ")"))
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, s).astype("float16") for s in ((128, 64), (64, 256)))
    c = np.full((128, 256), np.nan, np.float16)
    try:
        emulate(program, {"A": a, "B": b, "C": c}, mode="late", machine=H200)
        wrong = c != a.astype("float32") @ b.astype("float32")
    except EmulationError:
        return
    assert wrong[64:].any()
    assert not wrong[:64].any()


THREADS = "{match: {leaf: true}, binding: {gemm: mma_sync}}"
NEAR = 600
"""Characters of machine code before an arrival: about ten instructions."""
ORDERED = ("mbarrier.arrive.release.cluster.shared::cluster", "mbarrier_wait_acquire_cluster")


def text(*rules):
    """The source of a pair of blocks that share what they bring of B."""
    sizes = {"M": 128, "N": 128, "K": 64}
    stages = septran.produce_stages(
        "gemm", mapping("cluster: [2, 1]", *rules), shapes=sizes, dtypes="float16", tunables=TILES
    )
    source = TARGET.lower(stages.tile_program).cuda.source
    assert "multicast::cluster" in source
    return source


def test_what_wgmma_read_is_released_without_a_barrier_of_the_gpu():
    """`wgmma.wait_group` completed the reads: no access of a thread is left to order."""
    source = text()
    assert '"mbarrier.arrive.shared::cluster.b64 _, [%0];"' in source
    assert not any(word in source for word in ORDERED)


def test_what_threads_read_is_released_for_the_cluster():
    """PTX ISA, mbarrier.arrive: without a scope it is .cta, which the other block is not in."""
    source = text(THREADS)
    assert all(word in source for word in ORDERED)
    assert "mbarrier.arrive.shared::cluster" not in source


@pytest.mark.parametrize(("rules", "barrier"), [((), False), ((THREADS,), True)])
@pytest.mark.one_in(2, first=1)
def test_what_the_arrival_costs_in_machine_code(cuda_compiler, rules, barrier):
    machine_code = disassemble(compile_text(text(*rules), "sm_90a").cubin)
    if machine_code is None:
        pytest.skip(f"no disassembler here: {INSTALL_DISASSEMBLER}")
    arrivals = machine_code.split("SYNCS.ARRIVE.TRANS64.RED.A1T0")
    assert len(arrivals) > 1
    before = ["MEMBAR.ALL.GPU" in code[-NEAR:] for code in arrivals[:-1]]
    assert before == [barrier] * len(before)


def test_what_is_generated_is_clean_for_the_compiler(cuda_compiler):
    """Warnings are errors, nothing spills, and the instructions are those of clusters."""
    shapes = {"M": 4096, "N": 4096, "K": 512}
    program = lowered(
        "cluster: 2, persistent: true, raster: 8", shapes=shapes, block_M=128, block_N=256,
        block_K=64,
    )  # fmt: skip
    (launch,) = program.launches
    assert (launch.grid, launch.cluster) == (132, 2)
    assert "multicast::cluster" in program.source
    built = compile_text(program.source, "sm_90a")
    assert not built.advisories
    assert [(f.spill_store_bytes, f.spill_load_bytes) for f in built.figures] == [(0, 0)]

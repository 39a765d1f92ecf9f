"""Kernels that note when their warpgroups do what: the same results, and a timeline."""

import itertools

import numpy as np
import pytest

import septran
from septran.targets.cuda.run import instrumented_run as marked_run
from septran.targets.cuda.run.compile import compile_text
from septran.targets.cuda.run.emulated import EmulatedExecutable
from septran.targets.cuda.run.instrumentation import RECORDS, ROOM, WORDS, Site
from septran.targets.cuda.run.instrumented_run import (
    WarpgroupMark,
    marked_program,
    read,
    record,
    record_emulated,
)
from septran.tile.nodes import Compute, Copy, nodes
from septran.views.timelines.gpu import BLOCKS, timeline
from septran.views.timelines.kernels import timeline_of
from septran.views.timelines.timeline import KINDS

HEADS = {"B": 1, "H": 1, "G": 1, "M": 128, "N": 384, "D": 128}
CASES = {
    "gemm": ("gemm", "nvidia-h200", {"M": 256, "N": 264, "K": 200}, {}),
    "attention": ("attention", "nvidia-h200", HEADS, {"causal": True}),
    "softmax": ("softmax", "nvidia-h200", {"M": 40, "N": 200}, {}),
    "gemm on nvidia-a100": ("gemm", "nvidia-a100", {"M": 64, "N": 72, "K": 96}, {}),
}
ROLES = ["gemm", "attention"]
TILES = {"gemm": {"block_M": 128, "block_N": 256, "block_K": 64}}
"""Those of a large product, which two warpgroups share."""


@pytest.fixture(scope="module", params=CASES)
def case(request):
    logic, machine, shapes, static = CASES[request.param]
    kernel = septran.compile(
        logic, machine, shapes=shapes, dtypes="float16", static=static,
        tunables=TILES.get(request.param), emulate=True,
    )  # fmt: skip
    return request.param, kernel


@pytest.fixture(scope="module")
def ran(case):
    """The name, the kernel, its arrays after a run with marks, and the marks."""
    name, kernel = case
    program = kernel.stages.tile_program
    arrays = kernel.sample() | {
        n: np.zeros(program.buffer(n).shape, np.float16) for n in program.outputs
    }
    marks = record_emulated(program, [arrays[n] for n in program.params])
    return name, kernel, arrays, marks


@pytest.mark.one_in(2)
def test_the_marked_kernel_computes_what_the_kernel_computes(ran):
    _, kernel, arrays, _ = ran
    program = kernel.stages.tile_program
    given = [arrays[n] for n in program.params if n not in program.outputs]
    (output,) = program.outputs
    np.testing.assert_array_equal(arrays[output], kernel(*given))


def test_what_a_warpgroup_does_is_in_order(ran):
    *_, marks = ran
    assert min(mark.start for mark in marks) == 0
    assert all(0 <= mark.start <= mark.end for mark in marks)
    for _, mine in itertools.groupby(marks, key=lambda m: (m.kernel, m.block, m.lane)):
        assert all(a.end <= b.start for a, b in itertools.pairwise(mine))


def test_every_block_and_warpgroup_has_a_lane(ran):
    name, kernel, _, marks = ran
    (launch,) = kernel.stages.tensor_ir.launches
    lanes = {mark.lane for mark in marks}
    if name in ROLES:
        assert lanes == {"producer", "consumer 0", "consumer 1"}
    else:
        assert lanes == {"warpgroup"}
    assert {(m.block, m.lane) for m in marks} == {
        (block, lane) for block in range(launch.grid) for lane in lanes
    }


def test_nodes_have_marks_with_their_origin(ran):
    """Each copy and each product of the program was timed, under its own rule."""
    name, kernel, _, marks = ran
    program = kernel.stages.tile_program
    timed = {mark.site.origin for mark in marks}
    expected = [n for n in nodes(program.body) if isinstance(n, Copy) or _is_product(n)]
    assert expected
    for node in expected:
        assert str(node.origin) in timed, (name, node)
    assert {mark.site.kind for mark in marks} <= KINDS.keys()


def _is_product(node):
    return isinstance(node, Compute) and node.primitive == "gemm"


@pytest.mark.parametrize("name", ROLES)
def test_fills_and_waits_are_as_many_as_the_steps(name):
    """Of the first block: the producer loads each tile once, each consumer waits for each."""
    logic, machine, shapes, static = CASES[name]
    kernel = septran.compile(
        logic, machine, shapes=shapes, dtypes="float16", static=static,
        tunables=TILES.get(name), emulate=True,
    )  # fmt: skip
    program = kernel.stages.tile_program
    arrays = kernel.sample() | {
        n: np.zeros(program.buffer(n).shape, np.float16) for n in program.outputs
    }
    marks = record_emulated(program, [arrays[n] for n in program.params])
    first = [mark for mark in marks if mark.block == 0]
    channel = "A_B_in" if name == "gemm" else "K_in"
    loads = [m for m in first if m.site.label in ("tma A", "tma K")]
    for lane in ("consumer 0", "consumer 1"):
        waits = [m for m in first if m.lane == lane and m.site.label == f"wait {channel}"]
        assert len(waits) == len(loads) > 1
        products = [m for m in first if m.lane == lane and m.site.kind == "matrix"]
        assert len(products) == len(loads) * (1 if name == "gemm" else 2)
        for load, wait in zip(loads, waits, strict=True):
            assert load.start <= wait.end  # what is waited for was issued before


def test_the_timeline_has_lanes_and_bars_of_the_common_format(ran):
    name, kernel, _, marks = ran
    told = timeline(marks, name, "steps")
    data = told.to_dict()
    assert data["unit"] == "steps"
    assert {lane["title"] for lane in data["lanes"]} == {mark.lane for mark in marks}
    assert {lane["group"] for lane in data["lanes"]} == {
        f"{name.split()[0]}_kernel: block 0 on multiprocessor 0"
    }
    assert max(data["bars"]["end"]) == data["end"] > 0
    assert set(data["kinds"]) <= KINDS.keys()
    traced = kernel.timeline(*kernel.sample().values()).to_dict()
    assert traced.keys() == data.keys()
    assert "Timeline of" in told._repr_mimebundle_()["text/html"]


def test_without_marks_the_text_is_as_it_was(case):
    _, kernel = case
    program, text = kernel.stages.tile_program, kernel.stages.tensor_ir.cuda.source
    assert "mark" not in text
    assert "globaltimer" not in text
    marked = marked_program(program).program
    assert marked.params == (*program.params, ROOM)


@pytest.mark.one_in(4, first=2)
def test_marked_text_compiles_without_warnings_and_spills(case, cuda_compiler):
    name, kernel = case
    program = marked_program(kernel.stages.tile_program).program
    built = compile_text(program.source, program.arch, "marked")  # a warning is an error
    assert [(f.spill_store_bytes, f.spill_load_bytes) for f in built.figures] == [(0, 0)]
    assert not built.advisories  # products are not serialised by the marks
    assert "%globaltimer" in built.ptx
    plain = kernel.stages.tensor_ir.cuda
    assert "%globaltimer" not in compile_text(plain.source, plain.arch, name).ptx


def test_a_gpu_is_asked_twice_and_the_second_run_is_told(monkeypatch, cuda_compiler):
    """All of `record` but the GPU: an emulated one takes its place."""
    torch = pytest.importorskip("torch")
    logic, machine, shapes, _ = CASES["softmax"]
    stages = septran.produce_stages(logic, machine, shapes=shapes, dtypes="float16")
    program, rooms = stages.tile_program, []

    def executable(name, program, specs, outputs, machine, sizes, compiled):
        assert compiled.cubin.startswith(b"\x7fELF")
        return EmulatedExecutable(name, program, specs, machine, sizes)

    def zeros(count):
        rooms.append(torch.zeros(count, dtype=torch.int64))
        return rooms[-1]

    monkeypatch.setattr(marked_run, "CudaExecutable", executable)
    x = torch.rand(40, 200, generator=torch.Generator().manual_seed(1)).half()
    y = torch.zeros_like(x)
    marks = record(program, (y, x), zeros)
    assert len(rooms) == 2
    assert marks == record_emulated(program, (y.numpy(), x.numpy()))
    np.testing.assert_allclose(y.float().sum(1).numpy(), 1, atol=200 * 2**-11)


def site(kind="in"):
    return Site(kind, f"{kind} X", "a rule")


def test_times_go_on_where_the_clock_begins_anew():
    """The room holds 48 bits of a reading at the start and 64 at the end."""
    logic, machine, shapes, _ = CASES["softmax"]
    stages = septran.produce_stages(logic, machine, shapes=shapes, dtypes="float16")
    made = marked_program(stages.tile_program)
    (marks,) = made.marks
    number = dict((s.label, n) for s, n in marks.sites.items())["multiprocessor"]
    work = next(n for s, n in marks.sites.items() if s.kind == "out")
    room = np.zeros(made.words, np.uint64)
    lane = room[: RECORDS * WORDS].reshape(RECORDS, WORDS)
    now = (5 << 48) - 100  # nanoseconds
    lane[0] = (7 << 16 | number, now)
    for n in (1, 2):
        begun = now + 90 * n
        lane[n] = ((begun << 16) % (1 << 64) | work, begun + 20)
    found = list(read(made, room.view(np.int64)))
    assert [(m.start, m.end, m.multiprocessor) for m in found] == [(0, 20, 7), (90, 110, 7)]


def test_one_multiprocessor_is_shown_and_the_clocks_grain_is_told():
    marks = [
        WarpgroupMark(site(), "producer", "k", block, block % 2, 64 * block, 64 * block + 32)
        for block in range(20)
    ]
    told = timeline(marks, "k")
    assert {r.group for r in told.records} == {
        f"k: block {block} on multiprocessor 0" for block in range(0, 2 * BLOCKS, 2)
    }
    assert told.records[0].end == pytest.approx(0.032)
    assert told.notes[0] == "globaltimer goes in steps of 32 ns here"
    assert told.notes[-1] == "4 of 20 blocks with marks"


def test_a_profile_has_the_timeline_of_one_more_call():
    """On a CPU here; a GPU's comes from its marks."""
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 65, "N": 33, "K": 40})
    assert kernel.profile(repeat=2).timeline is None
    found = kernel.profile(repeat=2, timeline=True)
    assert found.timeline.records
    assert "Timeline" in str(found._repr_mimebundle_()["text/html"])


def test_a_gpus_timeline_is_that_of_its_marks(monkeypatch):
    kernel = septran.compile("gemm", "nvidia-h200", shapes={"M": 64, "N": 64, "K": 64})
    seen = []

    def recorded(program, arguments, zeros):
        seen.append((program, arguments))
        return (WarpgroupMark(site(), "producer", "gemm_kernel", 0, 3, 0, 2000),)

    monkeypatch.setattr(marked_run, "record", recorded)

    class Run:
        name, program, arguments = "gemm", kernel.stages.tile_program, ("C", "A", "B")
        specialisation = kernel.specialisations[0]

    told = timeline_of(Run())
    assert seen == [(kernel.stages.tile_program, ("C", "A", "B"))]
    assert told.unit == "us"
    assert told.end == pytest.approx(2.0)
    assert told.title == "gemm on nvidia-h200"

"""What a gemm asks for while it sums: lines that come next, each of them, and nothing near."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import septran
from benchmarks.models.logic import linear
from septran.ir.index import Index, axis
from septran.machine.loader import load_machine
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access, Storage
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.prefetch import NextColumnPanel, NextPack, NextRowStrip
from septran.targets.cpu.run.isa import row_streams, vector_unit
from septran.targets.cpu.run.threads import set_threads, usable_cores
from septran.targets.cpu.simd import CACHE_LINE, ZEN4, RowStreams
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.indices import Indices
from septran.targets.lower.writer import flat_buffer
from septran.tile.layouts import ROW
from septran.tile.nodes import Region
from tests.tiers import slow_but

ELEMENTS = CACHE_LINE // 4
HEAVY = {"B": 1, "C": 256, "H": 7, "W": 7, "O": 270, "R": 3, "S": 3}
"""Weights of 2.4 MiB for 49 pixels."""


@pytest.fixture(autouse=True)
def streams(monkeypatch):
    """Rows as of most processors, whichever this host is."""
    monkeypatch.setattr("septran.targets.cpu.context.row_streams", lambda _: RowStreams())


@pytest.fixture
def asked(monkeypatch):
    """Flat offsets that are asked for, as far as they are constants."""
    found: list[int] = []
    monkeypatch.setattr(simd, "prefetch", lambda _w, _b, at, _level: found.append(int(at)))
    return found


def context() -> Context:
    machine, writer = load_machine("cpu-x86"), CpuWriter()
    return Context(writer, Indices(writer), machine, vector_unit(machine))


def rows_of(held: Context, shape: tuple[int, int], part: tuple[int, int]) -> Access:
    """The first `part` of a tensor of rows."""
    flat = flat_buffer("X", shape[0] * shape[1], "float32")
    storage = Storage("X", shape, "float32", ROW, flat, "float32")
    region = Region("X", (Index.of(axis(0)), Index.of(axis(1))), part, tuple(map(Index.of, part)))
    return Access.of(storage, region, held.indices.ranges)


@pytest.mark.parametrize("part", [(16, 512), (512, 64), (5, 33)])
def test_every_line_of_the_next_panel_is_asked_for_once(asked, part):
    held = context()
    coming = NextPack(rows_of(held, (600, 1024), part), 1)
    for number in range(coming.lines):
        coming.issue(held, Index.of(number))
    wanted = {r * 1024 + c for r in range(part[0]) for c in range(0, part[1], ELEMENTS)}
    assert set(asked) == wanted
    assert len(asked) == len(wanted)


def test_lines_of_the_next_panel_are_asked_for_row_after_row(asked):
    """A few at a time of each row would be in as many pages, and of a share none would be whole."""
    held = context()
    coming = NextPack(rows_of(held, (600, 1024), (4, 64)), 1)
    for number in range(coming.lines):
        coming.issue(held, Index.of(number))
    assert asked == [r * 1024 + c for r in range(4) for c in range(0, 64, ELEMENTS)]


def test_what_is_asked_for_ends_with_the_last_line(asked):
    held = context()
    coming = NextPack(rows_of(held, (64, 64), (4, 32)), 1)
    coming.issue(held, Index.of(coming.lines - 1))
    coming.issue(held, Index.of(coming.lines + 5))
    assert asked == [3 * 64 + 16, 3 * 64 + 16]


def test_runs_in_inner_loops_are_counted_through():
    held = context()
    outer = NextPack(rows_of(held, (64, 64), (4, 32)), 1).within(Index.of(2), 3)
    inner = outer.within(Index.of(1), 4)
    assert (inner.run, inner.runs) == (Index.of(9), 12)


def test_the_next_panel_and_the_next_strip_lie_beside_and_below(asked):
    held = context()
    access = rows_of(held, (64, 256), (64, 256))
    NextColumnPanel(access, Index.of(16)).issue(held, Index.of(3))
    NextRowStrip(access, Index.of(6), 2).issue(held, Index.of(1))
    assert asked == [3 * 256 + 16, 6 * 256 + 16, 7 * 256 + 16]


def code(operator: str, shapes: dict[str, int], **static: int) -> str:
    stages = septran.produce_stages(operator, "cpu-x86", shapes=shapes, static=static)
    return stages.tensor_ir.text


def from_afar(text: str, name: str) -> int:
    """How many places ask for lines of a tensor into L2."""
    return sum(
        "llvm.prefetch" in line and f"address_of({name}_flat" in line and line.endswith("0, 2, 1)")
        for line in text.splitlines()
    )


@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
@pytest.mark.one_in(2, first=1)
def test_weights_of_the_next_panel_are_asked_for_where_they_are_far(operator):
    assert from_afar(code(operator, HEAVY, padding=1), "F") > 0
    assert from_afar(code(operator, {**HEAVY, "C": 16, "O": 32}, padding=1), "F") == 0


def test_a_panel_of_the_callers_that_is_all_its_columns_has_no_next_one(vectors):
    """It has three registers a row with AVX-512, two with AVX2."""
    shapes = {"M": 60, "P": 32, "K": 384, "S": {512: 48, 256: 16}[vectors]}
    stages = septran.produce_stages(linear, "cpu-x86", shapes=shapes, static={"act": "none"})
    assert from_afar(stages.tensor_ir.text, "B") == 0


@pytest.mark.parametrize("rows", [16, 32, 64])
def test_few_rows_ask_for_as_much_of_the_next_panel_as_there_is_time_for(rows, vectors):
    """They have fewer steps than two for each line."""
    text = code("swiglu", {"M": rows, "N": 5632, "K": 2048})
    assert from_afar(text, "W") > 0
    assert from_afar(text, "V") > 0


def lines_of_a_tile(experts: int) -> int:
    """How many lines of the next panel the first tile of a grouped product asks for."""
    text = code("grouped_gemm", {"T": 1024, "K": 512, "N": 512, "E": experts})
    until = text[: re.search(r"llvm.prefetch.*W_flat", text).start()]
    return int(re.findall(r"for k\S* in range\((\d+)\)", until)[-1])


def test_sections_of_rows_ask_for_lines_as_often_as_those_of_one_length(vectors):
    if vectors == 256:
        pytest.skip("sections of 64 rows ask for no line of W where registers have 32 bytes")
    assert lines_of_a_tile(16) >= 4 * lines_of_a_tile(2)


def test_weights_that_very_many_pixels_use_are_not():
    assert from_afar(code("conv2d_nhwc", {**HEAVY, "H": 56, "W": 56}, padding=1), "F") == 0


@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
def test_pixels_that_are_read_in_place_are_asked_for(operator):
    shapes = {"B": 1, "C": 512, "H": 31, "W": 33, "O": 32, "R": 1, "S": 1}
    assert from_afar(code(operator, shapes), "X") > 0


def asked_at(text: str, name: str, level: int) -> list[str]:
    """The offsets in a tensor whose lines are asked for into a level."""
    place = re.compile(rf"address_of\({name}_flat\[(.*?)\]\), 0, {level}, 1\)")
    return place.findall(text)


def test_a_large_tile_of_the_result_is_asked_for_row_by_row_between_steps(vectors):
    """So that what is multiplied meanwhile does not wait behind 24 lines from memory."""
    rows = re.compile(r"for row in range\(8\):\n((?:.*prefetch.*C_flat.*\n)+)")
    text = code("gemm", {"M": 1024, "N": 960, "K": 500})
    found = [lines.count("prefetch") for lines in rows.findall(text)]
    assert found == ([3] * len(found) if vectors == 512 else [])
    assert bool(found) == (vectors == 512)
    assert not rows.search(code("gemm", {"M": 1024, "N": 960, "K": 100}))


def test_a_packed_panel_that_l1_does_not_hold_is_asked_for_some_steps_ahead(vectors):
    ahead = re.compile(r"prefetch.*address_of\(B_L\d\[")
    found = ahead.findall(code("gemm", {"M": 1024, "N": 1008, "K": 512}))
    assert len(found) == (
        3 if vectors == 512 else 0
    )  # AVX2's, 16 columns of 256 steps, stays there
    assert not ahead.findall(code("gemm", {"M": 1024, "N": 1008, "K": 64}))


def test_a_rows_only_loop_asks_for_its_own_columns_before_it_reads_them():
    text = re.sub(r"\bv_\d+ \*", "v *", code("reduce", {"M": 512, "N": 14336}))
    lanes = lanes_of_a_loop(text)
    start = f"row * 14336 + v * {lanes} + unit * 917504"
    assert f"X_flat[T.Ramp({start}, 1, " in text
    wanted = {f"{start} + {512 + line}" for line in range(0, lanes, ELEMENTS)}
    # AVX2's processors follow a sum by themselves.
    assert set(asked_at(text, "X", 3)) == (wanted if lanes == 64 else set())
    assert not asked_at(text, "X", 2)


def test_behind_some_columns_of_a_row_nothing_is_asked_for():
    shapes = {"T": 512, "V": 4096, "D": 1024}
    assert "llvm.prefetch" not in code("embedding_backward", shapes)


def test_behind_rows_that_integers_choose_nothing_is_asked_for():
    text = code("embedding", {"T": 512, "V": 32_000, "D": 4096})
    assert "llvm.prefetch" not in text


def lanes_of_a_loop(text: str) -> int:
    """Of the vectors that the loop of a sum of rows reads."""
    return int(re.findall(r"X_flat\[T.Ramp\(.*, 1, (\d+)\)\]", text)[0])


@pytest.mark.parametrize("operator", ["elementwise", "elementwise_binary"])
def test_elements_from_afar_are_asked_for_once_each(operator):
    text = code(operator, {"M": 512, "N": 1024})
    places = asked_at(text, "X" if operator == "elementwise" else "A", 3)
    assert places
    assert len(places) == len(set(places))


@pytest.mark.parametrize("operator", ["reduce", "elementwise"])
def test_what_a_cores_own_cache_holds_is_not_asked_for(operator):
    assert "llvm.prefetch" not in code(operator, {"M": 64, "N": 1024})


def test_of_rows_with_several_loops_a_later_one_asks_for_the_next_row():
    text = code("layer_norm", {"M": 512, "N": 4096})
    assert asked_at(text, "X", 2)
    assert not asked_at(text, "X", 3)


def test_a_loop_of_several_rows_asks_for_the_columns_of_the_first():
    text = code("softmax", {"M": 1024, "N": 1024})
    assert len(asked_at(text, "X", 3)) == lanes_of_a_loop(text) // ELEMENTS
    assert not asked_at(text, "X", 2)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("threads", slow_but([2], [1, 2]))
@pytest.mark.parametrize("case", [
    ("conv2d", HEAVY, {"padding": 1}),
    ("conv2d_nhwc", HEAVY, {"padding": 1}),
    ("conv2d_nhwc", {**HEAVY, "B": 2, "R": 2, "S": 1}, {"stride": 2, "dilation": 2}),
    ("conv2d_nhwc", {**HEAVY, "C": 128, "O": 1025, "R": 1, "S": 1}, {}),
    ("conv2d", {"B": 1, "C": 490, "H": 31, "W": 33, "O": 50, "R": 1, "S": 1}, {}),
    ("conv2d_nhwc", {"B": 1, "C": 490, "H": 31, "W": 33, "O": 50, "R": 1, "S": 1}, {}),
    ("gemm", {"M": 9, "N": 700, "K": 333}, {}),
], ids=str)  # fmt: skip
def test_what_is_asked_for_changes_no_result(case, threads):
    operator, shapes, static = case
    before = usable_cores()
    set_threads(threads)
    try:
        result = septran.compile(operator, "cpu-x86", shapes=shapes, static=static).check()
    finally:
        set_threads(before)
    assert result.right, str(result)


@pytest.mark.parametrize("operator", ["reduce", "rms_norm", "layer_norm", "softmax"])
def test_rows_from_memory_are_read_at_four_pages_in_turns_whose_first_lines_are_asked_for(operator):
    text = code(operator, {"M": 8192, "N": 4100})
    assert "for page in range(4):" in text
    (place,) = asked_at(text, "X", 2)  # a line for each vector of a page, evenly
    assert "T.Div(v" in place
    assert "+ 4096" in place  # columns of four pages


@pytest.mark.parametrize(("rows", "columns"), [(512, 4096), (16384, 4092)])
def test_rows_that_a_cache_holds_and_rows_of_less_than_four_pages_are_read_as_they_lie(
    rows, columns
):
    assert "for page in" not in code("softmax", {"M": rows, "N": columns})


@pytest.mark.parametrize(
    ("arch", "streams"),
    [
        ("znver4", ZEN4),
        ("znver3", RowStreams(in_turns=False)),
        ("znver5", RowStreams(in_turns=False)),
        ("cascadelake", RowStreams()),
        ("avx512", RowStreams()),
    ],
)
def test_how_rows_come_follows_from_the_processors_name(arch, streams):
    assert row_streams(replace(load_machine("cpu-x86"), arch=arch)) == streams


@pytest.fixture
def zen4(monkeypatch):
    """A Zen 4's rows in this host's vectors."""
    monkeypatch.setattr("septran.targets.cpu.context.row_streams", lambda _: ZEN4)


@pytest.mark.parametrize("operator", ["reduce", "rms_norm", "softmax"])
def test_a_zen_4_reads_rows_from_memory_one_page_after_another_by_l2(operator, zen4):
    text = code(operator, {"M": 8192, "N": 4100})
    assert "for page in" not in text
    assert asked_at(text, "X", 2)
    assert not asked_at(text, "X", 3)


def test_a_zen_4_sums_what_its_last_cache_holds_without_asking_for_it(zen4):
    assert "llvm.prefetch" not in code("reduce", {"M": 128, "N": 14336})
    assert "llvm.prefetch" in code("elementwise", {"M": 128, "N": 14336})

"""Layouts element by element: a bijection, as the compiler has it, with its banks."""

from __future__ import annotations

import json

import pytest

import septran
from septran.tile.layouts import Layout
from septran.tile.nodes import Buffer
from septran.views.maps.layout_map import LayoutMap, NoSuchBufferError, Spread, layout_map
from septran.views.maps.layout_picture import layout_svg

LAYOUTS = ("row", "column", "padded(8)", "panels(1, 16)", "fractal(16, 16)", "swizzle(128)")


def of(layout, shape=(32, 64), dtype="float16"):
    return LayoutMap(Buffer("A", "SHARED", shape, dtype, Layout.parse(layout)), "toy")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_element_has_its_own_place(layout):
    data = json.loads(json.dumps(of(layout).to_dict()))
    assert len(set(data["offsets"])) == 32 * 64
    assert all(offset % 2 == 0 for offset in data["offsets"])


def test_a_column_of_rows_is_in_one_bank_and_swizzled_it_is_in_many():
    def banks(layout):
        found = of(layout)
        return {found.bank(row, 0) for row in range(8)}

    assert banks("row") == {0}
    assert banks("swizzle(128)") == set(range(0, 32, 4))


def test_a_fractal_block_is_in_one_piece():
    found = of("fractal(16, 16)")
    inside = sorted(found.offset(r, c) for r in range(16) for c in range(16))
    assert inside == list(range(0, 512, 2))


def test_threads_are_named_where_elements_are_spread_over_them():
    rows, columns = tuple(range(0, 32, 4)), tuple(n // 2 for n in range(8))
    spread = Spread((rows, columns), ((0,) * 8, (0, 1) * 4), 32)
    found = LayoutMap(Buffer("A", "REGISTER", (8, 8), "float32"), "toy", spread).to_dict()
    assert found["threads"][:4] == [0, 0, 1, 1]
    assert found["slots"][:4] == [0, 1, 0, 1]


def test_vectors_and_large_buffers_are_shown_in_part():
    assert of("row", (1000,)).window == (1, 64)
    assert of("row", (4, 500, 500)).window == (64, 64)
    assert of("row", (4, 500, 500)).coordinates(2, 3) == (0, 2, 3)


def test_the_layout_of_a_program_and_a_name_that_it_does_not_have():
    explanation = septran.explain("gemm", "npu-cube", shapes={"M": 64, "N": 64, "K": 64})
    found = explanation.layout("A_L0A")
    assert found.to_dict()["layout"] == "fractal(16, 16)"
    assert not found.banked
    with pytest.raises(NoSuchBufferError, match="A_L0") as caught:
        layout_map(explanation.tile_program, "A_L0")
    assert "A_L0A" in str(caught.value.hint)


def held(logic, machine, buffer):
    found = septran.explain(logic, machine, dtypes="float16").layout(buffer)
    return found, found.to_dict()


@pytest.mark.parametrize(("logic", "buffer"), [("gemm", "acc"), ("attention", "P")])
def test_wgmma_holds_its_sums_and_its_first_operand_as_the_ptx_manual_says(logic, buffer):
    found, data = held(logic, "nvidia-h200", buffer)
    assert found.spread.instruction == "wgmma"
    assert not found.banked
    for number, (thread, slot) in enumerate(zip(data["threads"], data["slots"], strict=True)):
        row, column = divmod(number, data["columns"])
        warp, lane = divmod(thread - found.spread.first, 32)
        assert row == 16 * warp + 8 * (slot // 2 % 2) + lane // 4
        assert column == 8 * (slot // 4) + 2 * (lane % 4) + slot % 2


@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
def test_each_element_of_a_fragment_has_a_register_of_its_own(machine):
    found, _ = held("gemm", machine, "acc")
    shape, spread = found.buffer.shape, found.spread
    owners = {spread.owner((i, j)) for i in range(shape[0]) for j in range(shape[1])}
    assert len(owners) == shape[0] * shape[1] == spread.count * spread.each
    assert {thread for thread, _ in owners} == set(range(spread.first, spread.first + spread.count))


def test_a_vector_of_rows_is_held_by_the_four_threads_of_each_row():
    found, data = held("attention", "nvidia-h200", "m")
    assert found.spread.copies == 4
    assert "each in 4 threads" in str(found)
    assert data["threads"][:3] == [found.spread.first + lane for lane in (0, 4, 8)]


def test_the_picture_of_a_layout_shows_banks_or_threads():
    explanation = septran.explain("gemm", "nvidia-h200", dtypes="float16")
    shared = layout_svg(explanation.layout("A_SHARED"))
    assert ">4–7</text>" in shared
    assert shared.count("<rect") == 16 * 8  # a cell for 16 bytes
    assert layout_svg(explanation.layout("acc")).count("<rect") == 16 * 16
    assert "data:image/svg+xml" in explanation.layout("acc")._repr_mimebundle_()["text/html"]
    assert "as wgmma demands" in explanation.layout("acc")._repr_mimebundle_()["text/plain"]

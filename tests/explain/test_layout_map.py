"""Layouts element by element: a bijection, as the compiler has it, with its banks."""

from __future__ import annotations

import json

import pytest

import septran
from septran.explain.layout_map import LayoutMap, NoSuchBufferError, layout_map
from septran.tile.layouts import Layout
from septran.tile.nodes import Buffer

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
    found = LayoutMap(Buffer("A", "REGISTER", (8, 8), "float32"), "toy",
                      lambda at: (at[0] * 4 + at[1] // 2, at[1] % 2)).to_dict()  # fmt: skip
    assert found["threads"][:4] == [0, 0, 1, 1]
    assert found["slots"][:4] == [0, 1, 0, 1]


def test_vectors_and_large_buffers_are_shown_in_part():
    assert of("row", (1000,)).window == (1, 128)
    assert of("row", (4, 500, 500)).window == (128, 128)
    assert of("row", (4, 500, 500)).coordinates(2, 3) == (0, 2, 3)


def test_the_layout_of_a_program_and_a_name_that_it_does_not_have():
    explanation = septran.explain("gemm", "npu-cube", shapes={"M": 64, "N": 64, "K": 64})
    found = explanation.layout("A_L0A")
    assert found.to_dict()["layout"] == "fractal(16, 16)"
    assert not found.banked
    with pytest.raises(NoSuchBufferError, match="A_L0") as caught:
        layout_map(explanation.tile_program, "A_L0")
    assert "A_L0A" in str(caught.value.hint)

"""Swizzles are the hardware's: permuted address bits, panels along the contiguous axis."""

from __future__ import annotations

import pytest

from septran.tile.layouts import Layout, widest_swizzle


@pytest.mark.parametrize(("width", "mask"), [(32, 1), (64, 3), (128, 7)])
def test_a_swizzle_exchanges_bits_4_and_up_by_bits_7_and_up(width, mask):
    layout, shape = Layout("swizzle", (width,)), (16, width // 2)
    for row in range(16):
        for column in range(width // 2):
            plain = row * width + column * 2
            wanted = plain ^ ((plain >> 7 & mask) << 4)
            assert layout.swizzled_offset((row, column), shape, 2) * 2 == wanted


def test_longer_rows_are_cut_into_panels():
    layout, shape = Layout("swizzle", (128,)), (8, 160)
    assert layout.swizzled_offset((0, 64), shape, 2) == 8 * 64  # the second panel
    assert layout.elements(shape, 2) == 3 * 8 * 64  # the third is half empty


def test_panels_begin_where_the_pattern_begins():
    assert Layout("swizzle", (64,)).panel_bytes((3, 40)) == 1024


@pytest.mark.parametrize(
    ("row_bytes", "width"),
    [(256, 128), (128, 128), (64, 64), (192, 64), (96, 32), (16, 32), (80, 128)],
)
def test_the_widest_swizzle_that_rows_fill(row_bytes, width):
    assert widest_swizzle(row_bytes) == Layout("swizzle", (width,))


def test_groups_begin_anew_after_every_run():
    layout, shape = Layout.parse("panels(1, 16, 2, 7)"), (14, 20)
    places = [layout.offset((k, 3), shape).as_int() for k in range(14)]
    group = 16 * 2
    assert [at // group for at in places] == [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6, 6, 7]
    assert [at % group - 6 for at in places] == [0, 1, 0, 1, 0, 1, 0] * 2
    assert layout.elements(shape) == 2 * 8 * group
    assert (layout.group, layout.run) == (2, 7)


def test_unknown_layouts_are_refused():
    with pytest.raises(ValueError, match="unknown layout 'diagonal'; there are row"):
        Layout.parse("diagonal")


def test_a_swizzle_has_no_index():
    with pytest.raises(ValueError, match="use swizzled_offset"):
        Layout("swizzle", (128,)).offset((0, 0), (8, 64), 2)


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match="32, 64 or 128"):
        Layout.parse("swizzle16")

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.ir.index import Index
from septran.targets.cuda.fragment.fragments import Fragment, power_of_two, register, spread, thread
from septran.targets.cuda.gemm.simt import thread_tiles

ACCUMULATOR = Fragment.of(
    (
        (thread(4, 32), register(2, 2), thread(8, 4)),
        (register(4, 4), thread(4, 1), register(2, 1)),
    ),
    128,
)
"""Of a wgmma of 64 x 32 (PTX ISA, figure of the accumulator's layout)."""


def held(fragment: Fragment) -> dict[tuple[int, ...], set[tuple[int, int]]]:
    """The threads and registers that hold each element."""
    found: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for t in range(fragment.threads):
        for r in range(fragment.registers):
            numbers = {"thread": t, "register": r}
            at = tuple(
                sum(numbers[d.place] // d.stride % d.extent * w for d, w in fragment.weighted(n))
                for n in range(fragment.rank)
            )
            found.setdefault(at, set()).add((t, r))
    return found


def test_a_wgmma_accumulator_lies_as_the_manual_says() -> None:
    places = held(ACCUMULATOR)
    assert len(places) == 64 * 32
    assert places[0, 0] == {(0, 0)}
    assert places[0, 1] == {(0, 1)}
    assert places[8, 0] == {(0, 2)}
    assert places[0, 8] == {(0, 4)}
    assert places[17, 4] == {(32 + 4 + 2, 0)}


def test_rows_of_an_accumulator_are_the_same_in_the_lanes_of_a_quad() -> None:
    rows = ACCUMULATOR.without(1)
    assert rows.registers == 2
    assert rows.replicated == ((1, 4),)
    assert held(rows)[9,] == {(4 + n, 1) for n in range(4)}


@settings(max_examples=30)
@given(
    shape=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    threads=st.sampled_from([32, 128]),
    vector=st.sampled_from([1, 2, 4, 8]),
)
def test_a_spread_holds_each_element_once_but_for_copies(
    shape: list[int], threads: int, vector: int
) -> None:
    fragment = spread(shape, threads, vector)
    places = held(fragment)
    copies = threads // max(1, _used(fragment))
    assert all(len(where) == copies for where in places.values())
    for at, where in list(places.items())[:: 1 + len(places) // 20]:
        first = tuple(
            sum(row[c] for row, c in zip(fragment.parts(place, fragment.extents), at, strict=True))
            for place in ("thread", "register")
        )
        assert min(where) == first
        assert tuple(c.as_int() for c in fragment.coordinates(*first)) == at
    assert all(room >= extent for room, extent in zip(fragment.extents, shape, strict=True))


def _used(fragment: Fragment) -> int:
    """Threads that hold different elements."""
    count = 1
    for digit in fragment.digits("thread"):
        count *= digit.extent
    return count


@settings(max_examples=50)
@given(
    rows=st.integers(1, 130), columns=st.integers(1, 130), threads=st.sampled_from([128, 256, 384])
)
def test_thread_tiles_cover_the_product(rows: int, columns: int, threads: int) -> None:
    fragment = thread_tiles((rows, columns), threads)
    assert fragment.extents[0] >= rows
    assert fragment.extents[1] >= columns
    assert all(d.stride * d.extent <= threads for d in fragment.digits("thread"))


def test_rows_of_products_of_equal_height_lie_alike() -> None:
    scores, output = thread_tiles((33, 64), 128), thread_tiles((33, 16), 128)
    assert scores.without(1).agrees(0, output, 0)


def test_a_long_row_goes_over_all_threads_and_short_ones_over_a_warp_each() -> None:
    assert spread((1, 4096), 256, 4).replicated == ()
    assert [d.stride for d in spread((64, 256), 256, 4).axes[0] if d.place == "thread"] == [32]


@pytest.mark.parametrize(("number", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_power_of_two(number: int, power: int) -> None:
    assert power_of_two(number) == power


def test_an_axis_of_one_element_needs_no_digits() -> None:
    fragment = spread((1, 1), 128, 4)
    assert fragment.registers == 1
    assert fragment.coordinates(Index.of(5), 0) == (Index(), Index())

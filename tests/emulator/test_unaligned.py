"""Bytes from any address: each offset, each count, and never a byte behind the tensor's end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from septran.emulator.errors import EmulationError
from septran.targets.cuda.copy.unaligned import ALIGN, FETCH, FETCH_WHOLE, FETCH_WORD, TRANSPOSE

VECTOR = """
extern "C" __global__ void k(const unsigned char* data, const int* cases, unsigned* out) {
  for (int n = threadIdx.x; n < CASES; n += 256) {
    const unsigned char* from = data + cases[3 * n];
    int skip = cases[3 * n + 1], count = cases[3 * n + 2];
    unsigned a, b, c, d, e, f, g, h;
    septran_fetch(a, b, c, d, e, f, g, h, from, skip, count, data + SIZE, SIZE % 16);
    septran_align(a, b, c, d, e, f, g, h, from, skip, count, data + SIZE, SIZE % 16);
    out[4 * n] = a; out[4 * n + 1] = b; out[4 * n + 2] = c; out[4 * n + 3] = d;
  }
}
"""
WHOLE = VECTOR.replace(
    "septran_fetch(a, b, c, d, e, f, g, h, from, skip, count, data + SIZE, SIZE % 16)",
    "septran_fetch_whole(a, b, c, d, e, f, g, h, from)",
).replace("data + SIZE, SIZE % 16", "from, 0")
WORD = """
extern "C" __global__ void k(const unsigned char* data, const int* cases, unsigned* out) {
  for (int n = threadIdx.x; n < CASES; n += 256)
    septran_fetch_word(out[n], data + cases[3 * n], cases[3 * n + 1], cases[3 * n + 2],
                       data + SIZE, SIZE % 4, 0);
}
"""


def runs(size, most):
    """Each run of a tensor's bytes in a window of `most` that may begin before the tensor."""
    found = []
    for start, skip, count in itertools.product(range(-most, size), range(most), range(most + 1)):
        exists = skip < count and start + skip >= 0 and start + count <= size
        if exists or (skip, count) == (0, 0):
            found.append((start, skip, count))
    return found


def expected(data, cases, most):
    rows = np.zeros((len(cases), most), np.uint8)
    for row, (start, skip, count) in zip(rows, cases, strict=True):
        row[skip:count] = data[start + skip : start + count] if skip < count else 0
    return rows


def bytes_of(launch, text, size, cases, most):
    data = np.random.default_rng(size).integers(1, 255, size).astype(np.uint8)
    out = np.zeros((len(cases), most), np.uint8)
    text = text.replace("CASES", str(len(cases))).replace("SIZE", str(size))
    arrays = {"data": data, "cases": np.array(cases, np.int32), "out": out.view(np.uint32)}
    launch(text, arrays, block=256)
    return out, expected(data, cases, most)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [16, 33, 38, 43, 47])
def test_a_vector_from_any_address(launch, size):
    got, wanted = bytes_of(launch, FETCH + ALIGN + VECTOR, size, runs(size, 16), 16)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("size", [16, 17, 18, 19])
@pytest.mark.one_in(3)
def test_a_word_from_any_address(launch, size):
    got, wanted = bytes_of(launch, FETCH_WORD + WORD, size, runs(size, 4), 4)
    assert np.array_equal(got, wanted)


def test_a_whole_vector_from_any_address(launch):
    cases = [(start, 0, 16) for start in range(17)]
    got, wanted = bytes_of(launch, FETCH_WHOLE + ALIGN + WHOLE, 48, cases, 16)
    assert np.array_equal(got, wanted)


def test_bytes_behind_the_end_are_not_there_to_read(launch):
    """The emulator would tell: what is whole is not to be taken for what is at the end."""
    with pytest.raises(EmulationError, match="bytes"):
        bytes_of(launch, FETCH_WHOLE + ALIGN + WHOLE, 45, [(20, 0, 16)], 16)


def test_four_rows_of_four_bytes_are_turned(launch):
    text = (
        TRANSPOSE
        + """
    extern "C" __global__ void k(unsigned* words) {
      septran_turn(words[0], words[1], words[2], words[3]);
    }
    """
    )
    square = np.arange(16, dtype=np.uint8).reshape(4, 4)
    words = square.copy()
    launch(text, {"words": words.view(np.uint32)}, block=1)
    assert np.array_equal(words, square.T)

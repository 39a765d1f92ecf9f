"""Square blocks of registers transposed: the columns of as many vectors as each has lanes."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from septran.targets.lower.writer import Expr, Writer


def transposed(writer: Writer, rows: Sequence[Expr]) -> list[Expr]:
    """The columns of as many vectors as each has lanes, a power of two.

    Blocks of 1, 2, 4 ... lanes off the diagonal change places with those across it
    (J. O. Eklundh, A fast computer method for matrix transposing, 1972).
    """
    size, lanes = len(rows), list(rows)
    step = 1
    while step < size:
        for low in range(size):
            if not low & step:
                pair = [lanes[low], lanes[low + step]]
                lanes[low] = writer.bind("t", tirx.Shuffle(pair, _kept(size, step, 0)))
                lanes[low + step] = writer.bind("t", tirx.Shuffle(pair, _kept(size, step, step)))
        step *= 2
    return lanes


def _kept(size: int, step: int, shift: int) -> list[Expr]:
    """Lanes of two vectors, the second's counted on, that one of the new vectors takes."""
    numbers = (n + shift if not n & step else size + n - step + shift for n in range(size))
    return [tirx.const(n, "int32") for n in numbers]

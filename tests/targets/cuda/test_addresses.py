import itertools

import numpy as np
import pytest
import tvm.sym
from tvm import tirx

from septran.dtypes import itemsize
from septran.ir.index import Index, Var, minimum
from septran.ir.views import View
from septran.machine.loader import load_machine
from septran.targets.cuda.addresses import Access
from septran.targets.cuda.context import Context, Storage, Threads
from septran.targets.cuda.emitter_table import EMITTERS
from septran.targets.cuda.sync.clusters import Cluster
from septran.targets.cuda.writer import CudaWriter
from septran.targets.lower.indices import Indices, divisor
from septran.targets.lower.writer import flat_buffer
from septran.tile.layouts import Layout
from septran.tile.nodes import TileProgram

LANE = Var("lane")


def context() -> Context:
    writer = CudaWriter()
    program = TileProgram("p", load_machine("nvidia-h200"), (), (), (), (), ())
    number = tirx.Var("tid", "int32")
    shared = flat_buffer("shared", 1024, "uint8", 1024, "shared.dyn")
    made = Context(
        writer,
        Indices(writer, explicit=True),
        program,
        Threads(0, 128),
        128,
        number,
        shared,
        EMITTERS,
        Cluster(()),
    )
    made.indices.bind(LANE, tirx.Var("lane", "int32"), 0, 7)
    return made


def access(shape: tuple[int, ...], dtype: str, layout: Layout, memory: str = "SHARED") -> Access:
    flat = flat_buffer("flat", int(np.prod(shape)) * 2, dtype)
    storage = Storage("T", memory, shape, dtype, layout, flat)
    return Access(context(), storage, View.whole("T", shape))


def number(made: Access, at: tuple[int, ...], width: int = 1) -> int:
    """What the generated address is, with the variables it binds on the way."""
    writer = made.context.writer
    writer.written.clear()
    value = made.lower([Index.of(c) for c in at], width)
    for statement in reversed(writer.written):
        value = tirx.stmt_functor.substitute(value, {statement.var: statement.value})
    return int(tvm.sym.Analyzer().simplify(value))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize(
    "layout", ["row", "padded(8)", "column", "swizzle32", "swizzle64", "swizzle128"]
)
def test_addresses_are_those_of_the_layout(layout: str, dtype: str) -> None:
    shape, kind = (20, 128), Layout.parse(layout)
    made, size = access(shape, dtype, kind), itemsize(dtype)
    for at in itertools.product((0, 1, 7, 9, 19), (0, 3, 16, 40, 127)):
        assert number(made, at) == kind.swizzled_offset(at, shape, size)


@pytest.mark.parametrize("layout", ["row", "swizzle64", "swizzle128"])
def test_the_address_of_a_vector_is_that_of_its_first_element(layout: str) -> None:
    made = access((20, 128), "float16", Layout.parse(layout))
    for at in itertools.product((0, 3, 19), (0, 8, 64, 120)):
        assert number(made, at, 8) == number(made, at)


def width(made: Access, *at: Index) -> int:
    return made.width(at, LANE, 8)


def test_neighbours_along_a_row_are_moved_together() -> None:
    made = access((4, 64), "float16", Layout("row"))
    row, lane = Index.of(2), Index.of(LANE)
    assert width(made, row, lane + 16) == 8
    assert width(made, row, lane + 4) == 4
    assert width(made, row, lane + 1) == 1
    assert width(made, row, lane * 2) == 1
    assert width(made, lane, row) == 1


def test_rows_of_an_odd_length_are_moved_one_by_one() -> None:
    made = access((4, 33), "float32", Layout("row"))
    made.context.indices.bind(Var("i"), tirx.Var("i", "int32"), 0, 3)
    assert width(made, Index.of(Var("i")), Index.of(LANE)) == 1


def test_a_vector_has_16_bytes_at_most() -> None:
    made = access((4, 64), "float64", Layout("row"))
    assert width(made, Index(), Index.of(LANE)) == 2


def test_divisors_of_indices() -> None:
    i = Index.of(Var("i"))
    assert divisor(i * 8 + 16) == 8
    assert divisor(minimum(i * 12, 8)) == 4
    assert divisor((i * 4) % 6) == 2
    assert divisor(i // 2) == 1

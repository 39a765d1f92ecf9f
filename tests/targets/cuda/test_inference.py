from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.targets.cuda.fragment.fragments import spread
from septran.targets.cuda.fragment.inference import infer
from septran.targets.cuda.fragment.statements import Split
from septran.targets.cuda.gemm.simt import thread_tiles
from septran.tile.nodes import Buffer, Compute, Origin, Region

ORIGIN = Origin("task", "instance", None, None, "a test")
BUFFERS = {
    "S": Buffer("S", "REGISTER", (64, 32), "float32"),
    "E": Buffer("E", "REGISTER", (64, 32), "float32"),
    "m": Buffer("m", "REGISTER", (64,), "float32"),
    "top": Buffer("top", "REGISTER", (64, 4), "float32"),
    "X": Buffer("X", "GLOBAL", (64, 32), "float32"),
    "Y": Buffer("Y", "GLOBAL", (64, 32), "float32"),
}


def whole(name: str) -> Region:
    shape = BUFFERS[name].shape
    view = Region.whole(name, shape)
    return Region(name, view.index, shape, view.valid)


def load(name: str) -> ex.Expr:
    return ex.Load(whole(name), "float32")


def compute(target: Region, value: ex.Expr) -> Compute:
    return Compute("map", (target,), "fragment", "THREAD", ORIGIN, expression=value)


def fragments(*nodes: Compute, **strict):
    splits = [
        Split.of(node, f"%{n}.", lambda name: BUFFERS[name].dtype) for n, node in enumerate(nodes)
    ]
    made = {b.name: b for split in splits for b in split.made}
    return infer(splits, BUFFERS | made, strict, 128, 4), splits


def test_what_meets_element_by_element_lies_alike() -> None:
    demanded = thread_tiles((64, 32), 128)
    found, _ = fragments(compute(whole("E"), ex.unary("exp", load("S"))), S=demanded)
    assert found.buffers["E"] == demanded


def test_a_row_vector_is_the_matrix_with_an_axis_removed() -> None:
    demanded = thread_tiles((64, 32), 128)
    rows = ex.reduce("max", load("S"), 1)
    found, _ = fragments(compute(whole("m"), rows), S=demanded)
    assert found.buffers["m"] == demanded.without(1)


def test_a_demand_reaches_through_a_row_vector_no_further() -> None:
    column = ex.expand(load("m"), (1,))
    found, _ = fragments(compute(whole("E"), ex.binary("subtract", load("X"), column)))
    assert found.buffers["E"] == spread((64, 32), 128, 4)
    assert found.buffers["m"] == found.buffers["E"].without(1)


def test_the_second_of_two_demands_gives_way() -> None:
    first, second = thread_tiles((64, 32), 128), spread((64, 32), 128, 4)
    both = compute(whole("E"), ex.binary("add", load("S"), load("X")))
    found, splits = fragments(both, S=first, E=second)
    assert (found.buffers["S"], found.buffers["E"]) == (first, second)
    assert found.domains[id(splits[0].statements[0])] == first


def test_a_column_that_is_written_alone_is_in_registers() -> None:
    at = (Index.of(axis(0)), Index.of(2))
    column = Region("top", at, (64,), (Index.of(64),))
    rows = ex.reduce("max", load("X"), 1)
    found, _ = fragments(compute(whole("m"), rows), compute(column, load("m")))
    assert all(d.place == "register" for d in found.buffers["top"].axes[1])
    assert found.buffers["top"].axes[0] == found.buffers["m"].axes[0]


def test_what_goes_to_memory_is_spread_in_vectors() -> None:
    found, splits = fragments(compute(whole("Y"), ex.unary("exp", load("X"))))
    assert found.buffers == {}
    assert found.domains[id(splits[0].statements[0])] == spread((64, 32), 128, 4)

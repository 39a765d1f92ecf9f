"""A sum is taken in the order of memory where an instruction multiplies groups of elements."""

from __future__ import annotations

import pytest

import septran
from septran.tile.nodes import Compute, Copy, nodes

SIZES = {"B": 1, "C": 8, "H": 6, "W": 7, "O": 32, "R": 3, "S": 2}


def program(dtype, instruction="avx512_bf16", static=None, **sizes):
    mapping = f"""
        extends: cpu-x86
        rules:
          - {{match: {{primitive: gemm}}, binding: {{gemm: [{instruction}, fma_microkernel]}}}}
    """
    flags = {"padding": 1} | (static or {})
    options = {"shapes": SIZES | sizes, "static": flags, "dtypes": dtype}
    return septran.produce_stages("conv2d", mapping, **options).tile_program


def packing(made):
    """The index of the filter along (output, channel, row, column) where it is packed."""
    found = [n for n in nodes(made.body) if isinstance(n, Copy) and n.source.buffer == "F"]
    assert len(found) == 1
    return [str(entry) for entry in found[0].source.index[1:]]


def reading(made):
    """The index of the image along (row, column, channel) where it is multiplied."""
    found = [n for n in nodes(made.body) if isinstance(n, Compute) and n.primitive == "gemm"]
    return [str(entry) for entry in found[0].operands[2].index[1:]]


@pytest.fixture(autouse=True)
def _any_host(monkeypatch):
    """Instructions that the host lacks have stand-ins: see `septran.targets.cpu.run.isa`."""
    monkeypatch.setenv("SEPTRAN_NATIVE", "split")


def test_a_filter_is_packed_with_its_channels_side_by_side_as_the_image_has_them():
    made = program("bfloat16")
    assert packing(made) == ["$1%8", "$1//16", "$1//8%2"]  # 8 channels, 2 columns, 3 rows
    assert [entry.split(" ")[0] for entry in reading(made)] == ["$0//16", "$0//8%2", "$0%8"]
    assert any(r.passed == "order_sums" and "groups of 2" in r.message for r in made.remarks)


def test_single_elements_are_summed_in_the_logics_own_order():
    made = program("float32", "fma_microkernel")
    assert packing(made) == ["$1//2//3", "$1//2%3", "$1%2"]
    assert not [r for r in made.remarks if r.passed == "order_sums"]


def panel(made):
    """How the filter is packed."""
    return str(next(b.layout for b in made.buffers if b.layout.group > 1))


def test_channels_that_are_no_whole_groups_are_packed_run_by_run():
    """Two columns of seven channels lie side by side, so nothing has to be filled up for pairs."""
    made = program("bfloat16", C=7)
    assert packing(made) == ["$1%7", "$1//14", "$1//7%2"]
    assert panel(made) == "panels(0, 16, 2, 14)"
    assert "of each 14 steps the last one filled up" in str(made.remarks)


@pytest.mark.parametrize(
    ("sizes", "static", "layout"),
    [
        ({"C": 3}, {}, "panels(0, 16, 2, 6)"),
        ({"C": 3, "S": 3}, {}, "panels(0, 16, 2, 9)"),
        ({"C": 3, "S": 3}, {"dilation": 2}, "panels(0, 16, 2, 3)"),  # columns lie apart
        ({"C": 3, "R": 1}, {}, "panels(0, 16, 2)"),  # one run of all
        ({"C": 4, "S": 3}, {}, "panels(0, 16, 2)"),
    ],
    ids=str,
)
def test_a_run_is_what_lies_side_by_side_in_the_image(sizes, static, layout):
    assert panel(program("bfloat16", static=static, **sizes)) == layout


def test_as_many_outputs_as_steps_of_the_sum_are_not_taken_for_them():
    made = program("bfloat16", R=2, O=32)  # 8 channels of 2 x 2, which are 32, too
    assert packing(made) == ["$1%8", "$1//16", "$1//8%2"]
    source = next(
        n.source for n in nodes(made.body) if isinstance(n, Copy) and n.source.buffer == "F"
    )
    assert str(source.index[0]).endswith("$0")


@pytest.mark.parametrize("native", ["avx2", pytest.param("split", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("dtype", "result", "static"),
    [
        ("int8", "int32", {"padding": 1}),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("bfloat16", "bfloat16", {"padding": 1}),
                ("int8", "int32", {"groups": 2}),
                ("bfloat16", "bfloat16", {"padding": 2, "stride": 2, "dilation": 2}),
                ("uint8", "int32", {"padding": 2, "stride": 2, "dilation": 2}),
            )
        ),
    ],
    ids=str,
)
def test_sums_in_another_order_are_right(native, dtype, result, static, monkeypatch):
    monkeypatch.setenv("SEPTRAN_NATIVE", native)
    shapes = {"B": 2, "C": 8, "H": 9, "W": 8, "O": 70, "R": 3, "S": 2}
    dtypes = {"X": dtype, "F": dtype, "Y": result}
    kernel = septran.compile("conv2d", "cpu-x86", shapes=shapes, static=static, dtypes=dtypes)
    ordered = any(r.passed == "order_sums" for r in kernel.stages.tile_program.remarks)
    assert ordered or (native, dtype) == ("avx2", "bfloat16")  # which multiplies no pairs
    check = kernel.check(guard=True)
    assert check.right, str(check)

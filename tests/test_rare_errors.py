"""Mistakes that are hard to make: in tile programs, in generated code, in dtypes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import septran
from septran.request import UnknownDtypeError
from septran.targets.cpu.lowering import UnsupportedByCpuError
from septran.targets.cpu.run.build import BuildError, build
from septran.targets.registry import target_for
from septran.tile.nodes import Barrier, Compute, nodes, rewrite
from septran.tile.passes.layout.infer_layouts import LayoutConflictError, infer_layouts


def test_dtypes_name_tensors_and_types():
    with pytest.raises(UnknownDtypeError, match="gemm has no tensor 'AA'"):
        septran.compile("gemm", "cpu-x86", dtypes={"AA": "float16"})
    with pytest.raises(UnknownDtypeError, match="unknown element type 'flaot16' of A") as caught:
        septran.compile("gemm", "cpu-x86", dtypes={"A": "flaot16"})
    assert "float16" in (caught.value.hint or "")


@pytest.fixture(scope="module")
def stages():
    shapes = {"M": 700, "N": 300, "K": 300}
    return septran.produce_stages("gemm", "cpu-x86", shapes=shapes)


def test_two_layouts_of_one_buffer(stages):
    """The packed operand B is given to a second product as its A, which wants columns."""
    program = stages.tile_program
    product = next(
        n for n in nodes(program.body)
        if isinstance(n, Compute) and n.primitive == "gemm"
        and n.operands[2].buffer not in program.params
    )  # fmt: skip
    c, a, b = product.operands
    other = replace(product, operands=(c, b, a))
    demanding = tuple(
        replace(i, layouts={"A": "column", "B": "panels(1, 16)"})
        if i.name == product.instruction else i
        for i in program.machine.instructions
    )  # fmt: skip
    broken = replace(
        program,
        machine=replace(program.machine, instructions=demanding),
        body=rewrite(program.body, lambda n: (n, other) if n == product else (n,)),
    )
    with pytest.raises(LayoutConflictError, match=f"{b.buffer} is wanted as") as caught:
        infer_layouts(broken)
    assert caught.value.where is not None


def test_a_synchronous_target_has_no_barriers(stages):
    program = stages.tile_program
    first = next(n for n in nodes(program.body) if isinstance(n, Compute))
    broken = replace(program, body=(*program.body, Barrier("CORE", first.origin)))
    with pytest.raises(UnsupportedByCpuError, match="a barrier has no meaning on cpu-x86"):
        target_for("cpu").lower(broken)


def test_code_that_llvm_refuses_is_a_mistake_of_the_compiler(stages):
    with pytest.raises(BuildError, match="no machine code for gemm") as caught:
        build(replace(stages.tensor_ir, module=None), "x86-64-v3")
    assert "please report it" in (caught.value.hint or "")

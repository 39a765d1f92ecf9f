"""A binding's instruction is what is written, and what cannot be written is refused."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

import septran
from septran.machine.loader import mappings_root
from septran.targets.cpu import lowering, simd
from septran.targets.cpu.emitter_table import EMITTERS, InstructionEmitter
from septran.targets.cpu.gemm.results import RegisterTile, Shape, first_step, update
from septran.targets.cpu.map.elements import read
from septran.targets.cpu.target import TARGET
from septran.targets.registry import NoEmitterError

RAGGED = {"M": 21, "N": 35, "K": 19}


def bound(instruction, **tunables):
    """A mapping as cpu-x86's, but for an instruction and some tiles."""
    sizes = ", ".join(f"{name}: {size}" for name, size in tunables.items())
    return f"""
        extends: cpu-x86
        rules:
          - {{match: {{primitive: gemm}}, binding: {{gemm: {instruction}}}}}
        tunables: {{{sizes}}}
    """


def machine_with(tmp_path, section, entry):
    """The shipped machine file with another entry, and the line of it."""
    text = (mappings_root() / "machines" / "cpu-x86.yaml").read_text(encoding="utf-8")
    file = tmp_path / "later.yaml"
    file.write_text(text.replace(f"{section}:", f"{section}:\n  {entry}", 1), encoding="utf-8")
    return file, 1 + file.read_text(encoding="utf-8").splitlines().index(f"  {entry}")


@pytest.mark.one_in(9)
@pytest.mark.both_widths
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64"])
def test_scalar_products_of_every_dtype_are_right(dtype):
    tiles = {"block_M": 8, "block_N": 16, "block_K": 7}
    kernel = septran.compile("gemm", bound("scalar", **tiles), shapes=RAGGED, dtypes=dtype)
    assert kernel.check().right, str(kernel.check())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int16", "uint32"])
@pytest.mark.one_in(3)
def test_scalar_products_of_other_dtypes_are_right(dtype):
    kernel = septran.compile("gemm", bound("scalar"), shapes=RAGGED, dtypes=dtype)
    assert kernel.check().right, str(kernel.check())


@pytest.mark.one_in(4)
@pytest.mark.both_widths
@pytest.mark.parametrize(
    ("operator", "sizes", "static"),
    [
        ("gemm", RAGGED, {"trans_a": True, "trans_b": True}),
        ("attention", {"B": 1, "H": 2, "G": 1, "M": 9, "N": 21, "D": 5}, {"causal": True}),
        ("conv2d", {"B": 1, "C": 3, "H": 7, "W": 9, "O": 5, "R": 3, "S": 2}, {"padding": 1}),
    ],
)  # fmt: skip
def test_products_in_the_middle_of_an_operator_can_be_scalar(operator, sizes, static):
    kernel = septran.compile(operator, bound("scalar"), shapes=sizes, static=static)
    assert "by scalar" in str(kernel.stages.tile_program)
    assert kernel.check().right, str(kernel.check())


@pytest.mark.one_in(6)
@pytest.mark.both_widths
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8"])
def test_products_in_the_arithmetic_of_c_are_right(dtype):
    kernel = septran.compile("gemm", bound("muladd_microkernel"), shapes=RAGGED, dtypes=dtype)
    assert kernel.check().right, str(kernel.check())


def test_the_code_is_what_the_binding_names():
    def text(name, dtype):
        stages = septran.produce_stages("gemm", bound(name), shapes=RAGGED, dtypes=dtype)
        assert f"by {name}" in str(stages.tile_program)
        return stages.tensor_ir.text

    assert "float32x" in text("fma_microkernel", "float32")
    assert "float32x" not in text("scalar", "float32")
    assert "llvm.fmuladd" in text("int8_microkernel", "int8")
    assert "llvm.fmuladd" not in text("muladd_microkernel", "int8")
    assert "septran_mul_i32x" in text("muladd_microkernel", "int8")
    assert "septran_mul_i32x1" in text("scalar", "int8")


def test_the_explanation_names_the_instruction():
    for name in ("scalar", "fma_microkernel"):
        assert f"by {name}" in str(septran.explain("gemm", bound(name), shapes=RAGGED))


def test_every_instruction_and_engine_of_the_machine_files_has_an_emitter():
    machines = [septran.load_machine(name) for name in ("cpu-x86", "cpu-arm")]
    found = {i.name: i.primitive for machine in machines for i in machine.instructions}
    assert found == EMITTERS.primitives
    assert {e.name for machine in machines for e in machine.engines} == set(EMITTERS.copies)


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("instructions", "skalar: {primitive: gemm, throughput: 1 FMA/cycle}"),
        ("instructions", "vectors: {primitive: map, throughput: 1 elements/cycle}"),
        ("engines", "load_stores: {moves: all, bandwidth: 1B/cycle}"),
    ],
)
def test_what_no_code_is_for_is_refused_where_the_machine_file_names_it(tmp_path, section, entry):
    file, line = machine_with(tmp_path, section, entry)
    stages = septran.produce_stages("softmax", "cpu-x86", machine=file)
    with pytest.raises(NoEmitterError, match=entry.partition(":")[0]) as error:
        TARGET.lower(stages.tile_program)
    assert error.value.code == "SEP504"
    assert (error.value.where.line, error.value.where.file) == (line, str(file))
    assert "did you mean" in str(error.value)


def test_an_instruction_that_computes_something_else_is_refused(tmp_path):
    text = (mappings_root() / "machines" / "cpu-x86.yaml").read_text(encoding="utf-8")
    file = tmp_path / "other.yaml"
    file.write_text(text.replace("primitive: map", "primitive: fill"))
    stages = septran.produce_stages("gemm", "cpu-x86", machine=file)
    with pytest.raises(NoEmitterError, match="vector computes map in code for cpu, not fill"):
        _ = stages.tensor_ir


def down_columns(context, nodes, private):
    """A new instruction: C column by column, each element's products from the last to the first."""
    (node,), _ = nodes, private
    c, a, b = map(context.access, node.operands)
    (high, wide), steps, writer = c.region.valid, a.region.valid[1], context.writer
    shape, zero = Shape(1, 1, 1, "float32", registers=1), writer.index(0)
    with context.loop("j", wide) as j, context.loop("i", high) as i:
        total = writer.allocate("acc", 1, "float32")
        simd.store(writer, total, zero, simd.constant(0, "float32", 1), 1)
        with context.loop("k", steps) as k:
            x = read(context, a, (i, steps - 1 - k))
            y = read(context, b, (steps - 1 - k, j))
            simd.store(writer, total, zero, simd.fma(x, y, simd.load(total, zero, 1)), 1)
        update(context, c, first_step(context, node), shape, RegisterTile(i, 1, j, None), [total])


def test_a_new_instruction_is_an_entry_in_the_machine_file_and_one_in_the_table(
    tmp_path, monkeypatch
):
    entry = "down_columns: {primitive: gemm, dtypes: [[float32, float32, float32]]}"
    file, _ = machine_with(tmp_path, "instructions", entry)
    new = {"down_columns": InstructionEmitter("gemm", down_columns)}
    table = replace(EMITTERS, computes=MappingProxyType({**EMITTERS.computes, **new}))
    monkeypatch.setattr(lowering, "EMITTERS", table)
    kernel = septran.compile("gemm", bound("down_columns"), machine=file, shapes=RAGGED)
    assert "by down_columns" in str(kernel.stages.tile_program)
    assert kernel.check().right

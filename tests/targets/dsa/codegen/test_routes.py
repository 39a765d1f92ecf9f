"""C and LLVM record the same commands, byte by byte."""

from __future__ import annotations

import math
import struct

import pytest
import tvm
from tvm import tirx

from septran.compiler import produce_stages
from septran.simulator.commands import CODES, DTYPES, memory_address, parameter_address
from septran.targets.dsa.code.build import compile_recording
from septran.targets.dsa.code.jit import recording
from septran.targets.dsa.code.native import compile_code
from septran.targets.dsa.steps import core_count, workspaces
from tests.tiers import slow_but

OPERATORS = ("gemm", "softmax", "gemm_bias_act", "batched_gemm", "attention", "conv2d")


def bits(value):
    return struct.unpack("<q", struct.pack("<d", value))[0]


def test_a_record_holds_addresses_sizes_core_and_line(routes, program):
    made = program()
    made.copy(queue=0, rows=5, index=130)
    (record,) = routes.equal(made, core=3)
    assert record["code"] == CODES["dsa.dma_copy"]
    assert record["core"] == 3
    spm = memory_address([m.name for m in routes.machine.memories].index("SPM"))
    told = [0, spm, 64, parameter_address(0) + 130 * 4, 64, 5, 64]
    assert record["arguments"].tolist() == told + [0] * (16 - len(told))
    line = routes.code(made).text.splitlines()[record["line"] - 1]
    assert "vendor_lib_dma_copy(0, S, 64, A + 130, 64, 5, 64);" in line


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.5, 0.1, 1e-5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf]
)
@pytest.mark.one_in(2)
def test_floats_are_exact(routes, program, value):
    made = program()
    made.fill(value)
    assert routes.equal(made)["arguments"][0][4] == bits(value)


def test_nan_has_the_same_bits(routes, program):
    made = program()
    made.fill(math.nan)
    assert routes.equal(made)["arguments"][0][4] == bits(math.nan)


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)])
def test_integers_are_exact(routes, program, value):
    made = program()
    made.fill(value, "int64")
    assert routes.equal(made)["arguments"][0][4] == value


@pytest.mark.parametrize(
    ("dtype", "value", "passed"),
    [
        ("float64", 0.1, 0.1), ("float32", 0.1, 0.10000000149011612),
        ("float16", 0.1, 0.0999755859375), ("bfloat16", 0.1, 0.10009765625),
        ("bool", True, 1), ("int8", -3, -3), ("uint8", 200, 200), ("int16", -7, -7),
        ("uint16", 65535, 65535), ("int32", -(2**31), -(2**31)), ("uint32", 2**32 - 1, 2**32 - 1),
        ("int64", 2**62 + 1, 2**62 + 1),
    ],
)  # fmt: skip
@pytest.mark.one_in(2, first=1)
def test_scalars_of_every_type_arrive(routes, program, dtype, value, passed):
    made = program(scalars=[("s", dtype)])
    wide = "float64" if "float" in dtype else "int64"
    (scalar,) = made.scalars
    made.fill(scalar if dtype == wide else tirx.Cast(wide, scalar), dtype)
    found = routes.equal(made, [value])["arguments"][0][4]
    assert found == (bits(passed) if "float" in dtype else passed)


def test_arithmetic_on_scalars_is_in_their_own_type(routes, program):
    made = program(scalars=[("s", "float32")])
    (s,) = made.scalars
    made.fill(tirx.Cast("float64", s * tirx.const(0.1, "float32") + s * s))
    made.fill(tirx.Cast("float64", tirx.Min(s, tirx.const(0.75, "float32"))))
    made.fill(tirx.Cast("float64", tirx.Max(s, tirx.const(7.25, "float32"))))
    first, second, third = routes.equal(made, [3.3])["arguments"]
    assert first[4] != bits(3.3 * 0.1 + 3.3 * 3.3)  # what doubles would give
    assert [second[4], third[4]] == [bits(0.75), bits(7.25)]


def test_loops_conditions_and_extremes(routes, program):
    made = program()
    with made.loop("i", 7) as i:
        with made.when(tirx.Or(tirx.And(i > 1, i < 4), tirx.Not(i < 6))):
            made.copy(rows=tirx.Min(i + 1, 3), index=tirx.Max(i - 3, 0) * 64)
        with made.when(tirx.EQ(tirx.truncmod(i, 3), 2)):
            made.command("sync")
    stream = routes.equal(made)
    told = [(r["arguments"][3] - parameter_address(0), r["arguments"][5]) for r in stream]
    copies = [t for t, r in zip(told, stream, strict=True) if r["code"] == CODES["dsa.dma_copy"]]
    assert copies == [(0, 3), (0, 3), (3 * 256, 3)]
    assert (stream["code"] == CODES["dsa.sync"]).sum() == 2


def test_expressions_keep_their_order(routes, program):
    made = program()
    with made.loop("i", 9) as i:
        a, b = i - 5, i + 2
        made.copy(rows=a * (b + 3) - (a - (b - 1)), stride=tirx.truncdiv(a, 3) * -2)
        made.copy(rows=tirx.truncmod(a, 3) - -(a * -3), stride=tirx.Select(i < 3, a, a * 2) - b)
    by_hand = []
    for i in range(9):
        a, b = i - 5, i + 2
        by_hand.append([a * (b + 3) - (a - (b - 1)), int(a / 3) * -2])
        by_hand.append([int(math.fmod(a, 3)) - -(a * -3), (a if i < 3 else a * 2) - b])
    found = routes.equal(made)["arguments"]
    assert [[int(r[5]), int(r[4])] for r in found] == by_hand


def test_numbers_of_64_bits(routes, program):
    made = program()
    far = tirx.Var("far", "int64")
    made.emit(tirx.Bind(far, tirx.Cast("int64", made.core) + tirx.const(2**33, "int64")))
    made.copy(stride=far * 4)
    assert routes.equal(made, core=1)["arguments"][0][4] == (2**33 + 1) * 4


def test_more_records_than_fit_at_first(routes, program):
    made = program()
    with made.loop("i", 40_000) as i:
        made.copy(rows=i)
    stream = routes.equal(made)
    assert stream["arguments"][:, 5].tolist() == list(range(40_000))


def test_a_call_starts_anew(routes, program):
    made = program(scalars=[("n", "int32")])
    with made.loop("i", made.scalars[0]):
        made.command("sync")
    code = routes.code(made)
    native = compile_code(routes.vendor, code, 1, made.types)
    assert [len(native(0, [n])) for n in (5, 0, 3)] == [5, 0, 3]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.parametrize("operator", slow_but(["gemm", "softmax", "conv2d"], OPERATORS))
def test_operators(make_routes, strict, machine, operator):
    stages = produce_stages(operator, machine)
    tile_program, ir = stages.tile_program, stages.tensor_ir
    routes = make_routes(tile_program.machine)
    function = ir.module[ir.name]
    code = routes.code(function)
    scalars = tuple(s.dtype for s in tile_program.scalars)
    values = [0.5 if s.default is None else s.default for s in tile_program.scalars]
    buffers = len(tile_program.params) + len(workspaces(tile_program))
    native = compile_code(routes.vendor, code, buffers, scalars)
    module = tvm.IRModule({"record": recording(function, routes.machine, code.lines)})
    jit = compile_recording(module, scalars)
    total = 0
    for core in range(core_count(tile_program)):
        stream = native(core, values)
        assert stream.tobytes() == jit(core, values).tobytes()
        assert set(stream["line"]) <= set(code.lines)
        total += len(stream)
    assert total > 10
    strict(code.text, routes.vendor.header_path.parent)


def test_types_have_numbers_in_c(routes, program):
    made = program()
    for dtype in DTYPES:
        made.fill(1.0 if "float" in dtype else 1, dtype)
    assert routes.equal(made)["arguments"][:, 7].tolist() == list(range(len(DTYPES)))

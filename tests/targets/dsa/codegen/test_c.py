"""The C that is generated: clean, commented, and only of nodes that are known."""

from __future__ import annotations

from textwrap import dedent

import pytest
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from septran.targets.dsa.code.codegen import LimitError, UnknownNodeError
from septran.targets.dsa.code.native import compile_code


@T.prim_func
def tile(
    core: T.int32,
    C: T.Buffer((16, 16), "float32", align=1),
    A: T.Buffer((16, 16), "float16", align=1),
    B: T.Buffer((16, 16), "float16", align=1),
):
    A_flat = T.decl_buffer((256,), "float16", data=A.data, align=1, layout=None)
    B_flat = T.decl_buffer((256,), "float16", data=B.data, align=1, layout=None)
    A_SPM = T.decl_buffer((256,), "float16", data=T.call_extern(T.handle().ty, "dsa.pointer", "SPM", T.int64(0)), align=1, layout=None)  # fmt: skip  # noqa: E501
    B_SPM = T.decl_buffer((256,), "float16", data=T.call_extern(T.handle().ty, "dsa.pointer", "SPM", T.int64(512)), align=1, layout=None)  # fmt: skip  # noqa: E501
    C_ACC = T.decl_buffer((256,), "float32", data=T.call_extern(T.handle().ty, "dsa.pointer", "ACC", T.int64(0)), align=1, layout=None)  # fmt: skip  # noqa: E501
    with T.attr({"origin": "A is GLOBAL in gemm and SPM in leaf, so it is copied in [gemm.py:5]"}):
        T.call_extern("int32", "dsa.dma_copy", 0, T.address_of(A_SPM[0]), 32, T.address_of(A_flat[0]), 32, 16, 32)  # fmt: skip  # noqa: E501
    with T.attr({"origin": "B is GLOBAL in gemm and SPM in leaf, so it is copied in [gemm.py:6]"}):
        T.call_extern("int32", "dsa.dma_copy", 0, T.address_of(B_SPM[0]), 32, T.address_of(B_flat[0]), 32, 16, 32)  # fmt: skip  # noqa: E501
    with T.attr({"origin": "leaf reads what the copies bring"}):
        T.call_extern("int32", "dsa.sync")
    with T.attr({"origin": "leaf calls gemm [gemm.py:7]"}):
        T.call_extern("int32", "dsa.mma", 3, T.address_of(C_ACC[0]), 64, T.address_of(A_SPM[0]), 32, 0, T.address_of(B_SPM[0]), 32, 0, 16, 16, 16, 11, 9, 0)  # fmt: skip  # noqa: E501


def test_a_tile_is_two_copies_a_sync_and_an_mma(routes, strict):
    code = routes.code(tile)
    assert code.text == dedent("""\
        /* tile for dsa-sim: the control program of one core. */
        #include "dsa-sim.h"

        void tile(int32_t core, float *C, uint16_t *A, uint16_t *B)
        {
            (void)core;
            (void)C;
            uint16_t *A_SPM = (uint16_t *)vendor_lib_spm_ptr(0);
            uint16_t *B_SPM = (uint16_t *)vendor_lib_spm_ptr(512);
            float *C_ACC = (float *)vendor_lib_acc_ptr(0);
            /* A is GLOBAL in gemm and SPM in leaf, so it is copied in [gemm.py:5] */
            vendor_lib_dma_copy(0, A_SPM, 32, A, 32, 16, 32);
            /* B is GLOBAL in gemm and SPM in leaf, so it is copied in [gemm.py:6] */
            vendor_lib_dma_copy(0, B_SPM, 32, B, 32, 16, 32);
            /* leaf reads what the copies bring */
            vendor_lib_sync();
            /* leaf calls gemm [gemm.py:7] */
            vendor_lib_mma(3, C_ACC, 64, A_SPM, 32, 0, B_SPM, 32, 0, 16, 16, 16, 11, 9, 0);
        }
        """)
    strict(code.text, routes.vendor.header_path.parent)


def test_lines_know_their_origins(routes, named):
    code = routes.code(tile)
    stream = compile_code(routes.vendor, code, 3, ())(0, ())
    assert named(stream) == ["dsa.dma_copy", "dsa.dma_copy", "dsa.sync", "dsa.mma"]
    assert stream["line"].tolist() == list(code.lines)
    assert [code.origins[line].split(",")[0] for line in code.lines] == [
        "A is GLOBAL in gemm and SPM in leaf",
        "B is GLOBAL in gemm and SPM in leaf",
        "leaf reads what the copies bring",
        "leaf calls gemm [gemm.py:7]",
    ]


def test_lines_are_those_of_the_text_when_declarations_are_left_out(routes, program):
    made = program()
    unused = tirx.Var("unused", "int32")
    made.emit(tirx.Bind(unused, made.core * 3))
    made.emit(tirx.Bind(tirx.Var("also", "int32"), unused + 1))
    made.local("T", "ACC")
    made.command("sync")
    made.copy()
    code = routes.code(made)
    assert "unused" not in code.text
    assert "also" not in code.text
    assert "acc_ptr" not in code.text
    first, second = (code.text.splitlines()[n - 1].strip() for n in code.lines)
    assert first == "vendor_lib_sync();"
    assert second.startswith("vendor_lib_dma_copy(")
    assert routes.equal(made)["line"].tolist() == list(code.lines)


@pytest.mark.parametrize(
    "origin", ["a */ b", "a /* b", "ends in \\", "two\nlines", "what??/", "größer", "%s {name}"]
)
def test_any_origin_is_a_comment(routes, program, strict, origin):
    made = program()
    with made.origin(origin):
        made.copy()
    code = routes.code(made)
    strict(code.text, routes.vendor.header_path.parent)
    assert code.text.count("*/") == 2
    assert code.origins[code.lines[0]] == origin
    routes.equal(made)


@pytest.mark.parametrize(
    "name",
    ["count", "record", "main", "exp", "index", "int", "default", "printf", "septran_line", "NULL"],
)
@pytest.mark.one_in(2)
def test_kernels_may_have_any_name(routes, program, strict, name):
    made = program(name)
    made.copy()
    strict(routes.code(made).text, routes.vendor.header_path.parent)
    routes.equal(made)


@pytest.mark.parametrize(
    "name",
    ["int", "register", "restrict", "uint8_t", "NULL", "least", "core", "kernel", "vendor_lib_sync",
     "vendor_lib_dma_copy", "DSA_SIM_H", "septran_line", "int32_t", "exp", "Ä", "µ"],
)  # fmt: skip
@pytest.mark.one_in(3)
def test_tensors_may_have_any_name(routes, program, strict, name):
    made = program(tensors=(name,))
    made.copy()
    made.command("sync")
    strict(routes.code(made).text, routes.vendor.header_path.parent)
    assert len(routes.equal(made)) == 2


def test_conditions_have_the_parentheses_that_compilers_ask_for(routes, program, strict):
    made = program()
    core = made.core
    both = tirx.And(core < 1, core > -1)
    for condition in (
        tirx.Or(both, core < 3),
        tirx.Or(core < 3, both),
        tirx.And(tirx.Or(core < 1, core > 5), tirx.Not(both)),
    ):
        with made.when(condition):
            made.command("sync")
    strict(routes.code(made).text, routes.vendor.header_path.parent)
    assert len(routes.equal(made, core=0)) == 2


def test_infinity_is_all_that_is_included_beside_the_vendor(routes, program, strict):
    plain, infinite = program(), program()
    plain.fill(1.0)
    infinite.fill(float("-inf"))
    text = routes.code(infinite).text
    assert routes.code(plain).text.count("#include") == 1
    assert "#include <math.h>" in text
    assert "-INFINITY" in text
    strict(text, routes.vendor.header_path.parent)


def bad_statement(made):
    made.allocate("spot", 4, "int32")


def bad_expression(made):
    made.copy(rows=tirx.floordiv(made.core, 3))


def bad_extern(made):
    made.evaluate(tirx.call_extern("int32", "dsa.dma_cpy", 1))


def bad_call(made):
    made.evaluate(tirx.call_extern("int32", "system", 1))


def bad_count(made):
    made.command("sync", 1)


def bad_address(made):
    made.command("dma_copy", 0, made.core, 64, made.at(made.flats[0]), 64, 4, 64)


def bad_type(made):
    made.local("X", "SPM", "float4_e2m1fn")


def bad_place(made):
    buffer = tirx.decl_buffer((4,), "float32", "X", layout=None)
    made.emit(tirx.DeclBuffer(buffer, data=tirx.call_extern("handle", "malloc", 16)))


def bad_variable(made):
    made.copy(rows=tirx.Var("nobody", "int32"))


def bad_arithmetic(made):
    (half,) = made.scalars
    made.fill(tirx.Cast("float64", half * half))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (bad_statement, "the statement AllocBuffer"), (bad_expression, "expression FloorDiv"),
        (bad_extern, "dsa.dma_cpy"), (bad_call, "system"), (bad_count, "dsa.sync with 1 argument"),
        (bad_address, "the address core"), (bad_type, "the type float4_e2m1fn"),
        (bad_place, "malloc"), (bad_variable, "the variable nobody"),
        (bad_arithmetic, "arithmetic in float16"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(routes, program, bad, said):
    made = program(scalars=[("half", "float16")])
    bad(made)
    with pytest.raises(UnknownNodeError, match="CodeGenDSA does not know") as caught:
        routes.code(made)
    assert said in str(caught.value)
    assert "please report it" in str(caught.value)


def test_queues_that_the_machine_does_not_have(routes, program):
    made = program()
    made.copy(queue=9)
    with pytest.raises(LimitError, match="is for queue 9, and there are 0 dma_in, 1 dma_out"):
        routes.code(made)


@pytest.mark.parametrize("ends", [(0, 9), (9, 0), (-1, 0)])
def test_flags_between_queues_that_the_machine_does_not_have(routes, program, ends):
    made = program()
    made.command("set_flag", *ends, 0)
    with pytest.raises(LimitError, match=r"dsa\.set_flag is for queue"):
        routes.code(made)


def test_flags_over_the_machines_number(routes, program):
    made = program()
    limit = routes.machine.vendor["flags"]
    with made.origin("C waits for the sums [gemm.py:7]"):
        made.command("wait_flag", 0, 3, limit)
    with pytest.raises(LimitError, match=f"flag {limit} is needed .* has {limit}") as caught:
        routes.code(made)
    assert "C waits for the sums" in str(caught.value)

"""The vendor section: what may be in it, and what is said where it is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import septran
from septran.cli import app
from septran.errors import SepTranError
from septran.machine.loader import load_machine, mappings_root
from septran.targets.dsa.code.build import check_limits
from septran.targets.dsa.code.codegen import LimitError, generate
from septran.targets.dsa.code.vendor import Vendor, VendorError, parse_prototype

FOLDER = mappings_root() / "machines"
SMALL = {"M": 16, "N": 16, "K": 16}
COPY = '    dma_copy: "void vendor_lib_dma_copy(int32_t queue, void *dst, int64_t dst_stride, '


@pytest.fixture
def edited(tmp_path):
    """The shipped machine with another text at one place, and its header beside it."""

    def edit(old: str, new: str, header: bool = True) -> Path:
        text = (FOLDER / "dsa-sim.yaml").read_text()
        assert text.count(old) == 1, old
        path = tmp_path / "dsa-sim.yaml"
        path.write_text(text.replace(old, new))
        if header:
            (tmp_path / "dsa-sim.h").write_bytes((FOLDER / "dsa-sim.h").read_bytes())
        return path

    return edit


def code(path, program):
    made = program()
    made.copy()
    made.command("sync")
    return generate(made.done(), Vendor(load_machine(path)), "kernel")


def line_of(path, text):
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("text", "result", "name", "parameters"),
    [
        ("void f(void)", "void", "f", []),
        ("int f()", "int", "f", []),
        ("void *f_{memory}(int64_t offset);", "void *", "f_{memory}", [("int64_t", "offset")]),
        ("int32_t f(const void *x, unsigned int n)", "int32_t", "f",
         [("const void *", "x"), ("unsigned int", "n")]),
    ],
)  # fmt: skip
def test_prototypes_are_c(text, result, name, parameters):
    function = parse_prototype(text)
    assert (function.result, function.name) == (result, name)
    assert [(p.type, p.name) for p in function.parameters] == parameters


@pytest.mark.parametrize("text", ["f", "f(x)", "void f(int)", "void f(int a b(", "", "void f(a,)"])
def test_what_is_no_prototype_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a"):
        parse_prototype(text)


HOSTILE = (
    'void f(int queue) { system("true"); } __attribute__((constructor)) void g(int queue)',
    "void f(int a) { } int evil(int queue)",
    "void f(int queue); int evil(int queue)",
    "void f(__attribute__((constructor)) int queue)",
    "void f(int /* */ queue)",
    "void f(int [2] queue)",
    "void f(int \\\n queue)",
    "void f(int\n#define x\n queue)",
    "void f(int = 3 queue)",
    "void f('a' queue)",
    'void f(_Pragma("x") int queue)',
    "void f(int 2queue)",
    "void f(2 queue)",
    "int __attribute__((constructor)) f(int queue)",
    "int x; void f(int queue)",
    "int x = 1, f(int queue)",
    "void f{(int queue)",
    "void f{}(int queue)",
    "void f{return}(int queue)",
    "vo\u0131d f(\u0131nt queue)",
)
"""Texts that would be other C than a prototype, wherever types and names of it are put."""


@pytest.mark.parametrize("text", HOSTILE)
def test_a_prototype_injects_no_c(machine, text):
    with pytest.raises(ValueError, match=r"is not a"):
        parse_prototype(text)
    functions = {"sync": text}  # of a machine that was made without a file, whose schema refuses
    with pytest.raises(VendorError, match=r"vendor\.functions\.sync: .* is not a") as caught:
        _ = Vendor(replace(machine, vendor={**machine.vendor, "functions": functions})).functions
    assert caught.value.where is not None


@pytest.mark.parametrize(
    ("old", "new", "said", "hint"),
    [
        (COPY, COPY.replace("dma_copy:", "dma_cpy:"), "'dma_cpy', which is no command",
         "did you mean 'dma_copy'?"),
        (COPY, COPY.replace("*dst,", "*dest,"), "parameter 'dest', which dma_copy has not",
         "did you mean 'dst'?"),
        (COPY, COPY.replace("*dst,", "*dst, void *dst,"), "has 'dst' twice", ""),
        ("vendor_lib_vec_reduce_{function}", "vendor_lib_vec_reduce", "needs {function}", ""),
        ("vendor_lib_{memory}_ptr", "vendor_lib_ptr", "needs {memory}", ""),
        ("void vendor_lib_barrier", "void vendor_lib_sync",
         "vendor_lib_sync is for barrier and for sync", "another name"),
    ],
)  # fmt: skip
def test_mistakes_are_shown_at_their_line(edited, program, old, new, said, hint):
    path = edited(old, new)
    with pytest.raises(VendorError) as caught:
        code(path, program)
    error = caught.value
    assert said in error.message
    assert hint in (error.hint or "")
    assert error.where is not None
    assert error.where.file == str(path)
    assert error.where.line == line_of(path, "barrier:" if "barrier" in old else new.strip()[:40])


def test_a_missing_function_is_named_with_its_arguments(edited, program):
    path = edited('    sync: "void vendor_lib_sync(void)"\n', "")
    with pytest.raises(VendorError, match="dsa-sim has no function for sync") as caught:
        code(path, program)
    assert "add vendor.functions.sync: a prototype with parameters of void" in caught.value.hint


def test_a_machine_without_a_vendor_section(machine, program):
    made = program()
    made.copy()
    bare = Vendor(replace(machine, vendor={"header": "dsa-sim.h"}))
    with pytest.raises(VendorError, match="does not say how its memories are addressed"):
        generate(made.done(), bare, "kernel")


def test_a_missing_header(edited, program):
    path = edited("flags: 32 ", "flags: 31 ", header=False)
    with pytest.raises(
        VendorError, match=r"no header dsa-sim\.h beside the machine file"
    ) as caught:
        code(path, program)
    assert str(path.with_name("dsa-sim.h")) in caught.value.hint
    assert caught.value.where.line == line_of(path, "header: dsa-sim.h")


def test_arguments_that_the_function_does_not_take_must_be_zero(edited, routes, program):
    path = edited("int32_t rows, int32_t cols, int32_t dst_type, int32_t type",
                  "int32_t rows, int32_t cols, int32_t type")  # fmt: skip
    vendor = Vendor(load_machine(path))

    def cast(kind):
        made = program()
        spot = made.at(made.spm)
        made.command("vec_cast", 2, spot, 16, 4, spot, 16, 4, 4, 4, kind, 11)
        return generate(made.done(), vendor, "kernel")

    assert "vendor_lib_vec_cast(" in cast(0).text
    with pytest.raises(LimitError, match="has no parameter for dst_type, which is 9 here"):
        cast(9)


def test_computed_arguments_need_a_parameter(edited, program):
    path = edited("int64_t dst_stride, const void *src", "const void *src")
    made = program()
    made.command("dma_copy", 0, made.at(made.spm), made.core * 4, made.at(made.flats[0]), 64, 4, 64)
    with pytest.raises(LimitError, match="no parameter for dst_stride, which is computed here"):
        generate(made.done(), Vendor(load_machine(path)), "kernel")


def test_doubles_do_not_carry_long_integers(edited, program):
    path = edited("  flag_depth: 1\n", "")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "_integer: " not in line))
    vendor = Vendor(load_machine(path))

    def fill(value):
        made = program()
        made.fill(value, "int64")
        return generate(made.done(), vendor, "kernel")

    assert "vendor_lib_vec_fill(" in fill(2**53).text
    with pytest.raises(LimitError, match="takes a double, which cannot hold every int64"):
        fill(2**53 + 1)


def test_limits_of_the_vendor(edited, program):
    path = edited("  flag_depth: 1\n", "  flag_depth: 1\n  limits: {max_rows: 64}\n")
    vendor = Vendor(load_machine(path))
    for rows, allowed in ((64, True), (65, False)):
        made = program()
        with made.origin("A is copied in [gemm.py:5]"):
            made.copy(rows=rows)
        if allowed:
            generate(made.done(), vendor, "kernel")
            continue
        with pytest.raises(LimitError, match="has rows 65, and the vendor's limit is 64") as caught:
            generate(made.done(), vendor, "kernel")
        assert "A is copied in [gemm.py:5]" in str(caught.value)


@pytest.mark.parametrize(
    ("section", "said", "message", "hint"),
    [
        ("limits: {max_row: 64}", "max_row", "'max_row', which limits no argument of a command",
         "did you mean 'max_rows'?"),
        ("limits: {max_rows: 64, row: 64}", "row:", "vendor.limits has 'row', which", "max_rows"),
        ("limits: {max_value: 64}", "max_value", "vendor.limits has 'max_value', which", "max_"),
        ("limits: {width: 64}", "width", "vendor.limits has 'width', which", "known: max_a_str"),
        ("limit: {max_rows: 64}", "limit", "has 'limit', which is none of its tables",
         "did you mean 'limits'?"),
        ("queues: {dma_inn: dma_out}", "dma_inn", "has 'dma_inn', and there is no such queue",
         "did you mean 'dma_in'?"),
        ("queues: {dma_in: dma_outt}", "dma_in", "has 'dma_outt', and there is no such queue",
         "did you mean 'dma_out'?"),
        ("queues: {dma_in: dma_out, dma_out: vec}", "dma_in",
         "vendor.queues sends 'dma_in' to 'dma_out', which is sent on itself",
         "send 'dma_in' to 'vec'"),
        ("queues: {dma_in: dma_in}", "dma_in", "vendor.queues sends 'dma_in' to itself",
         "leave 'dma_in' out"),
    ],
)  # fmt: skip
@pytest.mark.one_in(2)
def test_what_the_section_says_in_vain_is_refused_with_its_place(
    edited, section, said, message, hint
):
    line = "  queues: {vec_move: vec}" if "queues" in section else "  flag_depth: 1\n"
    kept = "" if "queues" in section else line
    path = edited(line, f"{kept}  {section}" + "\n" * bool(kept))
    with pytest.raises(VendorError, match=re.escape(message)) as caught:
        septran.produce_stages("gemm", "dsa-sim", machine=path, shapes=SMALL).tensor_ir  # noqa: B018
    assert caught.value.where.line == line_of(path, section)
    assert caught.value.where.column == 3 + section.index(said)
    assert hint in str(caught.value)
    linted = CliRunner().invoke(app, ["lint", str(path)])
    assert linted.exit_code == 1
    assert message in linted.output


def test_a_limit_is_a_number(edited):
    path = edited("  flag_depth: 1\n", "  flag_depth: 1\n  limits: {max_rows: many}\n")
    with pytest.raises(SepTranError) as caught:
        load_machine(path)
    assert caught.value.code.startswith("SEP2")
    assert caught.value.where.line == line_of(path, "limits")


@pytest.mark.parametrize("text", ['"void f(int x); system(1)"', "[1, 2]", '"f(\\"x\\")"'])
def test_what_cannot_be_a_prototype_is_refused_by_the_schema(edited, text):
    path = edited('    sync: "void vendor_lib_sync(void)"', f"    sync: {text}")
    with pytest.raises(SepTranError) as caught:
        load_machine(path)
    assert caught.value.code.startswith("SEP2")


@pytest.mark.parametrize("name", ["dsa-sim", "npu-cube"])
def test_shipped_machines_have_a_function_for_every_command_of_their_lowering(name):
    vendor = Vendor(load_machine(name))
    assert {"dma_copy", "mma", "vec_binary", "set_flag", "wait_flag"} <= set(vendor.functions)
    assert vendor.header_path.parent == FOLDER


def test_limits_hold_for_computed_numbers(routes, program):
    made = program()
    with made.loop("i", 8) as i, made.origin("A is copied in [gemm.py:5]"):
        made.copy(rows=i * 16 + 1)
    stream, code = routes.equal(made), routes.code(made)
    for most in (113, 112):
        limited = replace(routes.machine, vendor={"limits": {"max_rows": most}})
        if most == 113:
            check_limits(limited, stream, code.origins)
            continue
        with pytest.raises(LimitError, match="has rows 113, and the vendor's limit is 112") as e:
            check_limits(limited, stream, code.origins)
        assert "A is copied in [gemm.py:5]" in str(e.value)

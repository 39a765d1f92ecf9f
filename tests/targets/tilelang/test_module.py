"""The text of TileLang programs; what TileLang makes of it, the foreign tests of CUDA say."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import septran
from septran import operators
from septran.cli import app
from septran.targets.tilelang.unsupported import UnsupportedByTileLangError

GEMM = """\
    with T.Kernel(4, 8, threads=128) as (j, i):
        C_REGISTER = T.alloc_fragment((64, 128), "float16")
        acc = T.alloc_fragment((64, 128), "float32")
        A_SHARED = T.alloc_shared((64, 128), "float16")
        B_SHARED = T.alloc_shared((128, 128), "float16")
        T.use_swizzle(panel_size=8)
        T.clear(acc)
        for k in T.Pipelined(4, num_stages=4):
            # A is GLOBAL in gemm_block and SHARED in gemm_tile, so it is copied in
            T.copy(A[64 * i, 128 * k], A_SHARED)
            # B is GLOBAL in gemm_block and SHARED in gemm_tile, so it is copied in
            T.copy(B[128 * k, 128 * j], B_SHARED)
            T.gemm(A_SHARED, B_SHARED, acc)
        T.copy(acc, C_REGISTER)
        # C is GLOBAL in gemm_core and REGISTER in gemm_block, so it is copied out
        T.copy(C_REGISTER, C[64 * i, 128 * j])
"""


@pytest.fixture
def text():
    """`text(logic, M=...)` is the program of an operator."""

    def make(logic, machine="nvidia-a100", dtype="float32", static=None, **shapes):
        found = septran.explain(logic, machine, shapes=shapes, dtypes=dtype, static=static)
        return found.text("tilelang")

    return make


def test_a_product_is_what_a_person_would_write(text):
    sizes = dict.fromkeys("MNK", 512)
    assert GEMM in text("gemm", "nvidia-h200", "float16", **sizes)


def test_sums_leave_out_what_does_not_exist(text):
    found = text("softmax", M=33, N=77)
    line = 'T.if_then_else(T.And(r < 33, c < 77), X[r, c], -T.infinity("float32"))'
    assert f"part[r, c] = {line}" in found


def test_a_part_of_a_buffer_is_written_where_it_exists(text):
    """Sections that a tensor tells end somewhere in a tile: beyond is another's, or nothing."""
    found = text("attention_varlen", T=23, S=37, L=8, H=2, G=1, D=16).splitlines()
    parts = [n for n, line in enumerate(found) if "O_REGISTER[r + T.clamp(" in line]
    assert parts
    for number in parts:
        assert "if T.And(r < 23, r < T.max(0, " in found[number - 1]


def test_axes_of_one_element_are_no_reason_to_copy_another_shape(text):
    found = text("gemm_backward", "amd-mi300x", "float16", M=33, N=1, K=100)
    assert "B_SHARED = T.alloc_shared((1, 100)" in found
    assert "T.copy(B, B_SHARED)" not in found
    assert "B_SHARED[0, c] = B[c, 0]" in found


def test_a_machine_without_blocks_is_refused(text):
    with pytest.raises(UnsupportedByTileLangError, match="no blocks and fragments of cpu-x86"):
        text("gemm", "cpu-x86", M=8, N=8, K=8)


def test_the_command_writes_a_module_and_ignores_nothing(tmp_path):
    asked = ["export", "softmax", "--on", "nvidia-a100", "--as", "tilelang", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    compile((tmp_path / "softmax.py").read_text(), "softmax", "exec")
    for option in (["--arch", "sm_80"], ["--name", "a/b"]):
        done = CliRunner().invoke(app, [*asked, *option])
        assert done.exit_code == 2
        assert option[0] in done.output


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["nvidia-a100", "nvidia-h200", "amd-mi300x"])
@pytest.mark.parametrize("name", operators.names())
def test_every_operator_has_a_text_in_every_case(text, name, machine):
    for case in operators.cases(name):
        compile(text(name, machine, case.dtype, case.static, **case.sizes), name, "exec")

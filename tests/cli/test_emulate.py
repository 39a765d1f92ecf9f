"""``septran emulate kernel.ptx``: arguments from words, counts, conflicts, faults with lines."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from septran.cli import app
from septran.emulator import build

ADD = """.version 8.8
.target sm_90a
.address_size 64
.shared .align 4 .b8 room[4096];
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) .reqntid 64 {
  .reg .pred %p; .reg .b32 %t, %n, %x, %y, %s; .reg .b64 %o, %a, %b, %c; .reg .f32 %f, %g;
  ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x;
  mov.u32 %s, room; mad.lo.u32 %s, %t, 64, %s; st.shared.u32 [%s], %t;
  mad.lo.u32 %t, %x, %y, %t;
  setp.ge.u32 %p, %t, %n; @%p exit;
  ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c];
  mul.wide.u32 %o, %t, 4; add.s64 %a, %a, %o; add.s64 %b, %b, %o; add.s64 %c, %c, %o;
  .loc 1 7 3
  ld.global.f32 %f, [%a];
  ld.global.f32 %g, [%b]; add.f32 %f, %f, %g;
  st.global.f32 [%c], %f;
  ret;
}
.file 1 "/home/user/add.cu"
"""
ARRAYS = ["float32[100]", "float32[100]", "zeros:float32[100]"]


@pytest.fixture
def septran(tmp_path):
    """`septran(*words)` runs the command on the kernel; gives its exit code and its words."""
    try:
        build.compiler()
    except build.HostCompilerError:
        pytest.skip("no C++ compiler here")
    file = tmp_path / "add.ptx"
    file.write_text(ADD)

    def run(*words, text=None):
        if text is not None:
            file.write_text(text)
        result = CliRunner().invoke(app, ["emulate", str(file), *words])
        return result.exit_code, result.output + (result.stderr or "")

    return run


@pytest.mark.slow
def test_every_order_its_counts_and_its_conflicts(septran, tmp_path):
    code, said = septran(
        *ARRAYS, "uint32=100", "-g", "2", "--out", str(tmp_path / "kept"), "--json"
    )
    assert code == 0, said
    found = json.loads(said)
    assert [row["mode"] for row in found["emulated"]] == ["eager", "late", "random"]
    for row in found["emulated"]:
        assert row["counts"]["global_load_bytes"] == 800
        assert row["differs"] == []
        assert [c["line"] for c in row["conflicts"]] == [8]  # 64 bytes apart: two banks
        assert row["conflicts"][0]["conflicts"] > 0
    a, b, c = (np.load(tmp_path / "kept" / f"{n}.npy") for n in "abc")
    assert np.array_equal(c, a + b)
    assert np.ptp(a) > 1


@pytest.mark.slow
def test_arrays_from_files(septran, tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.arange(100, dtype=np.float32))
    code, said = septran(
        str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "zeros:float32[100]", "uint32=100",
        "--grid", "2", "--mode", "late", "--out", str(tmp_path),
    )  # fmt: skip
    assert code == 0, said
    assert "late: they take effect as late as waits allow" in said
    assert "bank conflicts at line 8" in said
    assert np.array_equal(np.load(tmp_path / "c.npy"), 2 * np.arange(100, dtype=np.float32))


@pytest.mark.slow
def test_a_fault_names_the_line_and_its_source(septran):
    code, said = septran(*ARRAYS, "uint32=120", "-g", "2")
    assert code == 1
    assert "a load of 4 bytes at byte 400 of a, which has 400 bytes" in said
    assert "line 14: ld.global.f32 %f, [%a];" in said
    assert "add.cu:7" in said


MISTAKES = {
    ("uint32=100",): "4 parameters, and 1 arguments",
    (*ARRAYS, "uint64=100"): "has 8 bytes, and n has 4",
    (*ARRAYS, "float16[4]"): "n has 4 bytes: no address",
    (*ARRAYS, "uint32=x"): "no argument of a kernel: 'uint32=x'",
    ("fp16[4]", *ARRAYS): "no element type 'fp16'",
    ("absent.npy", *ARRAYS): "absent.npy cannot be read",
    (*ARRAYS, "uint32=100", "--kernel", "sub"): "no kernel 'sub'",
    (*ARRAYS, "uint32=100", "--grid", "0"): "is not like 4,2,1",
    (*ARRAYS, "uint32=100", "--mode", "slow"): "one of eager, late, random",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_said(septran, words):
    code, said = septran(*words)
    assert code in (1, 2)
    plain = " ".join(said.split())
    assert any(part in plain for part in MISTAKES[words].split("|")), said


HINTS = {
    ("uint32=100",): "its parameters are a (8 bytes), b (8 bytes), c (8 bytes), n (4 bytes)",
    (
        *ARRAYS,
        "uint32=x",
    ): "write it as float16[128,64], zeros:float32[128], a.npy, int32=5 or null",
    ("fp16[4]", *ARRAYS): "such as float16 or int32",
    (*ARRAYS, "uint32=100", "--kernel", "sub"): "name one by --kernel: add",
}


@pytest.mark.parametrize("words", HINTS)
def test_what_would_be_right_is_said(septran, words):
    _, said = septran(*words)
    assert f"hint: {HINTS[words]}" in " ".join(said.split())


def test_what_is_no_ptx_is_said(septran):
    code, said = septran(text="int main() {}\n")
    assert code == 1
    assert "is no PTX text" in said

"""`benchmarks.gcn`: instructions of a loop by pipe, and what they cost."""

import pytest

from benchmarks import gcn
from benchmarks.counts.gcn_listing import kernel
from benchmarks.counts.table import Counted, table
from septran.targets.rocm.compile import compile_text

TEXT = """\
one:                                    ; @one
; %bb.0:
\tv_mov_b32_e32 v0, 0
\tv_exp_f32_e32 v9, v9
.LBB0_1:                                ; =>This Loop Header
\ts_waitcnt lgkmcnt(0)
.LBB0_2:                                ;   Parent Loop
\tds_read_b128 v[0:3], v8
\tds_read_u16 v4, v8
\tv_mfma_f32_16x16x16_f16 v[4:7], v[0:1], v[2:3], v[4:7]
\tv_mfma_f32_32x32x8_f16 v[4:7], v[0:1], v[2:3], v[4:7]
\tv_add_u32_e32 v8, 64, v8
\tv_exp_f32_e32 v9, v9
\ts_nop 1
\ts_cbranch_scc1 .LBB0_2
; %bb.3:
\tglobal_store_dwordx4 v[0:1], v[4:7], off
\ts_cbranch_scc0 .LBB0_1
\ts_endpgm
.Lfunc_end0:
two:
.LBB1_1:
\tv_mfma_f32_16x16x16_f16 v[4:7], v[0:1], v[2:3], v[4:7]
\ts_branch .LBB1_1
.Lfunc_end1:
"""


def test_the_innermost_loop_with_most_products_is_counted_by_pipe():
    loop, whole = kernel(TEXT, "one")
    assert loop.counts == {
        "lds": 2, "matrix": 2, "vector": 1, "transcendental": 1, "stalls": 1, "scalar": 1
    }  # fmt: skip
    assert loop.products == 16**3 + 32 * 32 * 8
    assert loop.kind == "f32_32x32x8_f16"
    assert loop.vector_cycles == 4 + 16
    # 16 bytes of a lane, and 2 as slow as 4; 64 lanes and four waves, 128 bytes a cycle
    assert loop.lds_cycles == 2 * (16 + 4)
    assert whole.counts["transcendental"] == 2
    assert whole.counts["memory"] == 1


def test_a_table_has_ours_beside_the_others_and_the_ratio(tmp_path, hip_compiler, program):
    made = program("gemm", "float16", M=256, N=256, K=512)
    code = compile_text(made.source, "gfx942")
    (tmp_path / "gfx942.gemm_f16.again.s").write_text(code.assembly)
    case = Counted("gemm_f16", "gemm", "float16", {"M": 256, "N": 256, "K": 512})
    rows = list(gcn.rows(case, "amd-mi300x", tmp_path))
    assert [row.side for row in rows] == ["SepTran", "again"]
    assert rows[0].matrix_cycles == rows[0].loop.products * 4 / 1024
    lines = table(gcn.HEAD, rows).splitlines()
    assert lines[2].endswith("| 1.00 |")
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["--machine", "cpu-x86"],
            "cpu-x86 is of backend cpu; what is counted here is the code of rocm",
        ),
        (["--machine", "nowhere"], "no machine 'nowhere'"),
        (["--beside", "/nonexistent"], "there is no folder /nonexistent"),
    ],
)
def test_options_that_cannot_be_are_refused(given, words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gcn", *given])
    with pytest.raises(SystemExit) as ended:
        gcn.main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err

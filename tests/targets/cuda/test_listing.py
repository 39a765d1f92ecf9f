"""`benchmarks.sass`: loops of machine code, and what they ask of each pipe."""

import json

import pytest

import septran
from benchmarks import sass
from benchmarks.counts.sass_counts import binding, copying, counted
from benchmarks.counts.sass_listing import kernels
from benchmarks.counts.table import Counted, table
from septran.targets.cuda.run.toolchain import disassemblers, nvcc

HEAD = "//--------------------- .text.{}    --------------------------\n"
CODE = """\
one:
.text.one:
  {0} S2R R0, SR_TID.X ;
  {0} @P0 BRA `(.L_x_5) ;
.L_x_1:
  {0} MUFU.EX2 R9, R9 ;
.L_x_2:
  {0} SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R12+URZ+0x20], R5 ;
  {0} @!P1 BRA `(.L_x_9) ;
.L_x_3:
  {0} R2UR UR4, R8 ;
  {0} HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, gsb0 ;
  {0} HGMMA.64x128x16.F32 R24, R152, gdesc[UR4], R24 ;
  {0} FFMA R1, R2, R3, R4 ;
  {0} IMAD.SHL.U32 R5, R5, 0x8, RZ ;
  {0} ISETP.NE.AND P2, PT, R5, RZ, PT ;
  {0} MUFU.EX2 R9, R9 ;
  {0} LDS.128 R40, [R7] ;
  {0} LDSM.16.M88.4 R44, [R7] ;
  {0} @P2 BRA `(.L_x_2) ;
  {0} STG.E.128 desc[UR4][R2.64], R40 ;
.L_x_4:
  {0} UTMASTG.2D [UR8], [UR4] ;
  {0} @P3 BRA.U.ANY `(.L_x_4) ;
  {0} @P1 BRA `(.L_x_1) ;
  {0} EXIT ;
.L_x_5:
  {0} UTMALDG.2D [UR16], [UR4] ;
  {0} @!UP0 BRA `(.L_x_5) ;
  {0} EXIT ;
.L_x_9:
  {0} SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R12+URZ+0x20], R5 ;
  {0} @!P1 BRA `(.L_x_9) ;
  {0} BRA `(.L_x_3) ;
.L_x_10:
  {0} BRA `(.L_x_10) ;
"""


@pytest.fixture(scope="module")
def machine():
    return septran.load_machine("nvidia-h200")


@pytest.fixture
def one():
    text = CODE.replace("{0}", "/*0010*/")
    return kernels(HEAD.format("one") + text + HEAD.format("two") + "/*0000*/ EXIT ;\n")["one"]


def test_the_innermost_loop_with_products_is_counted_by_pipe(one, machine):
    loop, counts = binding(one, machine)
    assert counts.pipes == {
        "tensor": 2, "fma": 2, "alu": 1, "xu": 1, "shared": 2, "uniform": 1, "barriers": 1,
        "branches": 2,
    }  # fmt: skip
    # IMAD and comparisons take a scheduler two cycles, a function of the XU eight.
    assert {p: counts.cycles[p] for p in ("issue", "fma", "alu", "xu")} == {
        "issue": 12, "fma": 3, "alu": 2, "xu": 8
    }  # fmt: skip
    # A warp's quarter of two products of 64x128x16; 2048 a cycle of a multiprocessor.
    assert counts.products == 2 * 64 * 128 * 16 // 4
    assert counts.tensor_cycles == counts.products / (2048 / 4)
    # Rows of 32 bytes of both operands, then of the right one; 16 bytes a lane, twice.
    read = (64 + 128 + 128) * 32 // 4 + 2 * 16 * 32
    assert counts.cycles["shared"] == round(read * 4 / 128)
    assert loop.header in {block for o in one.loops for block in o.blocks}


def test_retries_are_no_loops_and_the_outer_loop_is_not_the_one_that_binds(one, machine):
    sizes = sorted(len(one.instructions(loop.blocks)) for loop in one.loops)
    assert sizes == [2, 12, 17]  # of the copying warp; over k; over tiles
    assert copying(one) == 2
    loop, _ = binding(one, machine)
    behind = [i.mnemonic for i in one.instructions(one.after(loop))]
    assert behind == ["MUFU.EX2", "STG.E.128", "UTMASTG.2D", "BRA.U.ANY", "BRA", "EXIT"]


def test_what_nothing_leads_to_is_not_counted(one, machine):
    whole = counted(one, None, machine)
    assert whole.instructions == 2 + 17 + 1 + 3
    assert whole.global_bytes == 16


def test_more_products_bind_before_fewer_instructions(one, machine):
    text = CODE.replace("{0}", "/*0010*/")
    twin = text.replace("UTMALDG.2D [UR16], [UR4]", "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24")
    found = kernels(HEAD.format("one") + twin)["one"]
    assert binding(found, machine)[1].instructions == binding(one, machine)[1].instructions


@pytest.mark.skipif(nvcc() is None or not disassemblers(), reason="no nvcc, or no nvdisasm")
def test_a_table_has_ours_beside_the_others_and_the_ratio(tmp_path):
    case = Counted("gemm_f16", "gemm", "float16", {"M": 4096, "N": 4096, "K": 4096})
    stages = septran.produce_stages("gemm", "nvidia-h200", shapes=dict(case.dims), dtypes="float16")
    program = stages.tensor_ir.cuda
    place = tmp_path / "sm_90a.gemm_f16.again1.cu"
    place.write_text(program.source)
    place.with_suffix(".json").write_text(json.dumps({"threads": program.launches[0].block}))
    rows = list(sass.rows(case, "nvidia-h200", tmp_path))
    assert [row.side for row in rows] == ["SepTran", "again1"]
    assert rows[0].counts == rows[1].counts
    # Descriptors are computed once a warp, and of four stages at a time: without roles by warps
    # there were 32 moves to uniform registers in this loop, and 14.6 instructions.
    loop, _ = binding(rows[0].kernel.listing, septran.load_machine("nvidia-h200"))
    inside = [i.mnemonic for i in rows[0].kernel.listing.instructions(loop.blocks)]
    assert not any(mnemonic.startswith("R2UR") for mnemonic in inside)
    assert inside.count("HGMMA.64x256x16.F32") == 4 * 4
    assert rows[0].cost < 10.7  # Triton's least
    lines = table(sass.HEAD, rows).splitlines()
    assert lines[2].endswith("| 1.00 |")
    assert len({line.count("|") for line in lines}) == 1
    assert [row.side for row in sass.least([*rows, *rows])] == ["SepTran", "again1"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["--machine", "cpu-x86"],
            "cpu-x86 is of backend cpu; what is counted here is the code of cuda",
        ),
        (["--machine", "nowhere"], "no machine 'nowhere'"),
        (["--beside", "/nonexistent"], "there is no folder /nonexistent"),
    ],
)
def test_options_that_cannot_be_are_refused(given, words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sass", *given])
    with pytest.raises(SystemExit) as ended:
        sass.main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err

"""Machine code in which sums are used before their product has been waited for."""

from dataclasses import replace

import pytest

import septran
from septran.targets.cuda.run import executable
from septran.targets.cuda.run.sums_in_flight import uses_in_flight

LOOP = """
.text.gemm_kernel:
        /*0010*/                   WARPGROUP.ARRIVE ;
.L_x_1:
        /*0020*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8].tnspB, R24 ;
        /*0030*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8].tnspB, R24, gsb0 ;
        /*0040*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
{tail}
        /*0100*/                   EXIT ;
"""
PACK, WAIT = "F2FP.BF16.F32.PACK_AB R10, R31, R30", "WARPGROUP.DEPBAR.LE gsb0, 0x0"


def behind_the_loop(*instructions):
    lines = (f"        /*{96 + 16 * n:04x}*/   {text} ;" for n, text in enumerate(instructions))
    return uses_in_flight(LOOP.format(tail="\n".join(lines)))


def test_a_read_before_the_wait_is_found():
    """What ptxas 13.0 made of a gemm, and an H100 of that: the last step of K was missing."""
    assert behind_the_loop(PACK, WAIT) == (f"/*0060*/ {PACK}",)
    assert behind_the_loop(WAIT, PACK) == ()
    assert behind_the_loop("F2FP.BF16.F32.PACK_AB R10, R33, R32", WAIT) == ()


def test_a_wait_for_all_but_one_leaves_the_youngest_under_way():
    younger = "HGMMA.64x16x16.F32.BF16 R40, gdesc[UR8].tnspB, R40, gsb0"
    wait = "WARPGROUP.DEPBAR.LE gsb0, 0x1"
    assert behind_the_loop(younger, wait, PACK) == ()
    assert behind_the_loop(younger, wait, "FADD R2, R40, R3") == ("/*0080*/ FADD R2, R40, R3",)


def test_every_way_to_an_instruction_counts():
    """One of two branches waits."""
    some = ("@P1 BRA `(.L_x_2)", WAIT, "NOP")
    lines = [f"        /*{96 + 16 * n:04x}*/   {text} ;" for n, text in enumerate(some)]
    tail = "\n".join([*lines, ".L_x_2:", f"        /*0090*/   {PACK} ;"])
    assert uses_in_flight(LOOP.format(tail=tail)) == (f"/*0090*/ {PACK}",)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("operator", "shapes", "dtype", "static"),
    [
        ("gemm", {"M": 4096, "N": 4096, "K": 4096}, "bfloat16", {}),
        ("gemm", {"M": 64, "N": 4096, "K": 4096}, "bfloat16", {}),
        ("gemm", {"M": 128, "N": 128, "K": 16384}, "bfloat16", {}),
        ("gemm", {"M": 4096, "N": 4096, "K": 4096}, "float16", {"trans_a": True, "trans_b": True}),
        ("conv2d_backward", {"B": 1, "C": 64, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3},
         "float16", {}),
        ("attention", {"B": 1, "H": 16, "G": 16, "M": 2048, "N": 2048, "D": 128}, "float16", {}),
    ],
)  # fmt: skip
def test_sums_are_read_behind_the_wait(
    operator, shapes, dtype, static, cuda_compiler, disassembler
):
    """Most of these were wrong on an H100; `build` raises where the machine code still is."""
    kernel = septran.compile(operator, "nvidia-h200", shapes=shapes, dtypes=dtype, static=static)
    assert "SASS assembly" in kernel.stages.source.parts


def test_wrong_machine_code_is_an_error(monkeypatch, cuda_compiler):
    kernel = septran.compile(
        "gemm", "nvidia-h200", shapes={"M": 256, "N": 256, "K": 256}, dtypes="float16"
    )
    compiled = replace(kernel.stages.executable.compiled, compiler="nvcc 13.0")
    sass = LOOP.format(tail=f"        /*0060*/   {PACK} ;")
    monkeypatch.setattr(executable, "disassemble", lambda cubin: sass)
    with pytest.raises(executable.SumsInFlightError, match=r"nvcc 13\.0 uses sums of gemm while"):
        executable.check_sums(compiled, "gemm")
    monkeypatch.setattr(executable, "disassemble", lambda cubin: None)
    executable.check_sums(compiled, "gemm")  # without a disassembler nothing is known

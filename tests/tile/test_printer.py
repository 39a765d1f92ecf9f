"""Tile programs print so that they read like programs."""

from __future__ import annotations

from textwrap import dedent

from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.tile.printer import expression_text, to_text


def test_gemm_by_tiles(programs):
    assert str(programs.plain_gemm(16, 16, 16)) == dedent("""\
        program gemm on toy:
            out C: float32[16, 16] in DRAM
            in A: float32[16, 16] in DRAM
            in B: float32[16, 16] in DRAM
            buffer As: float32[8, 8] in SPM
            buffer Bs: float32[8, 8] in SPM
            buffer Cs: float32[8, 8] in ACC
            size n_i = min(8, 16 - 8*i)
            size n_p = min(8, 16 - 8*p)
            size n_j = min(8, 16 - 8*j)

            for i in parallel(2) over CORE:
                for j in range(2):
                    fill(Cs, value=0)  by vector
                    for p in range(2):
                        As[:n_i, :n_p] = copy(A[8*i:+n_i, 8*p:+n_p])  by MOVE
                        Bs[:n_p, :n_j] = copy(B[8*p:+n_p, 8*j:+n_j])  by MOVE
                        gemm(Cs[:n_i, :n_j], As[:n_i, :n_p], Bs[:n_p, :n_j])  by mma
                    C[8*i:+n_i, 8*j:+n_j] = copy(Cs[:n_i, :n_j])  by MOVE
        """)


def test_handover_and_roles(build, part):
    b = build
    x, s = b.buffer("X", "DRAM", (32, 8)), b.buffer("S", "SPM", (8, 8), stages=2)
    ring = b.channel("ring", "DMA_IN", 2, s)
    i, j = Index.of(Var("i")), Index.of(Var("j"))
    source = part(x, (i * 8, 0), (8, 8), valid=(8, 8))
    producer = b.loop(
        "i", 4, b.acquire(ring, i), b.copy(part(s, stage=i % 2), source, "DMA_IN", ring),
        b.commit(ring, i),
    )  # fmt: skip
    consumer = b.loop("j", 4, b.wait(ring, j), b.release(ring, j))
    program = b.program("X", "", b.role("producer", producer), b.role("consumer", consumer))
    assert str(program) == dedent("""\
        program toy on toy:
            in X: float32[32, 8] in DRAM
            buffer S: float32[8, 8] in SPM x 2 stages
            channel ring: DMA_IN x 2 stages of S

            role producer on CORE:
                for i in range(4):
                    acquire(ring, i)
                    S@i%2 = copy(X[8*i:+8, :])  by DMA_IN on ring
                    commit(ring, i)
            role consumer on CORE:
                for j in range(4):
                    wait(ring, j)
                    release(ring, j)
        """)


def test_transposed_regions(build, part):
    x, y = build.buffer("X", "DRAM", (4, 6)), build.buffer("Y", "DRAM", (6, 4))
    z, w = build.buffer("Z", "DRAM", (2, 4, 6)), build.buffer("W", "DRAM", (6, 2, 4))
    lines = str(
        build.program(
            "XYZW", "YW",
            build.move(part(y), part(x).transposed((1, 0))),
            build.move(part(w), part(z).transposed((2, 0, 1))),
        )
    ).splitlines()  # fmt: skip
    assert lines[-2].strip() == "copy(Y, X.T)  by vector"
    assert lines[-1].strip() == "copy(W, Z.transpose(2, 0, 1))  by vector"


def test_origins_follow_as_comments(programs):
    text = to_text(programs.plain_gemm(16, 16, 16), origins=True)
    lines = text.splitlines()
    assert all("  # " in line for line in lines[1:] if line.strip())
    assert "for j in range(2):  # toy iterates j [toy.py:1, toy.yaml:2]" in text


def test_expressions_have_the_brackets_they_need():
    x = ex.Load(View.whole("X", (4, 4)), "float32")
    two = ex.Constant(2.0, "float32")
    total = ex.binary("add", x, two)
    assert expression_text(ex.binary("multiply", total, total)) == (
        "(X[0:+4, 0:+4] + 2.0) * (X[0:+4, 0:+4] + 2.0)"
    )
    nested = ex.binary("subtract", x, ex.binary("subtract", two, x))
    assert expression_text(nested) == "X[0:+4, 0:+4] - (2.0 - X[0:+4, 0:+4])"
    row = ex.expand(ex.reduce("max", x, 1), (1,))
    assert expression_text(ex.unary("exp", ex.binary("subtract", x, row))) == (
        "exp(X[0:+4, 0:+4] - max(X[0:+4, 0:+4], axis=1)[:, None])"
    )


def test_equal_programs_print_equally(programs):
    assert str(programs.pipelined_gemm(3)) == str(programs.pipelined_gemm(3))

"""The ledger counts what is moved, exactly, and says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

import septran
from septran.ir.index import Index, Var, minimum
from septran.tile.analyses.tallies import amount
from septran.tile.ledger import EXPOSED, HIDDEN, REMOVED, ledger
from septran.tile.nodes import Copy, RemovedCopy, nodes
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.passes.schedule.pipeline_loops import pipeline_loops


def test_ragged_tiles_count_as_they_are(programs):
    """Every tile of A is brought once for each of B's two columns of tiles."""
    found = ledger(programs.plain_gemm(20, 12, 41))
    a, b, c = found.rows
    assert (a.tensor, a.edge, a.trips, a.bytes) == ("A", "DRAM -> SPM", 3 * 2 * 6, 8 * 8 * 4)
    assert a.total_bytes == 20 * 41 * 4 * 2
    assert b.total_bytes == 41 * 12 * 4 * 3
    assert c.total_bytes == 20 * 12 * 4
    assert (a.logic, a.mapping) == (a.logic, a.mapping)
    assert a.reason == "A is copied to As"
    assert str(a.logic) == "toy.py:1"
    assert str(a.mapping) == "toy.yaml:2"


def test_least_and_ratio(programs):
    found = ledger(programs.plain_gemm(20, 12, 41))
    assert found.least_bytes == 4 * (20 * 41 + 41 * 12 + 20 * 12)
    moved = 4 * (20 * 41 * 2 + 41 * 12 * 3 + 20 * 12)
    assert found.main_memory_bytes == moved
    assert found.ratio == pytest.approx(moved / found.least_bytes)
    assert found.edges == {"DRAM -> SPM": moved - 4 * 240, "ACC -> DRAM": 4 * 240}


def test_causal_loops_are_added_up(build, part):
    """``for j in range(i + 1)`` runs 10 times for 4 values of i."""
    x = build.buffer("X", "DRAM", (16, 4))
    i, j = Index.of(Var("i")), Index.of(Var("j"))
    region = part(x, (j * 4, 0), (4, 4), valid=(minimum(4, 3 + i - j), 4))
    loops = (build.loop("i", 4), build.loop("j", i + 1), build.loop("k", 5))
    rows = sum(min(4, 3 + a - b) for a in range(4) for b in range(a + 1))
    assert amount(region, loops) == (10 * 5, rows * 4 * 5)


def test_an_empty_loop_moves_nothing(build, part):
    x = build.buffer("X", "DRAM", (16, 4))
    assert amount(part(x), (build.loop("i", 0),)) == (0, 0)


def test_what_is_prefetched_is_hidden(programs):
    placed = insert_sync(pipeline_loops(programs.unpipelined_gemm(n=28, pipeline=3, outer=2)))
    states = {(r.tensor, r.state) for r in ledger(placed).rows}
    assert states == {
        ("A", HIDDEN), ("B", HIDDEN), ("C", HIDDEN), ("A", EXPOSED), ("B", EXPOSED)
    }  # fmt: skip
    assert {r.state for r in ledger(programs.roles_gemm(2)).rows if r.tensor in "AB"} == {HIDDEN}
    assert {r.state for r in ledger(programs.roles_gemm(1)).rows} == {EXPOSED}
    assert {r.state for r in ledger(programs.plain_gemm()).rows} == {EXPOSED}


def test_two_steps_are_enough_to_hide_the_second():
    """The loop that remains has one iteration, whose fill number is a constant."""
    shapes = {"M": 256, "N": 128, "K": 256}
    made = septran.explain("gemm", "dsa-sim", shapes=shapes, tunables={"block_K": 128})
    states = [(r.tensor, r.state) for r in made.ledger.rows if r.tensor in "AB"]
    assert sorted(states) == [("A", EXPOSED), ("A", HIDDEN), ("B", EXPOSED), ("B", HIDDEN)]


def test_pipelining_moves_the_same_bytes(programs):
    plain = ledger(programs.unpipelined_gemm(k=41))
    placed = insert_sync(pipeline_loops(programs.unpipelined_gemm(k=41, pipeline=3)))
    assert ledger(placed).edges == plain.edges


def test_removed_copies_say_what_they_saved(programs):
    program = programs.plain_gemm()
    copy = next(n for n in nodes(program.body) if isinstance(n, Copy))
    gone = RemovedCopy(copy, "eliminate_copies", "hoisted: it does not change with j", 12)
    found = ledger(replace(program, removed=(gone,)))
    row = found.rows[-1]
    assert (row.state, row.by, row.total_bytes) == (REMOVED, "eliminate_copies", 0)
    assert row.saved_bytes == 12 * 8 * 8 * 4
    assert found.edges == ledger(program).edges
    assert "hoisted: it does not change with j" in str(found)


def test_the_table(programs):
    assert str(ledger(programs.plain_gemm(16, 16, 16))).splitlines() == [
        "tensor  edge         bytes  trips  total  engine  state    reason",
        "A       DRAM -> SPM    256      8  2,048  MOVE    exposed  "
        "A is copied to As [toy.py:1, toy.yaml:2]",
        "B       DRAM -> SPM    256      8  2,048  MOVE    exposed  "
        "B is copied to Bs [toy.py:1, toy.yaml:2]",
        "C       ACC -> DRAM    256      4  1,024  MOVE    exposed  "
        "Cs is copied to C [toy.py:1, toy.yaml:2]",
        "",
        "moved: DRAM -> SPM 4,096 bytes (4 KiB), ACC -> DRAM 1,024 bytes (1 KiB)",
        "compulsory traffic: 3,072 bytes (3 KiB)",
        "DRAM traffic: 5,120 bytes (5 KiB), 1.67 times the least",
    ]


def test_rows_become_a_data_frame(programs):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ledger(programs.plain_gemm()).records())
    assert list(frame.tensor) == ["A", "B", "C"]
    assert frame.groupby("edge").total_bytes.sum()["DRAM -> SPM"] == 6400 + 5760


def test_a_program_without_copies(build, part):
    x, y = build.buffer("X", "DRAM", (8, 4)), build.buffer("Y", "DRAM", (8, 4))
    program = build.program("YX", "Y", build.move(part(y), part(x)))
    found = ledger(program)
    assert found.in_place == ("Y", "X")
    assert found.ratio == 1
    assert "copies nothing" in str(found)

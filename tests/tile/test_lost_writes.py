"""What is written to a staged output gets to it: the verifier follows who reads it later."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

import septran
from septran.errors import SepTranError
from septran.ir.atoms import Element
from septran.ir.index import Index, Var
from septran.tile.analyses.indirect import index_reads
from septran.tile.nodes import Copy, For
from septran.tile.verify.lost_writes import LostWriteError, check_lost_writes
from tests.unseen.test_gram import GRAM


@pytest.fixture
def staged(build, part):
    """Copies between an output Y, what holds it in two memories, and others, by their names."""

    def buffer(name, tensor, memory="SPM", stages=1):
        made = replace(build.buffer(name, memory, (4, 8), stages=stages), tensor=tensor)
        build.buffers[name] = made
        return part(made)

    ends = {
        "Y": buffer("Y", "Y", "DRAM"), "outer": buffer("outer", "Y"), "inner": buffer("inner", "Y"),
        "T": buffer("T", "T", "DRAM"), "t": buffer("t", "T"), "X": buffer("X", "X", "DRAM"),
    }  # fmt: skip

    def copies(*names: str):
        pairs = (name.split("<-") for name in names)
        return [build.copy(ends[target], ends[source]) for target, source in pairs]

    def changed(name: str):
        return replace(build.fill(ends[name], 1), accumulates=True)

    def lost(*body):
        program = build.program("YTX", "Y", *body)
        return [
            error.message.split(" is lost")[0]
            for error in check_lost_writes(program, index_reads(program, program))
        ]

    return copies, changed, lost


def test_copies_back_in_the_order_in_which_they_were_brought(build, staged):
    copies, changed, lost = staged
    brought = copies("outer<-Y", "inner<-outer")
    loop = build.loop("k", 3, changed("inner"))
    assert lost(*brought, loop, *copies("outer<-inner", "Y<-outer")) == []
    found = lost(*brought, loop, *copies("Y<-outer", "outer<-inner"))
    assert found == ["what is written to outer[0:+4, 0:+8]"]


def test_what_is_read_as_an_index_is_not_lost(build, staged, part):
    copies, changed, lost = staged
    first, last = copies("outer<-Y", "Y<-outer")
    row = Index(((Element("inner", (Index.of(0), Index.of(0)), 4), 1),))
    chosen = build.copy(part(build.buffers["t"], (0, 0), (1, 8)),
                        part(build.buffers["X"], (row, 0), (1, 8)))  # fmt: skip
    counted = build.loop("n", row, build.fill(part(build.buffers["t"])))
    staged_once = copies("inner<-outer")
    for reader in ([chosen], [counted]):
        assert lost(first, *staged_once, changed("inner"), *reader, last) == []
    assert lost(first, *staged_once, *[chosen], changed("inner"), last) != []


def test_a_copy_back_before_the_last_sum(build, staged):
    copies, changed, lost = staged
    assert lost(*copies("outer<-Y"), changed("outer"), *copies("Y<-outer")) == []
    found = lost(*copies("outer<-Y", "Y<-outer"), changed("outer"))
    assert found == ["what is written to outer[0:+4, 0:+8]"]


def test_a_copy_brought_anew_over_what_was_not_copied_back(build, staged):
    copies, changed, lost = staged
    turn = [*copies("outer<-Y"), changed("outer")]
    assert lost(build.loop("k", 3, *turn, *copies("Y<-outer"))) == []
    assert len(lost(build.loop("k", 3, *turn), *copies("outer<-Y", "Y<-outer"))) == 1


def test_the_next_iteration_may_be_the_reader(build, staged):
    copies, changed, lost = staged
    body = [*copies("Y<-outer"), changed("outer")]
    assert lost(*copies("outer<-Y"), build.loop("k", 3, *body), *copies("Y<-outer")) == []
    assert lost(*copies("outer<-Y"), build.loop("k", 3, *body)) == []  # the last one is not told


def test_parallel_iterations_have_copies_of_their_own(build, staged):
    copies, changed, lost = staged
    build.buffers["outer"] = replace(build.buffers["outer"], own=(Var("i"),))
    body = [*copies("outer<-Y", "Y<-outer"), changed("outer")]
    assert len(lost(build.loop("i", 3, *body, kind="parallel", over="CORE"))) == 1


def test_roles_run_beside_each_other(build, staged):
    copies, changed, lost = staged
    writer, reader = (
        build.role("consumer", changed("outer")),
        build.role("last", *copies("Y<-outer")),
    )
    assert lost(reader, writer) == []


def test_a_logic_may_compute_what_it_never_uses(build, staged):
    copies, changed, lost = staged
    state = [*copies("t<-T"), changed("t"), *copies("T<-t")]
    assert lost(*state, *copies("outer<-T", "Y<-outer"), changed("t"), *copies("t<-T")) == []


def test_a_pass_that_swaps_copies_back_is_found(tmp_path):
    file = tmp_path / "gram.py"
    file.write_text("from septran import task\n" + textwrap.dedent(GRAM))
    args = {"shapes": {"M": 40, "N": 30}, "tunables": {"block_K": 16}}
    assert septran.produce_stages(file, "npu-cube", **args).tile_program

    @septran.tile_pass(after="eliminate_copies")
    def swap_the_last(program):
        (loop,) = program.body
        assert isinstance(loop, For)
        assert all(isinstance(n, Copy) for n in loop.body[-2:])
        return replace(program, body=(replace(loop, body=(*loop.body[:-2], *loop.body[:-3:-1])),))

    with pytest.raises(SepTranError, match="is lost: nobody reads it before G_UB") as caught:
        assert septran.produce_stages(file, "npu-cube", passes=[swap_the_last], **args).tile_program
    assert caught.value.code == LostWriteError.code


def test_an_empty_part_holds_nothing_to_lose(build, staged, part):
    copies, _, lost = staged
    empty = replace(build.fill(part(build.buffers["outer"], valid=(0, 8)), 1), accumulates=True)
    assert lost(*copies("outer<-Y", "Y<-outer"), empty) == []


def test_a_loop_that_never_turns_writes_nothing(build, staged, part):
    """One over T - 1 rows, where calls may have one of T."""
    copies, _, lost = staged
    for turns in (0, 1):
        loop = build.loop("i", turns, build.fill(part(build.buffers["outer"]), 1))
        assert len(lost(*copies("outer<-Y", "Y<-outer"), loop)) == turns

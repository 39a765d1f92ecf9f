"""Passes of a user's own: where they go, what they may give, what checks them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran.errors import SepTranError
from septran.tile.nodes import Copy, Remark, Wait, rewrite
from septran.tile.passes import PASSES
from septran.tile.user_passes import PassPlaceError, PassResultError, in_order

SHAPES = {"M": 128, "N": 128, "K": 512}


def note(program):
    """Leave a remark."""
    return program.remark(Remark("decision", "all", "I was here", passed="note"))


def names(explanation):
    return [step.name for step in explanation.passes]


def test_a_pass_runs_where_it_says_and_every_view_shows_it():
    own = septran.tile_pass(after="fuse_fills")(note)
    found = septran.explain("gemm", "dsa-sim", shapes=SHAPES, passes=[own])
    at = names(found).index("note")
    assert names(found)[at - 1 : at + 2] == ["fuse_fills", "note", "choose_transposes"]
    assert found.passes[at].summary == "Leave a remark."
    assert "I was here" in str(found)
    kernel = septran.compile("gemm", "dsa-sim", shapes=SHAPES, passes=[own])
    assert "I was here" in [remark.message for remark in kernel.remarks]
    assert "note" in names(septran.explain("gemm", "dsa-sim", shapes=SHAPES, passes=[own]))


def test_places_are_before_and_after_and_beside_each_other():
    def named(name):
        def transform(program):
            return program

        transform.__name__ = name
        return transform

    own = [
        septran.tile_pass(after="instantiate")(named("a")),
        septran.tile_pass(after="instantiate")(named("b")),
        septran.tile_pass(before="plan_memory")(named("c")),
        septran.tile_pass(after="c")(named("d")),
        septran.tile_pass(after="plan_memory")(named("e")),
    ]
    order = [transform.__name__ for transform in in_order(PASSES, own)]
    assert order[:2] == ["a", "b"]
    assert order[-4:] == ["c", "d", "plan_memory", "e"]
    assert len(order) == len(PASSES) + 5


@pytest.mark.parametrize("place", [{}, {"before": "insert_sync", "after": "insert_sync"}])
def test_a_pass_has_one_place(place):
    with pytest.raises(PassPlaceError, match="either before or after"):
        septran.tile_pass(**place)


def test_a_place_is_a_name_and_a_pass_a_function():
    with pytest.raises(PassPlaceError, match="3 is no name of a pass"):
        septran.tile_pass(after=3)
    with pytest.raises(PassPlaceError, match="'note' is no function"):
        septran.tile_pass(after="insert_sync")("note")


def test_an_unknown_place_names_the_nearest():
    own = septran.tile_pass(after="insert_sinc")(note)
    with pytest.raises(PassPlaceError, match="note goes after insert_sinc") as caught:
        septran.explain("gemm", "dsa-sim", shapes=SHAPES, passes=[own])
    assert "insert_sync" in str(caught.value.hint)


def test_a_function_without_a_place_is_no_pass():
    with pytest.raises(PassPlaceError, match="where the pass note goes"):
        septran.explain("gemm", "dsa-sim", shapes=SHAPES, passes=[note])


def test_a_pass_gives_a_program():
    own = septran.tile_pass(before="insert_sync")(lambda program: None)
    with pytest.raises(PassResultError, match="gave NoneType"):
        septran.explain("gemm", "dsa-sim", shapes=SHAPES, passes=[own])


@septran.tile_pass(after="insert_sync")
def without_waits(program):
    """Take every wait out."""

    def change(node):
        return () if isinstance(node, Wait) else (node,)

    return replace(program, body=rewrite(program.body, change))


def test_a_pass_that_breaks_the_program_is_found_without_running_it():
    with pytest.raises(SepTranError, match="wait"):
        septran.explain("gemm", "dsa-sim", shapes=SHAPES, passes=[without_waits])


def test_the_interpreter_finds_it_too():
    stages = septran.produce_stages("gemm", "dsa-sim", shapes=SHAPES)
    broken = septran.place(stages.mapping, lambda _: None, passes=[without_waits])[-1].program
    a, b = np.ones((128, 512), np.float32), np.ones((512, 128), np.float32)
    with pytest.raises(SepTranError, match="before its wait"):
        septran.interpret(broken, {"A": a, "B": b}, order="late")


def test_a_pass_reaches_the_kernel():
    @septran.tile_pass(after="choose_engines")
    def other_engine(program):
        """Bring everything by the second engine."""

        def change(node):
            moves = isinstance(node, Copy) and node.engine == "dma_in"
            return (replace(node, engine="dma_two"),) if moves else (node,)

        return replace(program, body=rewrite(program.body, change))

    machine = septran.load_machine("dsa-sim")
    first = machine.engine("dma_in")
    more = (*machine.engines, replace(first, name="dma_two"))
    machine = replace(machine, engines=more)
    kernel = septran.compile(
        "gemm", "dsa-sim", machine=machine, shapes=SHAPES, passes=[other_engine]
    )
    a, b = np.ones((128, 512), np.float32), np.ones((512, 128), np.float32)
    assert np.array_equal(kernel(a, b), a @ b)
    busy = kernel.profile(a, b).utilisation
    assert busy["dma_two"] > 0
    assert not busy.get("dma_in")

"""A search that names nothing: its space, the way through it, and the file it writes."""

from __future__ import annotations

import math

import pytest

import septran
from septran.compiler import fitted
from septran.mapping.loader import load_mapping
from septran.request import CompileRequest
from septran.tuning import open_space
from septran.tuning.candidates import key_of_point
from septran.tuning.corrections import corrected
from septran.tuning.open_space import OpenSpace
from septran.tuning.tuner import SearchLimits, search
from septran.tuning.tuning import Trial

SHAPES = {"M": 64, "N": 64, "K": 96}
OWN = """\
# mine
extends: dsa-sim.mapping.yaml
rules:
  # kept
  - {match: {task: gemm}, pipeline: 1}
"""
LIMITS = SearchLimits(runs=4, seconds=None, patience=120.0)


def space(mapping="dsa-sim", operator="gemm"):
    request = CompileRequest.of(operator, mapping, shapes=SHAPES)
    return OpenSpace.of(fitted(request).mapping)


@pytest.fixture
def short(monkeypatch):
    """A walk of few steps, as each compiles."""
    monkeypatch.setattr(open_space, "MOST_LOOKED_AT", 40)


def test_the_space_is_what_each_place_may_say_around_what_it_says_now():
    found = space()
    assert {"gemm_block.block_K", "gemm_block.pipeline", "gemm_tile.mems.A"} <= set(found.ladders)
    for name, ladder in found.ladders.items():
        assert found.places[name].now in ladder
        assert len(set(ladder)) == len(ladder)
    assert {1, 2, 3, 48, 96, 128} <= set(found.ladders["gemm_block.block_K"])
    assert max(found.ladders["gemm_block.block_K"]) <= 128  # of extents of at most 96
    for point in found.near({}):
        assert all(found.places[name].now != value for name, value in point.items())


def test_a_point_has_only_what_differs_and_its_changes_lead_back_to_it():
    found = space()
    point = {"gemm_block.block_K": 32, "gemm_tile.mems.A": "ACC", "gemm_tile.mems.B": "ACC"}
    made = found.changes(point)
    assert [change.setting for change in made] == [
        "tunables: {block_K: 32}",
        "mems: {A: ACC, B: ACC}",
    ]
    assert found.point(made) == point
    now = found.places["gemm_block.block_K"].now
    assert found.moved(point, {"gemm_block.block_K": now}) == found.point(made[1:])


def walked(found, cost, most=400):
    """Walk with a made-up model; returns the best point and the number looked at."""
    ranks, seen = {}, []
    for point in found.points(0, ranks):
        seen.append(point)
        if len(seen) > most:
            break
        value = cost(point)
        if value is not None:
            ranks[key_of_point(point)] = (value, 0.0)
    assert seen[0] == {}
    assert len(set(map(key_of_point, seen))) == len(seen)
    return dict(min(ranks, key=ranks.get)), len(seen)


def test_the_walk_goes_to_the_best_tiles_and_settles_other_keys_around_them():
    found = space()

    sizes = [f"gemm_{task}" for task in ("core.block_M", "core.block_N", "block.block_K")]
    room = math.prod(found.places[name].now for name in sizes)

    def cost(point):
        rows, columns, depth = (point.get(name, found.places[name].now) for name in sizes)
        if rows * columns * depth > room:  # a memory that is full: none grows alone
            return None
        far = abs(math.log(columns / 128)) + abs(math.log(depth / 48))
        return 10 + far - rows / 1000 - (point.get("gemm_tile.mems.B") == "ACC")

    best, looked = walked(found, cost)
    assert best["gemm_core.block_N"] == 128
    assert best["gemm_block.block_K"] == 48
    assert best["gemm_tile.mems.B"] == "ACC"
    assert looked < open_space.MOST_LOOKED_AT


def test_the_walk_ends_where_nothing_helps_and_after_the_most():
    assert walked(space(), lambda p: 1.0 + len(p))[1] < 384
    steps = iter(range(10**6))
    assert walked(space(), lambda p: -float(next(steps)))[1] == open_space.MOST_LOOKED_AT


@pytest.mark.parametrize("mapping", ["dsa-sim", "cpu-x86", "nvidia-h200"])
def test_without_a_word_the_file_extends_and_gives_the_best_program(short, mapping):
    asked = {"shapes": SHAPES, "dtypes": "float16"}
    found = search("gemm", mapping, limits=LIMITS, measured=False, **asked)
    tuned = found.run()
    assert tuned.complete
    assert tuned.before.point == {}
    assert tuned.best.cost <= tuned.before.cost
    text = tuned.to_yaml()
    assert f"extends: {mapping}.mapping.yaml" in text
    wanted = found.stages(tuned.best.point).tile_program
    again = fitted(CompileRequest.of("gemm", tuned.mapping, **asked)).tile_program
    assert str(again) == str(wanted)


def test_tunables_of_the_call_are_not_searched_and_are_written(short):
    given = {"block_M": 16}
    found = search("gemm", "dsa-sim", shapes=SHAPES, tunables=given, limits=LIMITS, measured=False)
    assert not any(name.endswith("block_M") for name in found.choices.ladders)
    tuned = found.run()
    assert tuned.best.point
    assert "tunables: {block_M: 16}" in tuned.to_yaml()
    assert "before, which the model says is" in tuned.to_yaml()


def test_a_mapping_of_ones_own_keeps_its_text_and_one_of_instances_is_extended(short, tmp_path):
    own = tmp_path / "own.mapping.yaml"
    own.write_text(OWN)
    tuned = septran.tune("gemm", own, shapes=SHAPES, measured=False)
    assert "# mine" in tuned.to_yaml()
    assert "# kept" in tuned.to_yaml()
    explicit = tmp_path / "explicit.mapping.yaml"
    explicit.write_text(
        fitted(CompileRequest.of("gemm", "dsa-sim", shapes=SHAPES)).mapping.to_yaml()
    )
    point = {"gemm_block.block_K": 32, "gemm_core.block_M": 16, "gemm_core.block_N": 16}
    request = CompileRequest.of("gemm", str(explicit), shapes=SHAPES)
    choices = OpenSpace.of(fitted(request).mapping)
    applied = choices.applied(request, point).mapping
    assert applied.file != str(explicit)
    resolved = {i.name: i for i in fitted(choices.applied(request, point)).mapping.instances}
    assert resolved["gemm_block"].tunables["block_K"].value == 32
    tiles = resolved["gemm_core"].tunables
    assert (tiles["block_M"].value, tiles["block_N"].value) == (16, 16)


def test_what_was_measured_corrects_the_order_of_what_was_not():
    def trial(number, point, predicted, seconds=None):
        kind = "ranked" if seconds is None else "measured"
        return Trial(number, point, kind, predicted, seconds)

    waiting = [
        trial(3, {"a": 1, "m": "DRAM"}, 0.8),
        trial(4, {"a": 2}, 1.0),
        trial(5, {"a": 4}, 1.1),
    ]
    assert corrected(waiting, []) == waiting
    # The memory is three times as slow as the model says; with a=4 it is right.
    measured = [
        trial(0, {}, 1.0, 1.0),
        trial(1, {"m": "DRAM"}, 0.9, 2.7),
        trial(2, {"a": 4, "b": 1}, 1.2, 1.2),
    ]
    assert [t.number for t in corrected(waiting, measured)] == [4, 5, 3]
    refused = [*measured, Trial(6, {"a": 2}, "wrong", 1.0, None)]
    assert corrected(waiting, refused) == corrected(waiting, measured)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["dsa-sim", "cpu-x86"])
def test_measured_the_mapping_as_it_is_is_one_of_the_runs(short, machine):
    tuned = septran.tune("gemm", machine, shapes=SHAPES, runs=4, patience=120.0)
    assert tuned.counts["measured"] == 4
    assert tuned.before.kind == "measured"
    assert tuned.before in tuned.trials
    kernel = septran.compile("gemm", load_mapping(tuned.to_yaml()), shapes=SHAPES)
    values = kernel.sample(0)
    assert kernel.check(*(values[name] for name in ("A", "B"))).right

"""Blocks that copy the same tiles: in clusters, by multicast, and checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran.ir.index import Index, Var
from septran.tile.ledger import ledger
from septran.tile.nodes import Copy, For, Wait, nodes, rewrite
from septran.tile.verify.places import ClusterError, check_clusters
from septran.tile.verify.verifier import verify

TUNABLES = {"block_M": 64, "block_N": 64, "block_K": 32}


def program(field, operator="gemm", machine="nvidia-h200", static=None, tunables=None, **shapes):
    mapping = f"extends: {machine}.mapping.yaml\nrules: [{{match: {{holds: parallel}}, {field}}}]"
    shapes = shapes or {"M": 256, "N": 192, "K": 104}
    stages = septran.produce_stages(
        operator, mapping, shapes=shapes, dtypes="float16", static=static or {},
        tunables=TUNABLES if tunables is None else tunables,
    )  # fmt: skip
    return stages.tile_program


def ranks(found):
    return [n for n in nodes(found.body) if isinstance(n, For) and n.cluster]


def copies(found):
    """Receivers of each asynchronous copy into SHARED, by tensor."""
    into = [n for n in nodes(found.body) if isinstance(n, Copy) and n.channel]
    return {found.buffer(n.target.buffer).tensor: n.receivers for n in into}


def said(found, passed="form_clusters"):
    return [(r.kind, r.message) for r in found.remarks if r.passed == passed]


@pytest.mark.parametrize(
    ("cluster", "extents", "receivers"),
    [
        ("[2, 1]", [2], {"A": 1, "B": 2}),
        ("[1, 3]", [3], {"A": 3, "B": 1}),
        ("[4, 1]", [4], {"A": 1, "B": 4}),
        ("[2, 3]", [2, 3], {"A": 3, "B": 2}),
    ],
)
def test_what_does_not_depend_on_a_blocks_place_is_multicast(cluster, extents, receivers):
    found = program(f"cluster: {cluster}")
    assert [r.extent.as_int() for r in ranks(found)] == extents
    assert copies(found) == receivers


def test_one_number_goes_where_it_saves_most():
    wide = {"block_M": 64, "block_N": 128, "block_K": 32}
    shapes = {"M": 256, "N": 256, "K": 64}
    assert copies(program("cluster: 2", tunables=wide, **shapes)) == {"A": 1, "B": 2}
    tall = {"block_M": 128, "block_N": 64, "block_K": 32}
    assert copies(program("cluster: 2", tunables=tall, **shapes)) == {"A": 2, "B": 1}


def test_program_ledger_and_origin_say_it():
    found = program("cluster: 2")
    assert "for rank in parallel(2) over BLOCK of a cluster:" in str(found)
    assert "by tma on A_B_in, multicast to 2 blocks" in str(found)
    (copy,) = [n for n in nodes(found.body) if isinstance(n, Copy) and n.multicast]
    assert "each brings 1/2 of it and sends that to all (multicast)" in str(copy.origin)
    (alone,) = [r for r in ledger(program("persistent: false")).rows if r.tensor == "B"]
    (row,) = [r for r in ledger(found).rows if r.tensor == "B"]
    assert row.engine == "tma, multicast to 2 blocks"
    assert (2 * row.bytes, row.trips) == (alone.bytes, alone.trips)
    assert 2 * row.total_bytes == alone.total_bytes


REMARKS = {
    ("cluster: [2, 1]", 3 * 64, "missed"): "`cluster: 2` along i is 1 here: there are 3 blocks",
    ("cluster: [4, 1]", 6 * 64, "missed"): "`cluster: 4` along i is 3 here: there are 6 blocks",
    ("cluster: [8, 3]", 8 * 64, "missed"): "no cluster of 24 blocks: nvidia-h200 has 8 at most",
    ("cluster: [2, 1, 1]", 128, "no-effect"): "no effect beyond that: the grid has 2 loops",
}


@pytest.mark.parametrize("case", REMARKS)
def test_what_cannot_be_is_said(case):
    field, rows, kind = case
    found = program(field, M=rows, N=192, K=64)
    assert any(k == kind and REMARKS[case] in message for k, message in said(found))


def test_blocks_that_copy_nothing_in_common_are_no_cluster():
    """Each block of causal attention goes over as many keys as are before its rows."""
    shapes = {"B": 1, "H": 1, "G": 1, "M": 256, "N": 256, "D": 64}
    found = program("cluster: 2", "attention", static={"causal": True}, tunables={}, **shapes)
    assert not ranks(found)
    assert said(found)[0][0] == "no-effect"
    found = program("cluster: 2", "attention", tunables={}, **shapes)
    assert copies(found) == {"Q": 1, "K": 2, "V": 2}


def test_turns_of_persistent_clusters_are_the_same_for_all_blocks_of_one():
    found = program("cluster: 2, persistent: true, raster: 4", M=64 * 64, N=64 * 12, K=64)
    (unit, rank, turn) = [n for n in nodes(found.body) if isinstance(n, For)][:3]
    assert (unit.extent.as_int(), rank.cluster) == (66, True)
    assert turn.extent.variables() == {unit.variable}
    assert copies(found) == {"A": 1, "B": 2}
    assert said(found, "persist") == [
        ("decision", "66 clusters of 2 BLOCK stay and take the iterations in turn (persistent)")
    ]


@pytest.mark.parametrize("order", ["early", "late", 3])
@pytest.mark.parametrize(
    "field", ["cluster: [2, 1]", "cluster: [2, 3], raster: 2", "cluster: [1, 3], persistent: true"]
)
@pytest.mark.one_in(4)
def test_results_are_the_same(field, order):
    found = program(field)
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, s).astype("float16") for s in ((256, 104), (104, 192)))
    result = septran.interpret(found, {"A": a, "B": b}, order=order)["C"]
    assert np.array_equal(result, a.astype("float32") @ b.astype("float32"))


def changed(found, kind, change):
    return replace(
        found, body=rewrite(found.body, lambda n: (change(n),) if isinstance(n, kind) else (n,))
    )


BROKEN = {
    "it is not the same for all blocks along rank": lambda n: replace(
        n, multicast=((Var("rank"), 2),)
    ),
    "rank_9 is no loop over 2 blocks": lambda n: replace(n, multicast=((Var("rank_9"), 2),)),
    "rank is no loop over 3 blocks": lambda n: replace(n, multicast=((Var("rank"), 3),)),
}


@pytest.mark.parametrize("message", BROKEN)
def test_the_verifier_finds_what_is_not_common(message):
    found = program("cluster: [2, 1]")
    verify(found)
    broken = changed(found, Copy, lambda n: BROKEN[message](n) if n.channel else n)
    with pytest.raises(ClusterError, match=message):
        raise next(iter(check_clusters(broken)))


def test_the_verifier_finds_blocks_that_fill_a_channel_unequally_often():
    """A block waits as often as its number says."""
    found = program("cluster: [2, 1]")

    def again(wait):
        times = Index.of(Var("rank")) + 1
        return For(Var("again"), times, "sequential", None, (wait,), wait.origin)

    with pytest.raises(ClusterError, match="along rank do not fill"):
        raise next(iter(check_clusters(changed(found, Wait, again))))


def test_the_verifier_finds_loops_that_are_no_clusters():
    found = program("cluster: [2, 1]")

    def sequential(loop):
        return replace(loop, kind="sequential") if loop.cluster else loop

    with pytest.raises(ClusterError, match="no fixed number of blocks"):
        raise next(iter(check_clusters(changed(found, For, sequential))))

    def longer(loop):
        rank = Index.of(Var("rank"))
        return replace(loop, extent=rank + 4) if loop.variable.name.startswith("k") else loop

    with pytest.raises(ClusterError, match="not the same for all blocks"):
        raise next(iter(check_clusters(changed(found, For, longer))))


@pytest.mark.parametrize("machine", ["nvidia-a100", "cpu-x86", "dsa-sim"])
def test_machines_without_clusters_say_so(machine):
    mapping = f"extends: {machine}.mapping.yaml\nrules: [{{match: {{level: entry}}, cluster: 2}}]"
    stages = septran.produce_stages("gemm", mapping, shapes={"M": 64, "N": 64, "K": 64})
    messages = [d.message for d in stages.mapping.decisions if d.kind == "no-effect"]
    assert f"`cluster` has no effect: {machine} has no clusters" in messages

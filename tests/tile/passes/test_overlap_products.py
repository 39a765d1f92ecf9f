"""Products of neighbouring iterations: interleaved, and everything else in order."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import Compute, For, Release, Role, nodes, regions

MAPPING = (Path(__file__).parents[3] / "mappings" / "nvidia-h200.mapping.yaml").read_text()
PLAIN = re.sub(r"\n    (overlap|pingpong): true", "", MAPPING)
SHAPES = {"B": 1, "H": 1, "G": 1, "M": 256, "N": 512, "D": 64}


def tile(mapping=MAPPING, operator="attention", shapes=SHAPES, **options):
    stages = septran.produce_stages(operator, mapping, shapes=shapes, dtypes="float16", **options)
    return stages.tile_program


def consumer(program):
    return next(n for n in nodes(program.body) if isinstance(n, Role) and n.name == "consumer")


def written(body):
    return [n.operands[0].buffer for n in body if isinstance(n, Compute)]


def test_the_next_product_is_issued_before_the_last_one_of_this_iteration():
    role = consumer(tile())
    loop = next(n for n in role.body if isinstance(n, For))
    assert role.pingpong
    assert [n for n in written(loop.body) if n in ("S", "acc", "P", "E")] == [
        "S", "acc", "E", "P", "acc",
    ]  # fmt: skip
    assert loop.extent.as_int() == 3
    assert written(role.body)[-2:] == ["acc", "O_REGISTER"]


def test_what_a_product_in_flight_reads_is_released_when_its_result_is_needed():
    loop = next(n for n in consumer(tile()).body if isinstance(n, For))
    kinds = [
        f"release {n.channel}" if isinstance(n, Release) else n.operands[0].buffer
        for n in loop.body
        if isinstance(n, Release | Compute)
    ]
    assert kinds[:4] == ["S", "acc", "release K_in", "T"]
    assert kinds[-3:] == ["release V_in", "P", "acc"]


def test_second_copies_of_buffers_come_in_the_order_of_the_program():
    """Not in that of a set, which is another one in each process."""
    program = tile()
    second = [b.name for b in program.buffers if b.name.endswith("_1")]
    touched = dict.fromkeys(r.buffer for n in nodes(program.body) for r in regions(n))
    assert len(second) > 3
    assert second == [name for name in touched if name in second]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [100, 128, 129, 700])
def test_the_result_is_the_same(causal, keys):
    shapes = SHAPES | {"M": 200, "N": keys}
    first, second = (tile(m, shapes=shapes, static={"causal": causal}) for m in (MAPPING, PLAIN))
    random = np.random.default_rng(0)
    arrays = {
        name: random.standard_normal(first.buffer(name).shape).astype("float16") for name in "QKV"
    }
    for order in ("early", "late", 5):
        a, b = (interpret(p, dict(arrays), order=order)["O"] for p in (first, second))
        assert np.array_equal(a, b)


def test_without_the_key_nothing_changes():
    assert "in ping-pong" not in str(tile(PLAIN))
    assert not any(r.passed == "overlap_products" for r in tile(PLAIN).remarks)


@pytest.mark.parametrize(
    ("operator", "shapes", "why"),
    [
        ("gemm", {"M": 128, "N": 256, "K": 512}, "no two asynchronous products"),
        ("attention", SHAPES | {"N": 128}, "has one iteration"),
    ],
)
def test_why_it_has_no_effect_is_said(operator, shapes, why):
    mapping = MAPPING.replace(
        "{between_products: reduction, shared_right: false, loops: parallel, holds: nothing}\n"
        "    overlap: true",
        "{loops: parallel}\n    overlap: true",
    )
    mapping = mapping.replace(
        "    pingpong: true",
        "    pingpong: true\n    proc: BLOCK\n"
        "    mems: {accumulators: REGISTER, temporaries: REGISTER, writes: REGISTER}\n"
        "    pipeline: 4\n    warpspecialize: true\n"
        "    roles: {consumers: 2, registers: {producer: 40, consumer: 232}}",
    )
    remarks = [r for r in tile(mapping, operator, shapes).remarks if r.passed == "overlap_products"]
    assert any(why in r.message for r in remarks), remarks


def test_the_former_name_of_pingpong_still_works_and_is_told():
    old = MAPPING.replace("    pingpong: true", "    turns: true")
    assert old != MAPPING
    assert consumer(tile(old)).pingpong
    stages = septran.produce_stages("attention", old, shapes=SHAPES, dtypes="float16")
    told = [d for d in stages.mapping.decisions if "`turns` is called `pingpong`" in d.message]
    line = old.splitlines().index("    turns: true") + 1
    assert [d.where.line for d in told] == [line]
    assert not any("turns" in d.message for d in tile(MAPPING).remarks)

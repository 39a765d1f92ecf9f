"""Rows in a pipeline: one loop does the stages of several rows, and each row is right."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

import septran
from septran.targets.cpu.map import row_pipeline
from septran.targets.cpu.map.row_pipeline import LEAST_ROWS
from septran.targets.cpu.simd import RowStreams

OPERATORS = ("softmax", "layer_norm", "rms_norm")


def arguments(operator, x):
    width = x.shape[1]
    more = {"reduce": 0, "softmax": 0, "rms_norm": 1, "layer_norm": 2}[operator]
    return (x, *(torch.linspace(0.5, 2, width) for _ in range(more)))


@pytest.mark.one_in(10)
@pytest.mark.parametrize("rows", [LEAST_ROWS - 1, LEAST_ROWS, 65, 67])
@pytest.mark.parametrize("operator", OPERATORS)
def test_any_number_of_rows_is_right_between_guard_pages(operator, rows):
    kernel = septran.compile(operator, "cpu-x86", shapes={"M": rows, "N": 77})
    result = kernel.check(guard=True)
    assert result.right, str(result)


@pytest.mark.parametrize("columns", [77, 3000])  # rows that fit into the nearest cache, and not
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.one_in(5)
def test_equal_rows_give_equal_results(operator, columns):
    """The first and the last rows, whose stages are done alone, and those between."""
    x = torch.randn(1, columns).expand(20, columns).contiguous()
    y = septran.compile(operator, "cpu-x86")(*arguments(operator, x))
    assert torch.equal(y, y[:1].expand_as(y))


def with_small_caches():
    """A machine on which a few rows are more than all caches hold."""
    machine = septran.load_machine("cpu-x86")
    small = [replace(m, capacity_bytes=1 << 15) if m.cached else m for m in machine.memories]
    return replace(machine, memories=tuple(small))


@pytest.mark.parametrize("columns", [4096, 4099, 8300])
@pytest.mark.parametrize("operator", [*OPERATORS, "reduce"])
@pytest.mark.one_in(6)
def test_rows_read_at_several_pages_in_turns_are_right_and_equal_where_rows_are(
    operator, columns, monkeypatch
):
    monkeypatch.setattr("septran.targets.cpu.context.row_streams", lambda _: RowStreams())
    shapes = {"M": 20, "N": columns}
    kernel = septran.compile(operator, machine=with_small_caches(), shapes=shapes)
    assert kernel.check(guard=True).right
    assert "for page in range(4)" in str(kernel.stages.tensor_ir)
    x = torch.randn(1, columns).expand(20, columns).contiguous()
    y = kernel(*arguments(operator, x))
    assert torch.equal(y, y[:1].expand_as(y))


def test_what_a_stage_leaves_is_kept_until_the_last_one_took_it(monkeypatch):
    """The mean is used in the next two steps."""
    x = torch.randn(20, 77) * torch.arange(1, 21)[:, None]
    right = septran.compile("layer_norm", "cpu-x86")(*arguments("layer_norm", x))
    monkeypatch.setattr("septran.targets.cpu.map.vector.rows_kept", lambda *_: 1)
    wrong = septran.compile("layer_norm", "cpu-x86")(*arguments("layer_norm", x))
    assert not torch.equal(right, wrong), "the same room for each row"


@pytest.mark.parametrize(
    ("operator", "shape", "beside"),
    [
        ("softmax", (64, 512), 3),
        ("layer_norm", (64, 512), 3),
        ("rms_norm", (64, 512), 2),
        ("softmax", (64, 4096), 3),
        ("layer_norm", (64, 4096), 0),
        ("rms_norm", (64, 4096), 0),
        ("rms_norm", (8192, 4096), 2),  # past the caches
        ("layer_norm", (8192, 4096), 3),
        ("topk", (64, 512), 0),
        ("softmax", (LEAST_ROWS - 1, 512), 0),
    ],
)
def test_as_many_stages_are_beside_each_other_as_gain_by_it(operator, shape, beside, monkeypatch):
    found = []
    worth = row_pipeline.worthwhile

    def recorded(*arguments):
        found.append(len(worth(*arguments)))
        return worth(*arguments)

    monkeypatch.setattr("septran.targets.cpu.map.vector.worthwhile", recorded)
    shapes = dict(zip("MN", shape, strict=True))
    kernel = septran.produce_stages(operator, "cpu-x86", shapes=shapes)
    assert kernel.tensor_ir
    assert max(found, default=0) == beside


@pytest.mark.parametrize(("arch", "lanes"), [("avx2", 8), ("avx512", 64)])
def test_sums_beside_an_exponential_hold_the_registers_that_are_left(arch, lanes):
    """One register of 8 floats where there are 16 of them; four of 16 where there are 32."""
    machine = replace(septran.load_machine("cpu-x86"), arch=arch)
    stages = septran.produce_stages("softmax", machine=machine, shapes={"M": 64, "N": 512})
    held = set(re.findall(r"acc(?:_\d+)? = T.alloc_buffer\(\((\d+),\)", str(stages.tensor_ir)))
    assert held == {str(lanes)}


def test_sums_without_a_function_beside_them_are_of_all_registers_of_a_vector():
    machine = replace(septran.load_machine("cpu-x86"), arch="avx2")
    stages = septran.produce_stages("reduce", machine=machine, shapes={"M": 64, "N": 512})
    assert "acc = T.alloc_buffer((32,)" in str(stages.tensor_ir)

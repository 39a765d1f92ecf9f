"""Axes grow to what tensor cores take, together in all that shares them, or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran import task
from septran.mapping.loader import load_mapping
from septran.mapping.resolve import resolve
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import Compute, Copy, nodes
from septran.tile.passes.copies.instantiate import instantiate
from septran.tile.passes.layout.pad_tiles import pad_tiles
from septran.tile.pipeline import place
from septran.tile.verify.verifier import verify

HEADS = {"B": 1, "H": 2, "G": 1, "M": 100, "N": 70}


def placed(operator, machine, shapes, dtype="float16", **options):
    return septran.produce_stages(
        operator, machine, shapes=shapes, dtypes=dtype, **options
    ).tile_program


def products(program):
    return [n for n in nodes(program.body) if isinstance(n, Compute) and n.primitive == "gemm"]


def shape(program, name):
    return program.buffer(name).shape


@pytest.mark.parametrize(
    ("machine", "head", "summed", "columns"),
    [
        ("nvidia-h200", 40, 48, 40),  # what is summed takes multiples of 16, columns of 8
        ("nvidia-h200", 72, 80, 72),
        ("nvidia-h200", 33, 48, 40),
        ("nvidia-h200", 64, 64, 64),
        ("nvidia-a100", 40, 48, 40),
        ("nvidia-a100", 33, 48, 40),
    ],
)
def test_a_head_stays_on_tensor_cores(machine, head, summed, columns):
    program = placed("attention", machine, {**HEADS, "D": head})
    assert {p.instruction for p in products(program)} <= {"wgmma", "mma_sync"}
    assert [shape(program, name)[1] for name in ("Q_SHARED", "K_SHARED")] == [summed, summed]
    assert [shape(program, name)[1] for name in ("V_SHARED", "acc")] == [columns, columns]
    said = [r.message for r in program.remarks if r.passed == "pad_tiles"]
    if head == 64:
        assert not said
    else:
        assert any(f"tiles rounded up: k from {head} to {summed}" in text for text in said)


def test_zeros_come_where_a_product_sums_over_what_does_not_exist():
    program = placed("attention", "nvidia-h200", {**HEADS, "D": 40})
    copies = {n.target.buffer: n for n in nodes(program.body) if isinstance(n, Copy)}
    for name in ("Q_SHARED", "K_SHARED"):
        assert copies[name].zero_fill
        assert copies[name].engine == "tma"
        assert str(copies[name].target.valid[1]) == "40"


def test_rows_columns_and_sums_that_share_an_axis_grow_together():
    program = placed(
        "linear_attention", "nvidia-h200", {"B": 1, "H": 1, "N": 100, "D": 40, "E": 24}
    )
    assert {p.instruction for p in products(program)} == {"wgmma"}
    # 40 are rows of the state, summed over in two products, and 64 is what rows are multiples of.
    for name, axis in (("state", 0), ("state_SHARED", 0), ("Q_SHARED", 1), ("K_SHARED", 1)):
        assert shape(program, name)[axis] == 64, name
    assert shape(program, "state")[1] == 24


@pytest.mark.parametrize(
    ("rows", "instruction"), [(1, "simt"), (2, "simt"), (8, "mma_sync"), (16, "mma_sync")]
)
def test_padded_tiles_are_multiplied_where_that_is_faster(rows, instruction):
    shapes = {"B": 1, "H": rows, "G": 1, "N": 64, "D": 64}
    program = placed("attention_decode", "nvidia-h200", shapes)
    assert {p.instruction for p in products(program)} == {instruction}
    refused = f"mma_sync: m is {rows}, not a multiple of 16"
    assert any(refused in r.message for r in program.remarks) == (instruction == "simt")


@task.define(leaf=True)
def tile(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def halves(C, A, B):
    """The second product goes on with a half of what is summed over."""
    task.fill(C, 0)
    task.launch(tile, C, A, B)
    half = A.shape[1] // 2
    Ap = task.partition(A, shape=(A.shape[0], half))
    Bp = task.partition(B, shape=(half, B.shape[1]))
    task.launch(tile, C, Ap[0, 1], Bp[1, 0])


@task.define(leaf=True)
def double(T, B):
    T[:, :] = B * 2


@task.define(variant_of="halves")
def doubled(C, A, B):
    """The threads themselves write what is summed over."""
    T = task.empty(B.shape, B.dtype, name="T")
    task.fill(C, 0)
    task.launch(double, T, B)
    task.launch(tile, C, A, T)


@task.define
def product(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    for i in task.parallel_range(1):
        Cp, Ap = task.partition(C, shape=C.shape), task.partition(A, shape=A.shape)
        task.launch(halves, Cp[i, 0], Ap[i, 0], B)


MAPPING = """
machine: nvidia-h200
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {task: halves}, proc: BLOCK, mems: {C: REGISTER, A: SHARED, B: SHARED}}
  - {match: {primitive: gemm}, binding: {gemm: [wgmma, simt]}}
"""


def resolved(k, mapping=MAPPING):
    mapping = load_mapping(mapping)
    shapes = {"C": (64, 16), "A": (64, k), "B": (k, 16)}
    dtypes = {"C": "float32", "A": "float16", "B": "float16"}
    return resolve(task.trace(product, shapes, dtypes, mapping.chooser()), mapping)


def test_a_part_of_an_axis_cannot_grow_but_the_whole_axis_can():
    program = place(resolved(40))[-1].program
    assert [p.instruction for p in products(program)] == ["wgmma", "simt"]
    (remark,) = [r for r in program.remarks if r.kind == "missed"]
    assert "tiles cannot be rounded up for wgmma: k is 20, and it is a part of an axis of" in (
        remark.message
    )
    assert shape(program, "A_SHARED") == (64, 48)
    verify(program)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float16") for s in ((64, 40), (40, 16)))
    wide, far = a.astype("float32"), b.astype("float32")
    expected = wide @ far + wide[:, 20:] @ far[20:]
    for order in ("early", "late", 3):
        (result,) = interpret(program, {"A": a, "B": b}, order=order).values()
        assert np.array_equal(result, expected)


def test_a_sum_without_zeros_beyond_what_exists_does_not_grow():
    text = MAPPING.replace("proc: BLOCK, ", "variant: doubled, proc: BLOCK, ")
    program = place(resolved(40, text.replace("B: SHARED", "B: SHARED, T: SHARED")))[-1].program
    assert [p.instruction for p in products(program)] == ["simt"]
    assert shape(program, "A_SHARED") == (64, 40)
    (remark,) = [r for r in program.remarks if r.passed == "pad_tiles"]
    assert remark.kind == "missed"
    assert "k is 40, and T is computed, with no zeros beyond" in remark.message


def test_a_program_without_wishes_stays_as_it_is():
    program = instantiate(resolved(64))
    assert pad_tiles(program) is program
    wishes = tuple(replace(r, rounded=()) for r in program.requests)
    program = replace(instantiate(resolved(40)), requests=wishes)
    assert pad_tiles(program) is program


def test_the_explicit_form_says_what_to_prefer():
    first = resolved(40)
    text = first.to_yaml()
    assert "binding: {gemm: [wgmma, simt]}" in text
    mapping = load_mapping(text)
    again = resolve(first.tree, mapping)
    assert [dict(i.rounded).keys() for i in again.instances] == [
        dict(i.rounded).keys() for i in first.instances
    ]

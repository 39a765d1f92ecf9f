"""Mappings as text, and the explicit form that loads again to the same."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran import task
from septran.errors import MappingError
from septran.machine.positions import parse
from septran.mapping.keys import SINGLE
from septran.mapping.loader import load_mapping, mapping_names
from septran.mapping.printer import _flow
from septran.mapping.resolve import resolve

OPERATORS = {
    "gemm": {"C": (300, 200), "A": (300, 100), "B": (100, 200)},
    "softmax": {"Y": (100, 200), "X": (100, 200)},
    "batched_gemm": {"C": (2, 96, 80), "A": (2, 96, 64), "B": (2, 64, 80)},
    "attention": dict.fromkeys("OQ", (1, 2, 70, 64)) | dict.fromkeys("KV", (1, 2, 90, 64)),
    "gemm_bias_act": {"C": (96, 80), "A": (96, 64), "B": (64, 80), "bias": (80,)},
    "conv2d": {"Y": (1, 8, 14, 14), "X": (1, 4, 16, 16), "F": (8, 4, 3, 3)},
}  # fmt: skip


def resolved(operator, mapping, dtype="float32"):
    logic = getattr(importlib.import_module(f"septran.operators.{operator}"), operator)
    shapes = OPERATORS[operator]
    tree = task.trace(logic, shapes, dict.fromkeys(shapes, dtype), mapping.chooser())
    return resolve(tree, mapping)


def settled(result):
    """What a resolved mapping decides, without the reasons."""
    return [
        (
            i.path, i.task, i.variant, i.proc.value, {n: p.memory for n, p in i.mems.items()},
            {key.path: i.settings.get(key).value for key in SINGLE},
            *({k: s.said for k, s in t.items()}
              for t in (i.mems, i.tunables, i.bindings, *i.settings.tables.values())),
        )
        for i in result.instances
    ]  # fmt: skip


@pytest.mark.one_in(8, first=4)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("machine", mapping_names())
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_explicit_form_resolves_to_the_same(operator, machine, dtype):
    first = resolved(operator, load_mapping(machine), dtype)
    text = first.to_yaml()
    again = resolved(operator, load_mapping(text), dtype)
    assert settled(again) == settled(first)
    assert again.to_yaml() == text
    assert not [d for d in again.decisions if d.kind == "no-effect"]


def test_a_resolved_mapping_prints_as_a_table(golden):
    golden.check(str(resolved("gemm", load_mapping("dsa-sim"))), "gemm_on_dsa")


def test_the_explicit_form_reads_like_one_that_a_person_wrote(golden):
    golden.check(
        resolved("attention", load_mapping("nvidia-h200"), "float16").to_yaml(), "attention"
    )


def test_a_mapping_prints_what_it_says(golden):
    golden.check(str(load_mapping("dsa-sim")), "dsa_sim")


def test_tasks_launched_twice_with_different_places_are_told_apart(bench):
    @task.define(leaf=True)
    def half(Y, X):
        Y[:] = X / 2

    @task.define
    def twice(Y, X):
        T = task.empty(X.shape, name="T")
        task.launch(half, T, X)
        task.launch(half, Y, T)

    text = """
        machine: cpu-x86
        entrypoint: all
        task_mappings:
          all: {task_name: twice, calls: {half: first, "half#2": second}}
          first: {task_name: half, proc: CORE, mems: {X: L1}}
          second: {task_name: half, proc: CORE, mems: {X: L2}}
        """
    first = bench.resolve(text, logic=twice, shapes={"Y": (8,), "X": (8,)})
    assert [i.mems["X"].value for i in first.instances[1:]] == ["L1", "L2"]
    again = bench.resolve(first.to_yaml(), logic=twice, shapes={"Y": (8,), "X": (8,)})
    assert settled(again) == settled(first)


def test_prints_do_not_depend_on_the_run():
    texts = {str(resolved("gemm", load_mapping("cpu-x86"))) for _ in range(3)}
    assert len(texts) == 1


scalars = st.one_of(st.integers(-(2**40), 2**40), st.booleans(), st.text(max_size=12))
printable = scalars.filter(lambda v: not isinstance(v, str) or v.isprintable())


@settings(max_examples=60)
@given(st.recursive(printable, lambda inner: st.lists(inner, max_size=4)))
def test_flow_style_reads_back(value):
    assert parse(f"a: {_flow(value)}\n", "x.yaml", MappingError).items["a"].plain() == value

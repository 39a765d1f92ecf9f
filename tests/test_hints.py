"""What a mistake in a name is answered: the nearest name there is, wherever it is written."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import lessons, operators, task
from septran.errors import Errors, SepTranError, nearest
from septran.machine.loader import machine_names, mappings_root, read_machine
from septran.mapping.loader import load_mapping

SMALL = {"M": 8, "N": 8, "K": 8}
X = np.ones((8, 8), np.float32)
BLOCK = "{task_name: gemm_block, proc: CORE, mems: {C: DRAM}}"


def mapped(entry="", before=""):
    """Compile gemm by a mapping in the explicit form."""
    text = (
        f"machine: cpu-x86\n{before}task_mappings:\n"
        f"  whole: {{task_name: gemm, proc: HOST{entry}}}\n  block: {BLOCK}\n"
        "tunables: {'block_*': 8}\n"
    )
    septran.produce_stages("gemm", text, shapes=SMALL).mapping  # noqa: B018


def rules(rule, more=""):
    """Compile gemm by rules laid over those for cpu-x86."""
    text = f"extends: cpu-x86\nrules:\n  - {rule}\n{more}"
    septran.produce_stages("gemm", text, shapes=SMALL).mapping  # noqa: B018


def machine(old, new):
    """Read a shipped machine with another word at one place."""
    text = (mappings_root() / "machines" / "dsa-sim.yaml").read_text()
    assert old in text
    read_machine(text.replace(old, new, 1), "dsa-sim.yaml")


def compiled(*arguments, operator="gemm", **options):
    return septran.produce_stages(operator, *arguments, **options).mapping


def gemm(**options):
    return septran.compile("gemm", "cpu-x86")(X, X, **options)


@task.define(leaf=True)
def no_dtype(Y, X):
    task.empty((4,), "flot32")


@task.define(leaf=True)
def no_primitive(Y, X):
    task.call_primitive("gem", Y, X, X)


@task.define(leaf=True)
def turned(Y, X):
    task.call_primitive("gemm", Y, X, X, trans_b=True)


@task.define
def no_keyword(Y, X):
    task.launch(scaled, Y, X, factr=2)


@task.define(leaf=True)
def scaled(Y, X, *, factor: task.static = 1):
    Y[:, :] = X * factor


def traced(logic):
    task.trace(logic, {"Y": (8, 8), "X": (8, 8)})


PLACES = {
    "operator": (lambda: operators.load("gem"), "gemm"),
    "lesson": (lambda: lessons.lesson("sums_of_row"), "sums_of_rows"),
    "machine": (lambda: septran.load_machine("npu-cub"), "npu-cube"),
    "mapping": (lambda: load_mapping("npu-cub"), "npu-cube"),
    "machine of a mapping": (lambda: load_mapping("machine: dsa-sims\nrules: []\n"), "dsa-sim"),
    "size": (lambda: compiled(shapes={"MM": 8}), "M"),
    "dtype": (lambda: compiled(dtypes="flot32"), "float32"),
    "tensor of a dtype": (lambda: compiled(dtypes={"AA": "float32"}), "A"),
    "static flag": (lambda: compiled(static={"tran_a": True}), "trans_a"),
    "tunable to search": (
        lambda: septran.tune("gemm", "cpu-x86", shapes=SMALL, tried={"blok_M": [8]}), "block_M"
    ),
    "argument": (lambda: gemm(ou=X), "out"),
    "output": (lambda: gemm(out={"CC": X}), "C"),
    "entry": (
        lambda: task.load_entry(operators.load("gemm").file, "gem_block"), "gemm_block"
    ),
    "dtype in logic": (lambda: traced(no_dtype), "float32"),
    "primitive": (lambda: traced(no_primitive), "gemm"),
    "keyword": (lambda: traced(no_keyword), "factor"),
    "key": (lambda: rules("{match: {task: gemm}, memes: {A: DRAM}}"), "mems"),
    "key of match": (lambda: rules("{match: {tsk: gemm}, proc: CORE}"), "task"),
    "processor": (lambda: rules("{match: {task: gemm}, proc: CORES}"), "CORE"),
    "memory": (lambda: rules("{match: {task: gemm}, mems: {A: DRAMM}}"), "DRAM"),
    "instruction": (
        lambda: rules("{match: {primitive: gemm}, binding: {gemm: fma_microkernl}}"),
        "fma_microkernel",
    ),
    "variant": (lambda: rules("{match: {task: gemm_core}, variant: gemm_cor}"), "gemm_core"),
    "condition": (lambda: rules("{match: {task: gemm, when: MM > 3}, proc: HOST}"), "M"),
    "entry point": (lambda: mapped(before="entrypoint: hole\n"), "whole"),
    "called instance": (lambda: mapped(", calls: {gemm_core: blok}"), "block"),
    "launched task": (lambda: mapped(", calls: {gemm_cor: block}"), "gemm_core"),
    "tensor": (lambda: mapped(", mems: {AA: DRAM}"), "A"),
    "constraint": (
        lambda: load_mapping(
            "extends: cpu-x86\ntunables: {block_M: !tune {type: choice, values: [8, 16]}}\n"
            "constraints: [blok_M > 8]\n"
        ),
        "block_M",
    ),
    "key of a machine": (lambda: machine("processors:", "procesors:"), "processors"),
    "level": (lambda: machine("visible_to: HOST", "visible_to: HOSTT"), "HOST"),
    "word of a machine": (lambda: machine("primitive: map", "primitive: maps"), "map"),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_the_nearest_name_is_told(place):
    wrong, right = PLACES[place]
    with pytest.raises(SepTranError) as caught:
        wrong()
    first = caught.value.errors[0] if isinstance(caught.value, Errors) else caught.value
    assert first.hint is not None
    assert first.hint.startswith(f"did you mean {right!r}?")


def test_where_nothing_is_near_all_is_listed():
    with pytest.raises(SepTranError) as caught:
        septran.load_machine("zzz")
    assert caught.value.hint == f"known: {', '.join(machine_names())}"


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("blok", ["block", "row"], "did you mean 'block'?"),
        ("BLOCK", ["block", "row"], "did you mean 'block'?"),
        ("q", ["row", "block"], "known: block, row"),
        ("q", [], "none is known here"),
        ("block_H", ["block_M", "block_N"], "did you mean 'block_M' or 'block_N'?"),
        ("block_h", ["block_H", "block_M"], "did you mean 'block_H'?"),
        ("blok_N", ["block_M", "block_N"], "did you mean 'block_N'?"),
    ],
)
def test_nearest(name, known, hint):
    assert nearest(name, known) == hint


def test_a_public_name_is_told_for_one_much_like_it():
    with pytest.raises(AttributeError, match="did you mean 'compile'"):
        septran.compil  # noqa: B018


def test_a_flag_of_a_primitive_that_has_none_is_a_view():
    with pytest.raises(SepTranError, match="gemm takes no attribute 'trans_b'") as caught:
        traced(turned)
    assert caught.value.hint == "it takes none; a transposed operand is a transposed view, x.T"

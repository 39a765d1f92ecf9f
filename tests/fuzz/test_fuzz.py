"""Random programs are right on every executor, and planted mistakes are found and made small."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

from septran import operators, task
from septran.errors import SepTranError
from septran.fuzz import (
    CampaignSettings,
    ExecutorOptions,
    executors,
    make_case,
    run_campaign,
    run_case,
)
from septran.fuzz.cases import MACHINES, MOST_ELEMENTS, bounded, extents
from septran.runtime.accuracy import WrongResultError
from septran.targets.registry import target_for
from septran.tile.nodes import Copy, rewrite
from septran.tile.verify.lost_writes import LostWriteError
from tests.tiers import slow_but

FIRST = 20_000
"""Seeds of the suite; `septran fuzz` takes any others."""
GRAMS = (71, 5, 39, 4, 1, 17, 12, 93, 0, 0, 35, 2, 1, 0, 2, 3, 1, 22, 0, 45)
"""The draws of a program by which a mistake was found."""
DRAWN = 1200
"""Seeds whose cases are made and looked at, but not run."""
drawn = cache(make_case)
"""The case of a seed; several tests look through the same ones."""


def run_some(first, count, **options):
    found = [run_case(make_case(seed), **options) for seed in range(first, first + count)]
    assert all(o.kind in ("right", "rejected") for o in found), "\n".join(map(str, found))
    refused = [o for o in found if o.kind == "rejected"]
    assert len(refused) <= max(1, count // 4), "\n".join(map(str, refused))


def test_random_programs_are_right():
    run_some(FIRST, 4)


@pytest.mark.slow
@pytest.mark.parametrize("first", [FIRST + 4, FIRST + 14, *range(FIRST + 100, FIRST + 180, 10)])
def test_more_random_programs_are_right(first):
    run_some(first, 10)


def for_gpus():
    """The first seeds of the suite whose machine is a GPU: some of each one."""
    found = (s for s in range(FIRST, FIRST + 1000) if drawn(s).machine.startswith("nvidia"))
    return list(itertools.islice(found, 8))


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["nvidia-a100", "nvidia-h200"])
def test_code_for_gpus_is_emulated(machine):
    seed = next(s for s in for_gpus() if drawn(s).machine == machine)
    found = run_case(drawn(seed), ExecutorOptions(emulate=True))
    assert found.kind == "right", str(found)
    assert "emulator" in found.ran


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_more_code_for_gpus_is_right(number):
    found = run_case(drawn(for_gpus()[number]), ExecutorOptions(emulate=True))
    assert found.kind in ("right", "rejected"), str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "executor"),
    [("amd-mi300x", "emulator"), ("opencl-generic", "code"), ("tpu-v5e", "code")],
)
def test_other_machines_run_their_own_code(machine, executor):
    pytest.importorskip("jax" if machine == "tpu-v5e" else "numpy")
    cases = (c for c in map(drawn, range(FIRST, FIRST + 200)) if c.machine == machine)
    ran = set()
    for case in itertools.islice(cases, 4):
        found = run_case(case, ExecutorOptions(emulate=True))
        assert found.kind in ("right", "rejected"), str(found)
        ran |= set(found.ran)
    if machine != "opencl-generic" or target_for("opencl").missing() is None:
        assert executor in ran


@pytest.mark.slow
def test_cpu_code_runs_between_guard_pages():
    found = run_case(make_case(FIRST + 1), ExecutorOptions(guard=True))
    assert {"cpu", "cpu, other width"} <= set(found.ran), str(found)


def test_a_case_of_too_many_steps_gets_larger_tiles():
    """Tiles of one element for a product that takes 600,000 of them."""
    from septran.fuzz.cases import MOST_STEPS, _steps, affordable

    tiles = dict.fromkeys(("block_M", "block_N", "block_K"), 1)
    case = dataclasses.replace(make_case(10247), tunables=tiles)
    assert case.kind == "products"
    assert _steps(case, case.tunables) > 30 * MOST_STEPS
    smaller = affordable(case)
    assert _steps(smaller, smaller.tunables) <= MOST_STEPS
    assert {n for n in case.tunables if smaller.tunables[n] < case.tunables[n]} == set()
    assert affordable(smaller) == smaller


@pytest.mark.parametrize("longest", [40, 97])
def test_tensors_of_many_axes_are_bounded(longest):
    """Some had seven and eighteen million elements, which took minutes or too much memory."""
    logic, static = operators.load("permute"), {"order": (0, 2, 4, 1, 3)}
    sizes = {"A": 3, "B": longest, "C": 33, "D": 64, "E": 17}
    found = bounded(logic, sizes, tuple(sizes), static)
    elements = [math.prod(shape) for shape in extents(logic, found, static).values()]
    assert MOST_ELEMENTS / 8 < max(elements) <= MOST_ELEMENTS
    assert all(found[d] <= sizes[d] for d in sizes)
    assert found["A"] == 3
    kept = bounded(logic, sizes, ("A",), static)  # nothing else may be made shorter
    assert kept == sizes


def test_cases_depend_on_their_seed_alone():
    assert make_case(7) == make_case(7)
    assert make_case(7) != make_case(8)
    first, again = make_case(7).arrays(), make_case(7).arrays()
    assert all(np.array_equal(first[n], again[n], equal_nan=True) for n in first)


def test_a_case_is_what_its_draws_say():
    case = make_case(11)
    assert make_case(11, case.trace) == case


@pytest.mark.slow
def test_what_is_promised_is_drawn():
    """Each family and machine, corner values, own machines, edits of shipped mappings."""
    cases = [drawn(seed) for seed in range(FIRST, FIRST + DRAWN)]
    kinds = {case.kind for case in cases}
    assert {"rows", "elementwise", "products", "chains", "moves", *operators.names()} <= kinds
    assert {"grams", "scans", "statistics", "pairs", "slices", "windows"} <= kinds
    assert {"nested products", "counts", "sections", "orders", "solves"} <= kinds
    assert {"prefixes", "parts", "scatters", "gathers"} <= kinds
    assert {case.machine for case in cases} == set(MACHINES)
    assert {case.values for case in cases} == {"normal", "corners", "exact"}
    own = {case.machine for case in cases if case.machine_text is not None}
    assert own == set(MACHINES)
    edited = {n for case in cases for n, text in case.mappings.items() if "rules:" in text}
    assert edited == set(MACHINES)
    assert len({i.dtype for case in cases for i in case.inputs}) >= 12
    parts = [case for case in cases if case.kind == "rows" and "[:, :1] = " in case.logic]
    assert parts, "no temporary is written in parts"


def test_sums_that_pass_through_two_memories_are_drawn(monkeypatch, tmp_path):
    """Copies back in the order of the copies in: a bug that only such a program shows.

    The verifier finds it here, and without the verifier the numbers do.
    """
    from septran.tile.passes.copies import eliminate_copies

    hoist = eliminate_copies._Elimination._hoist

    def forwards(self, loop, outer):
        before, loop, after = hoist(self, loop, outer)
        return before, loop, after[::-1]

    case = make_case(3_001_396, GRAMS)
    assert (case.kind, case.machine) == ("grams", "npu-cube")
    files = executors.CaseFiles.write(case, tmp_path)
    assert executors._interpreter(files) <= 1
    monkeypatch.setattr(eliminate_copies._Elimination, "_hoist", forwards)
    with pytest.raises(LostWriteError):
        executors._interpreter(files)
    monkeypatch.setenv("SEPTRAN_VERIFY", "0")
    with pytest.raises(WrongResultError):
        executors._interpreter(files)


# That the programs of all are equal but for names, tests/operators/test_renamed.py has.
@pytest.mark.parametrize(
    "operator", slow_but(["gemm", "attention", "conv2d", "topk"], operators.names())
)
@pytest.mark.one_in(2, first=1)
def test_a_renamed_operator_computes_the_same(operator, tmp_path):
    from septran.fuzz import renamed

    case = operators.cases(operator)[0]
    other = renamed(operator)
    file = tmp_path / "somebody.py"
    file.write_text(other.text, encoding="utf-8")
    own = operators.load(operator)
    names = {t.name for t in (own, task.load_entry(file))}
    assert len(names) == 2
    assert not set(other.tensors.values()) & set(other.tensors)
    arrays = _sample(operator, case)
    flags = dict(case.static)
    expected, found = (
        task.run(own, *arrays, **flags),
        task.run(task.load_entry(file), *arrays, **flags),
    )
    for a, b in zip(_several(expected), _several(found), strict=True):
        np.testing.assert_array_equal(a, b)


def _sample(operator, case):
    from septran.compiler import compile as compile_kernel

    kernel = compile_kernel(
        operator, shapes=dict(case.sizes), static=dict(case.static), dtypes=case.dtype
    )
    return list(kernel.sample().values())


def _several(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.slow
def test_a_dropped_copy_is_found(monkeypatch, tmp_path):
    """The check can fail: without the copies of a machine, its results are wrong."""
    case, whole = _gemm(tmp_path), executors.interpret

    def without_copies(program, arrays, **options):
        def drop(node):
            return (
                ()
                if isinstance(node, Copy) and node.target.buffer not in program.params
                else (node,)
            )

        return whole(
            dataclasses.replace(program, body=rewrite(program.body, drop)), arrays, **options
        )

    monkeypatch.setattr(executors, "interpret", without_copies)
    found = run_case(case)
    assert (found.kind, found.executor) in (("wrong", "interpreter"), ("crash", "interpreter"))


def _gemm(folder):
    """The first seed of the suite that multiplies on a machine with memories of its own."""
    for seed in range(FIRST, FIRST + 1000):
        case = drawn(seed)
        if case.kind == "products" and case.machine == "dsa-sim":
            with suppress(SepTranError):  # its mapping takes the types of elements
                executors._interpreter(executors.CaseFiles.write(case, folder / str(seed)))
                return case
    raise AssertionError("no such case")


_BROKEN = """
import json, os, sys
from septran.torch_when_needed import import_torch_when_needed
import_torch_when_needed()  # as a worker does
for line in sys.stdin:
    request = json.loads(line)
    from septran.fuzz.cases import make_case
    trace = request["trace"]
    case = make_case(request["seed"], None if trace is None else tuple(trace))
    if case.kind == "products":
        os.abort()
    told = {"kind": "right", "executor": "", "message": "", "worst": 0.0, "ran": ["cpu"]}
    print(json.dumps(told), flush=True)
"""


@pytest.mark.slow
def test_a_crash_is_an_outcome_and_is_made_small(tmp_path):
    """A worker that dies at every product: the smallest product is what is kept."""
    seed = next(s for s in range(FIRST, FIRST + 200) if drawn(s).kind == "products")
    command = (sys.executable, "-c", _BROKEN)
    result = run_campaign(
        seed, 2, settings=CampaignSettings(keep=tmp_path, tries=8, command=command)
    )
    assert result.outcomes[0].kind == "crash"
    assert "SIGABRT" in result.outcomes[0].message
    folder = tmp_path / f"seed-{seed}"
    small = (folder / "logic.py").read_text(encoding="utf-8")
    assert len(small) <= len(drawn(seed).logic)
    assert 'task.call_primitive("gemm"' in small
    assert (folder / "mine-cpu-x86.mapping.yaml").exists()
    assert f"--seed {seed}" in (folder / "outcome.txt").read_text(encoding="utf-8")

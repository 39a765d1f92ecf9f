"""Compiled kernels of the library: any shape, any dtype, any legal mapping."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import numpy as np
import pytest
import torch

import septran
from septran import operators
from septran.dtypes import numpy_dtype
from septran.request import extents
from septran.runtime.arrays import as_torch
from septran.runtime.checks import sample
from septran.runtime.signature import Specialisation
from septran.runtime.torch_baseline import torch_function
from tests.scripts import WITHOUT_TORCH
from tests.tiers import in_turn, slow_but, slow_where

pytestmark = pytest.mark.usefixtures("vectors")
EXTENTS = (0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 127, 129, 255, 1000)
"""The battery: around the sizes where tiles, vectors and blocks end."""
EDGES = (0, 1, 33, 65)
"""Those of them that are tried on every run."""
ORDINARY = 33
MEMORIES = ("NONE", "DRAM", "L3", "L2", "L1")


def shapes(name, sizes):
    m, n, k = sizes["M"], sizes["N"], sizes["K"]
    return {
        "gemm": ((m, k), (k, n)),
        "batched_gemm": ((2, m, k), (2, k, n)),
        "gemm_bias_act": ((m, k), (k, n), (n,)),
        "softmax": ((m, n),),
        "attention": ((1, 2, m, 16), (1, 2, n, 16), (1, 2, n, 16)),
        "conv2d": ((1, k, 6, m), (n, k, 3, 3)),
    }[name]


def arrays(name, sizes, dtype="float32"):
    rng = np.random.default_rng(sum(sizes.values()))
    return [rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes(name, sizes)]


AXES = {
    "gemm": "MNK", "batched_gemm": "MNK", "gemm_bias_act": "MN", "softmax": "MN",
    "attention": "MN", "conv2d": "MN",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "axis"),
    slow_where(
        # every operator along one of its axes, and every axis of one
        lambda case: case[1] != "NMK"[[*AXES].index(case[0]) % len(AXES[case[0]])],
        [(n, a) for n, axes in AXES.items() for a in axes],
    ),
)
@pytest.mark.one_in(3)
def test_the_edges_of_the_battery(name, axis):
    check_extents(name, axis, EDGES)


@pytest.mark.slow
@pytest.mark.one_width
@pytest.mark.parametrize(("name", "axis"), [(n, a) for n, axes in AXES.items() for a in axes])
def test_every_extent_of_the_battery(name, axis):
    check_extents(name, axis, EXTENTS)


def check_extents(name, axis, battery):
    static = {"padding": 1} if name == "conv2d" else {}
    kernel = septran.compile(name, static=static)
    for extent in battery if name != "conv2d" else battery[:12]:
        sizes = {"M": ORDINARY, "N": ORDINARY, "K": 5 if name == "conv2d" else ORDINARY}
        check = kernel.check(*arrays(name, sizes | {axis: extent}))
        assert check.right, f"{axis} = {extent}: {check}"


@pytest.mark.parametrize(
    ("name", "dtype"), in_turn(sorted(AXES), ["float16", "bfloat16", "float64"])
)
@pytest.mark.one_in(4, first=1)
def test_every_float(name, dtype):
    kernel = septran.compile(name)
    check = kernel.check(*arrays(name, {"M": 33, "N": 50, "K": 40}, dtype))
    assert check.right, str(check)


@pytest.mark.parametrize("shape", [(33, 50, 40), (64, 64, 64), (1, 7, 300), (5, 16, 0)], ids=str)
@pytest.mark.one_in(2, first=1)
def test_bytes_are_summed_exactly(shape):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s, dtype="int8") for s in ((m, k), (k, n)))
    c = septran.compile("gemm")(a, b)
    assert c.dtype == np.int32
    assert np.array_equal(c, a.astype("int32") @ b.astype("int32"))


@pytest.mark.parametrize("flags", [{"trans_a": True}, {"trans_b": True}], ids=str)
def test_transposed_operands(flags):
    kernel = septran.compile("gemm", static=flags)
    a, b = arrays("gemm", {"M": 65, "N": 50, "K": 70})
    a, b = (a.T.copy() if "trans_a" in flags else a), (b.T.copy() if "trans_b" in flags else b)
    assert kernel.check(a, b).right


def test_nan_and_infinity_stay_where_they_belong():
    x = np.random.default_rng(0).standard_normal((8, 40)).astype("float32")
    x[1, 3], x[2, 5], x[3, :] = np.nan, np.inf, -np.inf
    y = septran.compile("softmax")(x)
    assert np.isnan(y[1]).all()
    assert np.isnan(y[2]).any()  # inf - inf, as in torch
    assert np.isnan(y[3]).all()
    assert np.isfinite(y[[0, 4, 5, 6, 7]]).all()
    a, b = (np.eye(9, dtype="float32") for _ in range(2))
    a[4, 2] = np.nan
    c = septran.compile("gemm")(a, b)
    assert np.isnan(c[4]).all()
    assert np.isfinite(np.delete(c, 4, axis=0)).all()


def random_mapping(rng):
    """Random memories for the tiles of `gemm` in blocks, at fixed tile sizes."""

    def memory(*others):
        return rng.choice((*MEMORIES, *others))

    return f"""
machine: cpu-x86
rules:
  - {{match: {{level: entry}}, proc: HOST, mems: {{"*": DRAM}}}}
  - {{match: {{task: gemm_block}}, proc: CORE,
     mems: {{C: {memory()}, A: {memory()}, B: {memory()}}}}}
  - {{match: {{task: gemm_tile}}, mems: {{A: {memory()}, B: {memory()}}}}}
tunables: {{block_M: 24, block_N: 32, block_K: 16}}
"""


def test_where_tensors_are_does_not_change_one_bit():
    a, b = arrays("gemm", {"M": 50, "N": 45, "K": 70})
    rng = Random(0)
    results, programs = set(), set()
    for _ in range(12):
        stages = septran.produce_stages(
            "gemm", random_mapping(rng), shapes={"M": 50, "N": 45, "K": 70}
        )
        program = stages.tile_program
        septran.verify(program)
        programs.add(str(program))
        results.add(septran.interpret(program, {"A": a, "B": b})["C"].tobytes())
    assert len(programs) > 8
    assert len(results) == 1


@pytest.mark.parametrize("machine", ["dsa-sim", "nvidia-h200"])
@pytest.mark.one_in(2)
def test_pipelining_does_not_change_one_bit(machine):
    sizes = {"M": 40, "N": 48, "K": 96}
    a, b = arrays("gemm", sizes)
    results, stages_seen = set(), set()
    for depth in (1, 2, 3, 5):
        mapping = f"""
extends: {machine}.mapping.yaml
rules:
  - {{match: {{task: gemm_block}}, pipeline: {depth}}}
"""
        produced = septran.produce_stages(
            "gemm", mapping, shapes=sizes, tunables={"block_K": 16, "block_M": 16, "block_N": 16}
        )
        program = produced.tile_program
        septran.verify(program)
        stages_seen.add(max(b.stages for b in program.buffers))
        for order in ("early", "late", depth):
            result = septran.interpret(program, {"A": a, "B": b}, order=order)["C"]
            results.add(result.tobytes())
    assert len(stages_seen) >= 3
    assert len(results) == 1


SCRIPT = """
import hashlib, septran
for name in ("gemm", "softmax", "attention"):
    stages = septran.produce_stages(name)
    texts = [str(stages[n]) for n in ("task_tree", "mapping", "tile_program", "tensor_ir")]
    print(name, [hashlib.sha256(t.encode()).hexdigest()[:16] for t in texts])
"""


@pytest.mark.slow
@pytest.mark.one_width
def test_the_order_of_hashes_changes_nothing():
    printed = set()
    for seed in ("0", "1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH + SCRIPT],
            capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )  # fmt: skip
        printed.add(run.stdout)
    assert len(printed) == 1


LATER = sorted({*operators.names()} - {*AXES})
"""Operators that the batteries above have not; half of them are fast in each sweep below."""
TAKES_LONG = (
    "attention_backward", "attention_varlen", "linear_attention_backward", "moe", "moe_layer",
    "paged_prefill",
)  # fmt: skip


@pytest.fixture(scope="module")
def kernel_of(vectors):
    """Kernels by operator and flags, so that no shape is compiled twice."""
    del vectors  # others for each width
    made = {}

    def get(name, **static):
        key = name, tuple(sorted(static.items()))
        if key not in made:
            made[key] = septran.compile(name, static=static)
        return made[key]

    return get


def given(name, sizes, dtype="float32", **static):
    """Random inputs of an operator for its first case's sizes, but for those in `sizes`."""
    first = operators.cases(name)[0]
    task = operators.load(name)
    shapes = extents(task, {**first.sizes, **sizes}, static)
    kernel, rng = septran.compile(name, static=static), np.random.default_rng(0)
    integers = any(tensor.dtype in ("int64", "uint8") for tensor in kernel.signature.inputs)
    chosen = {}
    if integers:
        of_shapes = {"shapes": {**first.sizes, **sizes}, "static": static}
        chosen = sample(Specialisation.of(septran.produce_stages(name, **of_shapes)))
    found = []
    for tensor in kernel.signature.inputs:
        if tensor.dtype == "int64":  # numbers of rows that exist, or lengths
            found.append(np.abs(chosen[tensor.name]))
        elif tensor.dtype == "uint8":
            found.append(chosen[tensor.name])
        else:
            found.append(
                rng.standard_normal(shapes[tensor.name]).astype(numpy_dtype(tensor.dtype or dtype))
            )
    return found


OTHERS = {
    name: ("float64", "bfloat16") if n % 2 or name in TAKES_LONG else ("bfloat16", "float64")
    for n, name in enumerate(LATER)
}
"""Types in which each operator is tried: for the vectors of all hosts, and for this one's alone.

LLVM takes longest over bfloat16 for vectors that the host has not.
"""


@pytest.mark.parametrize(
    ("name", "dtype"),
    slow_where(
        lambda each: each[1] == "float64" or each[0] in TAKES_LONG,
        [(name, kinds[0]) for name, kinds in OTHERS.items()],
    ),
)
@pytest.mark.one_in(3, first=1)
def test_every_other_operator_in_a_further_float(kernel_of, name, dtype):
    check = kernel_of(name).check(*given(name, {}, dtype))
    assert check.right, str(check)


@pytest.mark.slow
@pytest.mark.one_width
@pytest.mark.parametrize(("name", "dtype"), [(name, kinds[1]) for name, kinds in OTHERS.items()])
def test_every_other_operator_in_the_last_float(kernel_of, name, dtype):
    check = kernel_of(name).check(*given(name, {}, dtype))
    assert check.right, str(check)


BATTERY = {
    "attention_bias": "N", "attention_decode": "N", "elementwise": "N", "layer_norm": "N",
    "linear_attention": "N", "mla_decode": "N", "reduce": "N", "rope": "S", "topk": "M",
}  # fmt: skip


@pytest.mark.parametrize(("name", "extent"), in_turn(BATTERY, [0, 1, 65, 127]))
@pytest.mark.one_in(3)
def test_every_other_operator_at_the_edges_of_tiles(kernel_of, name, extent):
    check = kernel_of(name).check(*given(name, {BATTERY[name]: extent}))
    assert check.right, str(check)


def test_a_sum_of_nothing_is_zero(kernel_of):
    assert kernel_of("reduce")(np.zeros((5, 0), "f4")).tolist() == [0.0] * 5
    assert not kernel_of("gemm_splitk")(np.zeros((5, 0), "f4"), np.zeros((0, 3), "f4")).any()


@pytest.mark.parametrize("size", slow_but([80], [32, 80, 128, 256]))
def test_heads_of_each_size(kernel_of, size):
    sizes = {"B": 1, "H": 2, "G": 1, "M": 17, "N": 33, "D": size}
    check = kernel_of("attention", causal=True).check(*given("attention", sizes))
    assert check.right, str(check)


def test_queries_without_keys_give_zeros_as_in_torch(kernel_of):
    q, k, v = given("attention", {"M": 5, "N": 3})
    found = kernel_of("attention", causal=True)(q, k, v)
    assert not found[:, :, :2].any()
    assert found[:, :, 2:].all()
    q, k, v = given("attention", {"M": 5, "N": 0})
    assert not kernel_of("attention")(q, k, v).any()
    q, k, v = given("attention", {"M": 5, "N": 3, "D": 0})
    assert kernel_of("attention")(q, k, v).shape == (1, 2, 5, 0)
    q, k, v, bias = given("attention_bias", {})
    bias[0, 1, 7] = -np.inf
    found = kernel_of("attention_bias")(q, k, v, bias)
    assert not found[0, 1, 7].any()
    assert np.isfinite(found).all()


NOT_BY_ELEMENTS = {
    "conv2d_nhwc", "fp8_gemm", "linear_attention", "linear_attention_backward", "ssd", "topk",
}  # fmt: skip
"""Where blocks or chunks decide which zeros infinities are multiplied by, topk's indices, and
float8_e4m3fn, which has no infinities."""


@pytest.mark.one_width
@pytest.mark.parametrize("value", slow_but([np.inf], [np.nan, np.inf, -np.inf]))
@pytest.mark.parametrize(
    "name", slow_where(LATER[::2].__contains__, sorted({*LATER} - NOT_BY_ELEMENTS))
)
@pytest.mark.one_in(3, first=1)
def test_special_values_are_where_torch_has_them(kernel_of, name, value):
    inputs = given(name, {})
    inputs[0].reshape(-1)[[3, 8]] = value
    found = kernel_of(name)(*inputs)
    wanted = torch_function(name, {})[1](*map(torch.from_numpy, inputs))
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (found, wanted))
    for ours, theirs in zip(found, wanted, strict=True):
        for same in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(same(ours), same(theirs.numpy()))


RESULTS = {"fp8_gemm": {"C": "float64"}}
"""Types of results that do not follow from those of the inputs."""


@pytest.mark.one_width
@pytest.mark.one_in(9, first=4)
@pytest.mark.parametrize("name", slow_where(TAKES_LONG.__contains__, operators.names()))
def test_torch_has_a_function_beside_every_operator(name):
    """In float64, it is the reference's equal but for rounding."""
    for case in operators.cases(name):
        inputs = given(name, case.sizes, "float64", **case.static)
        kernel = septran.compile(name, static=case.static, dtypes=RESULTS.get(name))
        ours = kernel.reference(*inputs)
        named, function = torch_function(name, case.static)
        assert "torch" in named
        exact = (x.double() if x.dtype == torch.float32 else x for x in map(as_torch, inputs))
        theirs = function(*exact)
        ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == tuple(b.shape)
            b = b.numpy()
            size = np.abs(b[np.isfinite(b)]).max(initial=1.0)
            apart = np.subtract(a, b, out=np.zeros_like(b), where=a != b)  # equal infinities are
            # thousands of roundings of sums of thousands of terms: far below any mistake
            assert np.nanmax(np.abs(apart), initial=0.0) <= 2.0**-36 * size, str(case)

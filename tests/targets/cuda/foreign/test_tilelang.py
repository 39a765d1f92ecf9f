"""TileLang's kernels through nvcc's PTX, with the tensor maps that its host code makes."""

import itertools
import math
import re

import numpy as np
import pytest

from septran.emulator import MODES, emulate
from septran.emulator.launch import CudaProgram, Pointer, ScalarArgument, ShapedLaunch, TensorMap

pytestmark = pytest.mark.slow
_CALL = re.compile(r'^\s*T\.call_packed\("(\w+)", (.*)\)$', re.MULTILINE)
_TYPES = {6: "float16"}
_SWIZZLES = (0, 32, 64, 128)


def tensor_map(words):
    """What ``__tvm_tensormap_create_tiled`` is called with, the arguments of the driver's call."""
    name, dtype, rank, buffer = words[0], int(words[1]), int(words[2]), words[3]
    numbers = [int(n) for n in words[4:]]
    extents, strides, box, steps = (numbers[k * rank : (k + 1) * rank] for k in range(4))
    interleave, swizzle, _, fill = numbers[4 * rank :]
    assert steps == [1] * rank
    assert interleave == fill == 0
    return TensorMap(buffer, _TYPES[dtype], tuple(extents), tuple(strides[1:]), tuple(box),
                     _SWIZZLES[swizzle], name)  # fmt: skip


def launches(host, maps, scalars):
    """The kernels that the host code calls, in order."""
    for name, rest in _CALL.findall(host):
        if not re.search(r"_kernel(_\d+)?$", name):
            continue
        words = [w.strip() for w in rest.split(",")]
        given = list(itertools.takewhile(lambda w: not w.isdigit(), words))
        sizes = [int(w) for w in words[len(given) :]]
        shared = 0 if sizes[-2:] == [1, 1] else sizes.pop()  # where it is asked for at the call
        *grid, x, y, z = sizes
        arguments = tuple(
            maps.get(w) or (ScalarArgument(w, scalars[w]) if w in scalars else Pointer(w, "", w))
            for w in given
        )
        shape = (*grid, 1, 1)[:3]
        yield ShapedLaunch(
            name, math.prod(grid), x * y * z, 1, shared, arguments, shape, (x, y, z)
        )  # fmt: skip


@pytest.fixture(scope="module")
def run(produce, to_ptx, package):
    """`run(kernel, arrays, mode)` launches it as its host code does."""

    def call(kernel, arrays, mode, scalars=None):
        text, facts = produce("tilelang", "tilelang_kernels.py", kernel, "cu")
        root = package("tilelang")
        folders = [root / "src", root / "3rdparty" / "cutlass" / "include"]
        ptx = to_ptx(text, facts["arch"], "-std=c++17", *(f"-I{f}" for f in folders))
        maps = {
            words[0]: tensor_map(words)
            for name, rest in _CALL.findall(facts["host"])
            if name.endswith("create_tiled")
            for words in [[w.strip() for w in rest.split(",")]]
        }
        values = {k: v for k, (_, v) in (scalars or {}).items()}
        types = {k: dtype for k, (dtype, _) in (scalars or {}).items()}
        called = tuple(launches(facts["host"], maps, types))
        program = CudaProgram(
            ptx, called, (), tuple(arrays), tuple(types.items()), facts["arch"]
        )  # fmt: skip
        return emulate(program, arrays, values, mode=mode, seed=11)

    return call


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("mode", MODES)
def test_gemm(run, right_product, mode):
    a, b, c = numbers(1, 256, 192), numbers(2, 192, 128), numbers(3, 256, 128)
    found = run("gemm", {"A": a, "B": b, "C": c}, mode)
    right_product(c, a, b)
    assert found.statistics["flops"] == 2 * 256 * 128 * 192


@pytest.mark.parametrize("mode", MODES)
def test_attention(run, right_attention, mode):
    q, k, v, o = (numbers(s, 2, 256, 64) for s in range(4))
    run("attention", {"Q": q, "K": k, "V": v, "Out": o}, mode)
    right_attention(o[None], q[None], k[None], v[None], causal=False)

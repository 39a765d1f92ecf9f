"""Operators by the whole route, from logic to a simulated run, under all kinds of delays."""

import numpy as np
import pytest

from septran.compiler import produce_stages
from septran.dtypes import numpy_dtype, unit_roundoff


def gemm(a, b):
    return a @ b, a.shape[1] * (np.abs(a) @ np.abs(b))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    y = e / e.sum(axis=1, keepdims=True)
    # The exponent is off by a rounding of x - max, the sum by one a term.
    return y, y * (np.abs(x - x.max(axis=1, keepdims=True)) + x.shape[1] + 8)


def attention(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    size = np.abs(q) @ np.abs(np.swapaxes(k, -1, -2)) / np.sqrt(q.shape[-1])
    wrong = 2 * q.shape[-1] * size.max(axis=-1, keepdims=True) + 2 * k.shape[-2] + 16
    return p @ v, wrong * (p @ np.abs(v))


CASES = [
    ("gemm", {"M": 200, "N": 136, "K": 96}, "float32", gemm),
    ("gemm", {"M": 128, "N": 128, "K": 128}, "float16", gemm),
    ("softmax", {"M": 100, "N": 333}, "float32", softmax),
    ("attention", None, "float32", attention),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.parametrize(("operator", "shapes", "kind", "reference"), CASES)
def test_an_operator_is_right_under_all_delays(machine, operator, shapes, kind, reference):
    dtypes = None if kind == "float32" else kind
    stages = produce_stages(operator, machine, shapes=shapes, dtypes=dtypes)
    program, executable = stages.tile_program, stages.executable
    buffers = {buffer.name: buffer for buffer in program.buffers}
    random = np.random.default_rng(5)
    output, *inputs = (buffers[name] for name in program.params)
    given = [random.standard_normal(b.shape).astype(numpy_dtype(b.dtype)) for b in inputs]
    exact, size = reference(*(x.astype(np.float64) for x in given))
    results, cycles = set(), set()
    for seed in (None, *range(16)):
        out = np.full(output.shape, np.nan, numpy_dtype(output.dtype))
        run = executable.simulate(out, *given, adversary=seed)
        results.add(out.tobytes())
        cycles.add(run.cycles)
    assert len(results) == 1
    assert len(cycles) > 14  # two of 17 may take as long by chance
    bound = 2.0**-24 * size + unit_roundoff(output.dtype) * np.abs(exact) * 1.01
    assert (np.abs(out.astype(np.float64) - exact) <= bound).all()

"""OpenCL C as it is printed: exact numbers, types of every device, vectors, loops."""

import re

import ml_dtypes
import numpy as np
import pytest

import septran
from septran import task
from septran.targets.opencl.target import TARGET
from septran.targets.opencl.text.prelude import PARTS, prelude
from septran.targets.opencl.text.vectors import with_vectors


def text(logic, dtype=None, **shapes):
    stages = septran.produce_stages(logic, "opencl-generic", shapes=shapes, dtypes=dtype)
    return stages.tensor_ir.cuda.source


def test_short_floats_are_integers_in_memory_so_that_no_extension_is_needed():
    found = text("gemm", "float16", M=40, N=72, K=32)
    assert "__global ushort* restrict A" in found
    assert not re.search(r"\bhalf\b|cl_khr_fp16", found)
    assert "septran_to_float16" in found


def test_numbers_keep_all_their_bits():
    found = text("elementwise", M=4, N=8)
    assert "1.000000e+00f" in found
    gelu = septran.produce_stages(
        "elementwise", "opencl-generic", shapes={"M": 4, "N": 8}, static={"function": "gelu"}
    )
    numbers = re.findall(r"0x1\.\w+p[-+]\d+f", gelu.tensor_ir.cuda.source)
    assert np.float32(0.5**0.5) in [np.float32(float.fromhex(n[:-1])) for n in numbers]


def test_negative_numbers_keep_their_sign():
    @task.define(leaf=True)
    def some(Y, X):
        Y[:, :] = task.where(X > -0.12345678, X - 0.3333333, -1.2345678e30)

    @task.define
    def whole(Y: task.Out["M", "N"], X: task.In["M", "N"]):
        for i in task.parallel_range(X.shape[0]):
            task.launch(some, Y[i : i + 1], X[i : i + 1])

    for dtype in ("float32", "float64"):
        found = text(whole, dtype, M=3, N=8)
        numbers = {float.fromhex(n) for n in re.findall(r"-?0x1\.\w+p[-+]\d+", found)}
        kind = np.dtype(dtype).type
        assert {float(kind(-0.12345678)), float(kind(-1.2345678e30))} <= numbers
        if TARGET.missing() is None:
            kernel = septran.compile(whole, "opencl-generic", shapes={"M": 3, "N": 8}, dtypes=dtype)
            assert kernel.check().right


def test_vectors_are_moved_as_such_and_every_array_is_aligned_for_them():
    kernel = """\
__kernel void f(__global float* restrict Y, __global ushort* restrict X) {
  ushort x_ptr[4];
  vstore4(vload4(0, X + (i * 4)), 0, x_ptr + 0);
  vstore2(y, 0, (__local float*)shared_ptr + (2 * (i + 1)));
"""
    assert with_vectors(kernel).splitlines()[1:] == [
        "  __attribute__((aligned(16))) ushort x_ptr[4];",
        "  *(ushort4*)(x_ptr + 0) = *(__global ushort4*)(X + (i * 4));",
        "  *(__local float2*)((__local float*)shared_ptr + (2 * (i + 1))) = y;",
    ]


def test_the_turns_of_a_loop_that_data_decides_are_counted_once():
    found = text("grouped_gemm", T=9, E=3, K=16, N=8)
    assert re.search(r"for \(int (\w+) = 0, \1_end = .*offsets\[", found)
    assert not re.search(r"for \(int \w+ = 0; \w+ < .*offsets\[", found)


def test_the_prelude_has_what_is_used_and_no_more():
    assert "septran_" not in prelude("int x = 0;")
    assert "cl_khr_fp64" in prelude("double x = 0;")


TYPES = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
KERNEL = """
__kernel void from(__global {bits}* x, __global float* y) {{
  int i = get_global_id(0);
  y[i] = septran_from_{name}(x[i]);
}}
__kernel void to(__global float* x, __global {bits}* y) {{
  int i = get_global_id(0);
  y[i] = septran_to_{name}(x[i]);
}}
"""


@pytest.mark.parametrize("name", TYPES)
def test_conversions_of_short_floats_are_exact_and_round_once(name, device):
    import pyopencl as cl

    kind = np.dtype(TYPES[name])
    words = np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}")
    every = words.view(kind).astype(np.float32)
    bits = {1: "uchar", 2: "ushort"}[kind.itemsize]
    source = "".join(PARTS[f"septran_{way}_{name}"] for way in ("from", "to"))
    program = cl.Program(device.context, source + KERNEL.format(bits=bits, name=name))
    program = program.build(device.options)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR

    def run(kernel, x, y):
        given, got = (cl.Buffer(device.context, flags, hostbuf=a) for a in (x, y))
        cl.Kernel(program, kernel)(device.queue, x.shape, None, given, got)
        cl.enqueue_copy(device.queue, y, got)
        return y

    assert np.array_equal(run("from", words, np.empty_like(every)), every, equal_nan=True)
    finite = np.unique(every[np.isfinite(every)])
    # Each number, the middle of each two neighbours, and what is next to that.
    middle = (finite[1:].astype(np.float64) + finite[:-1]) / 2
    middle = middle.astype(np.float32)
    around = [finite, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    x = np.concatenate([*(a.astype(np.float32) for a in around), [np.float32(np.nan)]])
    got = run("to", x, np.empty(x.shape, words.dtype)).view(kind).astype(np.float32)
    assert np.array_equal(got, x.astype(kind).astype(np.float32), equal_nan=True)

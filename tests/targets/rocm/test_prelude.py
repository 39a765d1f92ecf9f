"""Short floats, and the lanes of a wave, as the prelude of HIP text has them."""

import ml_dtypes
import numpy as np
import pytest

from septran.emulator import emulate
from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer
from septran.targets.rocm.text.prelude import prelude


def run(body, **arrays):
    pointers = tuple(Pointer(name, "", name) for name in arrays)
    launch = KernelLaunch("k", 1, 64, 1, 0, pointers)
    text = f"{prelude(body)}\n{body}"
    emulate(CudaProgram(text, (launch,), (), tuple(arrays), (), "gfx942"), arrays)


NARROW = """extern "C" __global__ void k(@T@* y, float* x, int n) {
  for (int i = (int)threadIdx.x; i < 65536; i += 64) y[i] = (@T@)x[i];
}
"""
WIDEN = """extern "C" __global__ void k(float* y, @T@* x) {
  for (int i = (int)threadIdx.x; i < @N@; i += 64) y[i] = (float)x[i];
}
"""
SHORT = {
    "half": np.float16, "nv_bfloat16": ml_dtypes.bfloat16, "fp8_e4_t": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_every_short_float_is_widened_exactly(name):
    kind = np.dtype(SHORT[name])
    count = 1 << 8 * kind.itemsize
    bits = np.arange(count, dtype=f"uint{8 * kind.itemsize}")
    wide = np.zeros(count, np.float32)
    run(WIDEN.replace("@T@", name).replace("@N@", str(count)), y=wide, x=bits)
    np.testing.assert_array_equal(wide, bits.view(kind).astype(np.float32))


@pytest.mark.parametrize("name", SHORT)
def test_floats_are_rounded_to_the_nearest_ties_to_even(name):
    """Also between two neighbours, at the ends of the range and beyond them."""
    kind = np.dtype(SHORT[name])
    bits = np.arange(1 << 8 * kind.itemsize, dtype=f"uint{8 * kind.itemsize}")
    known = bits.view(kind).astype(np.float32)
    known = np.sort(known[np.isfinite(known)])
    between = (known[1:].astype(np.float64) + known[:-1]) / 2
    near = np.concatenate([np.nextafter(between.astype(np.float32), side) for side in (-9e9, 9e9)])
    special = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30, -0.0], np.float32)
    asked = np.concatenate([known, between, near, special]).astype(np.float32)
    x = np.zeros(-(-len(asked) // 65536) * 65536, np.float32)
    x[: len(asked)] = asked
    found = np.zeros(len(x), bits.dtype)
    body = NARROW.replace("@T@", name).replace(", int n", "").replace("65536", str(len(x)))
    run(body, y=found, x=x)
    with np.errstate(over="ignore"):
        wanted = x.astype(kind).astype(np.float32)
    got = found.view(kind).astype(np.float32)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got[: len(asked)]), np.signbit(wanted[: len(asked)]))


@pytest.mark.parametrize("kind", ["float32", "int32", "float64", "int64"])
@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32])
def test_a_partner_is_the_lane_whose_number_differs_in_one_bit(kind, bit):
    name = {"float32": "float", "int32": "int", "float64": "double", "int64": "long"}[kind]
    x = np.arange(64).astype(kind) * 3 - 7
    y = np.zeros(64, kind)
    run(
        f"""extern "C" __global__ void k({name}* y, {name}* x) {{
  y[threadIdx.x] = septran_partner<{bit}>(x[threadIdx.x]);
}}
""",
        y=y, x=x,
    )  # fmt: skip
    np.testing.assert_array_equal(y, x[np.arange(64) ^ bit])

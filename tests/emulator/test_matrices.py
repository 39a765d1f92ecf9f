"""ldmatrix, stmatrix and mma.sync: fragments as in the PTX manual, results against NumPy."""

import ml_dtypes
import numpy as np
import pytest

HEAD = """
extern "C" __global__ void k(%s) {
  __shared__ __align__(128) unsigned short s[1024];
  int l = threadIdx.x;
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("turned", ["", ".trans"])
@pytest.mark.one_in(2)
def test_ldmatrix(launch, ptx, count, turned):
    x = np.arange(count * 64, dtype=np.uint16)
    o = np.zeros((32, count), np.uint32)
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    text = (
        ptx
        + HEAD % "const unsigned short* x, uint32_t* o"
        + f"""for (int i = l; i < {count * 64}; i += 32) s[i] = x[i];
      __syncwarp();
      uint32_t r[{count}];
      asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16 "
        "{{{registers}}}, [%{count}];"
        : {outputs} : "r"(at(s + l % {8 * count} * 8)));
      for (int i = 0; i < {count}; ++i) o[l * {count} + i] = r[i]; }}"""
    )
    launch(text, {"x": x, "o": o})
    matrices = x.reshape(count, 8, 8)
    if turned:
        matrices = matrices.transpose(0, 2, 1)
    # Thread l has elements 2(l%4) and 2(l%4)+1 of row l/4 of each matrix.
    expected = matrices.reshape(count, 32, 2).transpose(1, 0, 2)
    assert np.array_equal(o.view(np.uint16).reshape(32, count, 2), expected)


@pytest.mark.parametrize("turned", ["", ".trans"])
def test_stmatrix(launch, ptx, turned):
    x = np.arange(256, dtype=np.uint16)
    o = np.zeros((4, 8, 8), np.uint16)
    text = (
        ptx
        + HEAD % "const uint32_t* x, unsigned short* o"
        + f"""const uint32_t* r = x + 4 * l;
      asm volatile("stmatrix.sync.aligned.m8n8.x4{turned}.shared.b16 [%0], "
        "{{%1, %2, %3, %4}};"
        :: "r"(at(s + l * 8)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
      __syncwarp();
      for (int i = l; i < 256; i += 32) o[i] = s[i]; }}"""
    )
    launch(text, {"x": x, "o": o})
    expected = x.reshape(32, 4, 2).transpose(1, 0, 2).reshape(4, 8, 8)
    assert np.array_equal(o, expected.transpose(0, 2, 1) if turned else expected)


def fragments(matrix, rows_of, columns_of):
    """What each lane holds of `matrix`: bytes of its elements at (rows, columns)."""
    return np.stack([matrix[rows_of(lane), columns_of(lane)] for lane in range(32)])


MMAS = {
    "f16": ("float16", 16, 2, "f32"), "bf16": ("bfloat16", 16, 2, "f32"),
    "f16 k8": ("float16", 8, 2, "f32"), "tf32": ("float32", 8, 4, "f32"),
    "tf32 k4": ("float32", 4, 4, "f32"), "e4m3": ("float8_e4m3fn", 32, 1, "f32"),
    "e5m2": ("float8_e5m2", 32, 1, "f32"), "s8": ("int8", 32, 1, "s32"),
    "u8": ("uint8", 32, 1, "s32"), "s8 k16": ("int8", 16, 1, "s32"),
}  # fmt: skip


@pytest.mark.parametrize("name", MMAS)
@pytest.mark.one_in(3)
def test_mma(launch, ptx, random, name):
    dtype, k, size, result = MMAS[name]
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    integer = result == "s32"
    a = (random("int8", 16, k) if integer else random("float32", 16, k)).astype(kind)
    b = (random("int8", k, 8) if integer else random("float32", k, 8)).astype(kind)
    c = random("int32" if integer else "float32", 16, 8)
    per, half = 4 // size, 16 // size  # elements of a register, columns of half a matrix
    halves = k // half
    ra = np.zeros((32, 2 * halves, per), kind)
    rb = np.zeros((32, halves, per), kind)
    rc = np.zeros((32, 4), c.dtype)
    for lane in range(32):
        group, place = lane // 4, lane % 4
        for h in range(halves):
            columns = h * half + place * per + np.arange(per)
            ra[lane, 2 * h], ra[lane, 2 * h + 1] = a[group, columns], a[group + 8, columns]
            rb[lane, h] = b[columns, group]
        for i in range(4):
            rc[lane, i] = c[group + 8 * (i // 2), 2 * place + i % 2]
    d = np.zeros_like(rc)
    n = 2 * halves
    inputs = ", ".join(
        [f'"r"(a[l * {n} + {i}])' for i in range(n)]
        + [f'"r"(b[l * {halves} + {i}])' for i in range(halves)]
    )
    letter = "r" if integer else "f"
    word = "int" if integer else "float"
    kinds = name.split()[0]
    names = [f"%{4 + i}" for i in range(n + halves)]
    text = (
        ptx
        + f"""extern "C" __global__ void k(const uint32_t* a, const uint32_t* b, {word}* c,
                                       {word}* o) {{
      int l = threadIdx.x; {word}* d = c + 4 * l;
      {word} r0 = d[0], r1 = d[1], r2 = d[2], r3 = d[3];
      asm volatile("mma.sync.aligned.m16n8k{k}.row.col.{result}.{kinds}.{kinds}.{result} "
        "{{%0, %1, %2, %3}}, {{{", ".join(names[:n])}}}, "
        "{{{", ".join(names[n:])}}}, {{%0, %1, %2, %3}};"
        : "+{letter}"(r0), "+{letter}"(r1), "+{letter}"(r2), "+{letter}"(r3) : {inputs});
      o[4 * l] = r0; o[4 * l + 1] = r1; o[4 * l + 2] = r2; o[4 * l + 3] = r3; }}"""
    )
    launch(text, {"a": ra, "b": rb, "c": rc, "o": d})
    if kinds == "tf32":  # the hardware drops 13 bits
        a, b = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64) + c
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + np.abs(c)
    found = np.zeros((16, 8))
    for lane in range(32):
        for i in range(4):
            found[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2] = d[lane, i]
    bound = 0 if integer else (k + 1) * 2.0**-24 * sizes
    assert (np.abs(found - exact) <= bound).all()

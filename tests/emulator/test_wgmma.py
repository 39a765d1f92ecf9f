"""wgmma: descriptors of every swizzle and order, types, operands in registers; against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from septran.emulator import AlignmentError, MisuseError, UnmodelledError

TYPES = {
    "f16": ("float16", 16, "f32"), "bf16": ("bfloat16", 16, "f32"), "tf32": ("float32", 8, "f32"),
    "e4m3": ("float8_e4m3fn", 32, "f32"), "e5m2": ("float8_e5m2", 32, "f32"),
    "s8": ("int8", 32, "s32"),
}  # fmt: skip
LAYOUTS = {0: 0, 32: 3, 64: 2, 128: 1}
"""A descriptor's number of each swizzle."""


def kernel(ptx, kind, n, d_a, d_b, *, turns="", fragment=False, steps=1, advance=(0, 0), bytes_=0):
    """One warpgroup: copy both operands as they lie, multiply, write the accumulators."""
    _, k, result = TYPES[kind]
    count, letter, word = (
        n // 2,
        "r" if result == "s32" else "f",
        "int" if result == "s32" else "float",
    )
    d = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    if fragment:
        left = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
        gives = ", ".join(f'"r"(f[{i}])' for i in range(4)) + f', "l"({d_b})'
        last = count + 4
    else:
        left, gives, last = f"%{count}", f'"l"({d_a}), "l"({d_b})', count + 1
    return (
        ptx
        + f"""extern "C" __global__ void k(const uint32_t* a, const uint32_t* b, {word}* o) {{
      extern __shared__ __align__(1024) unsigned char s[];
      unsigned char *sa = s, *sb = s + {bytes_};
      for (int i = threadIdx.x; i < {bytes_ // 4}; i += 128) {{
        ((uint32_t*)sa)[i] = a[i]; ((uint32_t*)sb)[i] = b[i];
      }}
      fence_async(); __syncthreads();
      {word} d[{count}]; uint32_t f[4];
      if ({int(fragment)}) for (int i = 0; i < 4; ++i) f[i] = a[threadIdx.x * 4 + i];
      wg_fence();
      for (int x = 0; x < {steps}; ++x) {{
        asm volatile("{{.reg .pred p; setp.ne.b32 p, %{last + 1}, 0;\\n"
          "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{result}.{kind}.{kind} "
          "{{{d}}}, {left}, %{last}, p"
          "{"" if result == "s32" else ", 1, 1"}{turns};}}\\n"
          : {outs} : {gives}, "r"(x));
      }}
      wg_commit(); wg_wait();
      for (int i = 0; i < {count}; ++i) o[threadIdx.x * {count} + i] = d[i]; }}"""
    )


def accumulators(o, n):
    """The [64, n] result of what each thread wrote."""
    result = np.zeros((64, n), o.dtype)
    for t in range(128):
        warp, lane = divmod(t, 32)
        for i in range(n // 2):
            row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
            result[row, 8 * (i // 4) + 2 * (lane % 4) + i % 2] = o[t, i]
    return result


def random_operand(random, kind, rows, k):
    dtype = TYPES[kind][0]
    real = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    source = random("int8" if kind == "s8" else "float32", rows, k)
    return source.astype(real)


def laid_out(x, swizzle, span_rows=8):
    """Bytes of a K-major operand [rows, k] as TMA writes it: panels of `swizzle` bytes, 16-byte
    chunks permuted by the row; without swizzle as core matrices of 8 rows of 16 bytes."""
    rows, k = x.shape
    size = x.dtype.itemsize
    raw = x.view(np.uint8).reshape(rows, k * size)
    out = np.full(1 << 14, 0xEE, np.uint8)
    for r in range(rows):
        for c in range(k * size // 16):
            if swizzle == 0:
                at = (r // 8) * 128 + r % 8 * 16 + c * rows * 16
            else:
                inside, panel = c % (swizzle // 16), c // (swizzle // 16)
                line = r * swizzle // 128  # which line of 128 bytes
                at = panel * rows * swizzle + r * swizzle + (inside ^ (line % (swizzle // 16))) * 16
            out[at : at + 16] = raw[r, c * 16 : c * 16 + 16]
    return out


def check(o, a, b, n):
    found = accumulators(o, n).astype(np.float64)
    a, b = (x.astype(np.float64) for x in (a, b))
    exact = a @ b.T
    bound = 0 if o.dtype == np.int32 else 2 * a.shape[1] * 2.0**-24 * (np.abs(a) @ np.abs(b).T)
    assert (np.abs(found - exact) <= bound).all()


def check_cut(o, a, b, n):
    """Each instruction adds 32 terms and the sum so far, 13 bits behind the greatest one."""
    found = accumulators(o, n).astype(np.float64)
    total = np.zeros(found.shape)
    for first in range(0, a.shape[1], 32):
        left, right = (x[:, first : first + 32].astype(np.float64) for x in (a, b))
        terms = np.concatenate([total[None], left.T[:, :, None] * right.T[:, None, :]])
        with np.errstate(divide="ignore"):
            unit = 2.0 ** (np.floor(np.log2(np.abs(terms).max(0))) - 13)
        total = (np.trunc(terms / unit) * unit).sum(0)
    assert (found == total).all()


@pytest.mark.one_in(10)
@pytest.mark.parametrize("swizzle", LAYOUTS)
@pytest.mark.parametrize("kind", TYPES)
def test_types_and_swizzles(launch, ptx, random, kind, swizzle):
    k, n = TYPES[kind][1], 64
    step = 32  # bytes of an instruction's k
    whole = k * (max(swizzle, 32) // step)
    steps = whole // k
    a, b = random_operand(random, kind, 64, whole), random_operand(random, kind, n, whole)
    layout = LAYOUTS[swizzle]
    leading, stride = (64 * 16, 128) if swizzle == 0 else (16, 8 * swizzle)
    d_a, d_b = (f"descriptor({s} + x * 32, {leading}, {stride}, {layout})" for s in ("sa", "sb"))
    turns = ", 0, 0" if kind in ("f16", "bf16") else ""
    text = kernel(ptx, kind, n, d_a, d_b, turns=turns, steps=steps, bytes_=1 << 14)
    o = np.zeros((128, n // 2), np.int32 if kind == "s8" else np.float32)
    arrays = {"a": laid_out(a, swizzle), "b": laid_out(b, swizzle), "o": o}
    launch(text, arrays, block=128, shared=1 << 15, seed=0)
    if kind == "tf32":
        a, b = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (a, b))
    (check_cut if kind in ("e4m3", "e5m2") else check)(o, a, b, n)


@pytest.mark.parametrize("swizzle", LAYOUTS)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.one_in(3, first=1)
def test_rows_along_m_and_n(launch, ptx, random, kind, swizzle):
    """MN-major: what is contiguous are rows of A and columns of B, in panels of the swizzle."""
    k, n = 16, 128
    a, b = random_operand(random, kind, k, 64), random_operand(random, kind, k, n)
    layout, per = LAYOUTS[swizzle], max(swizzle, 16) // 2

    def along(x):
        raw = x.view(np.uint8).reshape(k, -1)
        out = np.zeros(1 << 14, np.uint8)
        for y in range(k):
            for c in range(raw.shape[1] // 16):
                if swizzle == 0:  # core matrices of 8 along k, next to each other along k
                    at = c * k * 16 + y * 16
                else:
                    inside, panel = c % (swizzle // 16), c // (swizzle // 16)
                    line = y * swizzle // 128
                    at = panel * k * swizzle + y * swizzle + (inside ^ line % (swizzle // 16)) * 16
                out[at : at + 16] = raw[y, c * 16 : c * 16 + 16]
        return out

    # without swizzle: LBO is the step along k, SBO along m or n; else the other way round
    leading, stride = (128, k * 16) if swizzle == 0 else (per * 2 * k, 8 * swizzle)
    d_a, d_b = (f"descriptor({s}, {leading}, {stride}, {layout})" for s in ("sa", "sb"))
    text = kernel(ptx, kind, n, d_a, d_b, turns=", 1, 1", bytes_=1 << 14)
    o = np.zeros((128, n // 2), np.float32)
    arrays = {"a": along(a), "b": along(b), "o": o}
    launch(text, arrays, block=128, shared=1 << 15, seed=0)
    check(o, a.T, b.T, n)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.one_in(2)
def test_the_left_operand_in_registers(launch, ptx, random, kind):
    k, n = TYPES[kind][1], 32
    a, b = random_operand(random, kind, 64, k), random_operand(random, kind, n, k)
    per, half = 4 // a.itemsize, 16 // a.itemsize
    registers = np.zeros((128, 4, per), a.dtype)
    for t in range(128):
        row, place = 16 * (t // 32) + t % 32 // 4, t % 4
        for i in range(4):
            columns = (i // 2) * half + place * per + np.arange(per)
            registers[t, i] = a[row + 8 * (i % 2), columns]
    turns = ", 0" if kind in ("f16", "bf16") else ""
    d_b = f"descriptor(sb, {32 * 16}, 128, 0)"
    text = kernel(ptx, kind, n, "", d_b, turns=turns, fragment=True, bytes_=1 << 14)
    o = np.zeros((128, n // 2), np.int32 if kind == "s8" else np.float32)
    raw = np.zeros(1 << 14, np.uint8)
    raw[: registers.nbytes] = registers.view(np.uint8).reshape(-1)
    launch(text, {"a": raw, "b": laid_out(b, 0), "o": o}, block=128, shared=1 << 15, seed=2)
    if kind == "tf32":
        a, b = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (a, b))
    (check_cut if kind in ("e4m3", "e5m2") else check)(o, a, b, n)


def test_a_start_inside_the_pattern_is_refused(launch, ptx):
    text = kernel(ptx, "f16", 8, "descriptor(sa + 256, 16, 1024, 1)", "descriptor(sb, 16, 1024, 1)",
                  turns=", 0, 0", bytes_=1 << 14)  # fmt: skip
    raw = np.zeros(1 << 14, np.uint8)
    with pytest.raises(AlignmentError, match="pattern of its swizzle"):
        launch(text, {"a": raw, "b": raw.copy(), "o": np.zeros((128, 4), np.float32)}, block=128,
               shared=1 << 15)  # fmt: skip


def test_a_base_offset_is_refused(launch, ptx):
    text = kernel(ptx, "f16", 8, "descriptor(sa, 16, 1024, 1) | 1ull << 49",
                  "descriptor(sb, 16, 1024, 1)", turns=", 0, 0", bytes_=1 << 14)  # fmt: skip
    raw = np.zeros(1 << 14, np.uint8)
    with pytest.raises(UnmodelledError, match="base offset"):
        launch(text, {"a": raw, "b": raw.copy(), "o": np.zeros((128, 4), np.float32)}, block=128,
               shared=1 << 15)  # fmt: skip


def test_lanes_must_pass_one_descriptor(launch, ptx):
    text = kernel(ptx, "f16", 8, "descriptor(sa + threadIdx.x % 2 * 32, 16, 1024, 1)",
                  "descriptor(sb, 16, 1024, 1)", turns=", 0, 0", bytes_=1 << 14)  # fmt: skip
    raw = np.zeros(1 << 14, np.uint8)
    with pytest.raises(MisuseError, match="another matrix descriptor"):
        launch(text, {"a": raw, "b": raw.copy(), "o": np.zeros((128, 4), np.float32)}, block=128,
               shared=1 << 15)  # fmt: skip

"""PTX modules: what instructions on registers compute, for each against Python's own numbers."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
INTEGERS = [0, 1, 2, 3, 5, 7, 31, 32, 33, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
            0x12345678, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xDEADBEEF, 0xFFFF0000,
            0xFFFFFFFE, 0xFFFFFFFF, 0x00FF00FF, 0xAAAAAAAA, 0x55555555, 40, 64,
            0x01010101]  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e-3, -1e-3, 1e10, -1e10, 3e9, -3e9,
          65504.0, 65520.0, 1e-40, -1e-40, math.inf, -math.inf, math.nan, 0.1, 0.2, 0.3, 255.5,
          256.5, 1 / 3, 1e-8, 6e-8, 2049.0, 16777217.0]  # fmt: skip


def s32(x):
    return x - (1 << 32) if x >> 31 & 1 else x


def s64(x):
    return x - (1 << 64) if x >> 63 & 1 else x


def bfe(a, b, c, signed):
    at, n = b & 255, c & 255
    bits = [(a >> k) & 1 if k < 32 else None for k in range(at, at + n)]
    top = min(at + n - 1, 31)
    sign = (a >> top) & 1 if signed and n else 0
    result = 0
    for k in range(32):
        bit = bits[k] if k < n and bits[k] is not None else sign
        result |= bit << k
    return result


def bfi(a, b, c, d):
    at, n = c & 255, d & 255
    for k in range(n):
        if at + k < 32:
            b = b & ~(1 << (at + k)) | ((a >> k) & 1) << (at + k)
    return b


def quotient(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def signed_bytes(x):
    return [((x >> (8 * k) & 255) ^ 128) - 128 for k in range(4)]


# Instructions of three 32-bit registers; %d is what is kept.
WORDS = {
    "add.s32 %d, %a, %b;": lambda a, b, c: a + b,
    "sub.u32 %d, %a, %b;": lambda a, b, c: a - b,
    "add.sat.s32 %d, %a, %b;": lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, s32(a) + s32(b))),
    "mul.lo.s32 %d, %a, %b;": lambda a, b, c: a * b,
    "mul.hi.s32 %d, %a, %b;": lambda a, b, c: s32(a) * s32(b) >> 32,
    "mul.hi.u32 %d, %a, %b;": lambda a, b, c: a * b >> 32,
    "mad.lo.s32 %d, %a, %b, %c;": lambda a, b, c: a * b + c,
    "mad.hi.u32 %d, %a, %b, %c;": lambda a, b, c: (a * b >> 32) + c,
    "div.u32 %d, %a, %b;": lambda a, b, c: a // b if b else M32,
    "rem.u32 %d, %a, %b;": lambda a, b, c: a % b if b else a,
    "div.s32 %d, %a, %b;": lambda a, b, c: quotient(s32(a), s32(b)) if b else -1,
    "rem.s32 %d, %a, %b;":
        lambda a, b, c: s32(a) - s32(b) * quotient(s32(a), s32(b)) if b else a,
    "min.s32 %d, %a, %b;": lambda a, b, c: min(s32(a), s32(b)),
    "max.u32 %d, %a, %b;": lambda a, b, c: max(a, b),
    "abs.s32 %d, %a;": lambda a, b, c: abs(s32(a)),
    "neg.s32 %d, %a;": lambda a, b, c: -a,
    "sad.s32 %d, %a, %b, %c;": lambda a, b, c: abs(s32(a) - s32(b)) + c,
    "and.b32 %d, %a, %b;": lambda a, b, c: a & b,
    "not.b32 %d, %a;": lambda a, b, c: ~a,
    "cnot.b32 %d, %a;": lambda a, b, c: int(a == 0),
    "shl.b32 %d, %a, %b;": lambda a, b, c: a << b if b < 32 else 0,
    "shr.u32 %d, %a, %b;": lambda a, b, c: a >> min(b, 32),
    "shr.s32 %d, %a, %b;": lambda a, b, c: s32(a) >> min(b, 31),
    "shf.l.wrap.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "shf.r.wrap.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "shf.r.clamp.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "lop3.b32 %d, %a, %b, %c, 0x1b;":
        lambda a, b, c: sum(
            (0x1B >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k
            for k in range(32)),
    "popc.b32 %d, %a;": lambda a, b, c: bin(a).count("1"),
    "clz.b32 %d, %a;": lambda a, b, c: 32 - a.bit_length(),
    "bfind.u32 %d, %a;": lambda a, b, c: a.bit_length() - 1,
    "bfind.s32 %d, %a;": lambda a, b, c: (a if s32(a) >= 0 else ~a & M32).bit_length() - 1,
    "brev.b32 %d, %a;": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "bfe.u32 %d, %a, %b, %c;": lambda a, b, c: bfe(a, b, c, False),
    "bfe.s32 %d, %a, %b, %c;": lambda a, b, c: bfe(a, b, c, True),
    "bfi.b32 %d, %a, %b, %c, 9;": lambda a, b, c: bfi(a, b, c, 9),
    "prmt.b32 %d, %a, %b, 0x3a71;": lambda a, b, c: sum(
        x << (8 * k) for k, x in enumerate([
            a >> 8 & 255, b >> 24, 255 if a >> 23 & 1 else 0, a >> 24])),
    "dp4a.s32.s32 %d, %a, %b, %c;":
        lambda a, b, c: c + sum(x * y for x, y in
                                zip(signed_bytes(a), signed_bytes(b), strict=True)),
    "dp4a.u32.u32 %d, %a, %b, %c;":
        lambda a, b, c: c + sum((a >> s & 255) * (b >> s & 255) for s in (0, 8, 16, 24)),
    "setp.lt.s32 %p, %a, %b; selp.b32 %d, %b, %c, %p;":
        lambda a, b, c: b if s32(a) < s32(b) else c,
    "setp.lo.u32 %p|%q, %a, %b; selp.b32 %d, 1, 2, %q;": lambda a, b, c: 2 if a < b else 1,
    "setp.ne.and.s32 %p, %a, 0, %t; @%p mov.u32 %d, 7; @!%p mov.u32 %d, 9;":
        lambda a, b, c: 7 if a else 9,
    "set.ge.u32.s32 %d, %a, %b;": lambda a, b, c: M32 if s32(a) >= s32(b) else 0,
    "slct.b32.s32 %d, %a, %b, %c;": lambda a, b, c: a if s32(c) >= 0 else b,
    "cvt.s32.s8 %d, %a;": lambda a, b, c: ((a & 255) ^ 128) - 128,
    "cvt.u32.u16 %d, %a;": lambda a, b, c: a & 0xFFFF,
    "cvt.sat.u8.s32 %d, %a;": lambda a, b, c: max(0, min(255, s32(a))),
    "add.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0;": lambda a, b, c: a + b >> 32,
    "sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;": lambda a, b, c: c - (a < b),
    "mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;": lambda a, b, c: a * b + c >> 32,
    "mul.wide.s32 %w, %a, %b; shr.u64 %w, %w, 16; cvt.u32.u64 %d, %w;":
        lambda a, b, c: s32(a) * s32(b) >> 16,
    "mad.wide.u32 %w, %a, %b, 12345678901; shr.u64 %w, %w, 32; cvt.u32.u64 %d, %w;":
        lambda a, b, c: (a * b + 12345678901 & M64) >> 32,
    "mov.b64 %w, {%a, %b}; shr.u64 %w, %w, 8; mov.b64 {%d, _}, %w;":
        lambda a, b, c: (b << 32 | a) >> 8,
    "mov.b64 %w, {%a, %b}; mul.hi.u64 %w, %w, %w; cvt.u32.u64 %d, %w;":
        lambda a, b, c: (b << 32 | a) ** 2 >> 64,
    "mov.b64 %w, {%a, %b}; clz.b64 %d, %w;": lambda a, b, c: 64 - (b << 32 | a).bit_length(),
    "vote.sync.ballot.b32 %d, %t, -1;": lambda a, b, c: M32,
    "mov.u32 %d, %lanemask_lt;": None,
    "shfl.sync.bfly.b32 %d, %a, 1, 31, -1;": None,
    "shfl.sync.up.b32 %d|%p, %a, 3, 0, -1; @!%p mov.u32 %d, 77;": None,
    "shfl.sync.down.b32 %d|%p, %a, 3, 0x181f, -1; @!%p mov.u32 %d, 77;": None,
    "redux.sync.max.s32 %d, %a, -1;": None,
    "match.any.sync.b32 %d, 5, -1;": lambda a, b, c: M32,
    "elect.sync %d|%p, -1; @%p mov.u32 %d, 5;": None,
    "bmsk.clamp.b32 %d, %a, %b;":
        lambda a, b, c: sum(1 << k for k in range(32) if a <= k < a + b),
    "brx.idx 1, table; table: .branchtargets one, two; one: mov.u32 %d, 1; bra.uni out; "
    "two: mov.u32 %d, 2; out:": lambda a, b, c: 2,
    "{ .reg .b32 %a; mov.u32 %a, 4; mov.u32 %d, %a; }": lambda a, b, c: 4,
    "mov.u32 %d, counter; ld.const.u32 %d, [numbers+8];": lambda a, b, c: 33,
}  # fmt: skip
LANES = {
    "mov.u32 %d, %lanemask_lt;": lambda a: [(1 << k) - 1 for k in range(32)],
    "shfl.sync.bfly.b32 %d, %a, 1, 31, -1;": lambda a: [a[k ^ 1] for k in range(32)],
    "shfl.sync.up.b32 %d|%p, %a, 3, 0, -1; @!%p mov.u32 %d, 77;":
        lambda a: [a[k - 3] if k >= 3 else 77 for k in range(32)],
    "shfl.sync.down.b32 %d|%p, %a, 3, 0x181f, -1; @!%p mov.u32 %d, 77;":
        lambda a: [a[k + 3] if k % 8 < 5 else 77 for k in range(32)],
    "redux.sync.max.s32 %d, %a, -1;": lambda a: [max(map(s32, a))] * 32,
    "elect.sync %d|%p, -1; @%p mov.u32 %d, 5;": lambda a: [5] + [0] * 31,
}  # fmt: skip

HEAD = """.version 8.8
.target sm_90a
.address_size 64
"""


def kernel(pieces, registers, loads, stores):
    """A module whose one kernel does each of `pieces`, and stores after each."""
    body = []
    for number, piece in enumerate(pieces):
        store = " ".join(s.format(at=128 * number) for s in stores)
        body.append(f"  {{ {piece} }} {store}")  # labels are those of their scope
    return (
        HEAD
        + ".const .align 4 .b32 numbers[3] = {11, 22, 33};\n.shared .align 4 .b32 counter;\n"
        + ".visible .entry k(.param .u64 i_, .param .u64 o_) {\n"
        + "  .reg .pred %p, %q, %t; .reg .b64 %i, %o, %w; .reg .b32 %l;\n"
        + registers
        + "  ld.param.u64 %i, [i_]; ld.param.u64 %o, [o_]; mov.u32 %l, %laneid;\n"
        + "  setp.eq.u32 %t, %l, %l; mul.wide.u32 %w, %l, 4; add.s64 %i, %i, %w;\n"
        + "  add.s64 %o, %o, %w;\n"
        + loads
        + "\n".join(body)
        + "\n  ret;\n}\n"
    )


def test_integers_and_bits(launch):
    order = np.random.default_rng(2)
    a, b, c = (np.array(INTEGERS, np.uint32)[order.permutation(32)] for _ in range(3))
    text = kernel(
        WORDS, "  .reg .b32 %a, %b, %c, %d;\n",
        "  ld.global.u32 %a, [%i]; ld.global.u32 %b, [%i+128]; ld.global.nc.u32 %c, [%i+256];\n",
        ["st.global.u32 [%o+{at}], %d;"],
    )  # fmt: skip
    out = np.zeros((len(WORDS), 32), np.uint32)
    launch(text, {"i": np.stack([a, b, c]), "o": out})
    for row, (piece, rule) in zip(out, WORDS.items(), strict=True):
        if rule is None:
            expected = LANES[piece]([int(x) for x in a])
        else:
            expected = [rule(*map(int, xs)) for xs in zip(a, b, c, strict=True)]
        assert row.tolist() == [x & M32 for x in expected], piece


def flush(x):
    return np.float32(math.copysign(0, x)) if abs(x) < 2.0**-126 else x


def toward_zero(x):
    """An exact number as the float next to it on the side of zero."""
    near = np.float32(float(x))
    return np.nextafter(near, np.float32(0)) if abs(Fraction(float(near))) > abs(x) else near


def clamped(x, low, high):
    return 0 if math.isnan(x) else int(min(max(x, low), high))


def rounded(x, how):
    return x if math.isinf(x) or math.isnan(x) else float(how(x))


F = np.float32
FLOAT = {
    "add.f32 %d, %a, %b;": lambda a, b, c: a + b,
    "add.rz.f32 %d, %a, %b;": lambda a, b, c: (
        toward_zero(Fraction(float(a)) + Fraction(float(b)))
        if math.isfinite(a) and math.isfinite(b) and a + b != 0 else a + b),
    "mul.ftz.f32 %d, %a, %b;": lambda a, b, c: flush(flush(a) * flush(b)),
    "add.sat.f32 %d, %a, %b;":
        lambda a, b, c: F(0) if math.isnan(a + b) else F(min(max(a + b, F(0)), F(1))) + F(0),
    "fma.rn.f32 %d, %a, %b, 0f3F800000;": lambda a, b, c: F(float(a) * float(b) + 1.0),
    "min.f32 %d, %a, %b;":
        lambda a, b, c: b if math.isnan(a) else a if math.isnan(b) else min(a, b),
    "max.NaN.f32 %d, %a, %b;":
        lambda a, b, c: F(math.nan) if math.isnan(a) or math.isnan(b) else max(a, b),
    "neg.f32 %d, %a;": lambda a, b, c: -a,
    "abs.ftz.f32 %d, %a;": lambda a, b, c: abs(flush(a)),
    "copysign.f32 %d, %a, %b;": lambda a, b, c: F(math.copysign(b, a)),
    "setp.ltu.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;":
        lambda a, b, c: F(not a >= b),
    "setp.lt.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;": lambda a, b, c: F(a < b),
    "setp.ne.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;":
        lambda a, b, c: F(a != b and not math.isnan(a) and not math.isnan(b)),
    "setp.neu.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;": lambda a, b, c: F(a != b),
    "setp.nan.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;":
        lambda a, b, c: F(math.isnan(a) or math.isnan(b)),
    "testp.subnormal.f32 %p, %a; selp.f32 %d, 0f3F800000, 0f00000000, %p;":
        lambda a, b, c: F(a != 0 and abs(a) < 2.0**-126),
    "cvt.rzi.s32.f32 %r, %a; cvt.rn.f32.s32 %d, %r;":
        lambda a, b, c: F(clamped(float(a), -(1 << 31), (1 << 31) - 1)),
    "cvt.rni.u8.f32 %r, %a; cvt.rn.f32.u32 %d, %r;":
        lambda a, b, c: F(clamped(rounded(float(a), round), 0, 255)),
    "cvt.rmi.f32.f32 %d, %a;": lambda a, b, c: np.floor(a),
    "cvt.rn.f16.f32 %h, %a; cvt.f32.f16 %d, %h;": lambda a, b, c: F(np.float16(a)),
    "cvt.rn.bf16.f32 %h, %a; cvt.f32.bf16 %d, %h;": lambda a, b, c: F(ml_dtypes.bfloat16(a)),
    "cvt.rn.f16x2.f32 %r, %a, %b; shr.u32 %r, %r, 16; cvt.u16.u32 %h, %r; cvt.f32.f16 %d, %h;":
        lambda a, b, c: F(np.float16(a)),
    "cvt.rn.relu.bf16x2.f32 %r, %a, %b; cvt.u16.u32 %h, %r; cvt.f32.bf16 %d, %h;":
        lambda a, b, c: F(ml_dtypes.bfloat16(b if math.isnan(b) or b > 0 else 0)),
    "cvt.f64.f32 %e, %a; add.f64 %e, %e, %e; cvt.rn.f32.f64 %d, %e;":
        lambda a, b, c: F(2 * float(a)),
    "cvt.rn.f16.f32 %h, %a; fma.rn.f16 %h, %h, %h, %h; cvt.f32.f16 %d, %h;": lambda a, b, c: (
        lambda x: F(np.float16(x * x + x)))(float(np.float16(a))),
    "cvt.rn.f16x2.f32 %r, %a, %b; mul.f16x2 %r, %r, %r; cvt.u16.u32 %h, %r; cvt.f32.f16 %d, %h;":
        lambda a, b, c: F(np.float16(b) * np.float16(b)),
    "mov.b32 %r, %a; mov.b32 %d, %r;": lambda a, b, c: a,
    "ex2.approx.f32 %d, 0f40000000;": lambda a, b, c: F(4),
    "div.rn.f32 %d, %a, %b;": lambda a, b, c: a / b,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floating_point(launch):
    order = np.random.default_rng(5)
    a, b = (np.array(FLOATS, np.float32)[order.permutation(32)] for _ in range(2))
    text = kernel(
        FLOAT, "  .reg .f32 %a, %b, %d; .reg .b32 %r; .reg .b16 %h; .reg .f64 %e;\n",
        "  ld.global.f32 %a, [%i]; ld.global.f32 %b, [%i+128];\n",
        ["st.global.f32 [%o+{at}], %d;"],
    )  # fmt: skip
    out = np.zeros((len(FLOAT), 32), np.float32)
    launch(text, {"i": np.stack([a, b]), "o": out})
    for row, (piece, rule) in zip(out, FLOAT.items(), strict=True):
        with np.errstate(all="ignore"):
            expected = np.array([rule(x, y, None) for x, y in zip(a, b, strict=True)], np.float32)
        assert np.array_equal(row, expected, equal_nan=True), (piece, row, expected)
        numbers = ~np.isnan(expected) & ("relu" not in piece)  # of zero it is not said which
        same = np.signbit(row[numbers]) == np.signbit(expected[numbers])
        assert same.all(), (piece, a[numbers][~same], b[numbers][~same])

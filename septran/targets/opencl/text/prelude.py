"""The beginning of generated OpenCL C: the functions that OpenCL 1.2 lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from septran.targets.cuda.text.prelude import BEGIN, END
from septran.targets.opencl.text.words import BARRIER

OPENING = """\
// A product and a sum are rounded each on its own.
#pragma OPENCL FP_CONTRACT OFF
"""
DOUBLE = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
LONG_ATOMICS = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
PARTS: Mapping[str, str] = {
    "septran_local": "#define septran_local ((int)get_local_id(0))\n",
    "septran_group": "#define septran_group ((int)get_group_id(0))\n",
    BARRIER: """\
#define septran_barrier() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
""",
    # Not by vload_half: what is written as integers is not to be read as `half` (C's aliasing).
    "septran_from_float16": """\
inline float septran_from_float16(ushort bits) {
  uint size = bits & 0x7fff, sign = (uint)(bits & 0x8000) << 16;
  uint word = size < 0x7c00 ? (size << 13) + 0x38000000 : size << 13 | 0x7f800000;
  if (size < 0x400) word = as_uint(size * 0x1p-24f);
  return as_float(sign | word);
}
""",
    "septran_to_float16": """\
// To the nearest, ties to even; below 2^-14 steps are of 2^-24.
inline ushort septran_to_float16(float x) {
  uint word = as_uint(x), sign = word >> 16 & 0x8000, size = word & 0x7fffffff;
  uint rounded = ((size + 0xfff + (size >> 13 & 1)) >> 13) - 0x1c000;
  if (size < 0x38800000) rounded = (uint)rint(as_float(size) * 0x1p24f);
  return (ushort)(sign | (size > 0x7f800000 ? 0x7fff : rounded > 0x7c00 ? 0x7c00 : rounded));
}
""",
    "septran_from_bfloat16": """\
inline float septran_from_bfloat16(ushort bits) { return as_float((uint)bits << 16); }
""",
    "septran_to_bfloat16": """\
inline ushort septran_to_bfloat16(float x) {
  uint word = as_uint(x);
  return x != x ? 0x7fff : (ushort)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}
""",
    "septran_from_float8_e4m3fn": """\
inline float septran_from_float8_e4m3fn(uchar bits) {
  uint size = bits & 0x7f, sign = (uint)(bits & 0x80) << 24;
  if (size == 0x7f) return as_float(sign | 0x7fffffff);
  float x = size < 8 ? size * 0x1p-9f : as_float((size << 20) + 0x3c000000);
  return as_float(as_uint(x) | sign);
}
""",
    "septran_to_float8_e4m3fn": """\
// What rounds to more than 448 is NaN; below 2^-6 steps are of 2^-9.
inline uchar septran_to_float8_e4m3fn(float x) {
  uint word = as_uint(x), sign = word >> 24 & 0x80, size = word & 0x7fffffff;
  uint rounded = ((size + 0x7ffff + (size >> 20 & 1)) >> 20) - 960;
  if (size < 0x3c800000) rounded = (uint)rint(as_float(size) * 512.0f);
  return (uchar)(sign | (size > 0x7f800000 || rounded > 0x7e ? 0x7f : rounded));
}
""",
    "septran_from_float8_e5m2": """\
inline float septran_from_float8_e5m2(uchar bits) {
  uint size = bits & 0x7f, sign = (uint)(bits & 0x80) << 24;
  uint word = size < 0x7c ? (size << 21) + 0x38000000 : size << 21 | 0x7f800000;
  if (size < 4) word = as_uint(size * 0x1p-16f);
  return as_float(sign | word);
}
""",
    "septran_to_float8_e5m2": """\
// Saturates: what rounds to more than 57344 becomes that; infinity and NaN stay what they are.
inline uchar septran_to_float8_e5m2(float x) {
  uint word = as_uint(x), sign = word >> 24 & 0x80, size = word & 0x7fffffff;
  uint rounded = ((size + 0xfffff + (size >> 21 & 1)) >> 21) - 448;
  if (size < 0x38800000) rounded = (uint)rint(as_float(size) * 65536.0f);
  return (uchar)(sign | (size > 0x7f800000 ? 0x7f : rounded > 0x7b ? 0x7b : rounded));
}
""",
    "septran_atomic_add_int": """\
inline int septran_atomic_add_int(volatile __global int* place, int value) {
  return atomic_add(place, value);
}
""",
    "septran_atomic_max_int": """\
inline int septran_atomic_max_int(volatile __global int* place, int value) {
  return atomic_max(place, value);
}
""",
    "septran_atomic_min_int": """\
inline int septran_atomic_min_int(volatile __global int* place, int value) {
  return atomic_min(place, value);
}
""",
    "septran_atomic_add_long": """\
inline long septran_atomic_add_long(volatile __global long* place, long value) {
  return atom_add(place, value);
}
""",
}
EXCHANGE = """\
// By compare and exchange: OpenCL 1.2 has nothing else for floats, and not always for long.
inline {kind} septran_atomic_{name}_{kind}(volatile __global {kind}* place, {kind} value) {{
  {bits} seen = *(volatile __global {bits}*)place, old;
  do {{
    old = seen;
    {kind} joined = {join};
    seen = {exchange}((volatile __global {bits}*)place, old, as_{bits}(joined));
  }} while (seen != old);
  return as_{kind}(old);
}}
"""
_JOINS = {
    "add": "as_{kind}(old) + value",
    "max": "as_{kind}(old) >= value || as_{kind}(old) != as_{kind}(old) ? as_{kind}(old) : value",
    "min": "as_{kind}(old) <= value || as_{kind}(old) != as_{kind}(old) ? as_{kind}(old) : value",
}
_BITS = {
    "float": ("uint", "atomic_cmpxchg"), "double": ("ulong", "atom_cmpxchg"),
    "long": ("ulong", "atom_cmpxchg"),
}  # fmt: skip


def prelude(body: str) -> str:
    """The functions that `body` uses."""
    words = set(re.findall(r"\w+", body))
    joins = {f"septran_atomic_{name}_{kind}": (name, kind) for name in _JOINS for kind in _BITS}
    parts = [OPENING]
    if "double" in words:
        parts.append(DOUBLE)
    if any(word in joins and word.endswith(("double", "long")) for word in words):
        parts.append(LONG_ATOMICS)
    parts += [text for name, text in PARTS.items() if name in words]
    parts += [_exchange(*p) for word, p in joins.items() if word in words and word not in PARTS]
    return f"{BEGIN}\n{''.join(parts)}{END}"


def _exchange(name: str, kind: str) -> str:
    bits, exchange = _BITS[kind]
    join = _JOINS[name].format(kind=kind)
    return EXCHANGE.format(kind=kind, name=name, join=join, bits=bits, exchange=exchange)

"""Device functions that read bytes from any address and put them to where a row begins.

A tensor begins at a multiple of 16 bytes. Words are read as they are aligned; nothing behind
the tensor's end is read: `tail` is what its bytes leave over when they are counted in words.
"""

from __future__ import annotations

from septran.ir.atoms import Atom, FloorDiv, Mod
from septran.ir.index import Index, Var
from septran.targets.cuda.addresses import Access
from septran.targets.cuda.context import Context
from septran.targets.lower.indices import divisor
from septran.tile.nodes import Copy

FETCH = """\
__forceinline__ __device__ void septran_fetch(
    unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned& e, unsigned& f, unsigned& g,
    unsigned& h, const void* from, int skip, int count, const void* end, int tail) {
  int by = (int)((unsigned long long)from & 15);
  const char* at = (const char*)from - by;
  long long left = (const char*)end - at;
  a = b = c = d = e = f = g = h = 0;
  if (count > skip && by + skip < 16 && (tail == 0 || left >= 16)) {
    uint4 v = *(const uint4*)at;
    a = v.x; b = v.y; c = v.z; d = v.w;
  }
  if (by + count > 16 && (tail == 0 || left >= 32)) {
    uint4 v = *(const uint4*)(at + 16);
    e = v.x; f = v.y; g = v.z; h = v.w;
  }
}
"""
"""The two aligned vectors that hold bytes `skip` to `count` (at most 16) from an address on."""

FETCH_WHOLE = """\
__forceinline__ __device__ void septran_fetch_whole(
    unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned& e, unsigned& f, unsigned& g,
    unsigned& h, const void* from) {
  const char* at = (const char*)from - ((unsigned long long)from & 15);
  uint4 v = *(const uint4*)at, w = *(const uint4*)(at + 16);
  a = v.x; b = v.y; c = v.z; d = v.w;
  e = w.x; f = w.y; g = w.z; h = w.w;
}
"""
"""Two aligned vectors from an address on, both of which exist."""

# Words move by conditions: an array with an index that varies would not be in registers.
ALIGN = """\
__forceinline__ __device__ unsigned septran_first(unsigned word, int count) {
  return count >= 4 ? word : count <= 0 ? 0u : word & (0xffffffffu >> (32 - 8 * count));
}
__forceinline__ __device__ unsigned septran_last(unsigned word, int skip) {
  return skip <= 0 ? word : skip >= 4 ? 0u : word & (0xffffffffu << (8 * skip));
}
__forceinline__ __device__ void septran_rest(unsigned& x, unsigned& y, unsigned& z, unsigned& w,
                                             const char* at, int tail) {
  unsigned last = 0;
  if (tail & 2) last = *(const unsigned short*)(at + (tail & 12));
  if (tail & 1) last |= (unsigned)*(const unsigned char*)(at + (tail & 14)) << 8 * (tail & 2);
  if (tail & 8) {
    uint2 v = *(const uint2*)at;
    x = v.x; y = v.y;
    z = tail & 4 ? *(const unsigned*)(at + 8) : last;
    w = last;
  } else {
    x = tail & 4 ? *(const unsigned*)at : last;
    y = last;
  }
}
__forceinline__ __device__ void septran_align(
    unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned& e, unsigned& f, unsigned& g,
    unsigned& h, const void* from, int skip, int count, const void* end, int tail) {
  unsigned by = (unsigned)(unsigned long long)from & 15;
  if (tail != 0) {
    const char* at = (const char*)from - by;
    long long left = (const char*)end - at;
    if (left < 32 && count > skip) {
      if (left < 16) septran_rest(a, b, c, d, at, tail);
      else if ((int)by + count > 16) septran_rest(e, f, g, h, at + 16, tail);
    }
  }
  if (by & 8) { a = c; b = d; c = e; d = f; e = g; f = h; }
  if (by & 4) { a = b; b = c; c = d; d = e; e = f; }
  by = (by & 3) * 8;
  a = __funnelshift_r(a, b, by);
  b = __funnelshift_r(b, c, by);
  c = __funnelshift_r(c, d, by);
  d = __funnelshift_r(d, e, by);
  if (count < 16) {
    a = septran_first(a, count);
    b = septran_first(b, count - 4);
    c = septran_first(c, count - 8);
    d = septran_first(d, count - 12);
  }
  if (skip > 0) {
    a = septran_last(a, skip);
    b = septran_last(b, skip - 4);
    c = septran_last(c, skip - 8);
    d = septran_last(d, skip - 12);
  }
}
"""
"""Shift what `septran_fetch` read into the first four words; zeros for all other bytes."""

FETCH_WORD = """\
__forceinline__ __device__ unsigned septran_word(const char* at, const char* end, int tail) {
  if (tail == 0 || end - at >= 4) return *(const unsigned*)at;
  unsigned last = 0;
  if (tail & 2) last = *(const unsigned short*)at;
  if (tail & 1) last |= (unsigned)*(const unsigned char*)(at + (tail & 2)) << 8 * (tail & 2);
  return last;
}
__forceinline__ __device__ void septran_fetch_word(unsigned& word, const void* from, int skip,
                                                   int count, const void* end, int tail,
                                                   int aligned) {
  int by = aligned ? 0 : (int)((unsigned long long)from & 3);
  const char* at = (const char*)from - by;
  unsigned low = 0, high = 0;
  if (count > skip && by + skip < 4) low = septran_word(at, (const char*)end, tail);
  if (by + count > 4) high = septran_word(at + 4, (const char*)end, tail);
  word = __funnelshift_r(low, high, by * 8);
  if (count < 4) word = count <= 0 ? 0u : word & (0xffffffffu >> (32 - 8 * count));
  if (skip > 0) word = skip >= 4 ? 0u : word & (0xffffffffu << (8 * skip));
}
"""
"""Bytes `skip` to `count` of the four from an address on; zeros for the others."""

# CUDA, __byte_perm(x, y, s): digit n of s, from the right, says which byte becomes byte n of the
# result: 0 to 3 are those of x, 4 to 7 those of y.
TRANSPOSE = """\
__forceinline__ __device__ void septran_turn(unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  unsigned low = __byte_perm(a, b, 0x5140), high = __byte_perm(a, b, 0x7362);
  unsigned low2 = __byte_perm(c, d, 0x5140), high2 = __byte_perm(c, d, 0x7362);
  a = __byte_perm(low, low2, 0x5410);
  b = __byte_perm(low, low2, 0x7632);
  c = __byte_perm(high, high2, 0x5410);
  d = __byte_perm(high, high2, 0x7632);
}
"""
"""Four by four bytes: rows become columns."""

OPAQUE = """\
__forceinline__ __device__ void septran_here(int& value) { asm volatile("" : "+r"(value)); }
"""
"""A value that the compiler takes for new here."""


def follows(context: Context, copy: Copy, source: Access, number: int, lanes: int) -> bool:
    """Whether runs of so many elements along an axis follow each other in GLOBAL, too."""
    lane = Var("@lane")
    coordinates: list[Index] = []
    context.indices.bind(lane, None, 0, lanes - 1)
    for n, extent in enumerate(copy.target.shape):
        variable = Var(f"@any{n}")
        context.indices.bind(variable, None, 0, max(0, extent - 1))
        here = Index.of(variable)
        coordinates.append(here * lanes + Index.of(lane) if n == number else here)
    at = tuple(coordinates)
    places = [_parted(source.flat(at), lane, lanes)]
    if source.region.padded:
        entries = [_parted(e, lane, lanes) for e in source.region.at(at)]
        places.append(entries.pop())
        if any(lane in entry.variables() for entry in entries):
            return False
    return not any(lane in (place - Index.of(lane)).variables() for place in places)


def _parted(index: Index, lane: Var, lanes: int) -> Index:
    """The same, a lane outside of divisions that it does not change."""
    total = Index((), index.constant)
    for atom, factor in index.terms:
        total = total + _parted_atom(atom, lane, lanes) * factor
    return total


def _parted_atom(atom: Atom, lane: Var, lanes: int) -> Index:
    if not isinstance(atom, FloorDiv | Mod):
        return Index(((atom, 1),), 0)
    value = _parted(atom.value, lane, lanes)
    rest = value - Index.of(lane)
    # A multiple of the lanes: none of them carries over into the quotient.
    steady = lane not in rest.variables() and divisor(rest) % lanes == 0
    if not steady or atom.divisor % lanes:
        lane_part, rest = Index(), value
    else:
        lane_part = Index.of(lane)
    if isinstance(atom, Mod):
        return rest % atom.divisor + lane_part
    return rest // atom.divisor

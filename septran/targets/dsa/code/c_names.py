"""Names that generated C keeps clear of: those of C itself, and of the vendor's header."""

from __future__ import annotations

import re

from septran.targets.dsa.code.vendor import POINTER, Vendor, members

_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm typeof bool true false nullptr alignas alignof constexpr
    NULL NAN INFINITY HUGE_VAL EOF errno linux unix least greatest
"""
_FUNCTIONS = """
    main abort abs acos acosh asin asinh atan atan2 atanh atexit atof atoi bsearch cabs calloc cbrt
    ceil copysign cos cosh div erf erfc exit exp exp2 expm1 fabs fdim floor fma fmax fmin fmod free
    frexp gamma getenv hypot ilogb index isdigit j0 j1 jn labs ldexp ldiv lgamma log log10 log1p
    log2 logb lrint lround malloc memchr memcmp memcpy memmove memset mktemp modf nan nearbyint
    nextafter pow printf putchar puts qsort raise rand random realloc remainder remquo rindex rint
    round scalbln scalbn select signal sin sinh sqrt srand strcat strchr strcmp strcpy strlen strtod
    strtol system tan tanh tgamma time trunc y0 y1 yn
"""
_TYPES = ("size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "intmax_t", "uintmax_t")
_SIZED = (f"{sign}int{kind}{bits}_t" for sign in ("", "u") for kind in ("", "_least", "_fast")
          for bits in (8, 16, 32, 64))  # fmt: skip
KEYWORDS = frozenset((*_KEYWORDS.split(), *_TYPES, *_SIZED))
"""Of C11 and C23, macros and types of common headers, and the functions of generated code."""
FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Of C's library: a kernel of such a name gets another, a variable may have it."""


def reserved(vendor: Vendor) -> frozenset[str]:
    """What no name in the C for a vendor may be."""
    own = {
        name
        for key, function in vendor.functions.items()
        if key != POINTER
        for _, name, _ in members(key, function)
    }
    text = vendor.header_path.read_text(encoding="utf-8", errors="replace")
    macros = re.findall(r"^\s*#\s*define\s+(\w+)", text, re.MULTILINE)
    called = re.findall(r"\b([A-Za-z_]\w*)\s*\(", text)
    return frozenset((*KEYWORDS, *own, *macros, *called))

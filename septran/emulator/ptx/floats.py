"""PTX on floating-point numbers of 16, 32 and 64 bits, alone and in pairs."""

from __future__ import annotations

from septran.emulator.ptx.instructions import TYPES, Instructions, PtxInstruction
from septran.emulator.ptx.moves import typed

INSTRUCTIONS = Instructions()

_MODIFIERS = {
    "rz": "kZero", "rm": "kDown", "rp": "kUp", "ftz": "kFtz", "sat": "kSat", "relu": "kRelu",
    "NaN": "kNan", "xorsign": "kXorsign",
}  # fmt: skip
_ROUNDING = r"(\.(rn|rz|rm|rp))?"


def modifiers(i: PtxInstruction) -> str:
    """The opcode's modifiers as a C++ constant."""
    found = [f"emu::{name}" for word, name in _MODIFIERS.items() if i.has(word)]
    return " | ".join(found) or "0"


def _apply(i: PtxInstruction, name: str) -> str:
    """``emu::f_name`` of the operands, in the type that the opcode ends with."""
    count = len(i.operands)
    kind, flags = i.opcode.split(".")[-1], modifiers(i)
    if "f16" not in kind:
        values = ", ".join(i.value(n, typed(i)) for n in range(1, count))
        return i.set(0, f"emu::f_{name}<{flags}>({values})")
    number = "emu::BF16" if kind.startswith("b") else "emu::F16"
    call = f"emu::h_{name}<{number}, {flags}>"
    if not kind.endswith("x2"):
        values = ", ".join(i.value(n, "uint16_t") for n in range(1, count))
        return i.set(0, f"{call}({values})")
    values = ", ".join(i.u32(n) for n in range(1, count))
    f = f"[](uint16_t a, uint16_t b, uint16_t c) {{ return {call}(a, b, c); }}"
    return i.set(0, f"emu::halves({f}, {values})")


@INSTRUCTIONS(rf"(add|sub|mul|fma|mad){_ROUNDING}(\.ftz)?(\.sat)?\.f32")
@INSTRUCTIONS(rf"(add|sub|mul|fma|mad){_ROUNDING}\.f64")
@INSTRUCTIONS(r"(add|sub|mul)(\.rn)?(\.ftz)?(\.sat)?\.b?f16(x2)?")
@INSTRUCTIONS(r"fma\.rn(\.ftz)?(\.sat)?(\.relu)?\.b?f16(x2)?")
def _arithmetic(i: PtxInstruction) -> str:
    name = i.opcode.split(".")[0]
    return _apply(i, "fma" if name == "mad" else name)


@INSTRUCTIONS(r"div(\.(approx|full|rn|rz|rm|rp))?(\.ftz)?\.f32")
@INSTRUCTIONS(rf"div{_ROUNDING}\.f64")
def _divide(i: PtxInstruction) -> str:
    return _apply(i, "div")


@INSTRUCTIONS(r"(rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh)(\.(approx|rn|rz|rm|rp))?(\.ftz)?\.f(32|64)")
@INSTRUCTIONS(r"(ex2|tanh)\.approx(\.ftz)?\.b?f16(x2)?")
def _function(i: PtxInstruction) -> str:
    """Approximations are as exact here as a float is."""
    return _apply(i, i.opcode.split(".")[0])


@INSTRUCTIONS(r"(abs|neg)(\.ftz)?\.(f32|f64|b?f16(x2)?)")
def _sign(i: PtxInstruction) -> str:
    return _apply(i, i.opcode.split(".")[0])


@INSTRUCTIONS(r"copysign\.f(32|64)")
def _copy_sign(i: PtxInstruction) -> str:
    return _apply(i, "copysign")


@INSTRUCTIONS(r"(min|max)(\.ftz)?(\.NaN)?(\.xorsign\.abs)?\.(f32|b?f16(x2)?)")
@INSTRUCTIONS(r"(min|max)\.f64")
def _extreme(i: PtxInstruction) -> str:
    return _apply(i, i.opcode.split(".")[0])


_TESTS = {
    "finite": "std::isfinite({x})", "infinite": "std::isinf({x})", "number": "!({x} != {x})",
    "notanumber": "{x} != {x}", "normal": "std::isnormal({x})",
    "subnormal": "({x} != 0 && std::isfinite({x}) && !std::isnormal({x}))",
}  # fmt: skip


@INSTRUCTIONS(r"testp\.(finite|infinite|number|notanumber|normal|subnormal)\.f(32|64)")
def _test(i: PtxInstruction) -> str:
    return i.set(0, _TESTS[i.opcode.split(".")[1]].format(x=i.value(1, typed(i))))


# ------------------------------------------------------------------ conversions
_SHORT = {"f16": "emu::F16", "bf16": "emu::BF16"}
_INTEGER = r"[us](8|16|32|64)"


def _ends(i: PtxInstruction) -> tuple[str, str]:
    to, source = i.opcode.split(".")[-2:]
    return to, source


@INSTRUCTIONS(rf"cvt(\.sat)?\.{_INTEGER}\.{_INTEGER}")
def _integers(i: PtxInstruction) -> str:
    to, source = (TYPES[t] for t in _ends(i))
    value = i.value(1, source)
    if i.has("sat"):
        return i.set(0, f"emu::i_limited<{to}, {source}>({value})")
    return i.set(0, f"({to})({value})")


@INSTRUCTIONS(rf"cvt\.(rn|rz|rm|rp)(\.ftz)?(\.sat)?\.(f32|f64|b?f16)\.{_INTEGER}")
def _from_integer(i: PtxInstruction) -> str:
    to, source = _ends(i)
    if to in _SHORT:  # a double holds what is below the bits that are kept
        exact = f"emu::to_odd((double)({i.value(1, TYPES[source])}))"
        return i.set(0, f"emu::to_short<{_SHORT[to]}, {modifiers(i)}>({exact})")
    value = i.value(1, TYPES[source])
    return i.set(0, f"emu::converted<{modifiers(i)}, {TYPES[to]}>({value})")


def _as_float(i: PtxInstruction, source: str) -> str:
    if source in _SHORT:
        return f"{_SHORT[source]}::of({i.value(1, 'uint16_t')})"
    return i.value(1, TYPES[source])


@INSTRUCTIONS(rf"cvt\.(rni|rzi|rmi|rpi)(\.ftz)?(\.sat)?\.{_INTEGER}\.(f32|f64|b?f16)")
def _to_integer(i: PtxInstruction) -> str:
    how, (to, source) = i.opcode.split(".")[1], _ends(i)
    # PTX ISA, cvt: to the nearest even, to zero, down, up.
    call = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[how]
    value = _as_float(i, source)
    if i.has("ftz"):
        value = f"emu::flushed<emu::kFtz>({value})"
    return i.set(0, f"emu::cvt_integer<{TYPES[to]}>(std::{call}({value}))")


@INSTRUCTIONS(r"cvt(\.(rni|rzi|rmi|rpi))(\.ftz)?(\.sat)?\.(f32\.f32|f64\.f64|f16\.f16)")
def _to_integral(i: PtxInstruction) -> str:
    how, (to, source) = i.opcode.split(".")[1], _ends(i)
    number = ["rni", "rzi", "rmi", "rpi"].index(how)
    if to in _SHORT:
        inner = f"emu::integral<{modifiers(i)}>({_as_float(i, source)}, {number})"
        return i.set(0, f"{_SHORT[to]}::to({inner})")
    call = ["nearbyint", "trunc", "floor", "ceil"][number]
    value = f"emu::flushed<{modifiers(i)}>({i.value(1, TYPES[source])})"
    return i.set(0, f"emu::finished<{modifiers(i)}>(std::{call}({value}))")


@INSTRUCTIONS(r"cvt(\.(rn|rz|rm|rp))?(\.ftz)?(\.sat)?(\.relu)?\.(f32|f64)\.(f32|f64|b?f16)")
def _to_float(i: PtxInstruction) -> str:
    to, source = _ends(i)
    value = f"({_as_float(i, source)})"
    flush = "emu::kFtz" if i.has("ftz") and source == "f32" else "0"
    value = f"emu::flushed<{flush}>{value}"
    return i.set(0, f"emu::converted<{modifiers(i)}, {TYPES[to]}>({value})")


@INSTRUCTIONS(r"cvt\.(rn|rz|rm|rp)(\.ftz)?(\.sat)?(\.relu)?(\.satfinite)?\.b?f16\.(f32|f64|b?f16)")
def _to_short(i: PtxInstruction) -> str:
    to, source = _ends(i)
    value = f"(float)({_as_float(i, source)})"
    if source == "f64":  # by way of a float that is rounded to odd, so that it is rounded once
        value = f"emu::to_odd({i.value(1, 'double')})"
    if i.has("satfinite"):
        value = f"emu::limited<{_SHORT[to]}>({value})"
    return i.set(0, f"emu::to_short<{_SHORT[to]}, {modifiers(i)}>({value})")


@INSTRUCTIONS(r"cvt\.(rn|rz)(\.relu)?(\.satfinite)?\.b?f16x2\.f32")
def _to_pair(i: PtxInstruction) -> str:
    """PTX ISA, "cvt": the first operand becomes the upper half."""
    number = "emu::BF16" if "bf16x2" in i.opcode else "emu::F16"
    high, low = (i.value(n, "float") for n in (1, 2))
    if i.has("satfinite"):
        high, low = (f"emu::limited<{number}>({x})" for x in (high, low))
    call = f"emu::to_short<{number}, {modifiers(i)}>"
    return i.set(0, f"emu::pack({call}({high}), {call}({low}))")


@INSTRUCTIONS(r"cvt\.rn\.satfinite(\.relu)?\.(e4m3x2|e5m2x2)\.f32")
def _to_bytes(i: PtxInstruction) -> str:
    to = i.opcode.split(".")[-2]
    high, low = (f"emu::finished<{modifiers(i)}>({i.value(n, 'float')})" for n in (1, 2))
    return i.set(0, f"emu::cvt_{to}({high}, {low})")


@INSTRUCTIONS(r"cvt\.rn\.satfinite(\.relu)?\.(e4m3x2|e5m2x2)\.b?f16x2")
def _pair_to_bytes(i: PtxInstruction) -> str:
    to, source = _ends(i)
    number = "emu::BF16" if source.startswith("b") else "emu::F16"
    parts = (f"{number}::of((uint16_t)({i.u32(1)} >> {s}))" for s in (16, 0))
    high, low = (f"emu::finished<{modifiers(i)}>({x})" for x in parts)
    return i.set(0, f"emu::cvt_{to}({high}, {low})")


@INSTRUCTIONS(r"cvt\.rn(\.relu)?\.f16x2\.(e4m3x2|e5m2x2)")
def _bytes_to_pair(i: PtxInstruction) -> str:
    wide = f"emu::cvt_f16x2_{i.opcode.split('.')[-1]}({i.value(1, 'uint16_t')})"
    if i.has("relu"):
        f = "[](uint16_t a, uint16_t, uint16_t) { return uint16_t(a & 0x8000 ? 0 : a); }"
        wide = f"emu::halves({f}, {wide})"
    return i.set(0, wide)


@INSTRUCTIONS(r"cvt\.(rna|rn|rz)(\.satfinite)?\.tf32\.f32")
def _tf32(i: PtxInstruction) -> str:
    if i.has("rn", "rz"):
        how = "emu::kZero" if i.has("rz") else "emu::kNearest"
        return i.set(0, f"emu::to_tf32<{how}>({i.value(1, 'float')})")
    return i.set(0, f"emu::cvt_tf32({i.value(1, 'float')})")

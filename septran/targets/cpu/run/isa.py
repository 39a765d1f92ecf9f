"""The meaning of a machine's ``arch`` for LLVM, and whether this host has it."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

import tvm_ffi
from tvm.target import Target, codegen

from septran.errors import TargetError, nearest
from septran.machine.loader import NATIVE_IS
from septran.machine.model import Machine
from septran.targets.cpu.simd import (
    AVX2,
    AVX512,
    NEON,
    SVE256,
    SVE512,
    ZEN4,
    RowStreams,
    VectorUnit,
)

NATIVE = "native"
"""The ``arch`` of a machine that is whatever this host is."""
LLVM_OPTIONS = ("-vectorize-slp:bool=false", "-vectorize-loops:bool=false")
"""All code is vectors already; LLVM's own vectoriser only packs their registers together."""
USED = frozenset(
    [
        "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512vnni",
        "avxvnni",
        "avx512bf16",
        "amx-tile",
        "amx-bf16",
        "amx-int8",
        "dotprod",
        "i8mm",
        "bf16",
        "sve",
    ]
)
"""Features whose instructions are in the code that is made for processors with them."""
LEVELS = {"avx2": "x86-64-v3", "avx512": "x86-64-v4"}
SYSTEMS = ("aarch64-linux-gnu",)
"""Those that code is made for beside this host's own, by LLVM's triples."""
_SVE_UNITS = {"neoverse-v1": SVE256, "a64fx": SVE512}
"""Processors whose scalable vectors are longer than NEON's, which LLVM does not say."""
_STREAMS = {"znver4": ZEN4}
"""Processors whose rows from memory come otherwise."""
_ONE_AFTER_ANOTHER = "znver"
"""Others whose rows were never measured in turns: AMD's, as the Zen 4's."""
_ALL_OF_AVX512 = "sapphirerapids"
"""A processor with its dot products of bytes and of bfloat16, too, and with tile registers."""
_TILES = frozenset(["amx-tile", "amx-bf16", "amx-int8"])


@functools.cache
def host_arch() -> str:
    """LLVM's name of this host's processor, then ``,-FEATURE`` for each one that it has not.

    The name alone is not enough: a hypervisor hides features from its guests, AMX's above all.
    """
    name = str(codegen.llvm_get_system_cpu())
    hidden = sorted(f for f in features(name) if _host_says().get(f) is False)
    return ",".join([name, *(f"-{feature}" for feature in hidden)])


def processor(arch: str) -> str:
    """LLVM's name of the processor of an `arch`, without the features that are taken away."""
    return arch.partition(",")[0]


@dataclass(frozen=True)
class Native:
    """The processor, vector unit and features that code for ``arch: native`` uses."""

    arch: str
    """The processor that LLVM compiles for."""
    unit: VectorUnit
    """The registers that lanes, tiles and panels are made for."""
    features: frozenset[str]
    """What instructions may need; those that `arch` lacks are done by others."""


class UnknownProcessorError(TargetError):
    """A machine file names a processor that LLVM has no code for."""

    code = "SEP514"


class UnknownNativeError(TargetError):
    """The environment asks for a code that there is not."""

    code = "SEP513"


def native() -> Native:
    """The vector unit of this host, or the one that `SEPTRAN_NATIVE` names.

    So code of one host can be tried on another: ``avx2`` is AVX2's tiles and instructions,
    ``avx512`` is AVX-512's, and ``split`` is the tiles of a processor with all of AVX-512 in
    AVX2's instructions: LLVM splits each vector in two, and plain ones do what AVX2 lacks.
    ``amx`` is that of a processor with AMX's tile registers, too, which are kept in memory.
    """
    asked = os.environ.get(NATIVE_IS, "")
    # No code for tile registers has run on a processor that has them: one must ask for it by name.
    tried = (features(host_arch()) & _host_features()) - _TILES
    choices = {
        "": Native(host_arch(), unit_of(host_arch()), tried),
        "avx2": Native(LEVELS["avx2"], AVX2, features(LEVELS["avx2"])),
        "avx512": Native(LEVELS["avx512"], AVX512, features(LEVELS["avx512"])),
        "split": Native(LEVELS["avx2"], AVX512, features(_ALL_OF_AVX512) - _TILES),
        "amx": Native(LEVELS["avx2"], AVX512, features(_ALL_OF_AVX512)),
    }
    if asked not in choices:
        words = ", ".join(filter(None, choices))
        raise UnknownNativeError(
            f"{NATIVE_IS} is {asked!r}, and native code can only be one of {words}",
            None,
            hint=f"unset {NATIVE_IS}, and code is made for this host",
        )
    return choices[asked]


def other_width() -> str:
    """Return what `SEPTRAN_NATIVE` is for code of the vectors that this host's own are not.

    What the host lacks is legalised: AVX-512's tiles run in AVX2's instructions.
    """
    if native().unit is AVX512:
        return "avx2"
    return "split" if lacking(LEVELS["avx512"]) else "avx512"


def llvm_arch(machine: Machine) -> str:
    """The processor that LLVM compiles for."""
    if machine.arch in ("", NATIVE):
        return native().arch
    arch = LEVELS.get(machine.arch, machine.arch)
    if not _is_known(processor(arch)):
        known = (*LEVELS, *(name for s in (_host_system(), *SYSTEMS) for name in _processors(s)))
        raise UnknownProcessorError(
            f"arch {machine.arch!r} is no processor that LLVM knows here or on {SYSTEMS[0]}",
            machine.location,
            hint=nearest(machine.arch, known),
        )
    return arch


@functools.cache
def _is_known(processor: str) -> bool:
    return any(codegen.llvm_is_valid_cpu(processor, s) for s in (_host_system(), *SYSTEMS))


def is_foreign(machine: Machine) -> bool:
    """Whether this host is another kind of processor than the machine's code is for.

    What a machine's instructions require is of its kind: a host of another has none of it.
    """
    known = _host_features() | features(native().arch)
    needed = {name for i in machine.instructions for name in i.requires}
    lacks_all = bool(needed) and not needed & known
    return foreign_system(llvm_arch(machine)) is not None or lacks_all


@functools.cache
def foreign_system(arch: str) -> str | None:
    """The triple of the system that code for a processor is of; None where it is this host's."""
    name = processor(arch)
    if codegen.llvm_is_valid_cpu(name, _host_system()):
        return None
    return next((s for s in SYSTEMS if codegen.llvm_is_valid_cpu(name, s)), None)


def _host_system() -> str:
    return str(codegen.llvm_get_system_triple())


def _processors(system: str) -> list[str]:
    return [
        str(n) for n in codegen.llvm_get_cpu_archlist(Target({"kind": "llvm", "mtriple": system}))
    ]


def llvm_version() -> str:
    """The LLVM that generates code, and the system it does so for by default."""
    return f"LLVM {codegen.llvm_version_major()} for {codegen.llvm_get_system_triple()}"


def processor_features(arch: str) -> frozenset[str]:
    """Return what instructions of a machine with this ``arch`` may need."""
    return native().features if arch in ("", NATIVE) else features(LEVELS.get(arch, arch))


@functools.cache
def features(arch: str) -> frozenset[str]:
    """LLVM's features of a processor; empty where it does not know the name."""
    return frozenset(map(str, codegen.llvm_get_cpu_features(llvm_target(arch))))


def llvm_target(arch: str) -> Target:
    """TVM's target for a processor."""
    options = list(LLVM_OPTIONS)
    name, _, changes = arch.partition(",")
    if name in _SVE_UNITS:  # vectors of known length are whole registers then
        bits = 8 * _SVE_UNITS[name].bytes
        options += [f"-aarch64-sve-vector-bits-{end}:uint={bits}" for end in ("min", "max")]
    system = foreign_system(arch)
    place = {} if system is None else {"mtriple": system}
    without = {"mattr": changes.split(",")} if changes else {}
    return Target({"kind": "llvm", "mcpu": name, "cl-opt": options, **without, **place})


def vector_unit(machine: Machine) -> VectorUnit:
    """The widest vectors of the machine."""
    return unit_for(machine.arch) if machine.arch in ("", NATIVE) else unit_of(llvm_arch(machine))


def unit_for(arch: str) -> VectorUnit:
    """The widest vectors of a machine with this ``arch``."""
    return native().unit if arch in ("", NATIVE) else unit_of(LEVELS.get(arch, arch))


def unit_of(arch: str) -> VectorUnit:
    """The widest vectors of a processor."""
    if "neon" in features(arch):
        return _SVE_UNITS.get(processor(arch), NEON)
    # Nothing below AVX2 is distinguished: code for such a processor has vectors that LLVM splits.
    return AVX512 if "avx512f" in features(arch) else AVX2


def row_streams(machine: Machine) -> RowStreams:
    """How rows are read from memory on the processor that code for a machine runs on."""
    name = processor(host_arch() if machine.arch in ("", NATIVE) else llvm_arch(machine))
    return _STREAMS.get(name) or RowStreams(in_turns=not name.startswith(_ONE_AFTER_ANOTHER))


def lacking(arch: str) -> tuple[str, ...]:
    """Vector features that code for `arch` uses and this host does not have."""
    return tuple(sorted(USED & features(arch) - _host_features()))


@functools.cache
def _host_features() -> frozenset[str]:
    """Return the features of this host's processor, by LLVM's names."""
    return frozenset(name for name, on in _host_says().items() if on)


@functools.cache
def _host_says() -> dict[str, bool]:
    """Whether this host's processor has each feature that one can ask it for."""
    host = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return {str(name): bool(on) for name, on in host.items()}

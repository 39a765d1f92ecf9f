"""What the machine's ``arch`` means to LLVM, and whether this host has it."""

from __future__ import annotations

import functools

import tvm_ffi
from tvm.target import Target, codegen

from septran.machine.model import Machine
from septran.targets.cpu.simd import AVX2, AVX512, VectorUnit

NATIVE = "native"
"""The ``arch`` of a machine that is whatever this host is."""
LLVM_OPTIONS = ("-vectorize-slp:bool=false", "-vectorize-loops:bool=false")
"""All code is vectors already; LLVM's own vectoriser only packs their registers together."""
_LEVELS = {"avx2": "x86-64-v3", "avx512": "x86-64-v4"}


def host_arch() -> str:
    """LLVM's name of this host's processor."""
    return str(codegen.llvm_get_system_cpu())


def llvm_arch(machine: Machine) -> str:
    """The processor that LLVM is told to compile for."""
    if machine.arch in ("", NATIVE):
        return host_arch()
    return _LEVELS.get(machine.arch, machine.arch)


def llvm_version() -> str:
    """The LLVM that generates code, and the system it does so for by default."""
    return f"LLVM {codegen.llvm_version_major()} for {codegen.llvm_get_system_triple()}"


@functools.cache
def features(arch: str) -> frozenset[str]:
    """LLVM's features of a processor; empty where it does not know the name."""
    target = llvm_target(arch)
    return frozenset(map(str, codegen.llvm_get_cpu_features(target)))


def llvm_target(arch: str) -> Target:
    """TVM's target for a processor."""
    return Target({"kind": "llvm", "mcpu": arch, "cl-opt": list(LLVM_OPTIONS)})


def vector_unit(machine: Machine) -> VectorUnit:
    """The widest vectors of the machine."""
    return AVX512 if "avx512f" in features(llvm_arch(machine)) else AVX2


def lacking(arch: str) -> tuple[str, ...]:
    """Vector features that code for `arch` uses and this host does not have."""
    host = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    have = {str(name) for name, on in host.items() if on}
    wanted = {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl"} & features(arch)
    return tuple(sorted(wanted - have))

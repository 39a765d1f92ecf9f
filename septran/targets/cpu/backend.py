"""The facts about CPUs that layers below the targets need."""

from __future__ import annotations

from septran.backends import Backend, HostLoops


def _features(arch: str) -> frozenset[str]:
    from septran.targets.cpu.run.isa import processor_features

    return processor_features(arch)


def _registers(arch: str) -> tuple[int, int, int]:
    from septran.targets.cpu.run.isa import unit_for

    unit = unit_for(arch)
    return (unit.bytes, *unit.tile)


def _loops() -> HostLoops:
    from septran.targets.cpu.measure import loops

    return loops


def _llvm() -> str:
    from septran.targets.cpu.run.isa import llvm_version

    return f"{llvm_version()}, inside TVM"


def _processor() -> str:
    from septran.targets.cpu.run.isa import LEVELS, host_arch, lacking, processor

    sets = [name for name, level in LEVELS.items() if not lacking(level)]
    name = processor(host_arch())
    hidden = f" (its system hides {', '.join(absent)})" if (absent := lacking(name)) else ""
    return f"{name}{hidden}, {' and '.join(sets) or 'neither avx2 nor avx512'}"


def _threads() -> str:
    from septran.targets.cpu.run.threads import usable_cores

    return f"{usable_cores()} usable cores"


BACKEND = Backend(
    "cpu",
    features=_features,
    registers=_registers,
    loops=_loops,
    dynamic=True,
    compiles_functions=True,
    looks={"llvm": _llvm, "processor": _processor, "threads": _threads},
)

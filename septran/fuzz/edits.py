"""Random edits of the shipped mappings and machines: what a hardware expert might try."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from septran.backends import backend_of
from septran.fuzz.choices import Choices
from septran.machine.loader import mappings_root

# libyaml's give the same in a tenth of the time; PyYAML may be built without it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WHERE = (
    "{loops: parallel}",
    "{holds: parallel}",
    "{primitive: gemm}",
    "{leaf: elementwise}",
    "{leaf: true}",
)
_GROUPS = ("accumulators", "temporaries", "reads", "writes", "'*'")
_MEMORIES: Mapping[str, tuple[str, ...]] = {
    "cpu-x86": ("NONE", "L2", "L3", "L1", "DRAM"),
    "dsa-sim": ("SPM", "ACC", "NONE", "GLOBAL"),
    "npu-cube": ("UB", "L1", "L0C", "NONE", "GLOBAL"),
    "nvidia-h200": ("REGISTER", "SHARED", "NONE", "GLOBAL"),
    "nvidia-a100": ("REGISTER", "SHARED", "NONE", "GLOBAL"),
    "amd-mi300x": ("REGISTER", "SHARED", "NONE", "GLOBAL"),
    "opencl-generic": ("REGISTER", "SHARED", "NONE", "GLOBAL"),
    "tpu-v5e": ("VMEM", "NONE", "HBM"),
}
_SCHEDULES: Mapping[str, tuple[str, ...]] = {
    "cpu-x86": (),
    "dsa-sim": ("pipeline: 1", "pipeline: 3", "persistent: true"),
    "npu-cube": ("pipeline: 1", "pipeline: 3", "persistent: false"),
    "nvidia-h200": (
        "pipeline: 1", "pipeline: 2", "pipeline: 3", "warpspecialize: false", "persistent: false",
        "raster: 2", "overlap: true", "roles: {consumers: 1}", "cluster: 2", "cluster: [2, 1]",
    ),
    "nvidia-a100": ("pipeline: 1", "pipeline: 2", "pipeline: 3", "raster: 2"),
    "amd-mi300x": ("pipeline: 1", "pipeline: 2", "raster: 2"),
    "opencl-generic": ("raster: 2",),
    "tpu-v5e": ("pipeline: 1", "pipeline: 3"),
}  # fmt: skip
_BINDINGS: Mapping[str, tuple[str, ...]] = {
    "cpu-x86": ("scalar",),
    "dsa-sim": (),
    "npu-cube": (),
    "nvidia-h200": ("simt", "mma_sync"),
    "nvidia-a100": ("simt",),
    "amd-mi300x": ("simt",),
    "opencl-generic": (),
    "tpu-v5e": (),
}
TILES = (32, 16, 64, 8, 24, 48, 128, 3, 1)
TUNABLES = ("block_M", "block_N", "block_K", "block_rows")


def mapping(c: Choices, machine: str) -> str:
    """Return a mapping for `machine`: the shipped one, with at most three rules before its own."""
    # Half of the cases have the shipped mapping as it is.
    rules = [_rule(c, machine) for _ in range(c.of((0, 0, 0, 0, 1, 1, 2, 3)))]
    lines = [f"extends: {machine}", f"machine: {machine}"]
    if rules:
        lines += ["rules:", *(f"  - {{{rule}}}" for rule in rules)]
    return "\n".join(lines) + "\n"


def tunables(c: Choices) -> dict[str, int]:
    """Return tile sizes that override the mapping's; none is the simplest."""
    return {name: c.of(TILES) for name in c.some(TUNABLES, 4)}


def _rule(c: Choices, machine: str) -> str:
    match = f"match: {c.of(_WHERE)}"
    options = ["memory"]
    options += ["schedule"] if _SCHEDULES[machine] else []
    options += ["binding"] if _BINDINGS[machine] else []
    kind = c.of(options)
    if kind == "schedule":
        return f"match: {c.of(_WHERE[:2])}, {c.of(_SCHEDULES[machine])}"
    if kind == "binding":
        return f"match: {{primitive: gemm}}, binding: {{gemm: {c.of(_BINDINGS[machine])}}}"
    return f"{match}, mems: {{{c.of(_GROUPS)}: {c.of(_MEMORIES[machine])}}}"


def machine(c: Choices, name: str) -> str | None:
    """Return a machine file like `name`'s with other sizes, or None for the shipped one."""
    if not c.chance(35):
        return None
    path = mappings_root() / "machines" / f"{name}.yaml"
    document = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    for _ in range(c.between(1, 3)):
        c.of((_capacity, _alignment, _units, _queues, _tile))(c, document)
    return yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=200)


def header_of(name: str) -> Path | None:
    """Return the vendor's header that a machine file like `name`'s needs beside it, or None."""
    path = mappings_root() / "machines" / f"{name}.h"
    return path if path.exists() else None


def _capacity(c: Choices, document: dict[str, Any]) -> None:
    bounded = [m for m in document["memories"].values() if "KiB" in str(m.get("capacity", ""))]
    if bounded:
        memory = c.of(bounded)
        size = int(str(memory["capacity"]).removesuffix("KiB")) * 1024
        memory["capacity"] = f"{c.of((size * 2, size // 2, size * 3 // 4, size // 4))}B"


def _alignment(c: Choices, document: dict[str, Any]) -> None:
    memory = c.of([m for m in document["memories"].values() if "alignment" in m])
    memory["alignment"] = c.of((64, 128, 32, 256, 16, 4))


def _units(c: Choices, document: dict[str, Any]) -> None:
    levels = [p for p in document["processors"].values() if isinstance(p, dict) and "of" in p]
    # Of a host that is measured, and of simulated machines, so many units run side by side.
    facts = backend_of(document["backend"])
    if facts.simulated or facts.loops is not None:
        levels[0]["count"] = c.of((1, 2, 3, 5))


def _queues(c: Choices, document: dict[str, Any]) -> None:
    engines = [e for e in document["engines"].values() if "queue_depth" in e]
    if engines:
        c.of(engines)["queue_depth"] = c.of((8, 1, 2, 3))
        if document.get("vendor", {}).get("flags"):
            document["vendor"]["flags"] = c.of((32, 16, 8))


def _tile(c: Choices, document: dict[str, Any]) -> None:
    if not backend_of(document["backend"]).simulated:
        return
    units = [i for i in document["instructions"].values() if i.get("primitive") == "gemm"]
    unit = c.of(units)
    if "layouts" not in unit:  # a fractal layout has the tile's sizes
        unit["tile"] = c.of(([16, 16, 16], [8, 8, 8], [32, 16, 8], [4, 16, 32]))

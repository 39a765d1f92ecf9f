"""One random case: a logic, a mapping, shapes and dtypes, all from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from septran.fuzz.logic import products, rowwise

OPERATORS = ("gemm", "batched_gemm", "gemm_bias_act", "softmax", "attention", "conv2d")
EXTENTS = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48, 63, 65)
TILES = (1, 3, 8, 16, 24, 32, 48, 64, 128)
CPU_MEMORIES = ("NONE", "DRAM", "L3", "L2", "L1")
DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class Case:
    """All that is needed to repeat one run."""

    seed: int
    logic: str
    """An operator's name, or the text of a logic file."""
    mapping: str
    """The text of a mapping file, or the name of a machine."""
    shapes: dict[str, tuple[int, ...]]
    """Of the inputs, by name."""
    dtype: str
    static: dict[str, Any]
    tunables: dict[str, int]
    machine: str
    """A machine whose tile program is interpreted as well."""

    def __str__(self) -> str:
        name = self.logic if "\n" not in self.logic else "generated logic"
        return (
            f"seed {self.seed}: {name} {self.dtype} {self.shapes} {self.static} "
            f"{self.tunables} on cpu-x86 and {self.machine}"
        )


def make_case(seed: int) -> Case:
    """The case of a seed; equal seeds give equal cases."""
    rng = Random(seed)
    small = rng.random() < 0.1  # tiles of one element are slow, and rarely tell more
    tiles = TILES if small else TILES[2:]
    names = ("block_M", "block_N", "block_K", "block_rows")
    tunables = {name: rng.choice(tiles) for name in names}
    machine = rng.choice(("cpu-x86", "dsa-sim", "nvidia-h200"))
    if rng.random() < 0.5:
        return _operator(rng, seed, tunables, machine)
    generated = products(rng) if rng.random() < 0.5 else rowwise(rng)
    sizes = {d: rng.choice(EXTENTS) for d in ("M", "N", "K")}
    shapes = {n: tuple(sizes[d] for d in dims) for n, dims in generated.inputs}
    tasks = ("rows", "block", "multiply", "finish")
    mapping = _mapping(rng, tasks)
    dtype = rng.choice(("float32", "float32", "float64"))
    return Case(seed, generated.text, mapping, shapes, dtype, {}, tunables, machine)


def _operator(rng: Random, seed: int, tunables: dict[str, int], machine: str) -> Case:
    name = rng.choice(OPERATORS)
    e = {d: rng.choice(EXTENTS) for d in "MNKHWD"}
    b, h = rng.choice((1, 2)), rng.choice((1, 3))
    static: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]]
    match name:
        case "gemm":
            static = {"trans_a": rng.random() < 0.3, "trans_b": rng.random() < 0.3}
            a, bb = (e["M"], e["K"]), (e["K"], e["N"])
            shapes = {
                "A": a[::-1] if static["trans_a"] else a,
                "B": bb[::-1] if static["trans_b"] else bb,
            }
        case "batched_gemm":
            shapes = {"A": (b, e["M"], e["K"]), "B": (b, e["K"], e["N"])}
        case "gemm_bias_act":
            static = {"act": rng.choice(("none", "relu", "gelu", "silu"))}
            shapes = {"A": (e["M"], e["K"]), "B": (e["K"], e["N"]), "bias": (e["N"],)}
        case "softmax":
            shapes = {"X": (e["M"], e["N"])}
        case "attention":
            d = rng.choice((8, 16, 20, 32))
            static = {"causal": rng.random() < 0.5}
            keys = (b, h, e["N"], d)
            shapes = {"Q": (b, h, e["M"], d), "K": keys, "V": keys}
        case _:
            static = {"stride": rng.choice((1, 2)), "padding": rng.choice((0, 1))}
            r = rng.choice((1, 2, 3))
            size = (rng.choice((5, 8, 13)), rng.choice((5, 9, 14)))
            shapes = {"X": (b, h, *size), "F": (rng.choice((1, 5, 16)), h, r, r)}
    dtype = rng.choice(DTYPES)
    return Case(seed, name, "cpu-x86", shapes, dtype, static, tunables, machine)


def _mapping(rng: Random, tasks: tuple[str, ...]) -> str:
    """A rule mapping for cpu-x86 with random placements."""
    lines = [
        "machine: cpu-x86",
        "rules:",
        "  - {match: {level: entry}, proc: HOST, mems: {'*': DRAM}}",
    ]
    for task in tasks:
        group = rng.choice(("'*'", "reads", "writes", "temporaries"))
        memory = rng.choice(CPU_MEMORIES if group != "temporaries" else CPU_MEMORIES[1:])
        lines.append(f"  - {{match: {{task: {task}}}, proc: CORE, mems: {{{group}: {memory}}}}}")
    return "\n".join(lines) + "\n"

"""The one table of emitters of the CPU: an instruction or engine is an entry and its module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from septran.dtypes import SHORT
from septran.mapping.extern.name import EXTERN
from septran.targets.cpu.context import Context
from septran.targets.cpu.copy.copies import emit_copy
from septran.targets.cpu.extern.call import emit_extern
from septran.targets.cpu.gemm.computed import Rows
from septran.targets.cpu.gemm.computed_dots import emit_computed_dots
from septran.targets.cpu.gemm.computed_panels import (
    emit_computed_pairs,
    emit_computed_short_dots,
)
from septran.targets.cpu.gemm.computed_sums import emit_computed, emit_computed_sums
from septran.targets.cpu.gemm.group_dots import (
    emit_bfloat16_dots,
    emit_neon_bfloat16_dots,
    emit_neon_byte_dots,
    emit_sve_byte_dots,
    emit_widened_byte_dots,
)
from septran.targets.cpu.gemm.joined_dots import emit_byte_dots, emit_short_vector_byte_dots
from septran.targets.cpu.gemm.microkernel import EXACT_STEPS, emit_exact_sums, emit_multiply_adds
from septran.targets.cpu.gemm.scalar import emit_scalar
from septran.targets.cpu.gemm.tile_products import emit_bfloat16_tiles, emit_byte_tiles
from septran.targets.cpu.map.atomics import emit_atomic_adds
from septran.targets.cpu.map.vector import emit_maps
from septran.tile.nodes import Buffer, Compute, Copy

Emit = Callable[[Context, Sequence[Compute], Sequence[Buffer]], None]
"""Writes neighbouring nodes, with the buffers that only they use; of a gemm a single one."""


@dataclass(frozen=True)
class InstructionEmitter:
    """The emitter of one instruction of a machine file."""

    primitive: str
    """What it computes; who computes ``map`` fills and copies, too."""
    emit: Emit
    widened: frozenset[str] = frozenset()
    """Types of which a staged operand is converted to float32 once, by the copy that packs it."""
    grouped: str = ""
    """What staged operands are converted to where they are packed in groups; '': they are not."""
    flips: bool = False
    """Whether bytes that copies pack in groups get other signs there, where both operands have
    the same, and not wherever they are multiplied."""
    emit_computed: Callable[[Context, Compute, Rows], None] | None = None
    """Writes a gemm whose B is computed where it is used; None where it must be stored."""


@dataclass(frozen=True)
class CpuEmitters:
    """All that a kernel can be written with. Loops are written by the lowering itself."""

    copies: Mapping[str, Callable[[Context, Copy], None]]
    """Emitters of copies, by engine."""
    computes: Mapping[str, InstructionEmitter]
    """Emitters of computations, by instruction."""

    def of(self, instruction: str) -> InstructionEmitter:
        """The emitter of an instruction of the machine, or of a function of the user's."""
        return self.computes[EXTERN if instruction.startswith(f"{EXTERN} ") else instruction]

    @property
    def primitives(self) -> dict[str, str]:
        """The primitive that each instruction of a machine file computes, by its name."""
        return {n: emitter.primitive for n, emitter in self.computes.items() if n != EXTERN}


# Which variant an instruction's emitter writes (a register tile, or dot products of vectors where
# both operands lie along the summed axis) follows from layouts, which a mapping gives, too.
EMITTERS = CpuEmitters(
    copies=MappingProxyType({"load_store": emit_copy}),
    computes=MappingProxyType(
        {
            "amx_int8": InstructionEmitter(
                "gemm", emit_byte_tiles, frozenset(EXACT_STEPS), emit_computed=emit_computed_dots
            ),
            "amx_bf16": InstructionEmitter(
                "gemm", emit_bfloat16_tiles, frozenset(SHORT), emit_computed=emit_computed
            ),
            "avx512_vnni": InstructionEmitter(
                "gemm",
                emit_byte_dots,
                frozenset(EXACT_STEPS),
                flips=True,
                emit_computed=emit_computed_dots,
            ),
            "avx_vnni": InstructionEmitter(
                "gemm",
                emit_short_vector_byte_dots,
                frozenset(EXACT_STEPS),
                flips=True,
                emit_computed=emit_computed_short_dots,
            ),
            "byte_pairs": InstructionEmitter(
                "gemm",
                emit_widened_byte_dots,
                frozenset(EXACT_STEPS),
                "int16",
                emit_computed=emit_computed_pairs,
            ),
            "avx512_bf16": InstructionEmitter(
                "gemm", emit_bfloat16_dots, frozenset(SHORT), emit_computed=emit_computed
            ),
            "dotprod": InstructionEmitter("gemm", emit_neon_byte_dots, frozenset(EXACT_STEPS)),
            "i8mm": InstructionEmitter("gemm", emit_neon_byte_dots, frozenset(EXACT_STEPS)),
            "sve_dotprod": InstructionEmitter("gemm", emit_sve_byte_dots, frozenset(EXACT_STEPS)),
            "bf16": InstructionEmitter(
                "gemm", emit_neon_bfloat16_dots, frozenset(SHORT), emit_computed=emit_computed
            ),
            "fma_microkernel": InstructionEmitter(
                "gemm", emit_multiply_adds, frozenset(SHORT), emit_computed=emit_computed
            ),
            "int8_microkernel": InstructionEmitter(
                "gemm", emit_exact_sums, frozenset(EXACT_STEPS), emit_computed=emit_computed_sums
            ),
            "muladd_microkernel": InstructionEmitter(
                "gemm", emit_multiply_adds, frozenset(SHORT), emit_computed=emit_computed
            ),
            "scalar": InstructionEmitter("gemm", emit_scalar),
            EXTERN: InstructionEmitter(EXTERN, emit_extern),
            "vector": InstructionEmitter("map", emit_maps),
            "atomic_add": InstructionEmitter("accumulate", emit_atomic_adds),
        }
    ),
)

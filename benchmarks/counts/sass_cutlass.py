"""CUTLASS's products as CUDA text for `benchmarks.sass`.

    python -m benchmarks.counts.sass_cutlass FOLDER INCLUDE

INCLUDE is the folder of CUTLASS's headers (of PyPI's ``nvidia-cutlass``: ``cutlass_library/source/
include``). Each file instantiates one kernel of CUTLASS 3's collectives with warps that have roles,
and nvcc, given the options that are written beside it, does the rest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

TEXT = """\
#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"

using namespace cute;
using Block = Shape<_{m}, _{n}, _{k}>;
using Alone = Shape<_1, _1, _1>;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Last = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Block, Alone,
    cutlass::epilogue::collective::EpilogueTileAuto, {sum}, {sum}, void, Row, {wide},
    {result}, Row, {wide}, cutlass::epilogue::TmaWarpSpecialized{how}>::CollectiveOp;
using Main = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, {kind}, Row, {side}, {kind}, {right},
    {side}, {sum}, Block, Alone,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Last::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecialized{schedule}>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<
    Shape<int, int, int, int>, Main, Last, cutlass::gemm::PersistentScheduler>;
template __global__ void cutlass::device_kernel<Kernel>(
    CUTLASS_GRID_CONSTANT typename Kernel::Params const);
"""
PRODUCTS = {
    "gemm_f16": ("cutlass::half_t", "cutlass::half_t", "float", 2, True),
    "gemm_f16_rows": ("cutlass::half_t", "cutlass::half_t", "float", 2, False),
    "gemm_bf16": ("cutlass::bfloat16_t", "cutlass::bfloat16_t", "float", 2, True),
    "gemm_int8": ("int8_t", "int32_t", "int32_t", 1, True),
    "gemm_fp8": ("cutlass::float_e4m3_t", "cutlass::half_t", "float", 1, True),
}
"""Operands', result's and sums' types, bytes of an operand, and whether B lies along the sum."""
TILES = ((128, 256, "Cooperative"), (64, 256, "Pingpong"))
DEPTH_BYTES, VECTOR_BYTES = 128, 16


def texts() -> Iterator[tuple[str, str, str]]:
    """Family, name, CUDA text."""
    for family, (kind, result, total, size, along) in PRODUCTS.items():
        # Sums of 8-bit floats as they are: others add up parts of them in float32.
        fast = "FP8FastAccum" if "float_e4m3" in kind else ""
        wide = VECTOR_BYTES // (4 if result == "int32_t" else 2)
        for m, n, how in TILES:
            yield family, f"cutlass{m}x{n}{how.lower()}", TEXT.format(
                m=m, n=n, k=DEPTH_BYTES // size, sum=total, result=result, wide=wide, kind=kind,
                side=VECTOR_BYTES // size, right="Column" if along else "Row",
                how="Cooperative" if how == "Cooperative" else "", schedule=how + fast,
            )  # fmt: skip


def main(folder: str, include: str, arch: str = "sm_90a") -> None:
    """Write each text with nvcc's options; 384 threads are a producer and two warpgroups."""
    options = [f"-I{include}", "--expt-relaxed-constexpr", "-DNDEBUG", "-w"]
    for family, name, text in texts():
        place = Path(folder, f"{arch}.{family}.{name}")
        place.with_name(f"{place.name}.cu").write_text(text, encoding="utf-8")
        facts = {"threads": 384, "options": options}
        place.with_name(f"{place.name}.json").write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

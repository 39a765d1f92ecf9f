// CUTLASS's warp-specialised GEMM with TMA and a cluster of two blocks, and its parameters, which
// host code fills in.  The driver's call that makes tensor maps makes those of the emulator.
#include <cstring>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

using namespace cute;
using Half = cutlass::half_t;
using Large = Shape<_128, _128, _64>;
using Cluster = Shape<_2, _1, _1>;
using Schedule = cutlass::gemm::KernelTmaWarpSpecialized;
using Epilogue = cutlass::epilogue::NoSmemWarpSpecialized;
using Row = cutlass::layout::RowMajor;

using Last = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Large, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Half, Row, 8, Half, Row, 8,
    Epilogue>::CollectiveOp;
using Main = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, Row, 8, Half, Row, 8, float, Large,
    Cluster, cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Last::SharedStorage))>,
    Schedule>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Main, Last>;

template __global__ void cutlass::device_kernel<Kernel>(
    CUTLASS_GRID_CONSTANT typename Kernel::Params const);

struct Map {  // TensorMap of the emulator's runtime/interface.h
  uint64_t base, extent[5], stride[5];
  uint32_t box[5];
  uint8_t rank, element, swizzle, type;
  uint32_t magic, spare[3];
};
extern "C" CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* base, const cuuint64_t* extent,
    const cuuint64_t* stride, const cuuint32_t* box, const cuuint32_t* step,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
  Map m{};
  bool half = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16;  // plain loads are of integers
  if ((!half && type != CU_TENSOR_MAP_DATA_TYPE_UINT16) || interleave || fill) return CUDA_ERROR_INVALID_VALUE;
  const uint8_t spans[] = {0, 1, 2, 4};
  m.base = uint64_t(base);
  m.rank = uint8_t(rank), m.element = 2, m.swizzle = spans[int(swizzle)], m.type = half ? 0 : 255;
  m.magic = 0x7e45a9b1;
  m.stride[0] = 2;
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (step[i] != 1) return CUDA_ERROR_INVALID_VALUE;
    m.extent[i] = extent[i], m.box[i] = box[i];
    if (i) m.stride[i] = stride[i - 1];
  }
  std::memcpy(to, &m, sizeof m);
  return CUDA_SUCCESS;
}

// The parameters' bytes, and the launch: grid, threads, shared memory; gives how many bytes.
extern "C" int parameters(uint64_t a, uint64_t b, uint64_t c, int m, int n, int k, void* to, int* launch) {
  typename Kernel::Arguments given{
      cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1},
      {(Half*)a, cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1}),
       (Half*)b, cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1})},
      {{1.f, 0.f}, (Half*)c, cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1}),
       (Half*)c, cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1})}};
  given.hw_info.sm_count = 4;
  if (Kernel::can_implement(given) == false) return 0;
  auto params = Kernel::to_underlying_arguments(given, nullptr);
  dim3 grid = Kernel::get_grid_shape(params), block = Kernel::get_block_shape();
  int found[] = {int(grid.x), int(grid.y), int(grid.z), int(block.x), Kernel::SharedStorageSize,
                 int(alignof(typename Kernel::Params))};
  std::memcpy(launch, found, sizeof found);
  std::memcpy(to, &params, sizeof params);
  return int(sizeof params);
}

// What translated kernels call: instructions of the emulated GPU.  Defined by ../runtime.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace emu {

#ifndef EMU_LANES
#define EMU_LANES 32
#endif
constexpr uint32_t kLanes = EMU_LANES;  // of a warp, or of a wave
using Lanes = std::conditional_t<kLanes == 64, uint64_t, uint32_t>;  // a set of them

struct Dim3 {
  unsigned x, y, z;
};
#define EMU_CONSTANT __attribute__((const))

// Where a thread is.  Constant as long as a thread lives, so that calls can be merged.
Dim3 thread_index() EMU_CONSTANT;
Dim3 block_index() EMU_CONSTANT;
Dim3 block_size() EMU_CONSTANT;
Dim3 grid_size() EMU_CONSTANT;
enum class Special { lane, warp, warps, block_rank, cluster_blocks, cluster, clusters, sm, shared_bytes };
uint32_t special(Special which) EMU_CONSTANT;
uint64_t clock();

// Shared memory.  Addresses are those of the shared window: byte offsets, the block's rank on top.
void* dynamic_shared(size_t align);
void* static_shared(int id, size_t bytes, size_t align);
uint32_t shared_address(const void* pointer);
void* shared_pointer(uint32_t address);
uint32_t rank_of(uint32_t address);
enum class Space { global, local, shared, shared_cta, shared_cluster };
bool in_space(uint64_t pointer, Space space);
uint32_t map_rank(uint32_t address, uint32_t rank);
uint64_t map_rank_generic(uint64_t pointer, uint32_t rank);
// Checked access to memory by an instruction; gives where the bytes are.
void* shared_load(uint32_t address, size_t bytes);
void* shared_store(uint32_t address, size_t bytes);
void* shared_atomic(uint32_t address, size_t bytes);
void* memory_load(const void* pointer, size_t bytes);
void* memory_store(void* pointer, size_t bytes);
void* memory_atomic(void* pointer, size_t bytes);

// An array of a thread's own whose elements are operands of instructions: they stay inside of it.
void enter_array(const void* first, size_t bytes);
void leave_array();
struct LocalArray {
  LocalArray(const void* first, size_t bytes) { enter_array(first, bytes); }
  ~LocalArray() { leave_array(); }
};

// Threads of a warp.  `lane` is absolute; votes give a ballot.
uint64_t shuffle(Lanes mask, uint64_t value, int lane);
Lanes ballot(Lanes mask, bool predicate);
uint64_t reduce(Lanes mask, uint64_t value, uint64_t (*combine)(uint64_t, uint64_t));
Lanes match(Lanes mask, uint64_t value);
bool elect(Lanes mask);
Lanes active_mask();
void warp_sync(Lanes mask);

// Barriers of a block and of a cluster.
void block_sync();
uint32_t block_vote(bool predicate);
void bar_sync(uint32_t id, uint32_t threads);
void bar_arrive(uint32_t id, uint32_t threads);
void cluster_arrive(bool release);
void cluster_wait(bool acquire);

// Fences.  Generic memory order between threads comes from barriers alone.
void fence_proxy_async();
void fence_barrier_init();
void set_max_registers(uint32_t registers, bool more);
void sleep();
[[noreturn]] void trap();
[[noreturn]] void unmodelled(const char* what);

// mbarriers.
void mbarrier_init(uint32_t address, uint32_t count);
void mbarrier_invalidate(uint32_t address);
void mbarrier_expect(uint32_t address, uint32_t bytes);
uint64_t mbarrier_arrive(uint32_t address, uint32_t count, bool release);
void mbarrier_arrive_copies(uint32_t address, bool counted);
void mbarrier_complete(uint32_t address, uint32_t bytes);
bool mbarrier_test(uint32_t address, uint32_t parity, bool acquire);
bool mbarrier_wait(uint32_t address, uint32_t parity, bool acquire);
bool mbarrier_test_state(uint32_t address, uint64_t state, bool acquire);
bool mbarrier_wait_state(uint32_t address, uint64_t state, bool acquire);

// Copies by threads (cp.async) and by the copy engine.
void copy_async(uint32_t target, const void* source, uint32_t bytes, uint32_t valid);
void copy_commit();
void copy_wait(uint32_t groups);
enum class Reduction { none, add, min, max, and_, or_, xor_ };
void tma_load(uint32_t target, const void* map, int rank, const int32_t* at, uint32_t barrier,
              int32_t ranks);
void tma_store(const void* map, int rank, const int32_t* at, uint32_t source, Reduction how);
enum class MapField {
  global_address, rank, box_dim, global_dim, global_stride, element_stride, elemtype,
  interleave_layout, swizzle_mode, fill_mode
};
void map_replace(void* map, MapField field, uint32_t axis, uint64_t value);
void bulk_load(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier,
               int32_t ranks);
void bulk_store(void* target, uint32_t source, uint32_t bytes);
void bulk_commit();
void bulk_wait(uint32_t groups, bool read);

// Tensor cores.
void register_moved(void* place);
enum class Type { f16, bf16, tf32, e4m3, e5m2, s8, u8, f32, s32 };
void ldmatrix(uint32_t* const* registers, int count, uint32_t row, bool transposed);
void stmatrix(const uint32_t* registers, int count, uint32_t row, bool transposed);
struct Mma {
  int k;
  Type result, a, b;
};
void mma(const Mma& shape, uint32_t* const* d, const uint32_t* a, const uint32_t* b,
         const uint32_t* c);
struct Wgmma {
  int n, k;
  Type result, a, b;
};
// `fragment` is null where A comes from shared memory by descriptor `a`.
void wgmma(const Wgmma& shape, uint32_t* const* d, uint64_t a, const uint32_t* fragment,
           uint64_t b, bool accumulate, int sign_a, int sign_b, bool mn_major_a, bool mn_major_b);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(uint32_t groups);
enum class Element { f16, bf16, s8, f32, f64, s32 };
// AMD's: square tiles of `side`, `depth` steps of the sum.
struct Mfma {
  uint32_t side, depth;
  Element operand, result;
};
void mfma(const Mfma& shape, void* d, const void* a, const void* b, const void* c);

}  // namespace emu

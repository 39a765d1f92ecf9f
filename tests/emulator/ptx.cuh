// PTX instructions as functions, as short as tests want them.
#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>
#define FN __device__ __forceinline__
FN uint32_t at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
FN void bar_init(void* b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(n)); }
FN void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
FN void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FN void expect(void* b, uint32_t n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(b)), "r"(n) : "memory");
}
FN void arrive(void* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory"); }
FN void wait(void* b, int parity) {
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
      "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}\n" ::"r"(at(b)), "r"(parity) : "memory");
}
FN void load2(void* s, const CUtensorMap* m, void* b, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];" ::"r"(at(s)), "l"(m), "r"(at(b)), "r"(x), "r"(y) : "memory");
}
FN void store2(const CUtensorMap* m, void* s, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
               ::"l"(m), "r"(at(s)), "r"(x), "r"(y) : "memory");
}
FN void commit_stores() { asm volatile("cp.async.bulk.commit_group;"); }
FN void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
FN void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
FN void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
FN void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
FN uint64_t descriptor(const void* p, uint32_t leading, uint32_t stride, uint64_t layout) {
  return (uint64_t)((at(p) & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | layout << 62;
}
FN void stmatrix4(void* p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at(p)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
FN void copy16(void* s, const void* g, uint32_t n) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at(s)), "l"(g), "r"(n) : "memory");
}
FN void commit_copies() { asm volatile("cp.async.commit_group;"); }
FN void wait_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
FN uint32_t halves(float low, float high) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

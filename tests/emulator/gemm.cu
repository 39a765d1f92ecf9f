
// D = A B^T by tiles of 64x64x64, a ring of STAGES, one producer and one consumer warpgroup.
#define STAGES 3
#define STEPS 5
FN void wgmma(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate));
}
extern "C" __global__ void __launch_bounds__(256) k(const __grid_constant__ CUtensorMap A,
    const __grid_constant__ CUtensorMap B, const __grid_constant__ CUtensorMap D) {
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* a = shared;
  unsigned char* b = shared + STAGES * 8192;
  unsigned char* epilogue = b + STAGES * 8192;
  uint64_t* full = (uint64_t*)(epilogue + 8192);
  uint64_t* empty = full + STAGES;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = blockIdx.x / 2 * 64, n = blockIdx.x % 2 * 64;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      bar_init(full + s, 1);
      bar_init(empty + s, 4);
    }
    fence_init();
  }
  __syncthreads();
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (int i = 0; i < STEPS; ++i) {
        int s = i % STAGES;
        wait(empty + s, (i / STAGES & 1) ^ 1);  // the slot is free
        expect(full + s, 16384);
        // A -> shared, because gemm reads it there [gemm.py:7]
        load2(a + s * 8192, &A, full + s, i * 64, m);
        load2(b + s * 8192, &B, full + s, i * 64, n);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[32];
  for (int i = 0; i < STEPS; ++i) {
    int s = i % STAGES;
    wait(full + s, i / STAGES & 1);  // the data is there
    wg_fence();
    for (int k = 0; k < 4; ++k)
      wgmma(d, descriptor(a + s * 8192 + k * 32, 16, 1024, 1), descriptor(b + s * 8192 + k * 32, 16, 1024, 1), i + k > 0);
    wg_commit();
    wg_wait();  // before the slot is given back
    if (lane == 0) arrive(empty + s);
  }
  int row = warp % 4 * 16 + lane % 16, high = lane / 16;
  for (int q = 0; q < 4; ++q) {
    float* r = d + 8 * q;
    stmatrix4(epilogue + row * 128 + ((q * 2 + high) ^ (row % 8)) * 16, halves(r[0], r[1]),
              halves(r[2], r[3]), halves(r[4], r[5]), halves(r[6], r[7]));
  }
  fence_async();  // for the store
  asm volatile("bar.sync 1, 128;" ::: "memory");
  if (threadIdx.x == 128) {
    store2(&D, epilogue, n, m);
    commit_stores();
    wait_stores();
  }
}

/* A stand-in for libcuda.so.1 that writes down what it is asked for. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char log_text[1 << 16];
static size_t used;
static int current = -1, fail_launch;
static long allocated;

static void note(const char* format, ...) {
  va_list words;
  va_start(words, format);
  used += (size_t)vsnprintf(log_text + used, sizeof log_text - used, format, words);
  va_end(words);
}

const char* fake_log(void) { return log_text; }
void fake_reset(void) { used = 0, log_text[0] = 0; }
void fake_fail_launch(int status) { fail_launch = status; }
long fake_allocated(void) { return allocated; }

int cuInit(unsigned flags) { note("cuInit %u\n", flags); return 0; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuCtxGetCurrent(void** context) { *context = current < 0 ? NULL : &current; return 0; }
int cuCtxGetDevice(int* device) { *device = current; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  note("retain device %d\n", device);
  *context = (void*)(intptr_t)(device + 100);
  return 0;
}
int cuCtxPushCurrent_v2(void* context) { current = (int)(intptr_t)context - 100; return 0; }
int cuCtxPopCurrent_v2(void** context) { (void)context; current = -1; return 0; }
int cuModuleLoadData(void** module, const void* image) {
  note("load %.8s\n", (const char*)image);
  *module = (void*)0x10;
  return 0;
}
int cuModuleUnload(void* module) { (void)module; return 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  (void)module;
  note("function %s\n", name);
  *function = strdup(name);
  return 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  note("attribute %d of %s is %d\n", attribute, (char*)function, value);
  return 0;
}
int cuTensorMapEncodeTiled(void* map, int dtype, uint32_t rank, void* address,
                           const uint64_t* extents, const uint64_t* strides, const uint32_t* box,
                           const uint32_t* steps, int interleave, int swizzle, int promotion,
                           int fill) {
  note("map type %d at %%%llx:", dtype, (unsigned long long)((uintptr_t)address & 0xfff));
  for (uint32_t i = 0; i < rank; i++)
    note(" %llu/%u*%u", (unsigned long long)extents[i], box[i], steps[i]);
  note(" strides");
  for (uint32_t i = 0; i + 1 < rank; i++) note(" %llu", (unsigned long long)strides[i]);
  note(" interleave %d swizzle %d promotion %d fill %d aligned %d\n", interleave, swizzle,
       promotion, fill, (uintptr_t)map % 64 == 0);
  memset(map, 0, 128);
  memcpy(map, &address, sizeof address);
  return 0;
}
typedef struct {
  uint32_t grid[3], block[3], shared;
  void* stream;
  struct { int id; char pad[4]; uint32_t value[16]; }* attributes;
  uint32_t count;
} Config;
int cuLaunchKernelEx(const Config* config, void* function, void** arguments, void** extra) {
  (void)extra;
  note("launch %s grid %u block %u shared %u stream %d", (char*)function, config->grid[0],
       config->block[0], config->shared, (int)(intptr_t)config->stream);
  for (uint32_t i = 0; i < config->count; i++)
    note(" attribute %d: %u %u %u", config->attributes[i].id, config->attributes[i].value[0],
         config->attributes[i].value[1], config->attributes[i].value[2]);
  note(" first %%%llx\n", (unsigned long long)(*(uint64_t*)arguments[0] & 0xfff));
  return fail_launch;
}
int cuMemAllocAsync(void** memory, size_t size, void* stream) {
  (void)stream;
  note("allocate %zu\n", size);
  *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  allocated++;
  return 0;
}
int cuMemFreeAsync(void* memory, void* stream) {
  (void)stream;
  free(memory);
  allocated--;
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == 700 ? "an illegal memory access was encountered" : "unknown";
  return 0;
}

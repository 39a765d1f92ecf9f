/* A stand-in for libamdhip64.so that writes down what it is asked for. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char log_text[1 << 14];
static size_t used;
static int current, fail_launch;
static long allocated;

static void note(const char* format, ...) {
  va_list words;
  va_start(words, format);
  used += (size_t)vsnprintf(log_text + used, sizeof log_text - used, format, words);
  va_end(words);
}

const char* fake_log(void) { return log_text; }
void fake_reset(void) { used = 0, log_text[0] = 0, fail_launch = 0; }
void fake_fail_launch(int status) { fail_launch = status; }
void fake_current(int device) { current = device; }
long fake_allocated(void) { return allocated; }

int hipInit(unsigned flags) { note("init %u\n", flags); return 0; }
int hipGetDeviceCount(int* count) { *count = 2; return 0; }
int hipGetDevice(int* device) { *device = current; return 0; }
int hipSetDevice(int device) { note("device %d\n", device); current = device; return 0; }
int hipModuleLoadData(void** module, const void* image) {
  note("load %.6s\n", (const char*)image);
  *module = (void*)0x10;
  return 0;
}
int hipModuleUnload(void* module) { (void)module; return 0; }
int hipModuleGetFunction(void** function, void* module, const char* name) {
  note("function %s of %d\n", name, (int)(intptr_t)module);
  *function = strdup(name);
  return 0;
}
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void* stream,
                          void** arguments, void** extra) {
  note("launch %s grid %u %u %u block %u %u %u shared %u stream %d extra %d first %%%llx last %g\n",
       (char*)function, gx, gy, gz, bx, by, bz, shared, (int)(intptr_t)stream, extra != NULL,
       (unsigned long long)(*(uint64_t*)arguments[0] & 0xfff), *(float*)arguments[2]);
  return fail_launch;
}
int hipMallocAsync(void** memory, size_t size, void* stream) {
  (void)stream;
  note("allocate %zu\n", size);
  *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  allocated++;
  return 0;
}
int hipFreeAsync(void* memory, void* stream) {
  (void)stream;
  free(memory);
  allocated--;
  return 0;
}
const char* hipGetErrorString(int status) {
  return status == 719 ? "unspecified launch failure" : "unknown";
}

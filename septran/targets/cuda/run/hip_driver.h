/* AMD's driver: HIP has a current device, and no contexts; a device's number + 1 stands for its. */
#include "driver.h"

#define DRIVER_VENDOR "AMD"
#define DRIVER_INTERFACE "HIP"
#define DRIVER_LIBRARIES \
  "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", \
      "/opt/rocm/lib/libamdhip64.so"
#define DRIVER_VARIABLE "SEPTRAN_LIBAMDHIP64"
#define DRIVER_FUNCTIONS \
  "hipInit", "hipGetDevice", "hipSetDevice", "hipModuleLoadData", "hipModuleUnload", \
      "hipModuleGetFunction", "hipModuleLaunchKernel", "hipMallocAsync", "hipFreeAsync", \
      "hipGetErrorString"

static struct {
  int (*init)(unsigned);
  int (*get_device)(int*);
  int (*set_device)(int);
  int (*load_module)(void**, const void*);
  int (*unload_module)(void*);
  int (*get_function)(void**, void*, const char*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**);
  int (*allocate)(void**, size_t, void*);
  int (*release)(void*, void*);
  const char* (*error_string)(int);
} hip;

/* The device that was current before a call, in the thread that calls. */
static _Thread_local int device_before;

static int hip_context(void** context) {
  int device;
  int status = hip.get_device(&device);
  *context = status ? NULL : (void*)(intptr_t)(device + 1);
  return status;
}

static int hip_retain(void** context, int device) {
  *context = (void*)(intptr_t)(device + 1);
  return 0;
}

static int hip_push(void* context) {
  int status = hip.get_device(&device_before);
  return status ? status : hip.set_device((int)(intptr_t)context - 1);
}

static int hip_pop(void** context) {
  (void)context;
  return hip.set_device(device_before);
}

/* A block has all of its local data share without asking. */
static int hip_attribute(void* function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return 0;
}

/* There are neither tensor maps nor clusters nor launches that begin early, and no program for
 * AMD's GPUs asks for one. */
static int hip_launch(const LaunchConfig* config, void* function, void** arguments, void** extra) {
  return hip.launch(function, config->grid[0], config->grid[1], config->grid[2], config->block[0],
                    config->block[1], config->block[2], config->shared_bytes, config->stream,
                    arguments, extra);
}

static int hip_error_string(int status, const char** text) {
  *text = hip.error_string(status);
  return 0;
}

static Driver adopted(void** found) {
  memcpy(&hip, found, sizeof hip); /* pointers of one size, in the order of the names */
  Driver fresh = {hip.init, hip_context, hip.get_device, hip_retain, hip_push, hip_pop,
                  hip.load_module, hip.unload_module, hip.get_function, hip_attribute, NULL,
                  hip_launch, hip.allocate, hip.release, hip_error_string};
  return fresh;
}

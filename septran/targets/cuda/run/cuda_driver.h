/* NVIDIA's driver: its functions are those of `Driver`. */
#include "driver.h"

#define DRIVER_VENDOR "NVIDIA"
#define DRIVER_INTERFACE "CUDA"
#define DRIVER_LIBRARIES "libcuda.so.1"
#define DRIVER_VARIABLE "SEPTRAN_LIBCUDA"
#define DRIVER_FUNCTIONS \
  "cuInit", "cuCtxGetCurrent", "cuCtxGetDevice", "cuDevicePrimaryCtxRetain", \
      "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuModuleLoadData", "cuModuleUnload", \
      "cuModuleGetFunction", "cuFuncSetAttribute", "cuTensorMapEncodeTiled", \
      "cuLaunchKernelEx", "cuMemAllocAsync", "cuMemFreeAsync", "cuGetErrorString"

static Driver adopted(void** found) {
  Driver fresh;
  memcpy(&fresh, found, sizeof fresh); /* pointers of one size, in the order of the names */
  return fresh;
}

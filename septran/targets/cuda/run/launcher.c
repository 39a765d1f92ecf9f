/* Kernels of code objects as functions of apache-tvm-ffi: ``create(program, size, cubin, size, key)``. */
#ifdef SEPTRAN_HIP
#include "hip_driver.h"
#else
#include "cuda_driver.h"
#endif
#include "launcher.h"

/* The first kernel of each key: others of the key, for calls of other extents, launch its
 * functions. It stays as long as the library does. */
static Kernel* first_ones;
static char sharing;

static void share(Kernel* kernel, int64_t key) {
  while (__atomic_test_and_set(&sharing, __ATOMIC_ACQUIRE)) { /* another thread makes one */
  }
  Kernel* found = first_ones;
  while (found && found->key != key) found = found->next;
  if (found) {
    kernel->like = found;
  } else {
    kernel->key = key;
    kernel->next = first_ones;
    first_ones = kernel;
  }
  __atomic_clear(&sharing, __ATOMIC_RELEASE);
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_create(void* self, const TVMFFIAny* args, int32_t count,
                                        TVMFFIAny* result) {
  (void)self;
  if (count != 5 || args[1].v_int64 != (int64_t)sizeof(Program))
    return failed("septran.DriverError", "the launcher is that of another version of SepTran");
  Kernel* kernel = septran_kernel((const Program*)args[0].v_int64);
  void* code = malloc((size_t)args[3].v_int64);
  if (!kernel || !kernel->caches || !code)
    return failed("septran.DriverError", "no memory is left for a kernel");
  memcpy(code, (const void*)args[2].v_int64, (size_t)args[3].v_int64);
  kernel->code = code;
  if (args[4].v_int64) share(kernel, args[4].v_int64);
  TVMFFIObjectHandle function = NULL;
  int status = TVMFFIFunctionCreate(kernel, septran_call, septran_delete, &function);
  result->type_index = kTVMFFIFunction;
  result->v_obj = (TVMFFIObject*)function;
  return status;
}

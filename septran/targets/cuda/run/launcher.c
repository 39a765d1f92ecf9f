/* Kernels of cubins as functions of apache-tvm-ffi: ``create(program, size, cubin, size)``. */
#include "launcher.h"

TVM_FFI_DLL_EXPORT int __tvm_ffi_create(void* self, const TVMFFIAny* args, int32_t count,
                                        TVMFFIAny* result) {
  (void)self;
  if (count != 4 || args[1].v_int64 != (int64_t)sizeof(Program))
    return failed("septran.DriverError", "the launcher is that of another version of SepTran");
  Kernel* kernel = septran_kernel((const Program*)args[0].v_int64);
  void* code = malloc((size_t)args[3].v_int64);
  if (!kernel || !kernel->caches || !code)
    return failed("septran.DriverError", "no memory is left for a kernel");
  memcpy(code, (const void*)args[2].v_int64, (size_t)args[3].v_int64);
  kernel->code = code;
  TVMFFIObjectHandle function = NULL;
  int status = TVMFFIFunctionCreate(kernel, septran_call, septran_delete, &function);
  result->type_index = kTVMFFIFunction;
  result->v_obj = (TVMFFIObject*)function;
  return status;
}

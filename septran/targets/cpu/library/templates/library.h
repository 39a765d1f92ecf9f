/* @name@: @list@, as a library that needs neither SepTran nor TVM nor Python.
 *
 * Written by SepTran @version@. For C and C++.
 *
 * Every tensor is contiguous, row by row (the last index is the fastest), and lies at a multiple of
 * its element's size; nothing more is asked of its address. Elements of float16, bfloat16 and the
 * floats of 8 bits are integers of as many bits here; those of bool are bytes that are 0 or 1.
 * A function keeps nothing and may be called by several threads at once, for different results.
 * It allocates what it needs meanwhile, and gives it back.
 */
#ifndef @upper@_H
#define @upper@_H

#include <stddef.h>
#include <stdint.h>

#define @upper@_VERSION "@version@" /* of the SepTran that wrote it */
#define @upper@_ABI @abi@ /* of statuses, structs and the functions of this first part */
#define @upper@_BUILD "@build@" /* what the library itself says, if it is this header's */

#if defined(__GNUC__)
#define @upper@_API __attribute__((visibility("default")))
#else
#define @upper@_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What a kernel returns. */
enum @prefix@_status {
  @upper@_DONE = 0,         /**< the results are there */
  @upper@_NO_PROCESSOR = 1, /**< none of its code is for this processor; nothing was computed */
  @upper@_NO_POINTER = 2,   /**< a tensor is NULL */
  @upper@_NOT_ALIGNED = 3,  /**< a tensor does not lie at a multiple of its element's size */
  @upper@_BAD_EXTENT = 4,   /**< an extent is beyond those that the kernel was made for */
  @upper@_NO_MEMORY = 5     /**< there was no memory for what it needs meanwhile */
};

/** What a kernel does with a tensor. */
enum @prefix@_role {
  @upper@_INPUT = 0,  /**< it is read */
  @upper@_OUTPUT = 1, /**< it is written, all of it */
  @upper@_SUMMED = 2  /**< it is read and added to */
};

/** A tensor that a kernel takes. */
typedef struct @prefix@_tensor {
  const char *name;     /**< as in the logic */
  const char *dtype;    /**< "float32", "bfloat16", "int8", ... */
  const char *extents;  /**< in words: "[M, 64]" */
  const int64_t *shape; /**< the extents, the greatest of those that a call tells */
  int32_t rank;         /**< how many there are */
  int32_t role;         /**< of enum @prefix@_role */
  size_t element_bytes; /**< of one element, and what its address is a multiple of */
} @prefix@_tensor;

/** A kernel of this library. */
typedef struct @prefix@_kernel {
  const char *name;
  const char *summary;    /**< a line on what it computes */
  const char *processors; /**< those that it has code for, the best first: "x86_64_v4 x86_64_v3" */
  const char *logic;      /**< SHA-256 of the logic that it was made from */
  const char *mapping;    /**< SHA-256 of the mapping that it was made from */
  int32_t tensor_count;
  const @prefix@_tensor *tensors; /**< in the order of the function's pointers */
} @prefix@_kernel;

/** The kernels of this library; their number where `count` is not NULL. */
@upper@_API const @prefix@_kernel *@prefix@_kernels(int32_t *count);

/** DONE where this processor runs all kernels, else NO_PROCESSOR. Asks once; never fails. */
@upper@_API int32_t @prefix@_supported(void);

/** The first feature that the code which asks least of this processor lacks here; "" if none. */
@upper@_API const char *@prefix@_lacking(void);

/** The processor that the kernel of this number has chosen code for; NULL where there is none. */
@upper@_API const char *@prefix@_processor(int32_t kernel);

/** A status in words. */
@upper@_API const char *@prefix@_message(int32_t status);

/** Lets parallel loops run on `count` threads, the caller among them; 0: as it was at first. */
@upper@_API void @prefix@_set_threads(int32_t count);

/** The threads of a parallel loop: those that were set, else SEPTRAN_THREADS of the environment,
 * else as many as processors that the calling thread may use. */
@upper@_API int32_t @prefix@_threads(void);

/** The ABI and the build of the library that is running, to compare with those above. */
@upper@_API int32_t @prefix@_abi(void);
@upper@_API const char *@prefix@_build(void);

@functions@
#ifdef __cplusplus
}
#endif

#endif

/* @summary@
 *
 * For @machine@, by @driver@. Written by SepTran @version@.
 * Logic @logic@, mapping @mapping@.
 *
 * Tensors, contiguous, row by row:
@arguments@
 */
#ifndef @upper@_H
#define @upper@_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels on a device, with the memory that they need meanwhile. Calls of one follow one another. */
typedef struct @name@_kernels @name@_kernels;

/* Take the first device, and give it the kernels of the file `code`: @code@. NULL where that fails. */
@name@_kernels *@name@_open(const char *code);

/* Run on memory of the host, and wait for the end. Like the next one it returns 0, or the driver's error. */
int32_t @name@(@name@_kernels *kernels@prototype@);

/* Put the kernels behind what is in `queue`, @queue@; NULL for one of their own.
 * `tensors` are the device's: @memory@. */
int32_t @name@_enqueue(@name@_kernels *kernels, void *queue, void *const tensors[@tensors@]@numbers@);
@extra@
void @name@_close(@name@_kernels *kernels);

/* What went wrong in this thread's last call. */
const char *@name@_error(void);

#ifdef __cplusplus
}
#endif
#endif

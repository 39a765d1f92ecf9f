/* @name@ for @machine@: @summary@
 * Written by SepTran @version@.
 *
 * The control program of one core, which fills the queues of the vendor's library (@header@) and
 * returns when all is done. Each of the @upper@_CORES cores runs it with its own number and the same
 * arguments; tensors lie in main memory, contiguous, row by row:
@arguments@
 * SHA-256 of its logic: @logic@
 * SHA-256 of its mapping: @mapping@
 */
#ifndef SEPTRAN_@upper@_H
#define SEPTRAN_@upper@_H

#include <stdint.h>

#include "@header@"

#define @upper@_CORES @cores@

#ifdef __cplusplus
extern "C" {
#endif

void @name@(@parameters@);

#ifdef __cplusplus
}
#endif

#endif

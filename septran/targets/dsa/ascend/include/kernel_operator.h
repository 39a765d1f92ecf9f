/* A part of Ascend C's interface, for a host's compiler: each call notes what the hardware would do.
 *
 * Names, parameters, units and limits are those of the vendor's published reference; nothing here is
 * the vendor's code. What a call moves or computes is appended as records of SepTran's simulator,
 * whose numbers `septran_machine.h` has, which is made from the machine file. A call that breaks a
 * rule of the reference (an alignment, a limit, a missing barrier of a pipe), or that this model
 * cannot say exactly, stops the recording with a message.
 *
 * Two memories are not held as the hardware lays them out, but so that the simulator's matrix unit
 * reads them: L0B's fractals are not turned, and L0C's lie row by row. Only LoadData, Mmad and
 * Fixpipe reach the two, and `Loads` and `Sums` check that these agree on how they lie.
 */
#ifndef SEPTRAN_KERNEL_OPERATOR_H
#define SEPTRAN_KERNEL_OPERATOR_H

#include "recorder.h"
#include "tensors.h"
#include "flags.h"
#include "copies.h"
#include "cube.h"
#include "vector.h"

#define ASCEND_IS_AIC (septran::enter(true))
#define ASCEND_IS_AIV (septran::enter(false))
#define KERNEL_TYPE_AIV_ONLY 5
#define KERNEL_TYPE_AIC_ONLY 6
#define KERNEL_TYPE_MIX_AIC_1_1 9
#define KERNEL_TASK_TYPE_DEFAULT(type) septran::task(type)

/* ---- what the host's process calls */

int32_t septran_line = 0;

extern "C" {
void septran_begin(int32_t core)
{
    septran::state = septran::State{};
    septran::state.core = core;
    septran_line = 0;
}
int64_t septran_take(const void **first)
{
    *first = septran::state.records.data();
    return septran::failed() ? -2 : int64_t(septran::state.records.size());
}
void septran_forget(void) { septran::state = septran::State{}; }
const char *septran_problem(void) { return septran::state.problem; }
}

#endif

"""One step of the forward variables of CTC, in logarithms (Graves et al., ICML 2006, eq. 6).

alpha and Y [B, S], logp [B, V] of this frame, label [B, S], skip [B, S] whether two may be skipped.
"""

from septran import task

EXAMPLE = {"B": 4, "S": 41, "V": 30}
CASES = ({"B": 3, "S": 9, "V": 12}, {"B": 2, "S": 131, "V": 50})


@task.define(leaf=True)
def step(Y, alpha, seen, emitted, skip):
    near = task.empty(seen.shape, task.float32, name="near")
    near[:, :] = task.where(task.inside(seen), seen, -1e30)
    one, two = near[:, 1], task.where(skip > 0, near[:, 0], -1e30)
    top = task.maximum(task.maximum(alpha, one), two)
    total = task.exp(alpha - top) + task.exp(one - top) + task.exp(two - top)
    Y[:] = top + task.log(total) + emitted


@task.define
def ctc_alpha(
    Y: task.Out["B", "S"],
    alpha: task.In["B", "S"],
    logp: task.In["B", "V"],
    label: task.In["B", "S", task.int32],
    skip: task.In["B", "S", task.uint8],
):
    for b in task.parallel_range(alpha.shape[0]):
        seen = task.window(alpha[b], size=3, padding=((2, 0),))
        task.launch(step, Y[b], alpha[b], seen, task.gather(logp[b], label[b]), skip[b])

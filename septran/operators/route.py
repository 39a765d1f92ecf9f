"""The routes of tokens to experts, in the order of the experts: what `moe` reads.

Of the logits G [T, E] of each token the k greatest choose its experts, among equals the first;
their softmax, over these k, is what they weigh. Route r is one of the T * k pairs of a token and
one of its experts: token [T * k] and weight [T * k] lie by expert, within one by token, those of
expert e from offsets[e] on, up to offsets[e + 1]. token and offsets [E + 1] are int64, weight is
float32, G any float dtype. Places are found by comparing all routes with each: it is for some
thousands of them. Source: Jiang et al., Mixtral of Experts, arXiv 2401.04088, section 2.1.
"""

from septran import task

EXAMPLE = {"T": 128, "E": 8}
CASES = (
    {"T": 23, "E": 5},
    {"T": 64, "E": 8, "k": 1},
    {"T": 9, "E": 12, "k": 3, "dtype": "float16"},
)


@task.define(leaf=True)
def choose_rows(experts, share, G, *, k: task.static):
    """Some tokens: their k experts, and the softmax of the logits that chose them."""
    top = task.empty((G.shape[0], k), G.dtype, name="top")
    task.topk(top, experts, G)
    wide = top.astype(task.float32)
    power = task.exp(wide - task.max(wide, axis=1, keepdims=True))
    share[:, :] = power / task.sum(power, axis=1, keepdims=True)


@task.define(leaf=True)
def order_routes(sorted, order, experts):
    """All routes in the order of their experts."""
    task.sort(sorted, order, experts)


@task.define(leaf=True)
def count_below(offsets, sorted):
    """How many routes are of experts before each."""
    below = sorted < task.index(offsets, 0)[:, None]
    offsets[:] = task.sum(task.where(below, 1, 0), axis=1)


@task.define(leaf=True)
def describe_routes(token, weight, order, share, *, k: task.static):
    """Some routes: each one's token, and its share."""
    token[:] = task.floor_divide(order, k)
    weight[:] = share


@task.define
def route(
    token: task.Out["T * k", task.int64],
    weight: task.Out["T * k", task.float32],
    offsets: task.Out["E + 1", task.int64],
    G: task.In["T", "E"],
    *,
    k: task.static = 2,
):
    """Experts of tokens, then the order of all routes, then what each one is."""
    task.require(1 <= k <= G.shape[1], f"k is {k}, and there are {G.shape[1]} experts")
    rows, routes = task.tunable("block_rows"), G.shape[0] * k
    experts = task.empty((G.shape[0], k), task.int64, name="experts")
    share = task.empty((G.shape[0], k), task.float32, name="share")
    tiles = (task.partition(x, shape=(rows, x.shape[1])) for x in (experts, share, G))
    Ep, Sp, Gp = tiles
    for i in task.parallel_range(Gp.shape[0]):
        task.launch(choose_rows, Ep[i, 0], Sp[i, 0], Gp[i, 0], k=k)
    ranked, order = (task.empty((1, routes), task.int64, name=n) for n in ("ranked", "order"))
    whole = (task.partition(x, shape=(1, routes)) for x in (ranked, order, experts.reshape(1, routes)))
    Rp, Op, Ap = whole
    for i in task.parallel_range(Rp.shape[0]):
        task.launch(order_routes, Rp[i, 0], Op[i, 0], Ap[i, 0])
    few = task.tunable("block_height")
    Fp = task.partition(offsets, shape=(few,))
    for i in task.parallel_range(Fp.shape[0]):
        task.launch(count_below, Fp[i], Rp[0, 0])
    width = task.tunable("block_width")
    first = order[0]
    chosen = task.gather(share.reshape(routes), first)
    Tp, Wp, Np, Cp = (task.partition(x, shape=(width,)) for x in (token, weight, first, chosen))
    for i in task.parallel_range(Tp.shape[0]):
        task.launch(describe_routes, Tp[i], Wp[i], Np[i], Cp[i], k=k)

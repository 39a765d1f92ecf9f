"""The routes of tokens to experts, in the order of the experts: what `moe` reads.

Of the logits G [T, E] of each token the k greatest choose its experts, among equals the first;
their softmax, over these k, is what they weigh. Route r is one of the T * k pairs of a token and
one of its experts: token [T * k] and weight [T * k] lie by expert, within one by token, those of
expert e from offsets[e] on, up to offsets[e + 1]. token and offsets [E + 1] are int64, G is of any
float dtype, and weight of the same. The order is a counting sort: a route's place is the number of
routes before it to the same expert, behind all routes to the experts before. Source: Jiang et al.,
Mixtral of Experts, arXiv 2401.04088, section 2.1; counting sort: Knuth, TAOCP 3, section 5.2.
"""

from septran import task

EXAMPLE = {"T": 128, "E": 8}
CASES = (
    {"T": 23, "E": 5},
    {"T": 64, "E": 8, "k": 1},
    {"T": 9, "E": 12, "k": 3, "dtype": "float16"},
)


@task.define(leaf=True)
def choose_rows(expert, share, G, *, k: task.static):
    """Some tokens: their k experts, and the softmax of the logits that chose them."""
    top = task.empty((G.shape[0], k), G.dtype, name="top")
    task.topk(top, expert, G)
    wide = top.astype(task.compute_dtype(G.dtype))
    power = task.exp(wide - task.max(wide, axis=1, keepdims=True))
    share[:, :] = power / task.sum(power, axis=1, keepdims=True)


@task.define(leaf=True)
def count_rows(place, seen, expert):
    """Some routes: how many were seen before each to the same expert."""
    mine = task.where(expert[:, None] == task.index(seen, 0)[None, :], 1, 0)
    before = seen[None, :] + task.cumsum(mine, axis=0, exclusive=True)
    place[:] = task.sum(before * mine, axis=1)
    seen[:] = seen + task.sum(mine, axis=0)


@task.define
def count_routes(place, total, expert):
    """All routes in order, with the number of each expert's so far."""
    step = task.tunable("block_height")
    seen = task.zeros(total.shape, task.int32, name="seen")
    Pp, Ep = (task.partition(x, shape=(step,)) for x in (place, expert))
    for i in task.sequential_range(Pp.shape[0]):
        task.launch(count_rows, Pp[i], seen, Ep[i])
    task.copy(total, seen)


@task.define(leaf=True)
def end_experts(offsets, total):
    """Where each expert's routes begin: behind those of the experts before."""
    before = task.index(total, 0)[None, :] < task.index(offsets, 0)[:, None]
    offsets[:] = task.sum(task.where(before, total[None, :], 0), axis=1)


@task.define(leaf=True)
def place_rows(place, source, expert, offsets, *, k: task.static):
    """Some routes: the place of each in the order of experts, and its token."""
    mine = expert[:, None] == task.index(offsets, 0)[None, :]
    place[:] = place + task.sum(task.where(mine, offsets[None, :], 0), axis=1)
    source[:] = task.floor_divide(task.index(place, 0), k)


@task.define
def put_routes(token, weight, place, source, share):
    """Each route to its place, which no other has."""
    for r in task.sequential_range(place.shape[0]):
        task.reduce_into(token[place[r]], source[r])
        task.reduce_into(weight[place[r]], share[r])


@task.define
def route(
    token: task.Out["T * k", task.int64],
    weight: task.Out["T * k"],
    offsets: task.Out["E + 1", task.int64],
    G: task.In["T", "E"],
    *,
    k: task.static = 2,
):
    """Experts of tokens, how many routes each has, and each route to its place."""
    task.require(1 <= k <= G.shape[1], f"k is {k}, and there are {G.shape[1]} experts")
    rows, step = task.tunable("block_rows"), task.tunable("block_width")
    routes = G.shape[0] * k
    expert = task.empty((G.shape[0], k), task.int32, name="expert")
    share = task.empty((G.shape[0], k), weight.dtype, name="share")
    Ep, Sp, Gp = (task.partition(x, shape=(rows, x.shape[1])) for x in (expert, share, G))
    for i in task.parallel_range(Gp.shape[0]):
        task.launch(choose_rows, Ep[i, 0], Sp[i, 0], Gp[i, 0], k=k)
    place = task.empty((routes,), task.int32, name="place")
    source = task.empty((routes,), task.int64, name="source")
    total = task.empty((G.shape[1],), task.int32, name="total")
    shares, experts = share.reshape(routes), expert.reshape(routes)
    for _ in task.parallel_range(1):
        task.launch(count_routes, place, total, experts)
    for _ in task.parallel_range(1):
        task.launch(end_experts, offsets, total)
    Pp, Np, Fp = (task.partition(x, shape=(step,)) for x in (place, source, experts))
    for i in task.parallel_range(Pp.shape[0]):
        task.launch(place_rows, Pp[i], Np[i], Fp[i], offsets, k=k)
    task.fill(token, 0)
    task.fill(weight, 0)
    for _ in task.parallel_range(1):
        task.launch(put_routes, token, weight, place, source, shares)

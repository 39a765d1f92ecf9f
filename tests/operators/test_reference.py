"""Every operator's logic, run in order on NumPy in float64, against torch in float64."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import torch

import septran
from septran import operators, task
from septran.errors import LogicError
from septran.runtime.torch_baseline import torch_function
from septran.task.errors import UnmetDemandError

TILINGS = ({}, {"block_M": 16, "block_N": 24, "block_K": 8, "block_rows": 7})
ROUNDOFF = 2.0**-53


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def run(name, *arrays, tiling, variants=None, **static):
    chooser = task.DefaultChooser(tiling, variants or {})
    return task.run(operators.load(name), *arrays, dtype="float64", chooser=chooser, **static)


def close(found, wanted, terms, size):
    """Within the error of summing `terms` products whose absolute sum is `size`, twice over."""
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    bound = 4 * (terms + 8) * ROUNDOFF * (np.asarray(size) + np.abs(wanted))
    assert np.all(np.isnan(wanted) | (np.abs(found - wanted) <= bound))


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("variant", ["gemm_core", "gemm_by_panels"])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, False), (True, False), (False, True)])
def test_gemm(tiling, variant, trans_a, trans_b):
    a, b = normal(50, 45), normal(45, 37, seed=1)
    given = (a.T if trans_a else a, b.T if trans_b else b)
    variants = {"gemm_core": variant}
    c = run("gemm", *given, tiling=tiling, variants=variants, trans_a=trans_a, trans_b=trans_b)
    close(c, a @ b, 45, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize("shape", list(itertools.product((0, 1, 33), repeat=3)), ids=str)
def test_gemm_of_every_small_shape(shape):
    m, n, k = shape
    a, b = normal(m, k), normal(k, n, seed=1)
    close(run("gemm", a, b, tiling=TILINGS[1]), a @ b, k, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_batched_gemm(tiling):
    a, b = normal(3, 50, 40), normal(3, 40, 30, seed=1)
    close(run("batched_gemm", a, b, tiling=tiling), a @ b, 40, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize("act", ["none", "relu", "gelu", "silu"])
def test_gemm_with_epilogue(act):
    a, b, bias = normal(50, 40), normal(40, 30, seed=1), normal(30, seed=2)
    functions = {
        "none": lambda x: x, "relu": torch.relu,
        "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
    }  # fmt: skip
    wanted = functions[act](torch.from_numpy(a @ b + bias))
    size = np.abs(a) @ np.abs(b) + np.abs(bias)
    for tiling in TILINGS:
        close(run("gemm_bias_act", a, b, bias, tiling=tiling, act=act), wanted, 40, 2 * size)


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_softmax(tiling):
    x = normal(70, 45)
    wanted = torch.softmax(torch.from_numpy(x), 1)
    close(run("softmax", x, tiling=tiling), wanted, 45, 1)


def test_softmax_of_a_row_with_nan_is_nan_in_that_row_only():
    x = normal(4, 9)
    x[2, 3] = np.nan
    y = run("softmax", x, tiling={})
    assert np.isnan(y[2]).all()
    assert np.isfinite(np.delete(y, 2, axis=0)).all()


def attended(q, k, v, mask=None):
    """torch's attention in float64, and the size that its rounding errors go with."""
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    gqa = q.shape[1] != k.shape[1]
    given = None if mask is None else torch.as_tensor(mask)
    wanted = torch.nn.functional.scaled_dot_product_attention(*tensors, given, enable_gqa=gqa)
    shared = q.shape[1] // max(1, k.shape[1])
    keys = np.repeat(k, shared, axis=1)
    scores = np.abs(q) @ np.abs(keys).transpose(0, 1, 3, 2)
    # errors of the scores enter through exp, so their size multiplies the weights' sum
    size = 16 * (2 + scores.max(initial=0.0)) * np.abs(v).max(initial=0.0)
    return wanted.numpy(), size


@pytest.mark.one_in(3)
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("m", "n"), [(50, 50), (20, 70), (70, 20), (1, 33), (33, 1), (3, 0), (0, 3)]
)
def test_attention(m, n, causal, tiling):
    q, k, v = (normal(2, 2, e, 16, seed=s) for s, e in enumerate((m, n, n)))
    mask = torch.ones(m, n, dtype=torch.bool).tril(n - m) if causal else None
    wanted, size = attended(q, k, v, mask)
    close(run("attention", q, k, v, tiling=tiling, causal=causal), wanted, n + 16, size)


@pytest.mark.parametrize("head", [0, 1, 32, 80, 128, 256])
def test_attention_of_each_head_size(head):
    q, k, v = (normal(1, 4, 9, head), *(normal(1, 2, 13, head, seed=s) for s in (1, 2)))
    if head == 0:  # nothing to compute, and nothing to divide by
        assert run("attention", q, k, v, tiling={}).shape == (1, 4, 9, 0)
        return
    wanted, size = attended(q, k, v)
    close(run("attention", q, k, v, tiling={}), wanted, 13 + head, size)


@pytest.mark.one_in(15)
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("starts", "key_starts"),
    [
        ([0, 17, 40], [0, 17, 40]),  # one behind the other
        ([0, 17, 17, 18, 40], [0, 30, 33, 35, 40]),  # one without queries, one of a single query
        ([3, 20, 38], [5, 5, 6]),  # queries of nobody, no keys, fewer keys than queries
        ([10, 40, 5, 12], [0, 20, 10, 40]),  # sections that lie over each other, one reversed
    ],
)
def test_attention_varlen(starts, key_starts, causal, tiling):
    q, k, v = (normal(40, 4, 16), *(normal(40, 2, 16, seed=s) for s in (1, 2)))
    wanted, size = np.zeros_like(q), np.ones_like(q)
    for (low, high), places in zip(*map(itertools.pairwise, (starts, key_starts)), strict=True):
        rows = [q[low:high], *(x[slice(*places)] for x in (k, v))]
        m, n = len(rows[0]), len(rows[1])
        mask = torch.ones(m, n, dtype=torch.bool).tril(n - m) if causal else None
        if m:
            given = (np.ascontiguousarray(x.swapaxes(0, 1)[None]) for x in rows)
            found, size[low:high] = attended(*given, mask)
            wanted[low:high] = found[0].swapaxes(0, 1)
    given = q, k, v, np.array(starts), np.array(key_starts)
    close(run("attention_varlen", *given, tiling=tiling, causal=causal), wanted, 56, size)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (32, 5), (64, 64)])
@pytest.mark.parametrize(("m", "n"), [(50, 50), (20, 70), (70, 20)])
def test_block_sparse_attention(m, n, rows, columns, causal, tiling):
    q, k, v = (normal(2, 4, m, 16), *(normal(2, 2, n, 16, seed=s) for s in (1, 2)))
    blocks = np.random.default_rng(3).integers(0, 2, (2, 4, -(-m // rows), -(-n // columns)))
    blocks[0, 1] = 0  # a head that sees nothing
    seen = blocks.repeat(rows, axis=2)[:, :, :m].repeat(columns, axis=3)[..., :n] > 0
    seen = np.tril(seen, n - m) if causal else seen
    wanted, size = attended(q, k, v, seen)
    flags = {"rows": rows, "columns": columns, "causal": causal}
    given = q, k, v, blocks.astype(np.uint8)
    close(run("block_sparse_attention", *given, tiling=tiling, **flags), wanted, n + 16, size)


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize(
    ("m", "n", "window"), [(50, 50, 7), (20, 70, 30), (70, 20, 5), (1, 33, 1), (40, 40, 99)]
)
@pytest.mark.one_in(3)
def test_sliding_attention(m, n, window, cap, tiling):
    q, k, v = (normal(2, 4, m, 16), *(normal(2, 2, n, 16, seed=s) for s in (1, 2)))
    scores = q @ np.repeat(k, 2, axis=1).transpose(0, 1, 3, 2) / 4
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    seen = np.triu(np.tril(np.ones((m, n), dtype=bool), n - m), n - m - window + 1)
    weights = np.where(seen, np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    wanted = weights / np.where(total == 0, 1, total) @ np.repeat(v, 2, axis=1)
    size = 16 * (2 + np.abs(q).max() * np.abs(k).max() * 4) * np.abs(v).max()
    found = run("sliding_attention", q, k, v, tiling=tiling, window=window, cap=cap)
    close(found, wanted, n + 16, size)


@pytest.mark.parametrize("groups", [1, 2, 6], ids=("MQA", "GQA", "MHA"))
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_attention_with_a_bias_that_hides_keys(groups, tiling):
    q, k, v = (normal(2, 6, 30, 16), *(normal(2, groups, 40, 16, seed=s) for s in (1, 2)))
    bias = normal(2, 6, 30, 40, seed=3)
    bias[normal(2, 6, 30, 40, seed=4) > 1] = -np.inf
    bias[0, 1, 7] = -np.inf  # a query that sees no key
    wanted, size = attended(q, k, v, bias)
    found = run("attention_bias", q, k, v, bias, tiling=tiling)
    assert not found[0, 1, 7].any()
    close(found, wanted, 56, size)


VARIANTS = ("gradients", "gradients_by_heads")


def differentiated(q, k, v, do, tiling, causal=False, variant="gradients"):
    """O, L, dQ, dK and dV, all in float64 but for L, whose type is float32."""
    o, lse = run("attention_lse", q, k, v, tiling=tiling, causal=causal)
    given, variants = (q, k, v, o, lse.astype("float32"), do), {"gradients": variant}
    found = run("attention_backward", *given, tiling=tiling, variants=variants, causal=causal)
    return o, lse, *found


@pytest.mark.one_in(9, first=3)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize(("m", "n"), [(20, 70), (70, 20), (33, 1), (0, 3)])
def test_gradient_of_attention(m, n, tiling, causal, variant):
    q, do = (normal(2, 4, m, 16, seed=s) for s in (0, 3))
    k, v = (normal(2, 2, n, 16, seed=s) for s in (1, 2))
    o, lse, *found = differentiated(q, k, v, do, tiling, causal, variant)

    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    keys = tensors[1].repeat_interleave(2, 1)
    scores = tensors[0] @ keys.transpose(-1, -2) / 4
    if causal:
        scores = scores.masked_fill(~torch.ones(m, n, dtype=torch.bool).tril(n - m), -np.inf)
    wanted = torch.logsumexp(scores, -1).detach().numpy()
    assert np.array_equal(np.isneginf(lse), np.isneginf(wanted))
    seen = np.isfinite(wanted)
    close(lse[seen], wanted[seen], n + 16, 32)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)  # a query that sees no key
    theirs = torch.autograd.grad(weights @ tensors[2].repeat_interleave(2, 1), tensors,
                                 torch.from_numpy(do))  # fmt: skip
    # L is rounded to float32, so each weight and slope is changed by this share of itself.
    share = 2.0**-24 * np.abs(wanted[seen]).max(initial=1.0) + 200 * ROUNDOFF
    p = weights.detach().numpy()
    heads = np.repeat(np.abs(v), 2, axis=1)
    slopes = p * (np.abs(do) @ heads.transpose(0, 1, 3, 2) + np.abs(o * do).sum(-1)[..., None])

    def shared(x):
        return x.reshape(2, 2, 2, n, 16).sum(2)

    sizes = (
        slopes @ np.repeat(np.abs(k), 2, axis=1) / 4,
        shared(slopes.transpose(0, 1, 3, 2) @ np.abs(q)) / 4,
        shared(p.transpose(0, 1, 3, 2) @ np.abs(do)),
    )
    for ours, other, size in zip(found, theirs, sizes, strict=True):
        assert ours.shape == tuple(other.shape)
        assert np.all(np.abs(ours - np.nan_to_num(other.numpy())) <= 2 * share * size + 1e-300)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck_of_attention(causal, variant):
    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            ctx.save_for_backward(q, k, v)
            arrays = (x.numpy() for x in (q, k, v))
            return torch.from_numpy(run("attention", *arrays, tiling=TILINGS[1], causal=causal))

        @staticmethod
        def backward(ctx, do):
            arrays = (x.numpy() for x in (*ctx.saved_tensors, do))
            found = differentiated(*arrays, TILINGS[1], causal, variant)
            return tuple(map(torch.from_numpy, found[2:]))

    shapes = (1, 2, 4, 3), (1, 1, 5, 3), (1, 1, 5, 3)
    given = [torch.from_numpy(normal(*s, seed=n)).requires_grad_() for n, s in enumerate(shapes)]
    assert torch.autograd.gradcheck(Attention.apply, given, fast_mode=True)


@pytest.mark.parametrize("n", [0, 1, 40, 600])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.one_in(3)
def test_attention_decode(n, groups):
    q, k, v = (normal(2, 6, 16), *(normal(2, groups, n, 16, seed=s) for s in (1, 2)))
    wanted, size = attended(q[:, :, None], k, v)
    found = run("attention_decode", q, k, v, tiling={"split_N": 64, "block_N": 24})
    close(found, wanted[:, :, 0], n + 16, size)


@pytest.mark.parametrize("tiling", [{}, {"block_H": 2, "block_N": 7}])
def test_mla_decode(tiling):
    q, r = normal(2, 5, 24), normal(2, 5, 8, seed=1)
    latents, p = normal(2, 33, 24, seed=2), normal(2, 33, 8, seed=3)
    scores = (q @ latents.transpose(0, 2, 1) + r @ p.transpose(0, 2, 1)) / np.sqrt(192)
    wanted = torch.softmax(torch.from_numpy(scores), -1).numpy() @ latents
    size = 16 * (2 + np.abs(scores).max()) * np.abs(latents).max()
    close(run("mla_decode", q, r, latents, p, tiling=tiling), wanted, 65, size)


@pytest.mark.parametrize("tiling", [{}, {"block_N": 7, "block_E": 3}])
@pytest.mark.parametrize("n", [0, 1, 30])
def test_linear_attention(n, tiling):
    q, k, v = (normal(1, 2, n, e, seed=s) for s, e in enumerate((8, 8, 5)))
    scores = np.tril(q @ k.transpose(0, 1, 3, 2))
    size = np.abs(q) @ np.abs(k).transpose(0, 1, 3, 2) @ np.abs(v)
    close(run("linear_attention", q, k, v, tiling=tiling), scores @ v, 8 + 2 * n, size)


@pytest.mark.parametrize("tiling", [{}, {"block_N": 7, "block_E": 3}, {"block_N": 1}])
@pytest.mark.parametrize("n", [0, 1, 30])
@pytest.mark.one_in(2, first=1)
def test_gated_delta_rule(n, tiling):
    """Step by step, beside chunks that are systems; torch's chunks are of 64 steps."""
    q, k, v = (normal(1, 2, n, e, seed=s) for s, e in enumerate((8, 8, 5)))
    forget, write = (3 * normal(1, 2, n, seed=s) for s in (3, 4))
    keep, beta = (1 / (1 + np.exp(-x)) for x in (forget, write))
    queries, keys = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    state, wanted = np.zeros((1, 2, 8, 5)), np.zeros(v.shape)
    for t in range(n):
        state = keep[:, :, t, None, None] * state
        error = v[:, :, t] - np.einsum("bhde,bhd->bhe", state, keys[:, :, t])
        state += np.einsum("bhd,bhe->bhde", keys[:, :, t], beta[:, :, t, None] * error)
        wanted[:, :, t] = np.einsum("bhde,bhd->bhe", state, queries[:, :, t])
    # No step makes the state longer but by a value: the factors of older ones are at most 1.
    size = np.abs(v).sum(axis=2, keepdims=True) + np.zeros(v.shape)
    given = (q, k, v, forget, write)
    close(run("gated_delta_rule", *given, tiling=tiling), wanted, 8 * (8 + n), size)
    if n:
        _, chunks = torch_function("gated_delta_rule", {})
        close(chunks(*map(torch.from_numpy, given)).numpy(), wanted, 8 * (8 + n), size)


@pytest.mark.parametrize("tiling", [{}, {"block_T": 7, "block_D": 3}, {"scan": "doubled"}])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 70])
def test_linear_recurrence(steps, reverse, tiling):
    """Step by step, as torch does it."""
    a, x = np.tanh(normal(2, steps, 5)), normal(2, steps, 5, seed=1)
    _, function = torch_function("linear_recurrence", {"reverse": reverse})
    wanted, size = (
        function(*map(torch.from_numpy, given)).numpy() for given in ((a, x), (abs(a), abs(x)))
    )
    found = run("linear_recurrence", a, x, tiling=tiling, reverse=reverse)
    close(found, wanted, 2 * steps, size)


@pytest.mark.parametrize("tiling", [{}, {"block_N": 7, "block_E": 3}, {"block_N": 1}])
@pytest.mark.parametrize("steps", [0, 1, 70])
@pytest.mark.one_in(2, first=1)
def test_ssd(steps, tiling):
    """Step by step, beside chunks, torch's of 64 steps. A step keeps at most the whole state."""
    x, b, c = normal(2, steps, 4, 5), normal(2, steps, 2, 6, seed=1), normal(2, steps, 2, 6, seed=2)
    decay = normal(2, steps, 4, seed=3) / 4
    states = [np.zeros((2, 4, 6, 5))] * 2
    wanted, size = np.zeros(x.shape), np.zeros(x.shape)
    for t in range(steps):
        keep = np.exp(np.minimum(decay[:, t], 0))[..., None, None]
        key, query = (np.repeat(z[:, t], 2, axis=1) for z in (b, c))
        # The second state and result are sums of absolute values.
        for n, (result, of) in enumerate(((wanted, np.positive), (size, np.abs))):
            states[n] = keep * states[n] + of(key)[..., None] * of(x[:, t])[:, :, None]
            result[:, t] = np.einsum("nhsp,nhs->nhp", states[n], of(query))
    close(run("ssd", x, decay, b, c, tiling=tiling), wanted, 4 * (6 + steps), size)
    if steps:
        _, chunks = torch_function("ssd", {})
        found = chunks(*map(torch.from_numpy, (x, decay, b, c))).numpy()
        close(found, wanted, 4 * (6 + steps), size)


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("shape", [(20, 45), (1, 1), (0, 5), (3, 300)], ids=str)
def test_norms(name, shape, tiling):
    x, w, bias = normal(*shape), normal(shape[1], seed=1), normal(shape[1], seed=2)
    given = (x, w) if name == "rms_norm" else (x, w, bias)
    tensors = [torch.from_numpy(y) for y in given]
    function = getattr(torch.nn.functional, name)
    wanted = function(tensors[0], shape[1:], *tensors[1:], eps=1e-5)
    size = (1 + np.abs(x).max(initial=0)) * (1 + np.abs(w)) + np.abs(bias)
    if name == "layer_norm" and shape[1] == 1:
        size = 300 * size  # 1/sqrt(eps) of the rounding in x - mean
    close(run(name, *given, tiling=tiling, eps=1e-5), wanted, 4 * shape[1], size)


@pytest.mark.parametrize("depth", [1, 7, 16, 1000])
@pytest.mark.parametrize("k", [0, 1, 45])
def test_gemm_splitk(k, depth):
    a, b = normal(20, k), normal(k, 13, seed=1)
    found = run("gemm_splitk", a, b, tiling={"split_K": depth})
    close(found, a @ b, k, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize(("bits", "group"), [(4, 2), (4, 32), (8, 32), (8, 96)])
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_dequant_gemm_is_dequantise_then_matmul(bits, group, tiling):
    rng = np.random.default_rng(0)
    low, high = (0, 16) if bits == 4 else (-128, 128)
    w = rng.integers(low, high, (96, 21))
    a, scale = normal(10, 96), normal(96 // group, 21, seed=1)
    zero = rng.integers(low, high, scale.shape).astype("float64")
    wide = (w - zero.repeat(group, 0)) * scale.repeat(group, 0)
    packed = w.astype("int8").view("uint8")
    if bits == 4:
        halves = packed.reshape(-1, 2, group // 2, 21)
        packed = (halves[:, 0] | halves[:, 1] << 4).reshape(48, 21)
    static = {"bits": bits, "group": group}
    found = run("dequant_gemm", a, packed, scale, zero, tiling=tiling, **static)
    close(found, a @ wide, 96, np.abs(a) @ np.abs(wide))


@pytest.mark.parametrize(("group", "row_group"), [(2, 0), (32, 0), (32, 32), (16, 48)])
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_w4a8_gemm_is_a_product_of_what_rows_are_rounded_to(group, row_group, tiling):
    rng = np.random.default_rng(0)
    w = rng.integers(-8, 8, (96, 21))
    a, scale = normal(10, 96), normal(96 // group, 21, seed=1)
    a[3] = 0
    pieces = a.reshape(10, -1, row_group or 96)
    s = np.abs(pieces).max(2, keepdims=True) / 127
    s[3] = 1
    rows, wide = (np.rint(pieces / s) * s).reshape(a.shape), w * scale.repeat(group, 0)
    halves = (w + 8).astype("uint8").reshape(-1, 2, group // 2, 21)
    packed = (halves[:, 0] | halves[:, 1] << 4).reshape(48, 21)
    found = run("w4a8_gemm", a, packed, scale, tiling=tiling, group=group, row_group=row_group)
    close(found, rows @ wide, 96, np.abs(rows) @ np.abs(wide))


@pytest.mark.parametrize("block", [7, 32])
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize(
    "variants",
    [{}, {"fp8_core": "fp8_widened"}, {"fp8_block": "fp8_block_as_it_is"}],
    ids=("widened by blocks", "widened once", "as they are"),
)
@pytest.mark.one_in(3, first=1)
def test_fp8_gemm_scales_blocks(block, tiling, variants):
    kind = ml_dtypes.float8_e4m3fn
    a, b = normal(10, 80).astype(kind), normal(45, 80, seed=1).astype(kind)
    across = -(-80 // block)
    scales = normal(10, across, seed=2), normal(-(-45 // block), across, seed=3)
    of_rows, of_blocks = (s.astype("float32") for s in scales)
    left = a.astype(float) * of_rows.repeat(block, 1)[:, :80]
    right = b.astype(float) * of_blocks.repeat(block, 0)[:45].repeat(block, 1)[:, :80]
    found = run("fp8_gemm", a, b, of_rows, of_blocks, tiling=tiling, variants=variants, block=block)
    close(found, left @ right.T, 80, np.abs(left) @ np.abs(right.T))
    _, function = torch_function("fp8_gemm", {"block": block})
    given = (torch.from_numpy(np.asarray(x, "float64")) for x in (a, b, of_rows, of_blocks))
    close(function(*given).numpy(), left @ right.T, 80, np.abs(left) @ np.abs(right.T))


UNARY = operators.module("elementwise").FUNCTIONS
BINARY = operators.module("elementwise_binary").FUNCTIONS
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 710.0, -745.0, 1e300]
)


def alike(found, wanted, steps=8):
    """Equal but for rounding, with NaN and infinities in the same places."""
    wanted = np.asarray(wanted)
    with np.errstate(all="ignore"):
        near = np.abs(found - wanted) <= steps * ROUNDOFF * np.abs(wanted) + 1e-320
    assert np.all(near | (found == wanted) | (np.isnan(found) & np.isnan(wanted)))


@pytest.mark.parametrize("function", UNARY)
def test_elementwise(function):
    x = np.concatenate([SPECIAL, normal(300)])[None]
    torchs = getattr(torch, function, None) or getattr(torch.nn.functional, function)
    found = run("elementwise", x, tiling=TILINGS[1], function=function)
    alike(found, torchs(torch.from_numpy(x)))


@pytest.mark.parametrize("function", BINARY)
def test_elementwise_binary(function):
    pairs = np.array(list(itertools.product([*SPECIAL, 0.3, -7.0], repeat=2))).T
    a, b = np.ascontiguousarray(pairs[0])[None], np.ascontiguousarray(pairs[1])[None]
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    torchs = getattr(torch, function, lambda x, y: torch.nn.functional.silu(x) * y)
    alike(run("elementwise_binary", a, b, tiling=TILINGS[1], function=function), torchs(x, y))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("function", operators.module("reduce").FUNCTIONS)
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_reduce(function, value, tiling):
    x = normal(20, 45)
    x[3, 7] = value
    t = torch.from_numpy(x)
    wanted = {
        "sum": lambda: t.sum(1), "mean": lambda: t.mean(1), "max": lambda: t.amax(1),
        "min": lambda: t.amin(1), "sum_of_squares": lambda: (t * t).sum(1),
    }[function]().numpy()  # fmt: skip
    found = run("reduce", x, tiling=tiling, function=function)
    plain = np.isfinite(wanted)
    assert np.array_equal(found[~plain], wanted[~plain], equal_nan=True)
    close(found[plain], wanted[plain], 45, np.abs(x[plain]).sum(1) + (x[plain] ** 2).sum(1))


@pytest.mark.parametrize("shape", [(30, 3, 22), (1, 1, 2), (0, 2, 4), (5, 0, 4)], ids=str)
def test_rope(shape):
    s, _, d = shape
    x, angle = normal(*shape), normal(s, d // 2, seed=1)
    cos, sin = np.cos(angle), np.sin(angle)
    turned = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * np.exp(1j * angle)[:, None]
    wanted = np.concatenate([turned.real, turned.imag], -1)
    close(run("rope", x, cos, sin, tiling={"block_S": 7}), wanted, 4, 4 * np.abs(x).max(initial=0))


@pytest.mark.parametrize("k", [1, 4, 45])
def test_topk(k):
    x = np.random.default_rng(0).permutation(20 * 45).reshape(20, 45) / 7.0
    x[4, 3] = np.inf
    values, indices = torch.topk(torch.from_numpy(x), k, 1)
    found = run("topk", x, tiling=TILINGS[1], k=k)
    assert np.array_equal(found[0], values.numpy())
    assert np.array_equal(found[1], indices.numpy())


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(tiling, reverse, exclusive):
    x = normal(50, 145)
    along = torch.from_numpy(x).flip(1) if reverse else torch.from_numpy(x)
    wanted = along.cumsum(1) - along * exclusive
    size = along.abs().cumsum(1)
    wanted, size = (t.flip(1) if reverse else t for t in (wanted, size))
    flags = {"reverse": reverse, "exclusive": exclusive}
    close(run("cumsum", x, tiling={**tiling, "block_width": 24}, **flags), wanted, 145, size)


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("count", [0, 1, 70])
def test_embedding(tiling, count):
    table, index = normal(9, 45), np.random.default_rng(1).integers(0, 9, count)
    wanted = torch.nn.functional.embedding(torch.from_numpy(index), torch.from_numpy(table))
    assert np.array_equal(run("embedding", table, index, tiling=tiling), wanted.numpy())


@pytest.mark.parametrize("count", [0, 1, 70])
def test_embedding_backward(count):
    index, dy = np.random.default_rng(1).integers(0, 9, count), normal(count, 45)
    wanted = torch.zeros(9, 45, dtype=torch.float64)
    wanted.index_add_(0, torch.from_numpy(index), torch.from_numpy(dy))
    found = run("embedding_backward", normal(9, 45), index, dy, tiling={"block_width": 24})
    size = np.stack([np.abs(dy[index == row]).sum(0) for row in range(9)])
    close(found, wanted, count, size)


ROWS = normal(20, 145)
ROWS[3], ROWS[4, 7], ROWS[5, 9], ROWS[6] = -np.inf, np.inf, np.nan, 800 + ROWS[6]


@pytest.mark.parametrize("width", [7, 64, 200])
def test_logsumexp(width):
    wanted = torch.logsumexp(torch.from_numpy(ROWS), 1).numpy()
    found = run("logsumexp", ROWS, tiling={"block_M": 6, "block_N": width})
    plain = np.isfinite(wanted)
    assert np.array_equal(found[~plain], wanted[~plain], equal_nan=True)
    close(found[plain], wanted[plain], 145, 1 + np.abs(ROWS[plain]).max(1))


@pytest.mark.parametrize("width", [7, 64, 200])
def test_cross_entropy(width):
    x, target = normal(20, 145), np.random.default_rng(1).integers(0, 145, 20)
    target[[2, 7]] = -100, 0
    wanted = torch.nn.functional.cross_entropy(
        torch.from_numpy(x), torch.from_numpy(target), reduction="none"
    )
    found = run("cross_entropy", x, target, tiling={"block_M": 6, "block_N": width})
    close(found, wanted, 145, 1 + np.abs(x).max(1))
    assert found[2] == 0


@pytest.mark.parametrize("function", ["max", "mean"])
@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (4, 5, 2)]
)
@pytest.mark.one_in(3)
def test_pool2d(function, size, stride, padding):
    x = normal(2, 3, 14, 11) - 2
    x[0, 1, 5, 6] = np.nan
    torchs = getattr(torch.nn.functional, {"max": "max_pool2d", "mean": "avg_pool2d"}[function])
    wanted = torchs(torch.from_numpy(x), size, stride, padding)
    flags = {"function": function, "size": size, "stride": stride, "padding": padding}
    found = run("pool2d", x, tiling={"block_height": 2, "block_width": 3}, **flags)
    close(found, wanted, size**2, np.nanmax(np.abs(x)))


@pytest.mark.parametrize("taps", [1, 3, 4])
@pytest.mark.parametrize("act", ["none", "silu"])
def test_causal_conv1d(act, taps):
    x, f, bias = normal(2, 5, 40), normal(5, taps, seed=1), normal(5, seed=2)
    given = [torch.from_numpy(y) for y in (np.pad(x, ((0, 0), (0, 0), (taps - 1, 0))), f[:, None])]
    wanted = torch.nn.functional.conv1d(*given, torch.from_numpy(bias), groups=5)
    wanted = torch.nn.functional.silu(wanted) if act == "silu" else wanted
    size = 1 + np.abs(x).max() * np.abs(f).sum(1)[:, None] + np.abs(bias)[:, None]
    tiling = {"block_height": 3, "block_width": 16}
    close(run("causal_conv1d", x, f, bias, tiling=tiling, act=act), wanted, taps, size)


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_swiglu(tiling):
    x, w, v = normal(50, 40), normal(40, 30, seed=1), normal(40, 30, seed=2)
    gate, up = torch.from_numpy(x @ w), x @ v
    size = np.abs(x) @ np.abs(w) * (1 + np.abs(up)) + np.abs(x) @ np.abs(v) * (1 + np.abs(x @ w))
    wanted = torch.nn.functional.silu(gate) * torch.from_numpy(up)
    close(run("swiglu", x, w, v, tiling=tiling), wanted, 40, size)


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((50, 37), (1, 0)), ((3, 0, 4), (2, 0, 1)), ((2, 5, 7, 26), (0, 2, 1, 3)),
        ((2, 18, 3, 25, 4), (3, 0, 4, 1, 2)), ((2, 3, 4, 5, 6), (0, 1, 2, 3, 4)),
    ],
    ids=str,
)  # fmt: skip
def test_permute(shape, order):
    x = normal(*shape)
    found = run("permute", x, tiling={"block_height": 16, "block_width": 24}, order=order)
    assert np.array_equal(found, x.transpose(order))


@pytest.mark.parametrize(
    "order", [(0, 1, 1), (0,), (0, 5), [1, 0], 3, (True, False), (5, 4, 3, 2, 1, 0)], ids=str
)
def test_no_order(order):
    axes = np.size(order)
    with pytest.raises(LogicError) as error:
        septran.compile("permute", static={"order": order})(normal(*range(2, axes + 2)))
    assert "order" in error.value.message


@pytest.mark.parametrize("shape", [(2, 50, 37), (1, 1, 5), (3, 0, 4)], ids=str)
def test_transpose(shape):
    x = normal(*shape)
    found = run("transpose", x, tiling={"block_height": 16, "block_width": 24})
    assert np.array_equal(found, x.swapaxes(1, 2))


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("offsets", [[0, 13, 13, 40], [3, 20, 21, 38], [0, 0, 40, 40]])
@pytest.mark.one_in(3, first=1)
def test_grouped_gemm(tiling, offsets):
    x, w = normal(40, 45), normal(3, 45, 22)
    found = run("grouped_gemm", x, w, np.array(offsets), tiling=tiling)
    left = np.ones(40, bool)
    for e, (low, high) in enumerate(itertools.pairwise(offsets)):
        left[low:high] = False
        wanted = torch.from_numpy(x[low:high]) @ torch.from_numpy(w[e])
        size = torch.from_numpy(x[low:high]).abs() @ torch.from_numpy(w[e]).abs()
        close(found[low:high], wanted, 45, size)
    assert not found[left].any()


@pytest.mark.one_in(3)
def by_torch(logits, k):
    """Each token's experts and shares, then the routes in the order of experts, in float64."""
    top, expert = torch.topk(logits, k, dim=1)
    ranked, order = torch.sort(expert.flatten(), stable=True)
    share = torch.softmax(top, 1).flatten()[order]
    return order // k, share, torch.searchsorted(ranked, torch.arange(logits.shape[1] + 1))


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize(
    ("tokens", "experts", "k"), [(37, 5, 2), (9, 12, 3), (1, 4, 4), (30, 1, 1)]
)
def test_route(tiling, tokens, experts, k):
    logits = normal(tokens, experts)
    token, weight, offsets = run("route", logits, tiling=tiling, k=k)
    wanted = by_torch(torch.from_numpy(logits).double(), k)
    assert np.array_equal(token, wanted[0])
    assert np.array_equal(offsets, wanted[2])
    np.testing.assert_allclose(weight, wanted[1], rtol=1e-12)


def test_equal_logits_choose_the_first_experts():
    token, weight, offsets = run("route", np.zeros((3, 4), "float32"), tiling=TILINGS[0], k=2)
    assert token.tolist() == [0, 1, 2, 0, 1, 2]
    assert weight.tolist() == [0.5] * 6
    assert offsets.tolist() == [0, 3, 6, 6, 6]


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.one_in(2)
def test_moe_layer(tiling):
    """Beside a loop over tokens and their experts, whose logits no rounding makes others."""
    x, gate = normal(9, 20), normal(20, 3, seed=3)
    w, v, u = normal(3, 20, 26), normal(3, 20, 26, seed=1), normal(3, 26, 20, seed=2)
    found = run("moe_layer", x, gate, w, v, u, tiling=tiling)
    rows, first, second, last = (torch.from_numpy(a).double() for a in (x, w, v, u))
    top, expert = torch.topk(rows @ torch.from_numpy(gate).double(), 2, dim=1)
    share = torch.softmax(top, 1)
    wanted, size = (torch.zeros(9, 20, dtype=torch.float64) for _ in range(2))
    for t, n in itertools.product(range(9), range(2)):
        e, row = expert[t, n], rows[t]
        hidden = torch.nn.functional.silu(row @ first[e]) * (row @ second[e])
        wanted[t] += share[t, n] * (hidden @ last[e])
        sizes = (row.abs() @ first[e].abs()) * (row.abs() @ second[e].abs())
        size[t] += share[t, n] * (sizes @ last[e].abs())
    # A share is off by as much as its logits are, each a sum of 20 products.
    close(found, wanted, 2 * 20 + 26 + 4 * 20 * 20, size)


@pytest.mark.parametrize("act", ["silu", "gelu"])
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("offsets", [[0, 13, 13, 40], [3, 20, 21, 38]])
@pytest.mark.one_in(3)
def test_moe(tiling, offsets, act):
    """Beside a loop over routes, each with its own expert's three products."""
    x, w, v, u = normal(9, 20), normal(3, 20, 26), normal(3, 20, 26, seed=1), normal(3, 26, 20)
    rng = np.random.default_rng(2)
    token, weight = rng.integers(0, 9, 40), rng.random(40).astype("float32")
    given = x, w, v, u, token, weight, np.array(offsets)
    found = run("moe", *given, tiling=tiling, act=act)
    wanted, size = (torch.zeros(9, 20, dtype=torch.float64) for _ in range(2))
    of = torch.nn.functional.silu if act == "silu" else torch.nn.functional.gelu
    rows, first, second, last = map(torch.from_numpy, (x, w, v, u))
    for e, (low, high) in enumerate(itertools.pairwise(offsets)):
        for route in range(low, high):
            row, share = rows[token[route]], float(weight[route])
            hidden = of(row @ first[e]) * (row @ second[e])
            wanted[token[route]] += share * (hidden @ last[e])
            # Of each product no more than its terms' sizes: act(x) is at most |x|.
            sizes = (row.abs() @ first[e].abs()) * (row.abs() @ second[e].abs())
            size[token[route]] += share * (sizes @ last[e].abs())
    close(found, wanted, 2 * 20 + 26 + 40, size)


@pytest.mark.parametrize("heads", [(4, 2), (3, 3), (4, 1)])
def test_paged_attention(heads):
    (queries, groups), size, rng = heads, 4, np.random.default_rng(1)
    q, k, v = normal(3, queries, 8), normal(7, size, groups, 8), normal(7, size, groups, 8, seed=1)
    pages, length = rng.integers(0, 7, (3, 5)), np.array([11, 20, 0])
    found = run("paged_attention", q, k, v, pages, length, tiling={})
    for b, count in enumerate(length):
        if not count:
            assert not found[b].any()
            continue
        keys, values = (
            x[pages[b]].reshape(-1, groups, 8)[:count].swapaxes(0, 1)[None] for x in (k, v)
        )
        wanted, bound = attended(q[b][None, :, None], np.ascontiguousarray(keys), values)
        close(found[b][None, :, None], wanted, count + 8, bound)


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("starts", "length"),
    [
        ([0, 13, 30, 40], [13, 20, 18]),  # new sequences, and tokens that follow others
        ([0, 1, 1, 2], [11, 20, 0]),  # one query each, and no query
        ([3, 20, 25, 38], [4, 0, 20]),  # queries of nobody, fewer keys than queries, no keys
    ],
)
@pytest.mark.one_in(5)
def test_paged_prefill(starts, length, causal, tiling):
    (groups, size), rng = (2, 4), np.random.default_rng(1)
    q, k, v = normal(40, 4, 8), normal(7, size, groups, 8), normal(7, size, groups, 8, seed=1)
    pages, wanted, bound = rng.integers(0, 7, (3, 5)), np.zeros_like(q), np.ones_like(q)
    for b, (low, high) in enumerate(itertools.pairwise(starts)):
        count = length[b]
        keys, values = (x[pages[b]].reshape(-1, groups, 8)[:count] for x in (k, v))
        mask = torch.ones(high - low, count, dtype=torch.bool).tril(count - high + low)
        if high > low:
            rows = (q[low:high], keys, values)
            given = (np.ascontiguousarray(x.swapaxes(0, 1)[None]) for x in rows)
            found, bound[low:high] = attended(*given, mask if causal else None)
            wanted[low:high] = found[0].swapaxes(0, 1)
    given = q, k, v, np.array(starts), pages, np.array(length)
    close(run("paged_prefill", *given, tiling=tiling, causal=causal), wanted, 28, bound)
    _, function = torch_function("paged_prefill", {"causal": causal})
    theirs = function(*map(torch.from_numpy, given)).numpy()
    close(np.nan_to_num(theirs), wanted, 28, bound)


def test_topk_takes_the_first_among_equals():
    values, indices = run("topk", np.array([[1.0, 3.0, 3.0, 2.0, 3.0]]), tiling={}, k=4)
    assert values.tolist() == [[3.0, 3.0, 3.0, 2.0]]
    assert indices.tolist() == [[1, 2, 4, 3]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), list(itertools.product((1, 2), (0, 1), (1, 2)))
)
def test_conv2d(stride, padding, dilation, tiling):
    x, f = normal(2, 3, 11, 9), normal(5, 3, 3, 2, seed=1)
    flags = {"stride": stride, "padding": padding, "dilation": dilation}

    def reference(a, b):
        return torch.nn.functional.conv2d(torch.from_numpy(a), torch.from_numpy(b), **flags).numpy()

    found = run("conv2d", x, f, tiling=tiling, **flags)
    close(found, reference(x, f), 18, reference(np.abs(x), np.abs(f)))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d_in_groups(groups):
    x, f = normal(2, 4, 9, 8), normal(8, 4 // groups, 3, 2, seed=1)
    flags = {"groups": groups, "stride": 2, "padding": 1}

    def reference(a, b):
        return torch.nn.functional.conv2d(torch.from_numpy(a), torch.from_numpy(b), **flags).numpy()

    found = run("conv2d", x, f, tiling=TILINGS[1], **flags)
    close(found, reference(x, f), 24, reference(np.abs(x), np.abs(f)))


def test_groups_that_do_not_divide_the_filters_are_refused():
    """Else the last filters would belong to no group, and nothing would write their results."""
    x, f, slopes = normal(1, 4, 9, 8), normal(5, 2, 3, 2), normal(1, 5, 7, 7)
    for name, given in (("conv2d", (x, f)), ("conv2d_backward", (x, f, slopes))):
        with pytest.raises(UnmetDemandError, match="4 channels to 5 are not in 2 equal groups"):
            run(name, *given, tiling=TILINGS[0], groups=2)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_conv2d_with_channels_last(stride, padding, dilation):
    x, f = normal(2, 11, 9, 3), normal(3, 2, 3, 5, seed=1)
    flags = {"stride": stride, "padding": padding, "dilation": dilation}

    def reference(a, b):
        turned = torch.from_numpy(a).permute(0, 3, 1, 2), torch.from_numpy(b).permute(3, 2, 0, 1)
        return torch.nn.functional.conv2d(*turned, **flags).permute(0, 2, 3, 1).numpy()

    found = run("conv2d_nhwc", x, f, tiling=TILINGS[1], **flags)
    close(found, reference(x, f), 18, reference(np.abs(x), np.abs(f)))


def test_integers_are_summed_exactly():
    a = np.random.default_rng(0).integers(-128, 128, (33, 40), dtype="int8")
    c = task.run(operators.load("gemm"), a, a.T.copy())
    assert c.dtype == np.int32
    assert np.array_equal(c, a.astype("int32") @ a.T.astype("int32"))


def test_16_bit_floats_are_summed_in_float32():
    a, b = (normal(20, 64, seed=s).astype("float16") for s in (0, 1))
    c = task.run(operators.load("gemm"), a, b.T.copy())
    assert c.dtype == np.float16
    exact = a.astype("float64") @ b.T.astype("float64")
    size = np.abs(a.astype("float64")) @ np.abs(b.T.astype("float64"))
    assert np.all(np.abs(c - exact) <= 2.0**-11 * np.abs(exact) + 64 * 2.0**-23 * size)


def test_all_operators_are_listed_and_documented():
    for name in operators.names():
        module = operators.module(name)
        assert "Source:" in (module.__doc__ or ""), name
        assert isinstance(module.EXAMPLE, dict), name

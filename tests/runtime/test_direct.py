"""Calls that compiled code checks end as those that Python checks."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.errors import SepTranError


@task.define(leaf=True)
def both(Y, Z, X):
    Y[:] = X + 1.0
    Z[:] = X - 1.0


@task.define
def twice(Y: task.Tensor["N"], Z: task.Tensor["N"], X: task.Tensor["N"]):
    Yp, Zp, Xp = (task.partition(T, shape=(16,)) for T in (Y, Z, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(both, Yp[i], Zp[i], Xp[i])


@pytest.fixture
def kernel():
    made = septran.compile("gemm", "cpu-x86", shapes={"M": 8, "N": 6, "K": 5})
    made(torch.ones(8, 5), torch.ones(5, 6), out=torch.empty(8, 6))
    assert made.direct
    return made


def operands(m=8, n=6, k=5):
    return torch.randn(m, k), torch.randn(k, n)


def right(result, a, b):
    return torch.allclose(result, a @ b, atol=1e-5)


def test_results_are_right_with_and_without_out(kernel):
    a, b = operands()
    c = torch.empty(8, 6)
    before = c._version
    assert kernel(a, b, out=c) is c
    assert right(c, a, b)
    assert c._version > before
    assert right(kernel(a, b), a, b)
    assert kernel.direct


def test_other_shapes_are_compiled_for(kernel):
    for shape in ((3, 4, 5), (8, 6, 5), (9, 1, 2)):
        a, b = operands(*shape)
        assert right(kernel(a, b), a, b)


@pytest.mark.parametrize("spoil", ["stride", "negated", "slice", "subclass"])
def test_awkward_tensors_are_seen(kernel, spoil):
    a, b = operands()
    match spoil:
        case "stride":
            a = a.T.contiguous().T
        case "negated":
            a = torch._neg_view(a)
        case "slice":
            a = torch.randn(41)[1:].view(8, 5)
        case "subclass":
            a = torch.nn.Parameter(a, requires_grad=False)
    assert right(kernel(a, b), a, b)


def test_a_gradient_is_refused(kernel):
    a, b = operands()
    with pytest.raises(SepTranError, match="gradient"):
        kernel(a.requires_grad_(), b)


def test_an_output_over_an_input_is_refused():
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 6, "N": 6, "K": 6})
    a, b = operands(6, 6, 6)
    kernel(a, b, out=torch.empty(6, 6))
    with pytest.raises(SepTranError, match="memory"):
        kernel(a, b, out=a)


@pytest.mark.parametrize("input_number", [0, 1])
@pytest.mark.parametrize(("start", "refused"), [(0, False), (1, True), (71, True), (72, False)])
def test_an_output_beside_an_input_is_told_from_one_over_it(input_number, start, refused):
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 6, "N": 6, "K": 6})
    room, inputs = torch.randn(108), [torch.randn(6, 6), torch.randn(6, 6)]
    inputs[input_number] = room[36:72].view(6, 6)
    kernel(*inputs, out=torch.empty(6, 6))
    c = room[start : start + 36].view(6, 6)
    if refused:
        with pytest.raises(SepTranError, match="memory"):
            kernel(*inputs, out=c)
    else:
        assert right(kernel(*inputs, out=c), *inputs)
    assert kernel.direct


def test_after_a_refusal_calls_are_direct_again(kernel):
    a, b = operands(9, 6, 5)
    assert right(kernel(a, b), a, b)
    a, b = operands()
    assert right(kernel(a, b), a, b)
    assert kernel.direct


def test_wrong_arguments_are_refused_as_ever(kernel):
    a, b = operands()
    with pytest.raises(SepTranError):
        kernel(a)
    with pytest.raises(SepTranError):
        kernel(a, b, out=torch.empty(8, 7))
    with pytest.raises(SepTranError):
        kernel(a, b.int())
    assert right(kernel(a, b), a, b)


def test_an_odd_address_is_read_as_it_is(kernel):
    raw = torch.zeros(8 * 5 * 4 + 1, dtype=torch.uint8).numpy()[1:].view("f4").reshape(8, 5)
    a, b = torch.from_numpy(raw), torch.randn(5, 6)
    a[:] = torch.randn(8, 5)
    assert a.data_ptr() % 4
    assert right(kernel(a, b), a.clone(), b)


@pytest.fixture
def greatest():
    made = septran.compile("topk", "cpu-x86", static={"k": 3})
    made(torch.randn(5, 40))
    assert made.direct
    return made


def places(values, kind=torch):
    return (kind.empty((5, 3), dtype=values), kind.empty((5, 3), dtype=kind.int64))


@pytest.mark.parametrize("sort", [tuple, list])
def test_several_outputs_are_filled_in_a_direct_call_as_in_a_planned_one(greatest, sort):
    x, out = torch.randn(5, 40), sort(places(torch.float32))
    before = [y._version for y in out]
    for _ in range(3):  # the first list leaves a plan, a tuple goes straight
        assert greatest(x, out=out) is out
    for found, expected in zip(out, torch.topk(x, 3), strict=True):
        assert torch.equal(found, expected)
    assert all(y._version > old for y, old in zip(out, before, strict=True))
    assert greatest.direct
    fresh = greatest(x)
    assert isinstance(fresh, tuple)
    assert torch.equal(fresh[0], out[0])


def test_several_outputs_of_numpy_are_planned(greatest):
    x = np.random.default_rng(0).standard_normal((5, 40)).astype("f4")
    out = places(np.float32, np)
    for _ in range(3):
        assert greatest(x, out=out) is out
    np.testing.assert_array_equal(out[0], -np.sort(-x, axis=1)[:, :3])


def test_outputs_over_each_other_are_refused_each_time():
    kernel = septran.compile(twice, "cpu-x86")
    x, y = torch.randn(64), torch.empty(64)
    kernel(x, out=(y, torch.empty(64)))
    for _ in range(3):
        with pytest.raises(SepTranError, match="share"):
            kernel(x, out=(y, y))
    other = torch.empty(64)
    kernel(x, out=(y, other))
    assert torch.equal(y, x + 1)
    assert torch.equal(other, x - 1)


@pytest.mark.parametrize("out", [(), (torch.empty(5, 3),)])
def test_too_few_outputs_are_refused_as_ever(greatest, out):
    for _ in range(2):
        with pytest.raises(SepTranError, match="output"):
            greatest(torch.randn(5, 40), out=out)


# What the long way is not asked for any more, the compiled side has to see: each call here comes
# after one that left a plan, and the long way counts its own calls.
@pytest.fixture
def counted(monkeypatch):
    """A direct kernel of two cases, and the calls that went the long way."""
    made = septran.compile("gemm", "cpu-x86")
    long = []
    whole = made._call
    monkeypatch.setattr(made, "_call", lambda *given: long.append(given) or whole(*given))
    for m in (8, 3):
        made(*operands(m), out=torch.empty(m, 6))
        made(*(x.numpy() for x in operands(m)), out=np.empty((m, 6), "f4"))
    assert made.direct
    long.clear()
    return made, long


@pytest.mark.parametrize("m", [8, 3])
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_calls_like_those_before_are_direct_for_each_shape(counted, m, library):
    kernel, long = counted
    a, b = operands(m)
    c = torch.empty(m, 6)
    given = (a, b, c) if library == "torch" else (a.numpy(), b.numpy(), c.numpy())
    assert kernel(*given[:2], out=given[2]) is given[2]
    assert right(c, a, b)
    assert right(torch.as_tensor(kernel(*given[:2])), a, b)
    assert kernel(*given[:2], out=None) is not None
    assert not long


def spoiled(array, how):
    """An array of NumPy that is not as a kernel needs it, of the same shape."""
    match how:
        case "transposed":
            return np.asfortranarray(array)
        case "swapped":
            return array.astype(array.dtype.newbyteorder())
        case "odd":
            raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype)
            raw = raw.reshape(array.shape)
            raw[...] = array
            return raw
        case "masked":
            return np.ma.MaskedArray(array, np.zeros(array.shape, bool))
        case "complex":
            return array.astype("c8")
        case "integer":
            return array.astype("i4")
        case "flat":
            return array.reshape(-1)
        case "empty":
            return array[:0]
    raise ValueError(how)


@pytest.mark.parametrize("how", ["transposed", "swapped", "odd"])
def test_awkward_arrays_take_the_long_way_and_are_right(counted, how):
    kernel, long = counted
    a, b = (x.numpy() for x in operands())
    np.testing.assert_allclose(kernel(spoiled(a, how), b), a @ b, atol=1e-5)
    c = spoiled(np.zeros((8, 6), "f4"), how)
    kernel(a, b, out=c)
    np.testing.assert_allclose(c, a @ b, atol=1e-5)
    assert len(long) == 2


@pytest.mark.parametrize("how", ["masked", "complex", "integer", "flat", "empty"])
def test_wrong_arrays_are_refused_after_right_ones(counted, how):
    kernel, long = counted
    a, b = (x.numpy() for x in operands())
    with pytest.raises(SepTranError):
        kernel(a, spoiled(b, how))
    assert len(long) == 1


def test_a_read_only_output_is_refused_and_a_read_only_input_is_read(counted):
    kernel, long = counted
    a, b = (x.numpy() for x in operands())
    a.flags.writeable = False
    np.testing.assert_allclose(kernel(a, b), a @ b, atol=1e-5)
    assert not long
    c = np.empty((8, 6), "f4")
    c.flags.writeable = False
    with pytest.raises(SepTranError, match="read-only"):
        kernel(a, b, out=c)


def test_outputs_over_inputs_are_refused_in_numpy(counted):
    kernel, _ = counted
    room = np.zeros(108, "f4")
    a, b = room[:40].reshape(8, 5), np.zeros((5, 6), "f4")
    for start, refused in ((39, True), (40, False)):
        c = room[start : start + 48].reshape(8, 6)
        if refused:
            with pytest.raises(SepTranError, match="memory"):
                kernel(a, b, out=c)
        else:
            assert kernel(a, b, out=c) is c


def test_mixed_kinds_are_refused(counted):
    kernel, _ = counted
    a, b = operands()
    for given in ((a, b.numpy()), (a.numpy(), b)):
        with pytest.raises(SepTranError):
            kernel(*given)
    with pytest.raises(SepTranError):
        kernel(a, b, out=np.empty((8, 6), "f4"))


@pytest.mark.parametrize("kind", ["meta", "sparse", "conjugate", "none", "number", "list"])
def test_what_is_no_dense_tensor_is_refused(counted, kind):
    kernel, long = counted
    a, b = operands()
    wrong = {
        "meta": a.to("meta"), "sparse": a.to_sparse(), "none": None, "number": 3,
        "conjugate": torch.zeros(8, 5, dtype=torch.complex64).conj(), "list": a.tolist(),
    }[kind]  # fmt: skip
    with pytest.raises(SepTranError):
        kernel(wrong, b)
    assert len(long) == 1


def test_an_output_with_a_gradient_is_refused(counted):
    kernel, _ = counted
    with pytest.raises(SepTranError, match="gradient"):
        kernel(*operands(), out=torch.empty(8, 6, requires_grad=True))


def test_without_gradients_a_parameter_is_read(counted):
    kernel, _ = counted
    a, b = operands()
    with torch.no_grad():
        assert right(kernel(a, b.requires_grad_()), a, b)


def test_inference_mode_writes_its_own_tensors(counted):
    kernel, long = counted
    with torch.inference_mode():
        a, b = operands()
        c = torch.empty(8, 6)
        assert kernel(a, b, out=c) is c
        assert right(c, a, b)
        assert right(kernel(a, b), a, b)
    assert not long


def test_a_saved_tensor_that_a_kernel_writes_to_is_seen_by_autograd(counted):
    kernel, long = counted
    x, c = torch.ones(8, 6, requires_grad=True), torch.ones(8, 6)
    loss = (x * c).sum()
    kernel(*operands(), out=c)
    assert not long
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_resized_storage_is_refused(counted):
    kernel, _ = counted
    a, b = operands()
    b.untyped_storage().resize_(0)
    with pytest.raises(SepTranError, match="storage"):
        kernel(a, b)


def test_a_kernel_ends_with_its_last_reference():
    made = septran.compile("gemm", "cpu-x86", shapes={"M": 8, "N": 6, "K": 5})
    made(*operands())
    assert made.direct
    call, gone = type(made).__call__, weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
    assert right(call(*(given := operands())), *given)  # the function keeps what it runs
    with pytest.raises(ReferenceError):
        call(1, 2)


def test_references_are_not_lost(counted):
    kernel, long = counted
    a, b = operands()
    c = torch.empty(8, 6)
    arrays = a.numpy(), b.numpy()
    counts = [sys.getrefcount(x) for x in (a, b, c, *arrays, np.dtype("f4"), kernel)]
    for _ in range(50):
        kernel(a, b, out=c)
        kernel(a, b)
        kernel(*arrays)
        with pytest.raises(SepTranError):
            kernel(a, b, out=a)
    long.clear()
    gc.collect()  # errors and their frames refer to each other
    after = [sys.getrefcount(x) for x in (a, b, c, *arrays, np.dtype("f4"), kernel)]
    assert all(abs(x - y) < 5 for x, y in zip(counts, after, strict=True))


def test_threads_may_call_at_once(counted):
    kernel, long = counted
    given = [operands(m) for m in (8, 3) * 4]

    def often(pair):
        return all(right(kernel(*pair), *pair) for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(often, given))
    assert not long


def test_a_new_length_of_a_dynamic_dimension_is_direct(monkeypatch):
    kernel = septran.compile("gemm", "cpu-x86", dynamic={"M": (2, 40)})
    kernel(*operands(8))
    long = []
    monkeypatch.setattr(kernel, "specialise", lambda *given: long.append(given))
    for m in (2, 9, 40):
        a, b = operands(m)
        c = torch.empty(m, 6)
        assert right(kernel(a, b), a, b)
        assert right(kernel(a, b, out=c), a, b)
    assert not long
    monkeypatch.undo()
    for wrong in ((1, 6, 5), (41, 6, 5)):
        with pytest.raises(SepTranError, match="2 to 40"):
            kernel(*operands(*wrong))
    with pytest.raises(SepTranError):
        kernel(*operands(8), out=torch.empty(9, 6))


CASES = """
machine: cpu-x86
dispatch:
  - {when: WHEN, mapping: {extends: cpu-x86, tunables: {block_M: 4}}}
  - {when: 10 <= M <= 12, mapping: {extends: cpu-x86, tunables: {block_M: 8}}}
otherwise: cpu-x86
"""


@pytest.mark.parametrize(
    ("when", "known"),
    [
        ("M < 3 or M > 13", True),
        ("M * N < 40", False),
        *(
            pytest.param(when, known, marks=pytest.mark.slow)
            for when, known in (
                ("M <= 4", True), ("M > 14", True), ("4 < M <= 6", True),
                ("N == 6 and M == 2", True), ("M % 2 == 0", False),
            )
        ),
    ],
)  # fmt: skip
@pytest.mark.one_in(2)
def test_a_length_takes_the_case_of_its_own(tmp_path, when, known):
    file = tmp_path / "cases.yaml"
    file.write_text(CASES.replace("WHEN", when), encoding="utf-8")
    kernel = septran.compile("gemm", str(file), dynamic={"M": (1, 16)})
    each = {m: kernel.specialise({"A": (m, 5), "B": (5, 6)}, {}) for m in range(1, 17)}
    case = {m: one.stages.request.mapping.taken.name for m, one in each.items()}
    for m, one in each.items():
        assert bool(one.spans) is known
        low, high = one.spans.get("M", (m, m))
        assert low <= m <= high
        assert {case[n] for n in range(low, high + 1)} == {case[m]}
    if known:
        assert len({one.spans["M"] for one in each.values()}) < 6
    for m in (5, 3, 11, 4, 16, 6):
        a, b = operands(m)
        assert right(kernel(a, b), a, b)


@task.define(leaf=True)
def scaled_tile(Y, X, W, *, scale: float, shift: task.int32):
    Y[:] = X * scale + W[0].astype(X.dtype) + shift


@task.define
def scaled(
    Y: task.Tensor["N"],
    X: task.Tensor["N"],
    W: task.Integer[-4, 100],
    *,
    scale: float,
    shift: task.int32 = 2,
):
    Yp, Xp = (task.partition(T, shape=(16,)) for T in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(scaled_tile, Yp[i], Xp[i], W, scale=scale, shift=shift)


@pytest.fixture(scope="module")
def scaled_once():
    """A kernel with a number as an input, one that calls must say, and one that they may."""
    made = septran.compile(scaled, "cpu-x86")
    made(torch.ones(40), 1, scale=2.0)
    made(np.ones(40, "f4"), 1, scale=2.0)
    assert made.direct
    return made


@pytest.fixture
def numbered(scaled_once, monkeypatch):
    """The same, and the calls for which its plans of Python were asked."""
    asked = []
    plans = scaled_once._plans

    class Asked(dict):
        def get(self, key):
            asked.append(key)
            return super().get(key)

    monkeypatch.setattr(scaled_once, "_plans", Asked(plans))
    return scaled_once, asked


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_numbers_by_name_and_in_place_are_direct(numbered, library):
    kernel, asked = numbered
    x = torch.arange(40.0)
    given, out = (x, torch.empty(40)) if library == "torch" else (x.numpy(), np.empty(40, "f4"))
    for place, words, wanted in (
        (3, {"scale": 0.5}, x * 0.5 + 3 + 2),
        (-4, {"shift": -7, "scale": 4.0}, x * 4 - 4 - 7),
        (100, {"scale": 0.0, "out": out, "shift": 0}, x * 0 + 100),
    ):
        assert torch.equal(torch.as_tensor(kernel(given, place, **words)), wanted)
    assert not asked


def test_a_number_as_a_tensor_is_direct_too(numbered):
    kernel, asked = numbered
    x, place = torch.arange(40.0), torch.tensor([5], dtype=torch.int32)
    assert torch.equal(kernel(x, place, scale=1.0), x + 7)
    assert not asked


@pytest.mark.parametrize("scale", [3, True, np.float32(3), torch.tensor(3.0)])
def test_other_kinds_of_numbers_take_the_long_way_and_mean_the_same(numbered, scale):
    kernel, asked = numbered
    x = torch.arange(40.0)
    assert torch.equal(kernel(x, np.int64(5), scale=scale), x * float(scale) + 7)
    assert asked


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (1, {}),
        (1, {"shift": 1}),
        (101, {"scale": 1.0}),
        (2**70, {"scale": 1.0}),
        (True, {"scale": 1.0}),
        (1.5, {"scale": 1.0}),
        (1, {"scale": "1"}),
        (1, {"scale": 1.0, "shift": 0.5}),
        (1, {"scale": 1.0, "shift": 2**63}),
        (1, {"scale": 1.0, "more": 1}),
    ],
)
def test_wrong_numbers_are_refused_after_right_ones(scaled_once, place, words):
    with pytest.raises(SepTranError):
        scaled_once(torch.ones(40), place, **words)
    with pytest.raises(SepTranError):
        scaled_once(5, place, scale=1.0)

"""The input battery: the right result or a named error, whatever is passed."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest
import torch

from septran.errors import SepTranError
from septran.runtime.arrays import overlaps_itself
from septran.runtime.errors import (
    ArgumentDtypeError,
    DeviceError,
    GradientError,
    NotATensorError,
    OverlapError,
    ReadOnlyOutputError,
)

A = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
B = np.arange(20, dtype=np.float32).reshape(4, 5) - 3


def misaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def read_only(x):
    y = x.copy()
    y.flags.writeable = False
    return y


NUMPY_VIEWS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.T.copy().T,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "rows of a wider array": lambda x: np.hstack([x, x])[:, : x.shape[1]],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "misaligned": misaligned,
    "big endian": lambda x: x.astype(">f4"),
    "read-only": read_only,
    "read-only, transposed": lambda x: read_only(x.T).T,
    "a subclass": lambda x: x.view(type("Array", (np.ndarray,), {})),
    "broadcast to its own shape": lambda x: np.broadcast_to(x, x.shape),
}


@pytest.mark.parametrize("view", NUMPY_VIEWS.values(), ids=NUMPY_VIEWS)
def test_numpy_views(gemm, view):
    for _ in range(2):
        assert (gemm(view(A), view(B)) == A @ B).all()


def torch_misaligned(x):
    raw = bytearray(x.nbytes + 1)
    raw[1:] = x.numpy().tobytes()
    return torch.frombuffer(raw, dtype=x.dtype, offset=1).reshape(x.shape)


TORCH_VIEWS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.T.contiguous().T,
    "strided": lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
    "off by one element": lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape),
    "misaligned": torch_misaligned,
    "lazily negated": lambda x: torch._neg_view(-x),
    "of conjugated": lambda x: torch.complex(x, -x).conj().imag,
    "a detached parameter": lambda x: torch.nn.Parameter(x).detach(),
    "channels last": lambda x: x[None, None].to(memory_format=torch.channels_last)[0, 0],
}


@pytest.mark.parametrize("view", TORCH_VIEWS.values(), ids=TORCH_VIEWS)
def test_torch_views(gemm, view):
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    for _ in range(2):
        assert torch.equal(gemm(view(a), view(b)), a @ b)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_broadcast_inputs(gemm, kind):
    row = np.arange(4, dtype=np.float32)
    wide = np.broadcast_to(row, (3, 4))
    x = wide if kind == "numpy" else torch.from_numpy(row).expand(3, 4)
    b = B if kind == "numpy" else torch.from_numpy(B)
    for _ in range(2):
        assert (np.asarray(gemm(x, b)) == wide @ B).all()


@pytest.mark.parametrize("view", ["transposed", "strided", "reversed", "misaligned"])
def test_awkward_outputs_are_written(gemm, view):
    c = NUMPY_VIEWS[view](np.zeros((3, 5), np.float32))
    for _ in range(2):
        c[...] = -1
        assert gemm(A, B, out=c) is c
        assert (c == A @ B).all()


@pytest.mark.parametrize("view", ["transposed", "strided", "misaligned"])
def test_awkward_torch_outputs_are_written(gemm, view):
    c = TORCH_VIEWS[view](torch.zeros(3, 5))
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    for _ in range(2):
        assert gemm(a, b, out=c) is c
        assert torch.equal(c, a @ b)


def test_copies_are_remarked_once_and_without_warning(gemm):
    for _ in range(3):
        gemm(A.T.copy().T, B)
    (remark,) = gemm.remarks
    assert remark.about == "A"
    assert "transposed in memory" in remark.message


def test_inputs_may_alias_each_other(gemm):
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    for _ in range(2):
        assert (gemm(x, x) == x @ x).all()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_output_over_an_input_is_an_error(gemm, kind):
    raw = np.zeros(40, np.float32)
    same, ahead = raw[:16].reshape(4, 4), raw[4:20].reshape(4, 4)
    apart, other = raw[20:36].reshape(4, 4), np.ones((4, 4), np.float32)
    if kind == "torch":
        same, ahead, apart, other = map(torch.from_numpy, (same, ahead, apart, other))
    for _ in range(2):
        for out in (same, ahead):
            with pytest.raises(OverlapError, match="output C shares memory with B"):
                gemm(other, same, out=out)
        gemm(other, same, out=apart)  # neighbours in one allocation are fine


def test_interleaved_views_do_not_overlap(gemm):
    raw = np.ones((4, 8), np.float32)
    c = raw[:, 1::2]
    gemm(raw[:, ::2], np.eye(4, dtype=np.float32), out=c)
    with pytest.raises(OverlapError):
        gemm(raw[:, :4], np.eye(4, dtype=np.float32), out=c)


def test_output_over_itself_is_an_error(gemm):
    c = np.lib.stride_tricks.as_strided(np.zeros(5, np.float32), (3, 5), (0, 4))
    with pytest.raises(OverlapError, match="elements of C share memory"):
        gemm(A, B, out=c)
    with pytest.raises(OverlapError):
        gemm(torch.from_numpy(A), torch.from_numpy(B), out=torch.zeros(5).expand(3, 5))


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps"),
    [
        ((3, 4), (16, 4), False),
        ((3, 4), (4, 12), False),
        ((3, 4), (8, 4), True),
        ((3, 4), (-16, -4), False),
        ((3, 1), (4, 0), False),
        ((0, 4), (0, 0), False),
        ((), (), False),
    ],
)
def test_self_overlap_by_strides(shape, strides, overlaps):
    assert overlaps_itself(shape, strides, 4) is overlaps


def test_gradients_are_refused_where_they_would_be_lost(gemm):
    a, b = torch.from_numpy(A).requires_grad_(), torch.from_numpy(B)
    expected = a.detach() @ b
    for _ in range(2):
        with pytest.raises(GradientError, match=r"A requires a gradient(.|\n)*A.detach\(\)"):
            gemm(a, b)
        assert torch.equal(gemm(a.detach(), b), expected)
        with torch.no_grad():
            assert torch.equal(gemm(a, b), expected)
        with torch.inference_mode():
            assert torch.equal(gemm(a, b), expected)
    with pytest.raises(GradientError):
        gemm(a.detach(), b, out=torch.zeros(3, 5, requires_grad=True))


def test_writing_into_a_tensor_raises_its_version(gemm):
    c = torch.zeros(3, 5)
    for _ in range(2):
        before = c._version
        gemm(torch.from_numpy(A), torch.from_numpy(B), out=c)
        assert c._version > before


def test_other_devices_are_refused(gemm):
    with pytest.raises(DeviceError, match=r"A is on 'meta'.*it has no data"):
        gemm(torch.ones(3, 4, device="meta"), torch.from_numpy(B))


def test_tensors_without_memory_are_refused(gemm):
    from torch._subclasses.fake_tensor import FakeTensorMode

    b = torch.from_numpy(B)
    gemm(torch.from_numpy(A), b)
    with FakeTensorMode():
        fake = torch.ones(3, 4)
    with pytest.raises(NotATensorError, match="is a FakeTensor"):
        gemm(fake, b)
    for sparse in (torch.from_numpy(A).to_sparse(), torch.from_numpy(A).to_mkldnn()):
        with pytest.raises(NotATensorError, match=r"is a torch\..* tensor"):
            gemm(sparse, b)
    with pytest.raises(NotATensorError, match="masked array"):
        gemm(np.ma.masked_array(A, A > 3), B)


def test_nested_tensors_are_refused(gemm):
    whole = torch.ones(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([whole, whole[:2]])
    with pytest.raises(NotATensorError, match="A is a nested tensor") as caught:
        gemm(nested, whole)
    assert "unbind" in caught.value.hint


def test_tensors_whose_storage_was_resized_are_refused(gemm):
    whole = torch.ones(4, 4)
    short, empty = torch.ones(4, 4), torch.ones(4, 4)
    short.untyped_storage().resize_(60)
    empty.untyped_storage().resize_(0)
    with pytest.raises(NotATensorError, match=r"needs 64 bytes of memory.* resized to 60"):
        gemm(short, whole)
    for other in (whole, whole[:2]):  # with a second shape, calls are no longer direct
        gemm(whole, whole)
        gemm(other, whole)
        with pytest.raises(NotATensorError, match="resized to 0"):
            gemm(empty, whole)


def test_batched_tensors_of_vmap_are_refused(gemm):
    b = torch.from_numpy(B)
    gemm(torch.from_numpy(A), b)
    with pytest.raises(SepTranError, match=r"A has no memory(.|\n)*torch.func"):
        torch.vmap(lambda x: gemm(x, b))(torch.from_numpy(np.stack([A, A])))


def test_read_only_output_is_an_error(gemm):
    with pytest.raises(ReadOnlyOutputError, match="C is read-only"):
        gemm(A, B, out=read_only(np.zeros((3, 5), np.float32)))


@pytest.mark.parametrize("dtype", ["complex64", "object", "U3", "datetime64[s]", "V4", "float128"])
def test_unknown_dtypes_are_refused(gemm, dtype):
    with pytest.raises(ArgumentDtypeError, match="which SepTran does not have"):
        gemm(np.zeros((3, 4), dtype), B)


def test_complex_tensors_are_refused(gemm):
    a = torch.zeros(3, 4, dtype=torch.complex64)
    with pytest.raises(ArgumentDtypeError, match="A is complex64"):
        gemm(a, torch.from_numpy(B))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, ml_dtypes.bfloat16])
def test_numpy_dtypes(gemm, dtype):
    for _ in range(2):
        c = gemm(A.astype(dtype), B.astype(dtype))
        assert c.dtype == dtype
        assert (c.astype("f8") == (A @ B).astype(dtype).astype("f8")).all()


def test_read_only_bfloat16(gemm):
    a, b = read_only(A.astype(ml_dtypes.bfloat16)), B.astype(ml_dtypes.bfloat16)
    c = np.zeros((5, 3), ml_dtypes.bfloat16).T
    gemm(a, b, out=c)
    assert (c.astype("f4") == (A @ B).astype(ml_dtypes.bfloat16).astype("f4")).all()


def test_torch_bfloat16(gemm):
    a, b = torch.from_numpy(A).bfloat16(), torch.from_numpy(B).bfloat16()
    assert torch.equal(gemm(a, b), (a.float() @ b.float()).bfloat16())


@pytest.mark.parametrize(("m", "n"), [(0, 0), (0, 5), (3, 0)])
def test_empty_outputs_launch_nothing(gemm, m, n):
    for _ in range(2):
        assert gemm(A[:m], B[:, :n]).shape == (m, n)
    assert "executable" not in gemm.timings


def test_the_short_way_checks_what_its_key_does_not_tell(gemm):
    """A good call first: the same shapes and dtypes must not smuggle in a bad array."""
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    gemm(a, b)
    assert torch.equal(gemm(torch._neg_view(a), b), -(a @ b))
    assert torch.equal(gemm(torch_misaligned(a), b), a @ b)
    assert torch.equal(gemm(a.T.contiguous().T, b), a @ b)
    with pytest.raises(GradientError):
        gemm(a.clone().requires_grad_(), b)
    gemm(A, B)
    assert (gemm(misaligned(A), B) == A @ B).all()
    assert (gemm(read_only(A), B) == A @ B).all()
    assert (gemm(A.astype(">f4"), B) == A @ B).all()

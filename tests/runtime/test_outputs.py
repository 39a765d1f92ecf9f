"""Kernels with several outputs, with none of their inputs, and on other devices."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from septran.runtime.errors import ArgumentCountError, DeviceError, OverlapError
from septran.runtime.kernel import Kernel
from septran.runtime.signature import Signature, Specialisation, TensorParam
from tests.runtime.fakes import made_by


def kernel(run, *tensors, device="cpu"):
    """All tensors are vectors of 4 in float32."""
    signature = Signature("split", tensors)
    full = tuple(TensorParam(t.name, t.reads, t.writes, t.dims, "float32", (4,)) for t in tensors)
    stages = made_by(tile_program=lambda _: SimpleNamespace(remarks=()), executable=lambda _: run)
    return Kernel(signature, lambda *_: Specialisation(full, (), stages), device=device)


def split(x, low, high):
    low[:] = np.minimum(x, 0) if isinstance(x, np.ndarray) else x.clamp(max=0)
    high[:] = np.maximum(x, 0) if isinstance(x, np.ndarray) else x.clamp(min=0)


X, LOW, HIGH = (
    TensorParam("X"), TensorParam("LOW", False, True), TensorParam("HIGH", False, True)
)  # fmt: skip
VALUES = np.array([-2, -1, 1, 2], np.float32)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_several_outputs_come_as_a_tuple(make):
    k, x = kernel(split, X, LOW, HIGH), make(VALUES)
    for _ in range(2):
        low, high = k(x)
        assert low.tolist() == [-2, -1, 0, 0]
        assert high.tolist() == [0, 0, 1, 2]


def test_several_outputs_are_filled_in_order_or_by_name():
    k = kernel(split, X, LOW, HIGH)
    low, high = np.empty(4, np.float32), np.empty(4, np.float32)
    for _ in range(2):
        low[:] = high[:] = np.nan
        assert k(VALUES, out=(low, high))[0] is low
        assert low.tolist() == [-2, -1, 0, 0]
        assert high.tolist() == [0, 0, 1, 2]
    high[:] = np.nan
    results = k(VALUES, out={"HIGH": high})  # the other is allocated
    assert results[1] is high
    assert results[0].tolist() == [-2, -1, 0, 0]
    assert high.tolist() == [0, 0, 1, 2]


def test_mistakes_with_several_outputs():
    k = kernel(split, X, LOW, HIGH)
    one = np.empty(4, np.float32)
    with pytest.raises(ArgumentCountError, match=r"has 2 outputs \(LOW, HIGH\)"):
        k(VALUES, out=one)
    with pytest.raises(ArgumentCountError, match="out= has 1"):
        k(VALUES, out=(one,))
    with pytest.raises(ArgumentCountError, match=r"no output 'LO'(.|\n)*'LOW'"):
        k(VALUES, out={"LO": one})
    with pytest.raises(OverlapError, match="shares memory with"):
        k(VALUES, out=(one, one))


def test_a_kernel_without_inputs_makes_numpy_arrays():
    def ones(y):
        y[:] = 1

    k = kernel(ones, TensorParam("Y", False, True))
    y = torch.zeros(4)
    for _ in range(2):
        assert isinstance(k(), np.ndarray)
        assert k().tolist() == [1, 1, 1, 1]
        assert k(out=y) is y
        assert y.tolist() == [1, 1, 1, 1]


def test_arrays_in_host_memory_are_refused_by_a_gpu():
    k = kernel(split, X, LOW, HIGH, device="cuda")
    with pytest.raises(DeviceError, match="in host memory, but the kernel runs on cuda"):
        k(VALUES)
    with pytest.raises(DeviceError, match=r"X is on 'cpu'.*'cuda'(.|\n)*X.to\(\"cuda\"\)"):
        k(torch.from_numpy(VALUES))

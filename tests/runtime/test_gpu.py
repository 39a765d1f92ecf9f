"""Kernels for GPUs as the runtime treats them; a stand-in takes the GPU's place."""

import numpy as np
import pytest

from septran.runtime import gpu
from septran.runtime.arrays import NUMPY, TORCH
from septran.runtime.errors import NoGpuError

HERE = "cpu:0"
"""Not "cpu", so arrays are moved there; torch takes it for the host."""


@pytest.fixture
def stand_in(monkeypatch):
    import torch

    monkeypatch.setattr(gpu, "require_gpu", lambda: torch)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_what_a_kernel_writes_comes_back(stand_in, dtype):
    import ml_dtypes
    import torch

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x, y = np.arange(6).reshape(2, 3).astype(kind), np.zeros((2, 3), kind)
    with gpu.on_device([x, y], HERE) as (library, (moved, written)):
        assert library is TORCH
        assert moved.dtype == getattr(torch, dtype)
        written.copy_(moved * 2)
    assert (y.astype(np.float32) == 2 * np.arange(6).reshape(2, 3)).all()


def test_on_the_host_nothing_is_moved():
    x = np.zeros(3, np.float32)
    assert gpu.to_device(x, "cpu") is x
    with gpu.on_device([x], "cpu") as (library, arrays):
        assert library is NUMPY
        assert arrays[0] is x


def test_empty_arrays_stay_where_they_are(stand_in):
    empty = np.zeros((0, 3), np.float32)
    with gpu.on_device([empty], HERE) as (library, _):
        assert library is NUMPY


def test_what_is_no_array_stays_as_it_is(stand_in):
    assert gpu.to_device(3.5, HERE) == 3.5


def test_without_a_gpu_the_error_says_what_else_there_is():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(NoGpuError) as caught:
        gpu.to_device(np.zeros(3, np.float32), "cuda")
    assert "emulate=True" in str(caught.value)
    assert "septran.load" in str(caught.value)
    assert "NVIDIA" not in str(caught.value)  # the same call is made for every vendor's


class FakeEvent:
    """Counts instead of time: each event is a millisecond after the one before."""

    clock = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        FakeEvent.clock += 1
        self.at = FakeEvent.clock

    def elapsed_time(self, other: "FakeEvent") -> float:
        return float(other.at - self.at)


def test_times_are_those_of_events(monkeypatch):
    class Cuda:
        Event = FakeEvent

        @staticmethod
        def synchronize() -> None: ...

    class Buffer:
        @staticmethod
        def zero_() -> None: ...

    class Torch:
        cuda, int8 = Cuda, "int8"

        @staticmethod
        def empty(size: int, dtype: str, device: str) -> Buffer:
            assert (size, device) == (gpu.FLUSH_BYTES, "cuda")
            return Buffer()

    calls = []
    monkeypatch.setattr(gpu, "require_gpu", lambda: Torch)
    assert gpu.measure_on_gpu(lambda: calls.append(1), 4) == (1e-3,) * 4
    assert len(calls) == 4 + gpu.WARM_UP

"""GPUs through torch: moving arrays there and back, and timing with CUDA events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from septran.backends import backend_of, with_code
from septran.runtime.arrays import NUMPY, TORCH, Library, library_of
from septran.runtime.errors import NoGpuError

FLUSH_BYTES = 256 << 20
"""The bytes written before each sample, more than any second-level cache holds."""
SAMPLES = 50
WARM_UP = 3


def require_gpu() -> Any:
    """Return torch, if it reaches a GPU; raises NoGpuError."""
    import torch

    if not torch.cuda.is_available():
        raise NoGpuError(
            "this kernel runs on a GPU, and torch finds none here",
            hint="compile with emulate=True (septran run --emulate) to run its code on the CPU, or "
            "take it to where a GPU is: kernel.save(path) here, septran.load(path) there",
        )
    return torch


def runs_here(backend: str) -> bool:
    """Return whether kernels of this backend run, or are simulated, on this machine."""
    if backend not in with_code():
        return False
    if backend_of(backend).device == "cpu":
        return True
    import torch

    return bool(torch.cuda.is_available())


def to_device(x: Any, device: str) -> Any:
    """Return an array or a tensor of the host as a tensor on a GPU; other values unchanged."""
    library = library_of(x)
    if device == "cpu" or library is None:
        return x
    require_gpu()
    tensor = TORCH.like_numpy(x) if library is NUMPY else x
    return tensor.to(device)


def device_zeros(count: int) -> Any:
    """Return `count` int64 zeros in the GPU's memory."""
    torch = require_gpu()
    return torch.zeros(count, dtype=torch.int64, device="cuda")


@contextlib.contextmanager
def on_device(arrays: Sequence[Any], device: str) -> Iterator[tuple[Library, Sequence[Any]]]:
    """Yield NumPy arrays where a kernel reaches them, and copy results back at the end."""
    # With an empty tensor nothing is launched, so nothing has to lie on the device.
    if device == "cpu" or any(not x.size for x in arrays):
        yield NUMPY, arrays
        return
    moved = [to_device(x, device) for x in arrays]
    yield TORCH, moved
    for x, tensor in zip(arrays, moved, strict=True):
        x[...] = TORCH.numpy(tensor)


def measure_on_gpu(call: Callable[[], object], repeat: int | None = None) -> tuple[float, ...]:
    """Return the seconds of one call on the GPU, by CUDA events, each with cold caches."""
    torch = require_gpu()
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    for _ in range(WARM_UP):
        call()
    pairs = []
    for _ in range(repeat or SAMPLES):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()  # also keeps the GPU busy while the host issues the call
        start.record()
        call()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return tuple(start.elapsed_time(end) * 1e-3 for start, end in pairs)

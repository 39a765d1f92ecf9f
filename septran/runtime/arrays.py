"""One interface for NumPy arrays and torch tensors, and whether they share memory."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from septran.dtypes import ALL, bits_dtype, numpy_dtype


@dataclass(frozen=True)
class Obstacle:
    """An array that cannot be passed on, with the reason."""

    kind: str
    """The kind of reason: ``gradient``, ``device``, ``read-only`` or ``kind``."""
    message: str
    hint: str


class Library(Protocol):
    """The operations of one array library that the runtime needs."""

    name: str

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the extents."""

    def dtype(self, x: Any) -> str | None:
        """Return our name of the element type (in native byte order); None for one we lack."""

    def dtype_text(self, x: Any) -> str:
        """Return the library's own name of the element type."""

    def obstacle(self, x: Any, device: str, output: bool) -> Obstacle | None:
        """Return the reason why `x` cannot be used on a device; None where it can."""

    def ready(self, tensors: Sequence[Any], outputs: Sequence[Any], device: str) -> bool:
        """Return whether arrays can be passed as they are: on the device, compact, aligned; cheap.

        And whether each of `outputs` surely shares no memory with any other array.
        """

    def plain(self, x: Any) -> bool:
        """Return whether `ready` is enough to know for all arrays of this type and dtype."""

    def touched(self, arrays: tuple[Any, ...]) -> None:
        """Notify the library that arrays were written to without it."""

    def allocator(self, shape: tuple[int, ...], dtype: str, device: str) -> Callable[[], Any]:
        """Return a fast `empty` for one kind of array."""

    def awkward(self, x: Any) -> str | None:
        """Why an input must be copied first (``it is transposed``); None where it need not."""

    def copied(self, x: Any) -> Any:
        """Return a compact, aligned, native copy."""

    def passed(self, x: Any) -> Any:
        """Return an object over the same memory that DLPack can export."""

    def empty(self, shape: tuple[int, ...], dtype: str, device: str) -> Any:
        """Return a new array, compact, with undefined content."""

    def zeros(self, shape: tuple[int, ...], dtype: str, device: str) -> Any:
        """Return a new array of zeros."""

    def assign(self, target: Any, source: Any) -> None:
        """Copy all elements."""

    def memory(self, x: Any) -> tuple[int, tuple[int, ...]]:
        """Return the address of the first element, and the strides in bytes."""

    def numpy(self, x: Any) -> np.ndarray[Any, Any]:
        """Return a NumPy array of the same content, over the same memory where that is possible."""

    def like_numpy(self, x: np.ndarray[Any, Any]) -> Any:
        """Return `x` as an array of this library."""


class NumpyLibrary:
    """NumPy arrays in host memory."""

    name = "NumPy"

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the extents."""
        shape: tuple[int, ...] = x.shape
        return shape

    def dtype(self, x: Any) -> str | None:
        """Return our name of the element type; byte order does not count."""
        name = str(x.dtype.newbyteorder("="))
        return name if name in ALL else None

    def dtype_text(self, x: Any) -> str:
        """Return NumPy's own name."""
        return str(x.dtype)

    def obstacle(self, x: Any, device: str, output: bool) -> Obstacle | None:
        """Why it cannot be used: it is masked, on the host, or an output that is read-only."""
        if isinstance(x, np.ma.MaskedArray):
            return Obstacle("kind", "is a masked array", "pass x.filled(...)")
        if device != "cpu":
            hint = f'pass torch tensors on {device!r}, such as torch.from_numpy(x).to("{device}")'
            return Obstacle("device", f"is in host memory, but the kernel runs on {device}", hint)
        if output and not x.flags.writeable:
            return Obstacle("read-only", "is read-only", "pass a writable array, such as x.copy()")
        return None

    def ready(self, tensors: Sequence[Any], outputs: Sequence[Any], device: str) -> bool:
        """Whether arrays are compact, aligned and writable (DLPack refuses others), and apart."""
        arrays = (*tensors, *outputs)
        if not all(x.flags.carray for x in arrays):
            return False
        apart = len(tensors)
        return not any(
            np.may_share_memory(out, x)
            for n, out in enumerate(outputs)
            for x in arrays[: apart + n]
        )

    def plain(self, x: Any) -> bool:
        """Return whether it is of native byte order, and of a type that DLPack exports."""
        return bool(x.dtype.isnative and x.dtype.kind != "V")

    def touched(self, arrays: tuple[Any, ...]) -> None:
        """Do nothing: NumPy does not count writes."""

    def allocator(self, shape: tuple[int, ...], dtype: str, device: str) -> Callable[[], Any]:
        """Return a fast `empty`."""
        return functools.partial(np.empty, shape, numpy_dtype(dtype))

    def awkward(self, x: Any) -> str | None:
        """Return why it must be copied; being read-only is no reason (see `passed`)."""
        if not x.dtype.isnative:
            return "its bytes are not in this machine's order"
        if not x.flags.aligned:
            return "it does not start at a multiple of its element size"
        if not x.flags.c_contiguous:
            return _stride_text(x.shape, x.strides, x.itemsize)
        return None

    def copied(self, x: Any) -> Any:
        """Return a compact, aligned, native copy."""
        return np.array(x, dtype=x.dtype.newbyteorder("="), order="C", copy=True, subok=False)

    def passed(self, x: Any) -> Any:
        """Return an array that DLPack exports, by the address if it is read-only or bfloat16."""
        name = self.dtype(x)
        held = None if name is None else bits_dtype(name)
        if name is not None and held is not None:
            import torch

            address, _ = self.memory(x)
            bits = np.asarray(AddressedMemory(address, x.shape, x.strides, np.dtype(held).str))
            return torch.from_numpy(bits).view(getattr(torch, name))
        if not x.flags.writeable:
            address, _ = self.memory(x)
            return np.asarray(AddressedMemory(address, x.shape, x.strides, x.dtype.str))
        return x

    def empty(self, shape: tuple[int, ...], dtype: str, device: str) -> Any:
        """Return a new array with undefined content."""
        return np.empty(shape, numpy_dtype(dtype))

    def zeros(self, shape: tuple[int, ...], dtype: str, device: str) -> Any:
        """Return a new array of zeros."""
        return np.zeros(shape, numpy_dtype(dtype))

    def assign(self, target: Any, source: Any) -> None:
        """Copy all elements."""
        target[...] = source

    def memory(self, x: Any) -> tuple[int, tuple[int, ...]]:
        """Return the address of the first element, and the strides in bytes."""
        return x.ctypes.data, x.strides

    def numpy(self, x: Any) -> np.ndarray[Any, Any]:
        """Return the array itself."""
        array: np.ndarray[Any, Any] = x
        return array

    def like_numpy(self, x: np.ndarray[Any, Any]) -> Any:
        """Return the array itself."""
        return x


class TorchLibrary:
    """The library of torch tensors; it is used only where torch is imported already."""

    name = "torch"

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the extents."""
        return tuple(x.shape)

    def dtype(self, x: Any) -> str | None:
        """Return our name of the element type."""
        name = str(x.dtype).removeprefix("torch.")
        return name if name in ALL else None

    def dtype_text(self, x: Any) -> str:
        """Return the name in torch."""
        return str(x.dtype).removeprefix("torch.")

    def obstacle(self, x: Any, device: str, output: bool) -> Obstacle | None:
        """Why it cannot be used: not strided, not on the device, or in need of a gradient."""
        import torch

        if x.is_nested:
            hint = "pass x.to_padded_tensor(0.0), or call the kernel on each of x.unbind()"
            return Obstacle("kind", "is a nested tensor, which has no one shape", hint)
        if x.layout is not torch.strided:
            return Obstacle("kind", f"is a {x.layout} tensor", "pass x.to_dense()")
        if x.device.type != device:
            where = f"is on {str(x.device)!r}, but the kernel runs on {device!r}"
            if x.device.type == "meta":
                return Obstacle("device", where + "; it has no data", "pass a tensor with data")
            return Obstacle("device", where, f'pass x.to("{device}")')
        if type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            hint = "pass a plain torch.Tensor"
            return Obstacle(
                "kind", f"is a {type(x).__name__}, which has no memory of its own", hint
            )
        try:
            x.data_ptr()
        except RuntimeError:
            hint = "call the kernel outside of torch.func transforms and torch.compile"
            return Obstacle("kind", "has no memory that a kernel could read", hint)
        held, needed = x.untyped_storage().nbytes(), _needed_bytes(x)
        if held < needed:
            message = f"needs {needed} bytes of memory, and its storage was resized to {held}"
            return Obstacle("kind", message, "resize the storage back, or pass another tensor")
        if x.requires_grad and torch.is_grad_enabled():
            hint = "pass x.detach(), or call inside torch.no_grad()"
            return Obstacle("gradient", "requires a gradient, which a kernel does not record", hint)
        return None

    def ready(self, tensors: Sequence[Any], outputs: Sequence[Any], device: str) -> bool:
        """Whether tensors are compact, aligned, on the device, without gradient, and apart."""
        # Written for speed: this is most of what a call costs beside the kernel.
        host = device == "cpu"
        others = [*tensors]
        try:
            for x in (*tensors, *outputs):
                address = x.data_ptr()
                if (
                    x.requires_grad
                    or not address  # its storage was resized to nothing
                    or not x.is_contiguous()
                    # No element has more than 8 bytes, so most addresses need no division.
                    or (address & 7 and address % x.itemsize)
                    or x.is_neg()
                    or not (x.is_cpu if host else x.device.type == device)
                ):
                    return False
            for out in outputs:
                first = out.data_ptr()
                last = first + out.nbytes
                for x in others:
                    start = x.data_ptr()
                    if start < last and first < start + x.nbytes:
                        return False
                others.append(out)
        except (RuntimeError, NotImplementedError):  # sparse, or wrapped by torch.func
            return False
        return True

    def plain(self, x: Any) -> bool:
        """Return whether it is a dense tensor; subclasses are checked at each call."""
        import torch

        return type(x) is torch.Tensor and x.layout is torch.strided

    def touched(self, arrays: tuple[Any, ...]) -> None:
        """Raise the tensors' versions, so that autograd sees that saved values have changed."""
        increment_version()(arrays)

    def allocator(self, shape: tuple[int, ...], dtype: str, device: str) -> Callable[[], Any]:
        """Return a fast `empty`."""
        import torch

        if device == "cpu" and getattr(torch, dtype) is torch.get_default_dtype():
            return functools.partial(torch.empty, *shape)  # twice as fast as a tuple
        return functools.partial(self.empty, shape, dtype, device)

    def awkward(self, x: Any) -> str | None:
        """Return why it must be copied."""
        if x.is_neg() or x.is_conj():
            return "it is a lazily negated view"
        if x.data_ptr() % x.itemsize:
            return "it does not start at a multiple of its element size"
        if not x.is_contiguous():
            return _stride_text(tuple(x.shape), x.stride(), 1)
        return None

    def copied(self, x: Any) -> Any:
        """Return a compact, aligned copy; lazy negations are carried out."""
        import torch

        plain = x.detach().resolve_neg().resolve_conj()
        if plain.data_ptr() % plain.itemsize:  # clone() reads element by element: allowed on CPUs
            raw = plain.numpy().copy()
            return torch.from_numpy(raw)
        return plain.clone(memory_format=torch.contiguous_format)

    def passed(self, x: Any) -> Any:
        """Return the tensor without its autograd history."""
        return x.detach() if x.requires_grad else x

    def empty(self, shape: tuple[int, ...], dtype: str, device: str) -> Any:
        """Return a new tensor with undefined content."""
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=device)

    def zeros(self, shape: tuple[int, ...], dtype: str, device: str) -> Any:
        """Return a new tensor of zeros."""
        import torch

        return torch.zeros(shape, dtype=getattr(torch, dtype), device=device)

    def assign(self, target: Any, source: Any) -> None:
        """Copy all elements."""
        target.detach().copy_(source)

    def memory(self, x: Any) -> tuple[int, tuple[int, ...]]:
        """Return the address of the first element, and the strides in bytes."""
        return x.data_ptr(), tuple(s * x.itemsize for s in x.stride())

    def numpy(self, x: Any) -> np.ndarray[Any, Any]:
        """Return a NumPy array of the same content; bfloat16 and float8 by their bits."""
        import torch

        plain = x.detach().resolve_neg().resolve_conj().cpu()
        dtype = str(plain.dtype).removeprefix("torch.")
        held = bits_dtype(dtype)
        if held is None:
            array: np.ndarray[Any, Any] = plain.numpy()
            return array
        bits: np.ndarray[Any, Any] = plain.contiguous().view(getattr(torch, held)).numpy()
        return bits.view(numpy_dtype(dtype))

    def like_numpy(self, x: np.ndarray[Any, Any]) -> Any:
        """Return `x` as a tensor."""
        import torch

        held = bits_dtype(str(x.dtype))
        if held is not None:
            return torch.from_numpy(x.view(held).copy()).view(getattr(torch, str(x.dtype)))
        return torch.from_numpy(np.ascontiguousarray(x).reshape(x.shape))


@functools.cache
def increment_version() -> Callable[[tuple[Any, ...]], None]:
    """Return torch's `increment_version`, if possible without the checks around it."""
    import torch

    bare = getattr(torch._C, "_increment_version", None)
    return bare or torch.autograd.graph.increment_version


NUMPY = NumpyLibrary()
TORCH = TorchLibrary()


def library_of(x: Any) -> Library | None:
    """Return the library that `x` is an array of; None where it is none."""
    if isinstance(x, np.ndarray):
        return NUMPY
    torch = sys.modules.get("torch")  # without torch loaded, nothing is a torch tensor
    if torch is not None and isinstance(x, torch.Tensor):
        return TORCH
    return None


def _needed_bytes(x: Any) -> int:
    """The bytes from the start of its storage to the end of a torch tensor's last element."""
    if not x.numel():
        return 0
    last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return int((x.storage_offset() + last + 1) * x.itemsize)


def _stride_text(shape: tuple[int, ...], strides: tuple[int, ...], unit: int) -> str:
    """Return what kind of view it is, in words."""
    steps = [s // unit for n, s in zip(shape, strides, strict=True) if n > 1]
    if any(s == 0 for s in steps):
        return "it is broadcast (a stride is 0)"
    if any(s < 0 for s in steps):
        return "it is reversed (a stride is negative)"
    if steps != sorted(steps, reverse=True):
        return "its axes are transposed in memory"
    return "its rows are not adjacent in memory"


class AddressedMemory:
    """Memory described to NumPy by address, writable even if its owner is not."""

    def __init__(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, typestr: str
    ) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
        }


def share_memory(
    first: tuple[int, tuple[int, ...]],
    first_shape: tuple[int, ...],
    first_size: int,
    second: tuple[int, tuple[int, ...]],
    second_shape: tuple[int, ...],
    second_size: int,
) -> bool:
    """Return whether two arrays, each given by (address, strides), shape and item size, overlap.

    Exact where that is cheap to find out; else a common range of addresses counts.
    """
    if 0 in first_shape or 0 in second_shape:
        return False
    a = np.asarray(AddressedMemory(first[0], first_shape, first[1], f"|V{first_size}"))
    b = np.asarray(AddressedMemory(second[0], second_shape, second[1], f"|V{second_size}"))
    if not np.may_share_memory(a, b):
        return False
    try:
        # Exact answers can take exponential time, hence the limit (numpy.shares_memory).
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]  # any bound will do
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    """Return whether two elements of one array may lie at the same place (broadcast outputs)."""
    if 0 in shape:
        return False
    reach = size
    axes = sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1)
    # As with a mixed-radix number, no two elements meet if each step exceeds all smaller axes.
    for stride, extent in axes:
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


def as_torch(array: np.ndarray) -> Any:
    """The same memory as a torch tensor, which kernels take soonest; itself without torch."""
    try:
        import torch
    except ImportError:
        return array
    if array.dtype.kind == "V":  # a type that is not NumPy's own: torch takes its bits
        bits = array.view(f"uint{8 * array.itemsize}")
        return torch.from_numpy(bits).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)

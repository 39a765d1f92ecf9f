"""llama.cpp's products with quantised weights, where its Python package is there.

``pip install --no-binary llama-cpp-python llama-cpp-python`` builds it for this host (it needs
CMake and a compiler); a copy in another environment is found by ``LLAMA_CPP``, the folder of its
``lib``. Only its library ggml is used: one graph of one product, on weights in its blocks of 32
with one scale each, rearranged for this processor where it knows how (its "repack" buffers).
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from ctypes import c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import torch

from benchmarks.cpu_case import Run

TYPES = {"Q4_0": 2, "Q8_0": 8}
"""Numbers of ggml's types: 4 and 8 bits with a scale of 16 bits for each 32 weights."""
REPACKED = ("Q4_0",)
"""Those that ggml rearranges on x86; of others it must not be asked."""
FLOAT32 = 0
REPACK = "_Z35ggml_backend_cpu_repack_buffer_typev"
"""Buffers of ggml whose weights are rearranged as they are set."""
MISSING = "pip install --no-binary llama-cpp-python llama-cpp-python, or LLAMA_CPP=its lib folder"
"""What to do about it."""
OVERHEAD = 1 << 20
"""Bytes for the descriptions of a few tensors and a graph."""


class _InitParams(ctypes.Structure):
    _fields_ = (("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool))


def _folder() -> Path | None:
    """Where ggml's libraries lie; None where there are none."""
    named, found = os.environ.get("LLAMA_CPP"), importlib.util.find_spec("llama_cpp")
    places = [Path(named)] if named else []
    if found is not None and found.origin:
        places.append(Path(found.origin).parent / "lib")
    return next((place for place in places if (place / "libggml-cpu.so").is_file()), None)


@functools.cache
def library() -> ctypes.CDLL | None:
    """The processor backend of ggml, with the types of what is called; None where it is missing."""
    folder = _folder()
    if folder is None:
        return None
    base = ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
    both: dict[str, tuple[ctypes.CDLL, object, tuple[object, ...]]] = {
        "ggml_init": (base, c_void_p, (_InitParams,)),
        "ggml_new_tensor_2d": (base, c_void_p, (c_void_p, c_int, c_int64, c_int64)),
        "ggml_mul_mat": (base, c_void_p, (c_void_p, c_void_p, c_void_p)),
        "ggml_new_graph": (base, c_void_p, (c_void_p,)),
        "ggml_build_forward_expand": (base, None, (c_void_p, c_void_p)),
        "ggml_nbytes": (base, c_size_t, (c_void_p,)),
        "ggml_version": (base, c_char_p, ()),
        "ggml_quantize_chunk": (
            base, c_size_t,
            (c_int, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p),
        ),
        "ggml_backend_tensor_set": (base, None, (c_void_p, c_void_p, c_size_t, c_size_t)),
        "ggml_backend_tensor_get": (base, None, (c_void_p, c_void_p, c_size_t, c_size_t)),
        "ggml_backend_alloc_ctx_tensors_from_buft": (base, c_void_p, (c_void_p, c_void_p)),
        "ggml_backend_cpu_buffer_type": (base, c_void_p, ()),
        "ggml_backend_graph_compute": (base, c_int, (c_void_p, c_void_p)),
        "ggml_backend_cpu_init": (cpu, c_void_p, ()),
        "ggml_backend_cpu_set_n_threads": (cpu, None, (c_void_p, c_int)),
        REPACK: (cpu, c_void_p, ()),
    }  # fmt: skip
    for name, (place, result, arguments) in both.items():
        function = getattr(place, name)
        function.restype, function.argtypes = result, arguments
        setattr(cpu, name, function)
    return cpu


def version() -> str:
    """What `library` is, in words."""
    ggml = library()
    return "" if ggml is None else f"ggml {ggml.ggml_version().decode()} of llama.cpp"


class Product:
    """C [M, N] = A [M, K] by weights [N, K] of one of `TYPES`, made from `weights`."""

    def __init__(self, a: torch.Tensor, weights: torch.Tensor, kind: str, repack: bool) -> None:
        ggml = library()
        assert ggml is not None
        self.ggml, (m, k), n = ggml, a.shape, weights.shape[0]
        self.result = torch.empty(m, n)
        plain = ggml.ggml_backend_cpu_buffer_type()
        kept, work = (ggml.ggml_init(_InitParams(OVERHEAD, None, True)) for _ in range(2))
        matrix = ggml.ggml_new_tensor_2d(kept, TYPES[kind], k, n)
        ggml.ggml_backend_alloc_ctx_tensors_from_buft(
            kept, getattr(ggml, REPACK)() if repack else plain
        )
        blocks = (ctypes.c_char * ggml.ggml_nbytes(matrix))()
        ggml.ggml_quantize_chunk(TYPES[kind], weights.data_ptr(), blocks, 0, n, k, None)
        ggml.ggml_backend_tensor_set(matrix, blocks, 0, len(blocks))
        rows = ggml.ggml_new_tensor_2d(work, FLOAT32, k, m)
        self.product = ggml.ggml_mul_mat(work, matrix, rows)
        self.graph = ggml.ggml_new_graph(work)
        ggml.ggml_build_forward_expand(self.graph, self.product)
        ggml.ggml_backend_alloc_ctx_tensors_from_buft(work, plain)
        ggml.ggml_backend_tensor_set(rows, a.data_ptr(), 0, a.numel() * 4)
        self.backend = ggml.ggml_backend_cpu_init()

    def __call__(self) -> None:
        """The product once, on as many threads as torch has."""
        self.ggml.ggml_backend_cpu_set_n_threads(self.backend, torch.get_num_threads())
        self.ggml.ggml_backend_graph_compute(self.backend, self.graph)

    def value(self) -> torch.Tensor:
        """What was computed last."""
        size = self.result.numel() * 4
        self.ggml.ggml_backend_tensor_get(self.product, self.result.data_ptr(), 0, size)
        return self.result


def products(m: int, n: int, k: int, kind: str) -> tuple[Run, ...]:
    """Its ways for a shape, in ggml's own order of weights and rearranged; none without ggml.

    Each has been compared with the exact product, from which it may be as far as the weights' bits
    explain.
    """
    if library() is None:
        return ()
    a, weights = torch.randn(m, k), torch.randn(n, k)
    orders = (False, True) if kind in REPACKED else (False,)
    ways = tuple(Product(a, weights, kind, repack) for repack in orders)
    for way in ways:
        way()
        exact = a.double() @ weights.double().t()
        far = (way.value().double() - exact).norm() / exact.norm()
        assert far < {"Q4_0": 0.12, "Q8_0": 0.02}[kind], f"{kind} is {far:.3f} away"
    return ways

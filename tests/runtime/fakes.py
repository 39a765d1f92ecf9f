"""A gemm kernel whose executable is NumPy: calls without any compiler."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from septran.runtime.kernel import Kernel
from septran.runtime.signature import Signature, Specialisation, TensorParam
from septran.runtime.stages import Stages, stage
from septran.targets.base import Source


class NumpyExecutable:
    """C (+)= alpha * A @ B on whatever DLPack tensors it is given; counts its launches."""

    def __init__(self, accumulates: bool = False) -> None:
        self.source = Source("gemm", "numpy", "C[:] = alpha * A @ B")
        self.accumulates = accumulates
        self.launches = 0

    def __call__(self, c, a, b, alpha=1.0):
        c, a, b = (_view(x) for x in (c, a, b))
        assert c.flags.c_contiguous
        assert a.flags.c_contiguous
        assert b.flags.c_contiguous
        assert c.flags.aligned
        product = (alpha * (a.astype("f8") @ b.astype("f8"))).astype(c.dtype)
        c[...] = c + product if self.accumulates else product
        self.launches += 1

    def save(self, folder: Path) -> None:
        (folder / "kernel.txt").write_text(str(self.accumulates), encoding="utf-8")


def made_by(**steps):
    """Stages of which some are made by functions of the stages."""
    return type("Stages", (Stages,), {name: stage(step) for name, step in steps.items()})()


def _view(x):
    if isinstance(x, np.ndarray):
        x.__dlpack__()  # as a real kernel's arguments
        return x
    import torch

    if x.dtype is torch.bfloat16:
        import ml_dtypes

        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def make_kernel(scalars=(), accumulates=False, dtype=None, dims=True, shape=None):
    """A kernel for C = A @ B and the list of what it was specialised for."""
    requests = []

    def named(*names):
        return names if dims else None

    signature = Signature(
        "gemm",
        (
            TensorParam("C", accumulates, True, named("M", "N"), dtype),
            TensorParam("A", True, False, named("M", "K"), dtype, shape),
            TensorParam("B", True, False, named("K", "N"), dtype),
        ),
        tuple(scalars),
    )

    def specialise(shapes, dtypes):
        requests.append((dict(shapes), dict(dtypes)))
        out = dtypes.get("C", dtypes["A"])
        known = {"C": (shapes["A"][0], shapes["B"][1]), **shapes}
        tensors = tuple(
            TensorParam(t.name, t.reads, t.writes, t.dims, dtypes.get(t.name, out), known[t.name])
            for t in signature.tensors
        )
        stages = made_by(
            tile_program=lambda _: SimpleNamespace(remarks=()),
            executable=lambda _: NumpyExecutable(accumulates),
        )
        return Specialisation(tensors, signature.scalars, stages)

    return Kernel(signature, specialise), requests

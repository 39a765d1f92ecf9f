"""A small gemm logic with a variant, and mappings written in a line or two."""

from __future__ import annotations

from textwrap import dedent

import pytest

from septran import task
from septran.mapping.loader import load_mapping
from septran.mapping.resolve import resolve


@task.define(leaf=True)
def tile(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def scale(Y, X):
    e = task.empty(X.shape, task.float32, name="e")
    e[:, :] = X * 2
    Y[:, :] = e + 1


@task.define
def block(C, A, B):
    step = task.tunable("block_K", 16)
    Ap = task.partition(A, shape=(A.shape[0], step))
    Bp = task.partition(B, shape=(step, B.shape[1]))
    task.fill(C, 0)
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(tile, C, Ap[0, k], Bp[k, 0])


@task.define(variant_of="block")
def block_whole(C, A, B):
    task.fill(C, 0)
    task.launch(tile, C, A, B)


@task.define
def product(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    rows = task.tunable("block_M", 64)
    Cp = task.partition(C, shape=(rows, C.shape[1]))
    Ap = task.partition(A, shape=(rows, A.shape[1]))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(block, Cp[i, 0], Ap[i, 0], B)


@task.define
def scaled(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    rows = task.tunable("block_M", 64)
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(scale, Yp[i, 0], Xp[i, 0])


SHAPES = {"C": (128, 64), "A": (128, 96), "B": (96, 64)}


class Bench:
    """Traces and resolves in one call, as a compilation does."""

    product, scaled = product, scaled

    def mapping(self, text, machine=None):
        return load_mapping(dedent(text) if isinstance(text, str) else text, machine)

    def resolve(self, text, machine=None, logic=product, dtype="float32", shapes=None, **tunables):
        mapping = self.mapping(text, machine)
        if shapes is None:
            shapes = SHAPES if logic is product else {"Y": (128, 64), "X": (128, 64)}
        dtypes = dict.fromkeys(shapes, dtype) if isinstance(dtype, str) else dtype
        chooser = mapping.chooser(tunables=tunables)
        return resolve(task.trace(logic, shapes, dtypes, chooser), mapping)

    def field(self, resolved, path, name):
        """The setting of ``mems.A`` or ``proc`` of the instance at a path."""
        value = resolved.instance(path)
        for part in name.split("."):
            value = value[part] if hasattr(value, "keys") else getattr(value, part)
        return value


@pytest.fixture(scope="session")
def bench():
    return Bench()

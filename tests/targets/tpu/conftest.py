"""Fixtures of the TPU target: modules, kernels that JAX interprets, and what may lack here."""

import pytest

import septran
from septran.targets.tpu.executable import INSTALL, has_jax


@pytest.fixture
def text():
    """`text(logic, M=...)` is the module of an operator on a TPU v5e."""

    def make(logic, dtype="float32", mapping="tpu-v5e", **shapes):
        stages = septran.produce_stages(logic, mapping, shapes=shapes, dtypes=dtype)
        return str(stages.tensor_ir)

    return make


@pytest.fixture
def jax():
    """JAX; the test is skipped where it is not installed."""
    if not has_jax():
        pytest.skip(f"JAX is not installed: {INSTALL}")
    import jax

    return jax


@pytest.fixture
def kernel(jax):
    """`kernel(logic, M=...)` is a kernel that JAX interprets."""

    def make(logic, dtype="float32", mapping="tpu-v5e", **shapes):
        return septran.compile(logic, mapping, shapes=shapes, dtypes=dtype)

    return make

"""Kernels as JAX's TPU interpreter runs them: right, and wrong ones found by its own detector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran import operators
from septran.fuzz.renaming import renamed
from septran.matrix import measure_cell
from septran.targets.tpu.executable import (
    INTERPRETER,
    TRANSFERS,
    MosaicError,
    NoJaxError,
    TpuArgumentError,
    TpuRunError,
    WideIntegerError,
    transfers,
)
from tests.targets.tpu.test_module import REFUSED, whole_numbers
from tests.tiers import slow_but

CASES = {
    f"{name} {case}": case
    for name in operators.names() if name not in REFUSED for case in operators.cases(name)
}  # fmt: skip
FAST = [key for key, case in CASES.items() if case.operator in ("gemm", "softmax")]


@pytest.mark.parametrize("key", slow_but(FAST, CASES))
def test_an_operator_is_right_in_every_case(jax, key):
    cell = measure_cell(CASES[key], "tpu-v5e")
    assert cell.ran
    assert cell.right, cell.message


def test_attention_is_right_and_so_is_it_under_other_names(kernel, tmp_path):
    sizes = {"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 16}
    assert kernel("attention", **sizes).check().right
    made = renamed("attention", lambda name: f"zq{name}")
    (tmp_path / f"{made.entry}.py").write_text(made.text)
    other = kernel(tmp_path / f"{made.entry}.py", **{f"zq{k}": v for k, v in sizes.items()})
    assert other.check().right


def test_bfloat16_and_int8_go_through_the_matrix_units(kernel):
    assert kernel("gemm", "bfloat16", M=33, N=70, K=90).check().right
    assert kernel("gemm", "int8", M=33, N=70, K=90).check().right


@pytest.mark.parametrize("number", range(4))
def test_a_missing_wait_is_found(kernel, number):
    found = kernel("gemm", M=128, N=128, K=1100)
    executable = found.stages.executable
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype("float32") for s in ((128, 1100), (1100, 128)))
    lines = executable.text.splitlines(keepends=True)
    waits = [n for n, line in enumerate(lines) if "_VMEM" in line and ".wait()" in line]
    removed = waits[number]
    wrong = replace(executable, text="".join(lines[:removed] + lines[removed + 1 :]))
    c = np.empty((128, 128), "float32")
    with transfers("eager"), pytest.raises(TpuRunError, match="race"):
        wrong(c, a, b)
    wrong(c, a, b)  # what it would have brought is not there
    assert not np.allclose(c, a @ b, rtol=1e-3, atol=1e-3)
    for when in TRANSFERS:
        with transfers(when):
            assert found.check(a, b).right


def test_a_stage_that_is_filled_too_early_is_a_race(kernel):
    found = kernel("elementwise", M=64, N=512)
    executable = found.stages.executable
    x = np.ones((64, 512), "float32")
    early = executable.text.replace("X_VMEM.at[(j + 1) % 2]", "X_VMEM.at[j % 2]", 1)
    assert early != executable.text
    with pytest.raises(TpuRunError, match="race"):
        replace(executable, text=early)(np.empty_like(x), x)


def test_reads_beyond_a_tensor_are_errors(kernel):
    executable = kernel("elementwise", M=64, N=512).stages.executable
    x = np.ones((64, 512), "float32")
    text = executable.text.replace("128 * j + 128", "128 * j + 384")
    assert text != executable.text
    with pytest.raises(TpuRunError, match="Out-of-bounds"):
        replace(executable, text=text)(np.empty_like(x), x)


def test_a_kernel_is_a_function_of_jax(jax, kernel):
    executable = kernel("softmax", M=40, N=70).stages.executable
    x = np.random.default_rng(0).standard_normal((40, 70)).astype("float32")
    function = executable.jax_function()
    doubled = jax.jit(lambda x: 2 * function(x))(x)
    np.testing.assert_allclose(doubled, 2 * jax.nn.softmax(x, axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "dtype", "said"),
    [
        (41, "float32", r"X is float32 of \(41, 70\), not float32 of \(40, 70\)"),
        (30, "float32", r"X is float32 of \(30, 70\)"),
        (40, "float16", r"X is float16 of \(40, 70\), not float32"),
    ],
)
def test_a_function_of_jax_refuses_other_arrays(jax, kernel, rows, dtype, said):
    function = kernel("softmax", M=40, N=70).stages.executable.jax_function()
    with pytest.raises(TpuArgumentError, match=said):
        jax.jit(function)(np.zeros((rows, 70), dtype))
    with pytest.raises(TpuArgumentError, match=r"takes 1 values \(X\), and got 2"):
        function(np.zeros((40, 70), "float32"), 3)


def test_floats_become_integers_as_the_language_says(kernel):
    found = kernel(whole_numbers, None, M=64, N=128)
    x = np.zeros((64, 128), "float32")
    x[0, :6] = [1.5, -1.5, 2.0**31, np.inf, np.nan, -(2.0**33)]
    y = found(x)
    assert y[0, :6].tolist() == [4, -4, -(2**31), 0, 0, 0]


def test_an_integer_that_does_not_fit_32_bits_is_refused(kernel):
    found = kernel("embedding", None, T=8, V=16, D=128)
    w, index = np.ones((16, 128), "float32"), np.full(8, 2**40)
    with pytest.raises(WideIntegerError, match="index"):
        found(w, index)


@pytest.mark.parametrize("machine", ["tpu-v5e", "tpu-v6e"])
def test_mosaic_takes_the_kernels(kernel, machine):
    for logic, sizes in (
        ("gemm", {"M": 300, "N": 128, "K": 700}),
        ("softmax", {"M": 40, "N": 70}),
        ("attention", {"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 16}),
    ):
        executable = kernel(logic, mapping=machine, **sizes).stages.executable
        assert "tpu_custom_call" in executable.mosaic()


def test_what_mosaic_refuses_is_refused_here(kernel):
    executable = kernel("softmax", M=40, N=70).stages.executable
    text = executable.text.replace("jnp.max(X_VMEM", "jnp.max(jnp.cumsum(X_VMEM", 1)
    text = text.replace("[...], axis=1)", "[...], axis=1), axis=1)", 1)
    with pytest.raises(MosaicError, match="cumsum"):
        replace(executable, text=text).mosaic()


def test_a_host_without_jax_says_what_to_install(monkeypatch):
    monkeypatch.setattr("septran.targets.tpu.executable.has_jax", lambda: False)
    found = septran.compile("softmax", "tpu-v5e", shapes={"M": 40, "N": 70})
    executable = found.stages.executable
    assert executable.emulator == INTERPRETER
    assert executable.missing()
    with pytest.raises(NoJaxError, match="not installed"):
        replace(executable)(np.empty((40, 70), "float32"), np.ones((40, 70), "float32"))


def test_the_table_of_operators_says_who_ran_it(jax):
    from septran.matrix import measure_matrix

    found = measure_matrix(["softmax"], ["tpu-v5e"], first=True)
    assert f"tpu-v5e ({INTERPRETER})" in str(found).splitlines()[0]
    assert f"| tpu-v5e ({INTERPRETER}) |" in found.to_markdown()

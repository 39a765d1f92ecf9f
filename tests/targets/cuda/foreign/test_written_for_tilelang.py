"""SepTran's logic and mappings as TileLang programs, compiled by TileLang, run by the emulator."""

import numpy as np
import pytest

import septran
from septran.emulator import MODES
from septran.matrix import compile_kernel
from septran.runtime.accuracy import compare, error_bounds
from tests.targets.cuda.foreign.test_tilelang import run  # noqa: F401  (a fixture)

pytestmark = pytest.mark.slow
CASES = {
    "gemm by wgmma": ("gemm", "nvidia-h200", "float16", {"M": 128, "N": 256, "K": 256}),
    "gemm by mma": ("gemm", "nvidia-a100", "bfloat16", {"M": 128, "N": 128, "K": 96}),
    "gemm, ragged": ("gemm", "nvidia-a100", "float16", {"M": 100, "N": 72, "K": 80}),
    "gemm of single elements": ("gemm", "nvidia-a100", "float32", {"M": 40, "N": 33, "K": 70}),
    "softmax": ("softmax", "nvidia-h200", "float32", {"M": 32, "N": 256}),
    "layer_norm, ragged": ("layer_norm", "nvidia-a100", "float32", {"M": 40, "N": 70}),
    "attention": (
        "attention", "nvidia-h200", "float16", dict(B=1, H=2, G=2, M=128, N=256, D=64),
    ),
    "attention, ragged": (
        "attention", "nvidia-a100", "float16", dict(B=1, H=2, G=1, M=100, N=70, D=64),
    ),
    "attention_varlen": (
        "attention_varlen", "nvidia-a100", "float32", dict(T=23, S=37, L=8, H=2, G=1, D=16),
    ),
    "embedding": ("embedding", "nvidia-a100", "float32", {"T": 64, "V": 100, "D": 64}),
    "cumsum": ("cumsum", "nvidia-a100", "float32", {"M": 64, "N": 256}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_foreign_compiler_makes_the_same_of_logic_and_mapping(run, tmp_path, name):  # noqa: F811
    logic, machine, dtype, shapes = CASES[name]
    settings = {"shapes": shapes, "dtypes": dtype}
    explained = septran.explain(logic, machine, **settings)
    module = tmp_path / f"{logic}.py"
    module.write_text(explained.text("tilelang"))
    kernel = compile_kernel(logic, machine, emulate=True, **settings)
    inputs = kernel.sample()
    program = explained.tile_program
    for mode in MODES:
        arrays = {
            b.name: np.array(inputs[b.name]) if b.name in inputs
            else np.zeros(b.shape, septran.dtypes.numpy_dtype(b.dtype))
            for b in program.buffers if b.memory == program.machine.main_memory.name
        }  # fmt: skip
        scalars = {s.name: (s.dtype, s.default) for s in program.scalars}
        run(str(module), arrays, mode, scalars)
        exact = error_bounds(explained.task_tree, {k: v for k, v in inputs.items()})
        for output in program.outputs:
            found = compare(output, arrays[output], exact[output])
            assert found.right, found
            assert found.unknown == 0


def test_injected_mistakes_are_found(run, tmp_path):  # noqa: F811
    """The comparison can fail: a tile that is read beside its place makes it."""
    settings = {"shapes": {"M": 128, "N": 128, "K": 96}, "dtypes": "float16"}
    explained = septran.explain("gemm", "nvidia-a100", **settings)
    text = explained.text("tilelang")
    wrong = text.replace("T.copy(B[32 * k, ", "T.copy(B[32 * k + 1, ")
    assert wrong != text
    module = tmp_path / "gemm.py"
    module.write_text(wrong)
    inputs = compile_kernel("gemm", "nvidia-a100", emulate=True, **settings).sample()
    arrays = {"C": np.zeros((128, 128), np.float16), **inputs}
    run(str(module), arrays, MODES[0])
    exact = error_bounds(explained.task_tree, inputs)
    assert not compare("C", arrays["C"], exact["C"]).right

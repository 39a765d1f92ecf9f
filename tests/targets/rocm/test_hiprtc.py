"""What HIP's own compiler library makes of the text, which has HIP's headers in front of it."""

import pytest

from septran.errors import TargetError
from septran.targets.rocm import toolchain
from septran.targets.rocm.compile import HipRefusedError, compile_text
from septran.targets.rocm.toolchain import HipRtc, NoHipCompilerError, available

HEADS = {"B": 1, "H": 2, "G": 2, "M": 64, "N": 64, "D": 64}
SIZES = {"M": 64, "N": 80, "K": 48}
CASES = {
    "gemm": [("gemm", dtype, SIZES) for dtype in ("float16", "bfloat16", "int8", "float64")],
    "rows": [(op, "float16", {"M": 8, "N": 300}) for op in ("softmax", "layer_norm")],
    "mathematics": [
        ("gemm_bias_act", "bfloat16", SIZES), ("attention", "float16", HEADS),
        ("elementwise", "float64", {"M": 8, "N": 70}),
    ],
    "bytes": [("fp8_gemm", None, SIZES)],
}  # fmt: skip


@pytest.fixture
def hiprtc(monkeypatch):
    monkeypatch.setenv(toolchain.VARIABLE, "hiprtc")
    found = available()
    if found is None:
        pytest.skip("no hipRTC is here: apt-get install libamdhip64-5 libhiprtc-builtins5")
    return found


@pytest.mark.parametrize("name", CASES)
def test_hiprtc_compiles_the_text_for_cdna2(name, hiprtc, program):
    """CDNA 2's, which each hipRTC since ROCm 5 knows."""
    for logic, dtype, shapes in CASES[name]:
        made = program(logic, dtype, "amd-mi250", **shapes)
        compiled = compile_text(made.source, "gfx90a", logic)
        assert compiled.code.startswith(b"\x7fELF")
        for launch in made.launches:
            assert launch.kernel.encode() in compiled.code
        assert "hipRTC" in compiled.compiler
        assert compiled.figures == ()


def test_what_it_refuses_is_an_error(hiprtc):
    with pytest.raises(HipRefusedError, match="undeclared_name"):
        compile_text("int x = undeclared_name;", "gfx90a")


def test_a_library_that_is_none_is_not_taken(monkeypatch):
    monkeypatch.setenv(toolchain.VARIABLE, "hiprtc")
    for library in ("libm.so.6", "no-such-library.so"):
        monkeypatch.setenv(toolchain.RUNTIME_VARIABLE, library)
        assert available() is None
        with pytest.raises(NoHipCompilerError):
            toolchain.compiler()


def test_a_process_of_hiprtc_that_dies_is_an_error(monkeypatch):
    """As an early hipRTC does at an architecture that it does not know."""
    monkeypatch.setattr("septran.targets.rocm.compile.compiler", lambda: HipRtc("libm.so.6"))
    with pytest.raises(TargetError, match="refused the HIP text"):
        compile_text("/* nothing */", "gfx90a")

"""Generated code that somebody has edited: compiled again, run, and what is wrong with it found."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran.emulator import MisuseError
from septran.emulator.build import HostCompilerError
from septran.runtime.errors import EditedCodeError
from septran.simulator.errors import FlagError, HazardError
from septran.targets.dsa.code import toolchain
from septran.targets.dsa.code.edited import NotCompiledError, kept_origins

SIZES = {"M": 64, "N": 64, "K": 512}
needs_c = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler here")


def on_a_dsa():
    mapping = septran.load_mapping("dsa-sim").with_(tunables={"block_K": 64})
    return septran.compile("gemm", mapping, shapes=SIZES)


def without(text: str, words: str, which: int = 0) -> str:
    """The text without one of the lines that have `words`."""
    lines = text.splitlines(keepends=True)
    del lines[[n for n, line in enumerate(lines) if words in line][which]]
    return "".join(lines)


@needs_c
def test_what_is_not_changed_runs_as_before():
    kernel = on_a_dsa()
    edited = kernel.with_source(str(kernel.stages.source) + "/* the same */\n")
    a, b = kernel.sample().values()
    assert np.array_equal(kernel(a, b), edited(a, b))
    assert edited.profile(a, b).cycles == kernel.profile(a, b).cycles
    assert edited.stages.source.difference().splitlines()[-1] == "+/* the same */"
    assert kernel.stages.source.difference() == ""
    assert str(edited.stages.tile_program) == str(kernel.stages.tile_program)


@needs_c
def test_a_mistake_gives_another_result():
    kernel = on_a_dsa()
    text = str(kernel.stages.source).replace("A + k * 64 + 64", "A + k * 64 + 63")
    assert "wrong" in str(kernel.with_source(text).check())


@needs_c
def test_a_wait_less_is_found_at_its_flag():
    kernel = on_a_dsa()
    edited = kernel.with_source(without(str(kernel.stages.source), "wait_flag(0, 2, ", 1))
    with pytest.raises(FlagError, match="set more often than it is waited for"):
        edited.check()


@needs_c
def test_flags_in_another_place_are_a_race_with_the_edited_line():
    kernel = on_a_dsa()
    text = str(kernel.stages.source)
    wait = next(line for line in text.splitlines() if "wait_flag(0, 2, k % 2)" in line)
    mma = next(line for line in text.splitlines() if "mma(" in line and "k % 2" in line)
    swapped = text.replace(f"{wait}\n", "").replace(f"{mma}\n", f"{mma}\n{wait}\n")
    with pytest.raises(HazardError) as caught:
        kernel.with_source(swapped).check()
    assert "gemm_tile calls gemm" in str(caught.value)


@needs_c
def test_edited_code_is_for_its_shapes_and_is_not_kept(tmp_path):
    kernel = on_a_dsa()
    edited = kernel.with_source(str(kernel.stages.source))
    a, b = kernel.sample().values()
    with pytest.raises(EditedCodeError, match=r"edited for C: float32\[64, 64\]"):
        edited(a[:32], b)
    for keep in (edited.save, edited.export):
        with pytest.raises(EditedCodeError, match="was edited") as caught:
            keep(tmp_path / "kept")
        assert "the kernel that with_source was called on" in str(caught.value.hint)
    with pytest.raises(toolchain.CompileError):
        kernel.with_source("int main(")


@needs_c
@needs_c
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "", "the edited text has no function 'void gemm\\(int32_t core, float "),
        (lambda text: text.replace("void gemm(", "void another("), "the edited text has no func"),
        (lambda text: text.replace("void gemm(", "static void gemm("), "the edited text has no f"),
        (lambda text: "int gemm;", "redeclared as different kind of symbol|redefinition of 'gemm'"),
        (lambda text: text.replace("void gemm(", "void gemm(int64_t more, "), "conflicting types"),
    ],
    ids=["empty", "renamed", "static", "a number", "another parameter"],
)
def test_a_text_without_the_function_that_is_called_is_refused(change, words):
    with pytest.raises(toolchain.CompileError, match=words) as caught:
        on_a_dsa().with_source(change(str(on_a_dsa().stages.source)))
    assert "kernel.stages.source" in str(caught.value.hint)  # and not the machine file's vendor


@pytest.mark.skipif(toolchain.cpp_compiler() is None, reason="no C++ compiler here")
def test_ascend_c_whose_kernel_takes_something_else_is_refused():
    kernel = septran.compile("gemm", "ascend-910b", shapes=SIZES, dtypes="float16")
    text = str(kernel.stages.source)
    assert text.count("(GM_ADDR C_gm, ") == 1
    with pytest.raises(toolchain.CompileError, match="conflicting declaration") as caught:
        kernel.with_source(text.replace("(GM_ADDR C_gm, ", "(uint32_t C_gm, "))
    assert "kernel.stages.source" in str(caught.value.hint)


@needs_c
def test_a_second_edit_is_compared_with_what_was_generated():
    kernel = on_a_dsa()
    once = kernel.with_source(str(kernel.stages.source) + "/* one */\n")
    twice = once.with_source(str(once.stages.source) + "/* two */\n")
    assert twice.stages.source.difference().splitlines()[-2:] == ["+/* one */", "+/* two */"]


def test_code_that_is_not_compiled_of_text_cannot_be_edited():
    kernel = septran.compile("softmax", "cpu-x86", shapes={"M": 4, "N": 8})
    with pytest.raises(EditedCodeError, match="not compiled of its text"):
        kernel.with_source("")


def test_without_a_c_compiler_a_control_program_cannot_be_edited(monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    monkeypatch.setattr("septran.targets.dsa.code.build.compiler", lambda: None)
    with pytest.raises(NotCompiledError, match="not a C compiler"):
        on_a_dsa().with_source("")


def test_origins_follow_their_lines():
    before, after = "a\nb\nc", "x\na\nc"
    origins = kept_origins(before, {1: "why a", 3: "why c"}, after)
    assert origins == {1: "line 1, which was edited", 2: "why a", 3: "why c"}


def on_a_gpu():
    return septran.compile(
        "gemm", "nvidia-a100", shapes={"M": 64, "N": 64, "K": 128}, dtypes="float16",
        emulate=True, tunables={"block_M": 64, "block_N": 64, "block_K": 32},
    )  # fmt: skip


def test_edited_cuda_is_emulated_and_its_missing_wait_found():
    kernel = on_a_gpu()
    wait = "    tvm_builtin_ptx_cp_async_wait_group_async_wait_group_0();\n"
    text = str(kernel.stages.source)
    assert text.count(wait) == 1
    edited = kernel.with_source(text.replace(wait, ""))
    assert edited.stages.source.difference().splitlines()[-2].strip("- ") == wait.strip()
    with pytest.raises(septran.SepTranError, match="async"):
        edited.check()
    kernel.check().raise_if_wrong()  # what it was made of is as it was


def test_edited_cuda_is_compiled_at_once():
    kernel = on_a_gpu()
    text = str(kernel.stages.source)
    with pytest.raises(HostCompilerError, match="refused a translated kernel"):
        kernel.with_source("int main(")
    for other in ("", text.replace("gemm_kernel", "another")):
        with pytest.raises(MisuseError, match="no kernel 'gemm_kernel'"):
            kernel.with_source(other)

"""Leaves by functions of one's own: compiled with the kernel, checked against the leaf."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import septran
from septran.errors import SepTranError
from septran.mapping.extern.function import ExternLeafError, ExternSourceError
from septran.targets.cpu.extern.call import ExternOperandError
from septran.targets.cpu.extern.compiler import (
    ExternCompileError,
    ExternSignatureError,
    NoCxxCompilerError,
)

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")

LOGIC = """\
from septran import task

@task.define(leaf=True)
def tile(C, A, B):
    task.call_primitive("gemm", C, A, B)

@task.define
def product(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    step = task.tunable("block_K")
    Cp = task.partition(C, shape=(32, 48))
    Ap, Bp = task.partition(A, shape=(32, step)), task.partition(B, shape=(step, 48))
    for i, j in task.parallel_range(Cp.shape):
        task.fill(Cp[i, j], 0)
        for k in task.sequential_range(Ap.shape[1]):
            task.launch(tile, Cp[i, j], Ap[i, k], Bp[k, j])
"""
MAPPING = """\
machine: cpu-x86
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
  - match: {task: tile}
    proc: CORE
    mems: {A: L2, B: L2}
    binding: "extern kernels.cpp:mine::tile"
tunables: {block_K: 40}
"""
SOURCE = """\
#include "septran_leaf.h"

namespace mine {
template <typename T>
void tile(septran::tile<T, 2> C, septran::tile<const T, 2> A, septran::tile<const T, 2> B) {
  for (int i = 0; i < C.extent[0]; i++)
    for (int j = 0; j < C.extent[1]; j++) {
      float sum = C(i, j);
      for (int k = 0; k < A.extent[1]; k++) sum += A(i, k) * B(k, j);
      C(i, j) = sum;
    }
}
}  // namespace mine
"""


@pytest.fixture
def files(tmp_path):
    """The three files of a kernel with a leaf of its own; each may be written anew."""
    (tmp_path / "product.py").write_text(LOGIC)
    (tmp_path / "product.mapping.yaml").write_text(MAPPING)
    (tmp_path / "kernels.cpp").write_text(SOURCE)
    return tmp_path


def compiled(files, **more):
    return septran.compile(files / "product.py", files / "product.mapping.yaml", **more)


def operands(dtype="float32", m=50, n=70, k=90):
    random = np.random.default_rng(3)
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return (
        random.standard_normal((m, k)).astype(kind),
        random.standard_normal((k, n)).astype(kind),
    )


def changed(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_function_computes_the_leaf_at_ragged_edges_too(files):
    kernel = compiled(files)
    assert kernel.check(*operands()).right
    assert "by extern kernels.cpp:mine::tile" in str(kernel.stages.tile_program)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_elements_of_other_types_have_types_of_their_own(files, dtype):
    changed(files / "kernels.cpp", "float sum = C(i, j)", "auto sum = C(i, j) + 0.0f")
    assert compiled(files).check(*operands(dtype)).right


@pytest.mark.slow
def test_a_caller_names_the_function_of_a_leaf_that_it_launches(files):
    (files / "product.mapping.yaml").write_text("""\
machine: cpu-x86
entrypoint: whole
task_mappings:
  whole:
    task_name: product
    proc: HOST
    mems: {"*": DRAM}
    tunables: {block_K: 40}
    calls: {tile: inner}
    leaf_task_bindings: {tile: "extern kernels.cpp:mine::tile"}
  inner: {task_name: tile, proc: CORE, mems: {A: L2, B: L2}}
""")
    assert compiled(files).check(*operands()).right


def test_a_wrong_function_is_found_with_its_element(files):
    changed(files / "kernels.cpp", "C(i, j) = sum;", "C(i, j) = sum + (i == 3 && j == 5);")
    check = compiled(files).check(*operands())
    assert not check.right
    assert "C: 4 of 3500 elements are wrong; C[35, 53] is" in str(check)


@pytest.mark.slow
@pytest.mark.one_width
def test_a_write_beyond_the_tile_is_found_between_guard_pages(files):
    changed(files / "kernels.cpp", "C(i, j) = sum;", "C(i, j) = sum; C(i + 4096, j) = 0;")
    assert not compiled(files).check(*operands(), guard=True).right


def test_the_interpreter_runs_what_the_leaf_means(files):
    a, b = operands()
    stages = septran.produce_stages(
        files / "product.py", files / "product.mapping.yaml", shapes={"M": 50, "N": 70, "K": 90}
    )
    septran.verify(stages.tile_program, full=True)
    c = septran.interpret(stages.tile_program, {"A": a, "B": b}, order=3)["C"]
    assert np.abs(c - a.astype("float64") @ b).max() < 90 * 2.0**-24 * 90


def test_remarks_say_the_prototype(files):
    explained = septran.explain(
        files / "product.py", files / "product.mapping.yaml", shapes={"M": 50, "N": 70, "K": 90}
    )
    assert (
        "void tile(septran::tile<float, 2> C, septran::tile<const float, 2> A, "
        "septran::tile<const float, 2> B)" in " ".join(str(explained).split())
    )


def test_a_missing_file_is_an_error_that_says_how_it_begins(files):
    (files / "kernels.cpp").unlink()
    with pytest.raises(ExternSourceError, match=r"7:14: there is no file") as raised:
        compiled(files)(*operands())
    assert "void tile(septran::tile<float, 2> C" in raised.value.hint


def test_a_file_outside_of_the_mappings_folder_is_refused(files):
    changed(files / "product.mapping.yaml", "kernels.cpp", "../kernels.cpp")
    with pytest.raises(ExternSourceError, match="outside"):
        compiled(files)(*operands())


def test_a_function_stands_alone(files):
    changed(files / "product.mapping.yaml", '"extern kernels.cpp:mine::tile"',
            '["extern kernels.cpp:mine::tile", fma_microkernel]')  # fmt: skip
    with pytest.raises(ExternSourceError, match="one of several"):
        compiled(files)(*operands())


def test_a_name_without_a_function_is_a_wrong_value(files):
    changed(files / "product.mapping.yaml", "kernels.cpp:mine::tile", "kernels.cpp")
    with pytest.raises(SepTranError, match="FILE:FUNCTION") as raised:
        compiled(files)
    assert raised.value.where.line == 7


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tile(septran::tile<T, 2> C", "other(septran::tile<T, 2> C"),
        ("septran::tile<const T, 2> A", "septran::tile<T, 2> A"),
        ("septran::tile<T, 2> C, ", "septran::tile<T, 3> C, "),
    ],
)
def test_another_signature_is_an_error_with_the_prototype(files, old, new):
    changed(files / "kernels.cpp", old, new)
    if "3" in new:
        changed(files / "kernels.cpp", "(i, j)", "(i, j, 0)")
    with pytest.raises(ExternSignatureError, match="has no void tile") as raised:
        compiled(files)(*operands())
    assert raised.value.where.line == 7
    assert "septran::tile<const float, 2> A" in raised.value.hint


def test_the_compilers_error_is_shown_at_the_users_line(files):
    changed(files / "kernels.cpp", "C(i, j) = sum;", "C(i, j) = summ;")
    with pytest.raises(ExternCompileError, match="summ") as raised:
        compiled(files)(*operands())
    assert raised.value.where.file == str(files / "kernels.cpp")
    assert raised.value.where.line == 10


def test_what_nothing_defines_is_an_error_and_not_the_end_of_the_process(files):
    changed(files / "kernels.cpp", "float sum = C(i, j)", "float sum = helper(C(i, j))")
    changed(files / "kernels.cpp", "namespace mine {", "float helper(float);\nnamespace mine {")
    with pytest.raises(ExternCompileError, match=r"nothing defines helper\(float\)") as caught:
        compiled(files)(*operands())
    assert "product.mapping.yaml:7:14" in str(caught.value)


def test_a_file_may_have_spaces_in_its_name(files):
    (files / "my own").mkdir()
    (files / "kernels.cpp").rename(files / "my own" / "these kernels.cpp")
    changed(files / "product.mapping.yaml", "kernels.cpp", "my own/these kernels.cpp")
    assert compiled(files).check(*operands()).right


def test_a_leaf_of_several_outputs_is_refused(files):
    (files / "product.py").write_text(
        "from septran import task\n\n"
        "@task.define(leaf=True)\ndef tile(C, D, A):\n    C[:, :] = A + 1\n    D[:, :] = A\n\n"
        "@task.define\n"
        'def product(C: task.Tensor["M", "N"], D: task.Tensor["M", "N"], '
        'A: task.Tensor["M", "N"]):\n    task.launch(tile, C, D, A)\n'
    )
    with pytest.raises(ExternLeafError, match="it writes C and D"):
        compiled(files)(operands()[0])


def test_other_machines_have_no_functions_of_ones_own(files):
    with pytest.raises(SepTranError, match="runs no functions of one's own"):
        septran.explain(
            files / "product.py",
            'machine: dsa-sim\nrules: [{match: {task: tile}, binding: "extern kernels.cpp:f"}]',
            shapes={"M": 50, "N": 70, "K": 90},
        )


def test_an_operand_in_panels_is_refused(files):
    changed(
        files / "product.mapping.yaml",
        "proc: CORE",
        "proc: CORE\n    layouts: {B: 'panels(1, 16)'}",
    )
    with pytest.raises(ExternOperandError, match="not in strides"):
        compiled(files)(*operands())


def test_without_a_compiler_the_error_says_so(files, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NoCxxCompilerError, match="there is no no-such-compiler here"):
        compiled(files)(*operands())


@pytest.mark.slow
def test_one_kernel_for_all_extents_calls_it_too(files):
    kernel = compiled(files, dynamic={"M": (1, 100)})
    for rows in (1, 50, 100):
        assert kernel.check(*operands(m=rows)).right


def test_a_changed_function_is_compiled_anew(files):
    before = compiled(files)(*operands())
    (files / "part.h").write_text("constexpr float scale = 2;\n")
    changed(files / "kernels.cpp", "\nnamespace", '\n#include "part.h"\nnamespace')
    changed(files / "kernels.cpp", "sum += A", "sum += scale * A")
    assert np.allclose(compiled(files)(*operands()), 2 * before, atol=1e-3)
    (files / "part.h").write_text("constexpr float scale = 1;\n")
    assert np.array_equal(compiled(files)(*operands()), before)


def test_softmax_of_rows_is_one_function(tmp_path):
    (tmp_path / "rows.py").write_text("""\
from septran import task

@task.define(leaf=True)
def rows(Y, X):
    top = task.max(X, axis=1)
    e = task.exp(X - top[:, None])
    Y[:, :] = e / task.sum(e, axis=1)[:, None]

@task.define
def softmax(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    Yp, Xp = task.partition(Y, shape=(4, Y.shape[1])), task.partition(X, shape=(4, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(rows, Yp[i, 0], Xp[i, 0])
""")
    (tmp_path / "rows.cpp").write_text("""\
#include <cmath>
#include "septran_leaf.h"

void rows(septran::tile<float, 2> Y, septran::tile<const float, 2> X) {
  for (int i = 0; i < X.extent[0]; i++) {
    float top = X(i, 0), sum = 0;
    for (int j = 1; j < X.extent[1]; j++) top = std::fmax(top, X(i, j));
    for (int j = 0; j < X.extent[1]; j++) sum += Y(i, j) = std::exp(X(i, j) - top);
    for (int j = 0; j < X.extent[1]; j++) Y(i, j) /= sum;
  }
}
""")
    (tmp_path / "rows.mapping.yaml").write_text("""\
machine: cpu-x86
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
  - {match: {task: rows}, proc: CORE, binding: "extern rows.cpp:rows"}
""")
    kernel = septran.compile(tmp_path / "rows.py", tmp_path / "rows.mapping.yaml")
    assert kernel.check(np.random.default_rng(0).standard_normal((21, 33), np.float32)).right


@pytest.mark.slow
@pytest.mark.one_width
def test_a_library_carries_the_function_along(files):
    if shutil.which("ar") is None:
        pytest.skip("no archiver here")
    kernel = compiled(files, shapes={"M": 50, "N": 70, "K": 90})
    septran.export([kernel], files / "out", name="mine")
    loaded = septran.load(files / "out")
    c = loaded(*operands())
    assert np.array_equal(c, kernel(*operands()))


@pytest.mark.slow
def test_a_saved_kernel_needs_no_source(files):
    kernel = compiled(files, shapes={"M": 50, "N": 70, "K": 90})
    kernel.save(files / "saved.zip")
    expected = kernel(*operands())
    (files / "kernels.cpp").unlink()
    assert np.array_equal(septran.load(files / "saved.zip")(*operands()), expected)


@pytest.mark.slow
@pytest.mark.skipif(
    any(shutil.which(n) is None for n in ("aarch64-linux-gnu-g++", "qemu-aarch64")),
    reason="no C++ compiler for ARM, or no QEMU",
)
def test_it_runs_on_an_emulated_arm_processor(files):
    changed(files / "product.mapping.yaml", "cpu-x86", "cpu-arm")
    assert compiled(files).check(*operands()).right

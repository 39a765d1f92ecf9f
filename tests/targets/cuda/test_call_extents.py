"""Kernels for every length: grids, tensor maps and edges from the extents of a call."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import septran
from septran import task
from septran.emulator.launch import (
    CudaProgram,
    KernelLaunch,
    Pointer,
    ScalarArgument,
    TensorMap,
    evaluated,
)
from septran.machine.loader import load_machine
from septran.targets.call_sizes import CallSize
from septran.targets.cuda.run import executable as executables
from septran.targets.cuda.run import launched
from septran.targets.cuda.run.compile import Compiled
from septran.targets.cuda.run.emulated import emulation
from septran.targets.cuda.run.executable import CudaExecutable, program_from, program_to
from septran.targets.cuda.run.instrumented_run import record_emulated
from septran.targets.cuda.run.launcher import LauncherError, TensorSpec, make_function, table
from septran.targets.cuda.unsupported import UnsupportedByCudaError
from tests.targets.cuda.test_launcher import HOST, aligned

emulated = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
MACHINES = ("nvidia-h200", "nvidia-a100")


def normal(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def kernel_of(name: str, machine: str, *dims: str, most: int = 300, **more):
    sizes = dict.fromkeys(dims, (1, most))
    return septran.compile(name, machine, dynamic=sizes, emulate=True, **more)


def test_interpreter_runs_the_program_of_any_length():
    """With the roles, rings and copies that a GPU's passes make."""
    kernel = kernel_of("gemm", "nvidia-h200", "M")
    for m in (5, 130):
        a, b = normal(np.float16, m, 72), normal(np.float16, 72, 40)
        exact = a.astype(np.float32) @ b.astype(np.float32)
        assert np.allclose(kernel.interpret(a, b), exact, atol=0.05)  # `check` judges the numbers


@task.define(leaf=True)
def apart(D, X, Y):
    D[:] = Y - X


@task.define
def steps(D, X):
    for t in task.sequential_range(X.shape[0] - 1):
        task.launch(apart, D[t], X[t], X[t + 1])


@task.define
def differences(D: task.Out["B", "T - 1", "N"], X: task.In["B", "T", "N"]):
    for b in task.parallel_range(X.shape[0]):
        task.launch(steps, D[b], X[b])


def test_one_row_less_than_a_call_has():
    """Where it has one, no row is written, which was taken for a write that is lost."""
    kernel = septran.compile(differences, "nvidia-h200", dynamic={"T": (1, 40)}, emulate=True)
    for rows in (1, 2, 7):
        x = normal(np.float32, 3, rows, 12)
        assert np.array_equal(kernel.interpret(x), np.diff(x, axis=1))


@emulated
@pytest.mark.slow
def test_elements_of_rows_of_any_length():
    kernel = kernel_of("elementwise", "nvidia-h200", "M", "N", most=130)
    for m, n in ((1, 1), (7, 70), (65, 129)):
        kernel.check(normal(np.float32, m, n)).raise_if_wrong()
    (launch,) = kernel.stages.executable.program.launches
    assert launch.told
    assert launch.at({"M": 65, "N": 70}).grid > launch.at({"M": 7, "N": 70}).grid


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_products_of_half_floats_by_rows(machine):
    """Tensor maps of rows, where there are some, end where a call's tensors do."""
    kernel = kernel_of("gemm", machine, "M")
    for mode, m in (("eager", 5), ("late", 130), ("random", 300)):
        with emulation(mode):
            inputs = normal(np.float16, m, 72), normal(np.float16, 72, 136)
            kernel.check(*inputs).raise_if_wrong()
    if machine == "nvidia-h200":
        arguments = kernel.stages.executable.program.launches[0].arguments
        maps = [a for a in arguments if isinstance(a, TensorMap)]
        assert ("extents", 1, "M") in {told for m in maps for told in m.told}


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_products_with_rows_of_any_length(machine):
    """No tensor map, and no chunk of 16 bytes, is of rows that begin anywhere."""
    for dims, shapes in (("N", lambda n: ((20, 72), (72, n))), ("K", lambda n: ((20, n), (n, 72)))):
        kernel = kernel_of("gemm", machine, dims)
        for n in (3, 64, 131):
            kernel.check(*(normal(np.float16, *s) for s in shapes(n))).raise_if_wrong()


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_attention_over_queries_and_keys(machine):
    kernel = kernel_of("attention", machine, "M", "N")
    for m, n in ((5, 64), (130, 200)):
        q, k, v = (normal(np.float16, 1, 2, e, 64) for e in (m, n, n))
        kernel.check(q, k, v).raise_if_wrong()


@task.define(leaf=True)
def add(y, x):
    y[:, :] = y + x


@task.define
def summed(Y: task.Tensor["M", "N"], X: task.Tensor["S", "M", "N"]):
    task.fill(Y, 0)
    Xp = task.partition(X, shape=(1, 8, 16))
    Yp = task.partition(Y, shape=(8, 16))
    for s in task.sequential_range(X.shape[0]):
        for i, j in task.parallel_range(Yp.shape):
            task.launch(add, Yp[i, j], Xp[s, i, j][0])


def test_kernels_that_a_call_counts_are_refused():
    shapes = {"S": 3, "M": 8, "N": 16}
    with pytest.raises(UnsupportedByCudaError, match="kernels are launched S times") as error:
        septran.compile(summed, "nvidia-h200", shapes=shapes, dynamic=["S"], emulate=True)
    assert error.value.where is not None
    assert "dynamic" in str(error.value.hint)


@emulated
@pytest.mark.slow
def test_marks_are_of_the_blocks_of_a_call():
    kernel = kernel_of("elementwise", "nvidia-a100", "M")
    blocks = []
    for m in (5, 300):
        x = normal(np.float32, m, 70)
        y = kernel(x)
        blocks.append(len({m.block for m in record_emulated(kernel.stages.tile_program, (y, x))}))
    assert blocks[0] < blocks[1]


# ---- what a call tells, without a GPU

MAP = TensorMap(
    "A", "float16", (64, 512), (128,), (64, 32), 128, "A_map",
    told=(("extents", 1, "M"), ("strides", 0, "2*K")),
)  # fmt: skip
LAUNCH = KernelLaunch(
    "gemm_kernel", 16, 128, 1, 0,
    (MAP, Pointer("C", "float32", "C"), ScalarArgument("M", "int32"), ScalarArgument("K", "int32")),
    told="((M + 31)//32)*(2)",
)  # fmt: skip
PROGRAM = CudaProgram(
    "", (LAUNCH,), (), ("A", "C"), (("M", "int32"), ("K", "int32")), "sm_90a"
)  # fmt: skip
TENSORS = (
    TensorSpec("A", "float16", (512, 64), ("M", "K")),
    TensorSpec("C", "float32", (512,), ("M",)),
)
SIZES = (CallSize("M", 1, 512, 0, 0), CallSize("K", 1, 64, 0, 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(M + 127)//128", 3), ("-M + 2*K", -172), ("min(M, 64*K) - 1", 299),
        ("max(0, K - M)", 0), ("M%7", 6), ("(M*K)", 19200),
    ],
)  # fmt: skip
def test_arithmetic_over_extents(text, value):
    assert evaluated(text, {"M": 300, "K": 64}) == value


@pytest.mark.parametrize("text", ["M.real", "__import__('os')", "M if K else 1", "M/2"])
def test_other_text_is_refused(text):
    with pytest.raises((ValueError, KeyError)):
        evaluated(text, {"M": 300, "K": 64})


def test_a_launch_of_a_call_has_its_grid_and_its_maps():
    (launch,) = PROGRAM.at({"M": 70, "K": 32}).launches
    found = launch.arguments[0]
    assert launch.grid == 6
    assert isinstance(found, TensorMap)
    assert (found.extents, found.strides) == ((64, 70), (64,))


def test_a_program_is_kept_with_what_calls_tell():
    assert program_from(program_to(PROGRAM)) == PROGRAM


def executable() -> CudaExecutable:
    compiled = Compiled("sm_90a", b"CUBINxyz", "", "", "none", 0.0)
    machine = load_machine("nvidia-h200")
    return CudaExecutable("gemm", PROGRAM, TENSORS, ("C",), machine, sizes=SIZES, compiled=compiled)


def test_each_length_has_a_table_and_all_have_one_code(driver, monkeypatch):
    def of_the_host(found, cubin, library, key):
        found.device_type = HOST
        return make_function(found, cubin, library, key)

    monkeypatch.setattr(launched, "make_function", of_the_host)
    call = executable().function
    arrays = [(aligned((m, 64), np.float16), aligned((m,), np.float32)) for m in (70, 200)]
    for a, c in (arrays[0], arrays[0], arrays[1]):
        call(a, c)
    words = [line.split() for line in driver.log]
    assert [w[0] for w in words if w[0] in ("load", "map", "launch")] == [
        "load", "map", "launch", "launch", "map", "launch",
    ]  # fmt: skip
    assert [w[w.index("grid") + 1] for w in words if w[0] == "launch"] == ["6", "6", "14"]
    assert [w[6] for w in words if w[0] == "map"] == ["70/32*1", "200/32*1"]


def test_tensors_of_other_lengths_are_refused(driver):
    with pytest.raises(ValueError, match="M is not in 1 to 512"):
        executable().function(aligned((600, 64), np.float16), aligned((600,), np.float32))
    short = executable().table((70, 64))
    assert list(short.tensors[1].shape)[:1] == [70]
    assert short.scalar_count == 2


def test_it_is_not_exported(tmp_path):
    with pytest.raises(LauncherError, match="is for any M and K") as error:
        executable().export(tmp_path, ("input", "output"))
    assert "dynamic" in str(error.value.hint)


def test_a_saved_one_takes_lengths(tmp_path):
    executable().save(tmp_path)
    again = executables.load(tmp_path)
    assert (again.program, again.tensors, again.sizes) == (PROGRAM, TENSORS, SIZES)


def test_a_table_for_the_most_is_as_ever():
    assert table("gemm", PROGRAM, TENSORS).launches[0].grid == 16

"""The C launcher, seen by a stand-in for the driver: order of calls, arguments, errors."""

import numpy as np
import pytest
import torch
import tvm_ffi

from septran import dtypes
from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer, ScalarArgument, TensorMap
from septran.targets.cuda.run.launcher import (
    DriverError,
    KernelArgumentError,
    LauncherError,
    TensorSpec,
    compile_launcher,
    dl_type,
    make_function,
    table,
)

HOST = 1  # kDLCPU: tensors of the host stand for those of a GPU
MAP = TensorMap("A", "float16", (64, 128), (128,), (64, 32), 128, "A_map", offset=256)
GEMM = KernelLaunch("gemm_kernel", 132, 384, 2, 200_000, (MAP, Pointer("C", "float32", "C")))


def program(*launches, scratch=(), scalars=()) -> CudaProgram:
    return CudaProgram("", launches or (GEMM,), scratch, ("A", "C"), scalars, "sm_90a")


TENSORS = (TensorSpec("A", "float16", (128, 64)), TensorSpec("C", "float32", (16,)))


def aligned(shape, dtype) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size].view(dtype).reshape(shape)


@pytest.fixture
def arrays():
    return aligned((128, 64), np.float16), aligned((16,), np.float32)


@pytest.mark.parametrize("name", sorted(dtypes.TYPES))
def test_every_element_type_is_what_torch_passes_for_it(name):
    passed = tvm_ffi.from_dlpack(torch.zeros(4, dtype=getattr(torch, name))).dtype
    assert dl_type(name) == (passed.type_code, passed.bits)


def function(given, **more):
    return make_function(table("gemm", given, TENSORS, HOST), b"CUBINxyz", **more)


def test_a_call_loads_encodes_and_launches(driver, arrays):
    function(program())(*arrays)
    assert [line for line in driver.log if line not in ("cuInit 0", "retain device 0")] == [
        "load CUBINxyz",
        "function gemm_kernel",
        "attribute 8 of gemm_kernel is 200000",
        "map type 6 at %100: 64/64*1 128/32*1 strides 128 interleave 0 swizzle 3 promotion 3 "
        "fill 0 aligned 1",
        "launch gemm_kernel grid 132 block 384 shared 200000 stream 0 attribute 4: 2 1 1 "
        "first %100",
    ]


def test_a_second_call_only_launches(driver, arrays):
    call = function(program())
    call(*arrays)
    driver.reset()
    call(*arrays)
    assert [line.split()[0] for line in driver.log] == ["launch"]


def test_other_addresses_are_encoded_anew_and_kept(driver, arrays):
    call = function(program())
    other = aligned((128, 64), np.float16)
    call(*arrays)
    call(other, arrays[1])
    driver.reset()
    for _ in range(3):
        call(*arrays)
        call(other, arrays[1])
    assert {line.split()[0] for line in driver.log} == {"launch"}


def test_launches_follow_each_other_with_scratch_memory(driver, arrays):
    first = KernelLaunch(
        "part", 8, 128, 1, 0, (Pointer("A", "float16", "A"), Pointer("S", "int8", "S"))
    )
    second = KernelLaunch(
        "sum", 1, 32, 1, 0, (Pointer("S", "int8", "S"), Pointer("C", "float32", "C"))
    )
    function(program(first, second, scratch=(("S", 1000),)))(*arrays)
    told = [line.split(" stream")[0] for line in driver.log]
    assert told[-3:] == [
        "allocate 1000",
        "launch part grid 8 block 128 shared 0",
        "launch sum grid 1 block 32 shared 0",
    ]
    assert driver.allocated == 0  # it was given back


def test_scalars_are_passed_by_value(driver, arrays):
    launch = KernelLaunch(
        "scale", 1, 32, 1, 0, (ScalarArgument("factor", "float32"), Pointer("A", "float16", "A"))
    )
    scaled = program(launch, scalars=(("factor", "float32"),))
    function(scaled)(*arrays, 2.5)
    bits = int(np.float32(2.5).view(np.uint32)) & 0xFFF
    assert driver.log[-1].endswith(f"first %{bits:x}")
    with pytest.raises(KernelArgumentError, match="scalar 0 is not a number"):
        function(scaled)(*arrays, "much")


@pytest.mark.parametrize(
    ("a", "c", "message"),
    [
        (np.zeros((128, 64), np.float32), None, "A has another element type"),
        (np.zeros((64, 128), np.float16), None, "axis 1 of A has 128 elements, not 64"),
        (np.zeros((128 * 64,), np.float16), None, "A has 1 axes, not 2"),
        (aligned((64, 128), np.float16).T, None, "A is not contiguous"),
        (aligned((128 * 64 + 1,), np.float16)[1:].reshape(128, 64), None, "multiple of 16 bytes"),
        (None, 3.0, "C is not a tensor"),
    ],
)
def test_unsuitable_tensors_are_refused(driver, arrays, a, c, message):
    given = (arrays[0] if a is None else a, arrays[1] if c is None else c)
    with pytest.raises(KernelArgumentError, match=message):
        function(program())(*given)
    assert not any(line.startswith("launch") for line in driver.log)


def test_too_few_arguments_are_refused(driver, arrays):
    with pytest.raises(
        KernelArgumentError, match="takes 2 tensors and 0 scalars, and got 1 values"
    ):
        function(program())(arrays[0])


def test_what_the_driver_refuses_is_said(driver, arrays):
    driver.fail_launch(700)
    with pytest.raises(DriverError, match="gemm_kernel failed: an illegal memory access"):
        function(program())(*arrays)


def test_scratch_memory_is_given_back_after_an_error(driver, arrays):
    launch = KernelLaunch("part", 8, 128, 1, 0, (Pointer("S", "int8", "S"),))
    driver.fail_launch(700)
    with pytest.raises(DriverError):
        function(program(launch, scratch=(("S", 1000),)))(*arrays)
    assert driver.allocated == 0


def test_more_than_the_tables_hold_is_refused():
    with pytest.raises(LauncherError, match="has 13 kernels; the launcher holds 12"):
        table("much", program(*[GEMM] * 13), TENSORS)
    with pytest.raises(LauncherError, match="a scalar of bfloat16"):
        table("small", program(scalars=(("x", "bfloat16"),)), TENSORS)


def test_without_a_c_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    compile_launcher.cache_clear()
    with pytest.raises(LauncherError, match="takes a C compiler") as caught:
        compile_launcher()
    assert "install gcc" in str(caught.value)

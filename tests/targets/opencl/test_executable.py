"""Kernels in OpenCL C as executables: called, kept, refused, and wrong ones found out."""

import numpy as np
import pytest

import septran
from septran.targets.opencl.run import device as devices
from septran.targets.opencl.run.device import NoOpenClDeviceError, OpenClRefusedError
from septran.targets.opencl.run.executable import load

SIZES = {"M": 40, "N": 70}


def compiled(logic="softmax", **shapes):
    return septran.compile(logic, "opencl-generic", shapes=shapes or SIZES)


def broken(kernel, old, new):
    """The kernel's check after a part of its text has become another."""
    executable = kernel.stages.executable
    text = executable.program.source
    assert old in text
    object.__setattr__(executable.program, "source", text.replace(old, new))
    executable.__dict__.pop("_kernels", None)
    return kernel.check()


def test_without_a_device_there_is_text(monkeypatch):
    monkeypatch.setenv(devices.VARIABLE, "none")
    source = septran.produce_stages("softmax", "opencl-generic", shapes=SIZES).source
    assert source.language == "opencl"
    assert "__kernel void softmax_kernel" in source.text
    assert "none" in source.facts["not compiled"]
    with pytest.raises(NoOpenClDeviceError, match="no OpenCL device") as error:
        devices.found()
    assert "unset SEPTRAN_OPENCL" in str(error.value.hint)


def test_a_device_that_is_not_there_is_told_with_those_that_are(monkeypatch, device):
    monkeypatch.setenv(devices.VARIABLE, "abacus")
    with pytest.raises(NoOpenClDeviceError, match="abacus") as error:
        devices.found()
    assert device.device.name in str(error.value)


@pytest.mark.usefixtures("device")
def test_a_kernel_is_called_and_kept(tmp_path):
    kernel = compiled()
    executable = kernel.stages.executable
    x = np.random.default_rng(0).standard_normal((40, 70)).astype(np.float32)
    executable.save(tmp_path)
    again = load(tmp_path)
    assert again.program == executable.program
    y = np.empty_like(x)
    again(y, x)
    assert np.array_equal(y, kernel(x))


@pytest.mark.usefixtures("device")
def test_tensors_may_begin_anywhere():
    """Where vectors would not be aligned, a device gets a copy."""
    kernel = compiled()
    whole = np.random.default_rng(0).standard_normal(2 * 40 * 70 + 2).astype(np.float32)
    x, y = whole[1:2801].reshape(40, 70), whole[2801:5601].reshape(40, 70)
    kernel.stages.executable(y, x)
    assert np.array_equal(y, kernel(np.array(x)))


@pytest.mark.usefixtures("device")
def test_a_driver_that_refuses_the_text_is_an_error():
    with pytest.raises(OpenClRefusedError, match="refused"):
        broken(compiled(), "__kernel", "__kernal")


@pytest.mark.usefixtures("device")
def test_more_local_memory_than_the_device_has_is_an_error():
    kernel = compiled("gemm", M=40, N=70, K=33)
    (launch,) = kernel.stages.executable.program.launches
    object.__setattr__(launch, "shared_bytes", 1 << 40)
    with pytest.raises(OpenClRefusedError, match="bytes of local memory"):
        kernel.check()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* b_ptr[", "+ b_ptr["),
        ("k < 3;", "k < 2;"),
        ("#define septran_barrier() barrier", "#define septran_barrier() (void)"),
    ],
    ids=["operation", "trips", "barriers"],
)
def test_a_wrong_kernel_gives_wrong_results(old, new):
    """A work-item of PoCL goes on to the next barrier before another begins: without any, tiles
    are read that the others have not filled."""
    kernel = compiled("gemm", M=70, N=130, K=90)
    assert kernel.check().right
    assert not broken(kernel, old, new).right

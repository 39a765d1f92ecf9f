"""What `export` writes builds with nvcc and apache-tvm-ffi alone, and launches."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer, ScalarArgument, TensorMap
from septran.machine.loader import load_machine
from septran.targets.cuda.run.compile import compile_text
from septran.targets.cuda.run.executable import CudaExecutable, load
from septran.targets.cuda.run.export import export
from septran.targets.cuda.run.launcher import TensorSpec
from septran.targets.cuda.text.prelude import lighten, prelude

TEXT = lighten(
    """\
extern "C" __global__ void __launch_bounds__(128) add_kernel(
    const __grid_constant__ CUtensorMap A_map, half* __restrict__ A, float* __restrict__ C,
    float factor) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");  // of sm_90a alone
  C[threadIdx.x] = float(A[threadIdx.x]) * factor + float(A_map.opaque[0] == 0);
}
extern "C" __global__ void last_kernel(uchar* S, float* C) { C[0] = S[0]; }
""",
    prelude,
)
MAP = TensorMap("A", "float16", (64, 8), (128,), (64, 8), 128, "A_map")
PROGRAM = CudaProgram(
    TEXT,
    (
        KernelLaunch("add_kernel", 4, 128, 2, 1024, (
            MAP, Pointer("A", "float16", "A"), Pointer("C", "float32", "C"),
            ScalarArgument("factor", "float32"),
        )),
        KernelLaunch("last_kernel", 1, 32, 1, 0, (
            Pointer("S", "uint8", "S"), Pointer("C", "float32", "C"),
        )),
    ),
    (("S", 4096),), ("C", "A"), (("factor", "float32"),), "sm_90a",
)  # fmt: skip
TENSORS = (TensorSpec("C", "float32", (128,)), TensorSpec("A", "float16", (8, 64)))


def executable(compiled=None) -> CudaExecutable:
    machine = load_machine("nvidia-h200")
    return CudaExecutable("add", PROGRAM, TENSORS, ("C",), machine, compiled=compiled)


def test_the_folder_reads_well(tmp_path, golden):
    path = export(executable(), tmp_path)
    text = path.read_text()
    golden.check(text[text.index("static const Program PROGRAM") :], "program")
    golden.check((tmp_path / "load.py").read_text(), "load")
    assert {p.name for p in tmp_path.iterdir()} == {"add.cu", "build.sh", "load.py", "README.md"}
    assert str(Path(__file__).parents[3]) not in text


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
def test_it_builds_and_launches_without_tvm(tmp_path, driver):
    """In a process of its own, on tensors of the host that stand for a GPU's."""
    export(executable(), tmp_path, device_type=1)
    # cudaGetFuncBySymbol asks the runtime library, which wants a real driver: a stand-in, too.
    text = (tmp_path / "add.cu").read_text().replace("cudaGetFuncBySymbol", "fake_find")
    fake = """
static cudaError_t fake_find(cudaFunction_t* function, const void* symbol) {
  *function = (cudaFunction_t)(symbol == (const void*)add_kernel ? "add" : "last");
  return cudaSuccess;
}
"""
    assert text.count("namespace launcher {") == 1
    (tmp_path / "add.cu").write_text(
        text.replace("namespace launcher {", fake + "namespace launcher {")
    )
    script = """
import json, sys, ctypes, torch
sys.modules["tvm"] = None
from load import add
x = torch.zeros(8, 64, dtype=torch.float16)
y = add(x, scalars=(1.5,))
out = torch.empty(128)
assert add(x, out=out, scalars=(1.5,)) is out
import os
fake = ctypes.CDLL(os.environ["SEPTRAN_LIBCUDA"])
fake.fake_log.restype = ctypes.c_char_p
print(json.dumps([list(y.shape), fake.fake_log().decode()]))
"""
    subprocess.run(
        ["sh", str(tmp_path / "build.sh")], check=True, env={**os.environ, "PYTHON": sys.executable}
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shape, log = json.loads(done.stdout)
    assert shape == [128]
    launches = [line.split(" first")[0] for line in log.splitlines() if line.startswith("launch")]
    assert launches == 2 * [
        "launch add grid 4 block 128 shared 1024 stream 0 attribute 4: 2 1 1",
        "launch last grid 1 block 32 shared 0 stream 0",
    ]


def test_a_kernel_is_saved_and_loaded(tmp_path, cuda_compiler, driver):
    built = executable(compile_text(TEXT, "sm_90a", "add"))
    built.save(tmp_path)
    again = load(tmp_path)
    assert (again.program, again.tensors, again.machine) == (PROGRAM, TENSORS, built.machine)
    assert again.compiled == built.compiled
    assert again.source == built.source
    assert bytes(again.table()) == bytes(built.table())

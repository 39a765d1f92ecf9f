"""Compiling CUDA text: compilers are found, errors are readable, figures are data."""

import os
import sys
from pathlib import Path

import pytest

from septran.emulator.launch import CudaProgram, KernelLaunch
from septran.machine.loader import load_machine
from septran.targets.cuda.run import toolchain
from septran.targets.cuda.run.compile import (
    Advisory,
    Compiled,
    KernelFigures,
    RefusedError,
    compile_text,
    disassemble,
    read_figures,
)
from septran.targets.cuda.run.facts import blocks_per_unit, count_ptx, count_sass, kernel_facts
from septran.targets.cuda.run.toolchain import NoCompilerError
from septran.targets.cuda.text.prelude import BEGIN, END, lighten, prelude

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to insufficient register resources for the wgmma pipeline in the function 'gemm_kernel'
ptxas info    : Compiling entry function 'gemm_kernel' for 'sm_90a'
ptxas info    : Function properties for gemm_kernel
ptxas         .     16 bytes stack frame, 32 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 1024 bytes smem
ptxas info    : Compile time = 405.431 ms
ptxas info    : Compiling entry function 'sum_kernel' for 'sm_90a'
ptxas info    : Function properties for sum_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 28 registers
"""
PTX = """\
\t@%p1 bra \t$L__BB0_2;
\t{ .reg .pred ps0; setp.ne.b32 ps0, %r1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 x;}
\tcp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2];
\tsetmaxnreg.dec.sync.aligned.u32 40;
\t@%p2 cp.async.cg.shared.global [%r1], [%rd2], 16;
"""
SASS = """\
        /*0000*/                   LDC R1, c[0x0][0x37c] ;    /* 0x0000df00ff017b82 */
        /*0010*/              @!P0 HGMMA.64x256x16.F32 R24, gdesc[UR4] ;
        /*0020*/              @UP0 UTMALDG.2D [UR8], [UR4] ;
        /*0030*/                   STL [R1], R2 ;
"""


def test_figures_are_read_from_what_ptxas_says():
    assert read_figures(LOG) == (
        KernelFigures("gemm_kernel", 168, 32, 24, 16, 1024, 9),
        KernelFigures("sum_kernel", 28, 0, 0, 0, 0, 0),
    )
    (advisory,) = Compiled("sm_90a", b"", "", LOG, "", 0.0).advisories
    assert advisory.code == "C7510"
    assert advisory == Advisory("C7510", advisory.text)
    assert "serialized" in advisory.text


def test_instructions_are_counted():
    assert count_ptx(PTX) == {
        "wgmma.mma_async": 1, "cp.async.bulk.tensor": 1, "setmaxnreg": 1, "cp.async.cg": 1,
    }  # fmt: skip
    assert count_sass(SASS) == {"HGMMA": 1, "UTMALDG": 1, "STL": 1}


@pytest.mark.parametrize(
    ("machine", "block", "shared", "registers", "blocks"),
    [
        ("nvidia-h200", 384, 200_000, 168, 1),  # by shared memory and registers
        ("nvidia-h200", 384, 0, 168, 1),  # 168 * 384 of 65536 registers
        ("nvidia-h200", 256, 100_000, 40, 2),
        ("nvidia-h200", 1024, 0, 32, 2),  # 2048 threads
        ("nvidia-h200", 32, 0, 16, 32),
        ("nvidia-a100", 128, 81_920, 64, 2),  # 164 KiB: each takes a KiB more
        ("nvidia-a100", 128, 83_968, 64, 1),
    ],
)
def test_occupancy_follows_from_the_machine_file(machine, block, shared, registers, blocks):
    figures = KernelFigures("k", registers, 0, 0, 0, 0, 0)
    launch = KernelLaunch("k", 132, block, 1, shared, ())
    assert blocks_per_unit(launch, figures, load_machine(machine)) == blocks


def test_facts_tell_kernels_apart():
    launches = (
        KernelLaunch("gemm_kernel", 132, 384, 2, 200_000, ()),
        KernelLaunch("sum_kernel", 8, 128, 1, 0, ()),
    )  # fmt: skip
    program = CudaProgram("", launches, (("S", 4096),), (), (), "sm_90a")
    facts = kernel_facts(
        program,
        Compiled("sm_90a", b"abc", PTX, LOG, "NVRTC 13.0", 0.5),
        load_machine("nvidia-h200"),
    )
    assert facts["gemm_kernel: registers a thread"] == 168
    assert facts["gemm_kernel: blocks a cluster"] == 2
    assert facts["gemm_kernel: spill bytes"] == 56
    assert facts["sum_kernel: occupancy"] == "100%"
    assert facts["wgmma.mma_async"] == 1
    assert facts["scratch bytes"] == 4096
    assert facts["cubin bytes"] == 3
    assert "serialized" in facts["ptxas C7510"]


HEADERS = "#include <cstdint>\n  #define ushort unsigned short\n#endif\n"


def test_headers_give_way_to_the_types_that_are_used():
    text = lighten(HEADERS + '\nextern "C" __global__ void k(half* x) { x[0] = 1.0f; }\n', prelude)
    assert "#include" not in text
    assert text.startswith(BEGIN)
    assert "struct half" in text
    assert "nv_bfloat16" not in text
    assert lighten(text, prelude).count(END) == 2  # it is for the printer's own text only


CONVERT = """\
extern "C" __global__ void k(half* h, nv_bfloat16* b, __nv_fp8_e4m3* e, __nv_fp8_e5m2* f,
                             float* x, int8_t* q) {
  x[0] = (float)h[0] + (float)b[0] + (float)e[0] + (float)f[0] + (float)q[0] + CUDART_INF_F;
  h[0] = (half)x[1]; b[0] = (nv_bfloat16)x[1]; e[0] = (__nv_fp8_e4m3)x[1];
  f[0] = (__nv_fp8_e5m2)x[1]; h[1] = (half)q[1];
}
"""


def test_the_types_compile_for_both_architectures(cuda_compiler):
    compiled = compile_text(f"{prelude(CONVERT)}\n{CONVERT}", "sm_90a")
    assert [f.kernel for f in compiled.figures] == ["k"]
    assert ".target sm_90a" in compiled.ptx
    assert compiled.cubin.startswith(b"\x7fELF")
    for conversion in ("cvt.rn.f16.f32", "cvt.rn.bf16.f32", "cvt.rn.satfinite.e4m3x2.f32"):
        assert conversion in compiled.ptx
    plain = CONVERT.replace("__nv_fp8_e4m3", "half").replace("__nv_fp8_e5m2", "half")
    assert compile_text(f"{prelude(plain)}\n{plain}", "sm_80").arch == "sm_80"


@pytest.mark.parametrize("tool", ["nvrtc", "nvcc"])
def test_refused_text_is_quoted(tool, monkeypatch):
    found = getattr(toolchain, tool)()
    if found is None:
        pytest.skip(f"no {tool} here")
    monkeypatch.setenv(toolchain.VARIABLE, tool)
    with pytest.raises(RefusedError, match=r"(?s)CUDA text of bad:.*identifier \"y\" is undefined"):
        compile_text('extern "C" __global__ void k(int* x) { x[0] = y; }', "sm_90a", "bad")
    warned = 'extern "C" __global__ void k(int* x) { int y; x[0] = y; }'
    with pytest.raises(RefusedError, match="used before its value is set"):
        compile_text(warned, "sm_90a", "warned")
    unused = 'extern "C" __global__ void k(int* x) { int y = 3; x[0] = 1; }'
    assert compile_text(unused, "sm_90a").figures[0].kernel == "k"


def test_equal_text_is_compiled_once(cuda_compiler):
    text = 'extern "C" __global__ void once(int* x) { x[0] = 1; }'
    assert compile_text(text, "sm_90a") is compile_text(text, "sm_90a")


def test_machine_code_is_shown_where_a_disassembler_is(cuda_compiler):
    text = 'extern "C" __global__ void add(float* x) { x[0] = x[1] * x[2] + x[3]; }'
    sass = disassemble(compile_text(text, "sm_90a").cubin)
    if not toolchain.disassemblers():
        assert sass is None
    else:
        assert count_sass(sass)["FFMA"] == 1


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv(toolchain.VARIABLE, "none")
    with pytest.raises(NoCompilerError) as caught:
        compile_text("", "sm_90a")
    assert "pip install nvidia-cuda-nvrtc" in str(caught.value)
    assert "--emulate" in str(caught.value)


def test_a_compiler_can_be_named(monkeypatch):
    found = toolchain.nvcc()
    if found is None:
        pytest.skip("no nvcc here")
    monkeypatch.setenv(toolchain.VARIABLE, str(found.path))
    assert toolchain.available() == found
    monkeypatch.setenv(toolchain.VARIABLE, str(found.path.parent / "no-such-nvcc"))
    assert toolchain.available() is None


def test_python_packages_are_searched(tmp_path, monkeypatch):
    """As ``nvidia-cuda-nvcc`` lays its files out."""
    folder = tmp_path / "nvidia" / "cu13" / "bin"
    folder.mkdir(parents=True)
    program = folder / "nvcc"
    program.write_text("#!/bin/sh\necho Cuda compilation tools, release 13.9, V13.9.1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/bin", "/bin"]))
    assert toolchain.nvcc() == toolchain.Nvcc(Path(program), (13, 9))

"""Kernels compiled for a GPU where there may be none: stages, facts, errors, archives."""

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran.errors import Errors
from septran.runtime.errors import NoGpuError, NotExportableError
from septran.targets.cuda.run import toolchain
from septran.targets.cuda.run.executable import SharedMemoryError, build, missing
from septran.targets.cuda.run.toolchain import NoCompilerError

GEMM = {
    "dtypes": "float16",
    "shapes": {"M": 512, "N": 512, "K": 256},
    "tunables": {"block_M": 128, "block_N": 256, "block_K": 64},  # as of a large product
}


@pytest.fixture(autouse=True)
def private_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def compiled():
    if toolchain.available() is None:
        pytest.skip("no compiler for CUDA here")
    return septran.compile("gemm", "nvidia-h200", **GEMM)


def test_the_source_stage_has_text_code_and_figures(compiled):
    source = compiled.stages.source
    assert source.language == "cuda"
    assert ".target sm_90a" in source.parts["PTX"]
    if toolchain.disassemblers():
        assert "HGMMA" in source.parts["SASS assembly"]
        assert source.facts["HGMMA"] >= source.facts["wgmma.mma_async"] > 0


def test_a_product_for_hopper_is_what_it_should_be(compiled):
    """What is known of its speed without a GPU."""
    facts = compiled.stages.source.facts
    assert facts["spill bytes"] == 0
    assert facts["stack bytes"] == 0
    assert facts["wgmma.mma_async"] > 0
    assert facts["cp.async.bulk.tensor"] > 0
    assert facts["setmaxnreg"] == 2
    assert facts["threads a block"] == 384
    assert facts["registers a thread"] * 384 <= 65536
    assert facts["blocks a multiprocessor"] == 1
    assert not [name for name in facts if name.startswith("ptxas ")]  # no wgmma is serialised


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_for_hopper_is_what_it_should_be(cuda_compiler, causal):
    shapes = {"B": 1, "H": 2, "G": 2, "M": 512, "N": 512, "D": 128}
    facts = septran.compile(
        "attention", "nvidia-h200", shapes=shapes, dtypes="float16", static={"causal": causal}
    ).stages.source.facts
    assert facts["spill bytes"] == 0
    assert facts["wgmma.mma_async"] > 0
    assert facts["cp.async.bulk.tensor"] > 0
    assert facts["setmaxnreg"] == 2
    # Neither serialised (C7510, C7512) nor robbed of its registers (C7504).
    assert not {"ptxas C7510", "ptxas C7512", "ptxas C7504"} & set(facts)


def test_what_is_known_without_a_gpu(golden):
    """Bytes, operations, launches and predicted times, which no compiler's version changes."""
    from septran.runtime.work import work
    from septran.tuning.model import predict

    lines = []
    for operator, dims in {
        "gemm": {"M": 4096, "N": 4096, "K": 4096},
        "attention": {"B": 1, "H": 16, "G": 16, "M": 2048, "N": 2048, "D": 128},
        "softmax": {"M": 8192, "N": 4096},
    }.items():
        stages = septran.produce_stages(operator, "nvidia-h200", shapes=dims, dtypes="float16")
        done, (launch,) = work(stages.task_tree), stages.tensor_ir.launches
        lines += [
            f"{operator}: {done.flops} operations, {done.bytes_moved} bytes, predicted "
            f"{predict(stages.tile_program).seconds * 1e6:.1f} us",
            f"  {launch.grid} blocks of {launch.block} threads, clusters of {launch.cluster}",
        ]
    golden.check("\n".join(lines) + "\n", "known")


def test_what_the_text_says_of_its_origin(compiled):
    text = compiled.stages.source.text
    assert "#include" not in text
    for words in ("by tma", "role producer", "role consumer", "wait:", "gemm.py:", ".yaml:"):
        assert words in text


def test_a_block_has_only_so_much_shared_memory(compiled):
    stages = compiled.stages
    (launch,) = stages.tensor_ir.launches
    large = replace(stages.tensor_ir.cuda, launches=(replace(launch, shared_bytes=232_449),))
    with pytest.raises(SharedMemoryError, match=r"needs 232449 bytes .* has 232448"):
        build(large, stages.tile_program)


def test_explain_shows_the_figures(compiled):
    from septran.views.panels.explanation import explanation_page

    explanation = septran.explain("gemm", "nvidia-h200", **GEMM)
    page = explanation_page(explanation)
    for words in ("registers a thread", "PTX", "dynamic shared bytes"):
        assert words in page
    text = explanation.text("source")
    assert "// spill bytes: 0\n" in text
    assert "// threads a block: 384\n" in text


def test_without_a_compiler_there_is_text_and_a_reason(monkeypatch):
    monkeypatch.setenv(toolchain.VARIABLE, "none")
    kernel = septran.compile("softmax", "nvidia-h200", shapes={"M": 40, "N": 200})
    source = kernel.stages.source
    assert "softmax_kernel" in source.text
    assert "nvidia-cuda-nvrtc" in source.facts["not compiled"]
    with pytest.raises(NoCompilerError):
        _ = kernel.stages.executable.function


@pytest.mark.skipif(missing() is None, reason="there is a GPU here")
def test_without_a_gpu_calls_and_checks_say_so(compiled):
    a, b = np.zeros((512, 256), np.float16), np.zeros((256, 512), np.float16)
    with pytest.raises(Errors, match="the kernel runs on cuda"):
        compiled(a, b)
    with pytest.raises(NoGpuError, match="emulate=True"):
        compiled.check()
    with pytest.raises(NoGpuError):
        compiled.profile()
    assert "no NVIDIA driver" in str(missing())


def test_a_saved_kernel_keeps_its_code(compiled, tmp_path):
    compiled.save(tmp_path / "gemm.zip")
    again = septran.load(tmp_path / "gemm.zip")
    assert again.stages.executable.compiled == compiled.stages.executable.compiled
    assert again.device == "cuda"
    assert again.export(tmp_path / "source").name == "gemm.cu"


def test_export_writes_roles_of_tensors(compiled, tmp_path):
    path = compiled.export(tmp_path)
    assert path.read_text().count("gemm_kernel") >= 3
    loader = (tmp_path / "load.py").read_text()
    assert '"C": ((512, 512), "float16", "output")' in loader
    assert "C = gemm(A, B)" in loader


def test_kernels_for_a_gpu_make_no_library(compiled, tmp_path):
    with pytest.raises(NotExportableError, match="one by one, without name"):
        compiled.export(tmp_path, name="mylib")

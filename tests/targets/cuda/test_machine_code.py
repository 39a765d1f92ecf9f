"""What is known of a kernel's speed without a GPU: instructions, registers, spills.

The counts are golden for the release of NVIDIA's compiler that they were taken with; what must
hold with any release has tests of its own.
"""

import re
import sys
from functools import cache

import pytest

import septran
from septran.targets.base import Source
from septran.targets.cuda.run import compile as compiling
from septran.targets.cuda.run import toolchain
from septran.targets.cuda.run.facts import PTX, SASS
from septran.views.text.source_parts import NoPartError, part_text, source_text

RELEASE = "13.0"
"""Of nvcc or NVRTC: the golden files are its."""
HEADS = {"B": 1, "H": 16, "G": 16, "M": 2048, "N": 2048, "D": 128}
CASES = {
    "gemm": ("gemm", "nvidia-h200", {"M": 4096, "N": 4096, "K": 4096}, "float16", {}),
    "gemm ragged": ("gemm", "nvidia-h200", {"M": 1000, "N": 520, "K": 328}, "bfloat16", {}),
    "attention": ("attention", "nvidia-h200", HEADS, "float16", {}),
    "attention causal": ("attention", "nvidia-h200", HEADS, "float16", {"causal": True}),
    "softmax": ("softmax", "nvidia-h200", {"M": 8192, "N": 4096}, "float16", {}),
    "gemm on nvidia-a100": ("gemm", "nvidia-a100", {"M": 1024, "N": 1024, "K": 512}, "float16", {}),
}  # fmt: skip
HOPPER = [name for name, case in CASES.items() if case[1] == "nvidia-h200" and name != "softmax"]
SHOWN = ("threads a block", "dynamic shared bytes", "registers a thread", "spill bytes")


@cache
def facts(name):
    logic, machine, shapes, dtype, static = CASES[name]
    stages = septran.produce_stages(logic, machine, shapes=shapes, dtypes=dtype, static=static)
    return dict(stages.source.facts)


@pytest.fixture
def release(cuda_compiler):
    found = ".".join(map(str, cuda_compiler.version))
    if found != RELEASE:
        pytest.skip(f"the golden counts are those of {RELEASE}; {cuda_compiler} is here")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CASES)
def test_instructions_of_ptx_and_registers(name, release, golden):
    told = [f"{n}: {facts(name)[n]}" for n in (*SHOWN, *PTX) if n in facts(name)]
    golden.check("\n".join(told), f"ptx_{name.replace(' ', '_')}")


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("name", CASES)
def test_instructions_of_the_machine(name, release, disassembler, golden):
    told = [f"{n}: {facts(name)[n]}" for n in SASS if n in facts(name)]
    golden.check("\n".join(told), f"sass_{name.replace(' ', '_')}")


@pytest.mark.one_in(3, first=2)
@pytest.mark.parametrize("name", CASES)
def test_nothing_spills(name, cuda_compiler):
    assert facts(name)["spill bytes"] == facts(name)["stack bytes"] == 0
    assert not [fact for fact in facts(name) if fact.startswith("ptxas ")]


@pytest.mark.parametrize("name", HOPPER)
def test_the_machine_does_what_ptx_says(name, cuda_compiler, disassembler):
    """With any release: each product, each box and each change of registers is there once."""
    told = facts(name)
    assert told["HGMMA"] == told["wgmma.mma_async"] > 0
    assert told["USETMAXREG"] == told["setmaxnreg"] == 2
    assert told["UTMALDG"] + told.get("UTMASTG", 0) == told["cp.async.bulk.tensor"]
    assert "LDL" not in told
    assert "STL" not in told


@pytest.mark.slow
def test_explain_shows_machine_code(cuda_compiler, disassembler, tmp_path):
    logic, machine, shapes, dtype, _ = CASES["gemm"]
    shown = septran.explain(logic, machine, shapes=shapes, dtypes=dtype)
    text = shown.text("source")
    products = facts("gemm")["HGMMA"]
    lines = (
        f"// HGMMA: {products}\n",
        "// UTMALDG: ",
        "// USETMAXREG: 2\n",
        " lines (--part sass)\n",
    )
    for words in lines:
        assert words in text
    assert shown.part("sass").count("HGMMA") == products
    assert ".target sm_90a" in shown.part("PTX")
    data = shown.to_dict()["stages"]["source"]
    assert data["facts"]["HGMMA"] == products
    assert "USETMAXREG" in data["parts"]["SASS assembly"]
    page = shown.save_html(tmp_path / "page.html").read_text()
    assert "SASS assembly (" in page
    assert "UTMALDG" in page


def test_a_part_that_is_not_there_is_named():
    source = Source("k", "cuda", "x\n", {"PTX": "ptx\n"}, {"not disassembled": "pip install it"})
    assert part_text(source, "ptx") == "ptx\n"
    with pytest.raises(NoPartError, match=r"(?s)no part 'sass'; it has ptx.*pip install it"):
        part_text(source, "sass")
    assert source_text(source, ()).startswith("// not disassembled: pip install it\n// PTX: 1 line")


TOOL = "#!/bin/sh\n{}\n"


def test_a_disassembler_that_is_too_old_gives_way(tmp_path, monkeypatch):
    """As an older toolkit on PATH does to the package's; Triton's copies are found, too."""
    old = tmp_path / "toolkit"
    packaged = tmp_path / "site" / "nvidia" / "cu13" / "bin"
    triton = tmp_path / "site" / "triton" / "backends" / "nvidia" / "bin"
    for folder, name, does in (
        (old, "nvdisasm", "echo too old >&2; exit 1"),
        (packaged, "nvdisasm", 'test "$1" = -c && echo "/*0000*/ EXIT ;"'),
        (triton, "cuobjdump", "exit 1"),
    ):
        folder.mkdir(parents=True)
        (folder / name).write_text(TOOL.format(does))
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setenv("PATH", f"{old}:/usr/bin:/bin")
    found = toolchain.disassemblers()
    assert found[:2] == (old / "nvdisasm", packaged / "nvdisasm")
    assert triton / "cuobjdump" in found
    assert compiling.disassemble(b"a cubin of the test") == "/*0000*/ EXIT ;\n"


def test_without_a_disassembler_the_reason_is_a_figure(cuda_compiler, monkeypatch):
    from septran.targets.cuda.run import executable

    kernel = septran.compile("softmax", "nvidia-h200", shapes={"M": 40, "N": 200})
    monkeypatch.setattr(executable, "disassemble", lambda cubin: None)
    source = kernel.stages.source
    assert re.search(r"pip install nvidia-cuda-nvdisasm$", source.facts["not disassembled"])
    assert list(source.parts) == ["PTX"]

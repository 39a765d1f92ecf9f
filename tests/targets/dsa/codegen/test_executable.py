"""Built kernels: called, saved, loaded, shared by threads; with and without a C compiler."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm

import septran
from septran.compiler import produce_stages
from septran.location import Location
from septran.machine.as_json import from_json, to_json
from septran.machine.loader import load_machine
from septran.machine.model import FormerKey
from septran.runtime.kernel import Kernel
from septran.targets.dsa.code.jit import JitProgram
from septran.targets.dsa.code.native import LIBRARY, CProgram
from septran.targets.dsa.code.toolchain import compiler
from septran.targets.dsa.target import TARGET
from septran.targets.registry import target_for
from septran.targets.tensor_memory import NotContiguousError, as_bytes

SHAPES = {"M": 70, "N": 50, "K": 90}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE", "0")


@pytest.fixture(params=["c", "llvm"])
def route(request, monkeypatch):
    if request.param == "llvm":
        monkeypatch.setenv("SEPTRAN_DSA_CC", "none")
        monkeypatch.setenv("PATH", "")
        assert compiler() is None
    return {"c": CProgram, "llvm": JitProgram}[request.param]


def operands(random, kind=np.float32):
    a = random.standard_normal((70, 90)).astype(kind)
    return a, random.standard_normal((90, 50)).astype(kind)


def close(c, a, b):
    exact, size = a.astype(float) @ b.astype(float), abs(a).astype(float) @ abs(b).astype(float)
    return (abs(np.asarray(c, float) - exact) <= 92 * 2.0**-24 * size).all()


def built():
    stages = produce_stages("gemm", "dsa-sim", shapes=SHAPES)
    return TARGET.build(stages.tensor_ir, stages.tile_program)


def test_the_target_is_found():
    assert target_for("dsa") is TARGET
    assert TARGET.missing() is None


def test_numpy_and_torch(random, route):
    kernel = septran.compile("gemm", "dsa-sim")
    assert isinstance(kernel, Kernel)
    a, b = operands(random)
    assert close(kernel(a, b), a, b)
    c = torch.empty(70, 50)
    assert kernel(torch.from_numpy(a), torch.from_numpy(b), out=c) is c
    assert close(c.numpy(), a, b)
    assert isinstance(kernel.stages.executable.program, route)


def test_short_floats_of_torch(random, route):
    a, b = (torch.from_numpy(x).to(torch.bfloat16) for x in operands(random))
    c = septran.compile("gemm", "dsa-sim")(a, b)
    wide = a.float().numpy(), b.float().numpy()
    assert close(c.float().numpy(), *wide) or c.dtype == torch.bfloat16
    exact = wide[0].astype(float) @ wide[1].astype(float)
    size = abs(wide[0]).astype(float) @ abs(wide[1]).astype(float)
    rounding = abs(exact) * 2.0**-8 if c.dtype == torch.bfloat16 else 0
    assert (abs(c.float().numpy() - exact) <= 92 * 2.0**-24 * size + rounding).all()


def test_anything_that_exports_dlpack(random, route):
    executable = built()
    a, b = operands(random)
    c = tvm.runtime.tensor(np.zeros((70, 50), np.float32))
    executable(c, tvm.runtime.tensor(a), torch.from_numpy(b))
    assert close(c.numpy(), a, b)


def test_a_saved_kernel_runs_the_same(tmp_path, random, route):
    executable = built()
    executable.save(tmp_path)
    again = TARGET.load(tmp_path)
    assert isinstance(again.program, route)
    assert (tmp_path / LIBRARY).exists() == (route is CProgram)
    assert again.source == executable.source
    assert again.origins == executable.origins
    assert again.stream().tobytes() == executable.stream().tobytes()
    a, b = operands(random)
    c = np.empty((70, 50), np.float32)
    assert again.simulate(c, a, b).cycles == executable.simulate(c.copy(), a, b).cycles
    assert close(c, a, b)


@pytest.mark.parametrize("damage", ["missing", "of another system"])
def test_a_library_that_cannot_be_loaded_is_made_by_llvm(tmp_path, damage):
    executable = built()
    executable.save(tmp_path)
    if damage == "missing":
        (tmp_path / LIBRARY).unlink()
    else:
        (tmp_path / LIBRARY).write_bytes(b"MZ\x90\x00 not for here")
    again = TARGET.load(tmp_path)
    assert isinstance(again.program, JitProgram)
    assert again.stream().tobytes() == executable.stream().tobytes()


def test_archives(tmp_path, random):
    kernel = septran.compile("gemm", "dsa-sim", shapes=SHAPES)
    kernel.save(tmp_path / "gemm.zip")
    a, b = operands(random)
    assert (septran.load(tmp_path / "gemm.zip")(a, b) == kernel(a, b)).all()


@pytest.mark.parametrize("name", ["dsa-sim", "npu-cube"])
def test_a_machine_survives_json(name):
    machine = load_machine(name)
    again = from_json(to_json(machine))
    assert again == replace(machine, location=None)
    assert repr(again) == repr(replace(machine, location=None))
    # A remark on a key of its file is for who has the file.
    former = FormerKey("called", "display_name", Location("m.yaml", 3))
    assert from_json(to_json(replace(machine, former_keys=(former,)))).former_keys == ()


def test_threads_may_call_one_kernel(random):
    executable = built()
    alone = executable.stream().tobytes()
    found = []

    def record():
        found.extend(executable.stream().tobytes() == alone for _ in range(30))

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 120


def test_a_stream_may_be_written_to(route):
    stream = built().stream()
    stream["line"] = 0
    assert built().stream()["line"].all()


def test_a_kernel_keeps_other_kernels_lines(random):
    first = built()
    before = first.stream().tobytes()
    septran.compile("softmax", "dsa-sim")(random.standard_normal((9, 40)).astype(np.float32))
    assert first.stream().tobytes() == before


def test_tensors_with_gaps_are_refused():
    wide = np.zeros((4, 8), np.float32)
    for x in (wide[:, ::2], torch.from_numpy(wide)[:, ::2]):
        with pytest.raises(NotContiguousError, match="not contiguous"):
            as_bytes(x)


def test_bytes_are_the_tensors_own():
    x = torch.zeros(3, dtype=torch.bfloat16)
    as_bytes(x)[:] = 0xFF
    assert x.isnan().all()
    assert as_bytes(torch.zeros(0, 3)).size == 0


def test_the_source_is_told():
    source = built().source
    assert source.language == "c"
    assert source.parts["vendor header"].count("vendor_lib_mma(") == 1
    assert source.facts["lines"] == source.text.count("\n")


def test_the_fingerprint_knows_the_compiler(monkeypatch):
    before = TARGET.fingerprint()
    assert TARGET.fingerprint() == before
    monkeypatch.setenv("SEPTRAN_DSA_CC", "none")
    assert TARGET.fingerprint() != before


def test_mistakes_in_the_simulation_name_the_origin(random):
    executable = built()
    stream = executable.stream()
    assert set(stream["line"].tolist()) <= set(executable.origins)
    assert any("copied in" in why for why in executable.origins.values())
